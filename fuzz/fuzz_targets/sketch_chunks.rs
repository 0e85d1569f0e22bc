#![no_main]
//! The target `sketch_chunks`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::sketch_chunks::check(data));
