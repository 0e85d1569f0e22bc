#![no_main]
//! The target `search_shape`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::search_shape::check(data));
