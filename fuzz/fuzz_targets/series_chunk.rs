#![no_main]
//! The target `series_chunk`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::series_chunk::check(data));
