#![no_main]
//! The target `cluster_bus`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::cluster_bus::check(data));
