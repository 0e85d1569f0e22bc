#![no_main]
//! The target `reply_decoder`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::reply_decoder::check(data));
