#![no_main]
//! The target `vector_set`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::vector_set::check(data));
