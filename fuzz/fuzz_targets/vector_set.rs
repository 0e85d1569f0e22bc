#![no_main]
//! The target `vector_set`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::vector_set::check(data));
