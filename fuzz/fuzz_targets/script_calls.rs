#![no_main]
//! The target `script_calls`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::script_calls::check(data));
