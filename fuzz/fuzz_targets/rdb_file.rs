#![no_main]
//! The target `rdb_file`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::rdb_file::check(data));
