#![no_main]
//! The target `tls_records`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::tls_records::check(data));
