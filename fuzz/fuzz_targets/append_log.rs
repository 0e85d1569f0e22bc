#![no_main]
//! The target `append_log`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::append_log::check(data));
