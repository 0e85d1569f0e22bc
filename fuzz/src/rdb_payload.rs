//! RESTORE's decoder on any bytes: it never panics, and an accepted value goes round.

use martlet_rdb::crc64::crc64;
use martlet_values::{Limits, VERSION_VALKEY, payload};

/// The input is type byte and value; version and checksum are added, for Redis and for Valkey.
pub fn check(data: &[u8]) {
    for version in [payload::VERSION_MAX, VERSION_VALKEY, payload::VERSION_VALKEY_MAX] {
        let Ok(value) = payload::restore(&sealed(data, version), &Limits::default()) else { continue };
        let again = payload::dump(value.view(), true);
        let back = payload::restore(&again, &Limits::default()).expect("what was written is read");
        assert_eq!(payload::dump(back.view(), false).len(), payload::dump(value.view(), false).len());
    }
}

/// A payload of this type byte and value: with its version, and a checksum that is right.
pub fn sealed(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [body, &version.to_le_bytes()].concat();
    let sum = crc64(0, &payload);
    payload.extend(sum.to_le_bytes());
    payload
}
