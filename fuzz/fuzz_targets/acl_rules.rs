#![no_main]
//! The target `acl_rules`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::acl_rules::check(data));
