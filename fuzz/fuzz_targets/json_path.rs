#![no_main]
//! The target `json_path`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::json::check_path(data));
