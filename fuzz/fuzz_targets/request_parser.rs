#![no_main]
//! The target `request_parser`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::request_parser::check(data));
