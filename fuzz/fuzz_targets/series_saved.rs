#![no_main]
//! The target `series_saved`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::series_saved::check(data));
