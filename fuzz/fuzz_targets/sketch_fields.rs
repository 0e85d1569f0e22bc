#![no_main]
//! The target `sketch_fields`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::sketch_fields::check(data));
