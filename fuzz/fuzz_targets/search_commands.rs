#![no_main]
//! The target `search_commands`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::search_commands::check(data));
