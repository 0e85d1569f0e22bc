#![no_main]
//! The target `script_calls`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::script_calls::check(data));
