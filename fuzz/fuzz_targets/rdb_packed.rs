#![no_main]
//! The target `rdb_packed`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::rdb_packed::check(data));
