#![no_main]
//! The target `commands`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::commands::check(data));
