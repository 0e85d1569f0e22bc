#![no_main]
//! The target `script_libraries`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::script_libraries::check(data));
