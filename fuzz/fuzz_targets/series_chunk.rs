#![no_main]
//! The target `series_chunk`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::series_chunk::check(data));
