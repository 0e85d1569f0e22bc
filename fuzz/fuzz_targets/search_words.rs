#![no_main]
//! The target `search_words`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::search_words::check(data));
