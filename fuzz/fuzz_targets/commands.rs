#![no_main]
//! The target `commands`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::commands::check(data));
