#![no_main]
//! The target `nodes_conf`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::nodes_conf::check(data));
