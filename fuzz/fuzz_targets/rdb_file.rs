#![no_main]
//! The target `rdb_file`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::rdb_file::check(data));
