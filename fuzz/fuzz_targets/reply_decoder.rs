#![no_main]
//! The target `reply_decoder`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::reply_decoder::check(data));
