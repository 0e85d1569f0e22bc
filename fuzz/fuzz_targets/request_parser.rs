#![no_main]
//! The target `request_parser`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::request_parser::check(data));
