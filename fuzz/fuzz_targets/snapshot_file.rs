#![no_main]
//! The target `snapshot_file`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::snapshot_file::check(data));
