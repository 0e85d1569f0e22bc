#![no_main]
//! The target `module_payloads`; its checks are in the library.

libfuzzer_sys::fuzz_target!(|data: &[u8]| martlet_fuzz::module_payloads::check(data));
