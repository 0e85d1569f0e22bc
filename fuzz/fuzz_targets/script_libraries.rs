#![no_main]
//! The target `script_libraries`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::script_libraries::check(data));
