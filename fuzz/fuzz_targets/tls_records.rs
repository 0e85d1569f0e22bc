#![no_main]
//! The target `tls_records`; what it checks is in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::tls_records::check(data));
