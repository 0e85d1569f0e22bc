#![no_main]
//! The target `native_scripts`; its checks are those of `martlet_script::differential`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_script::differential::check(data));
