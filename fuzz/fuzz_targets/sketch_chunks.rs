#![no_main]
//! The target `sketch_chunks`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::sketch_chunks::check(data));
