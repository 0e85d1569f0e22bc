#![no_main]
//! The target `series_filter`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::series_filter::check(data));
