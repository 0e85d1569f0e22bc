//! The client's decoder on a server's possible output: it never panics, and a prefix never gives another
//! reply.

use martlet_client::resp::decode;

/// The input is a reply with anything behind it.
pub fn check(data: &[u8]) {
    let Ok(Some((reply, length))) = decode(data) else { return };
    assert!(length > 0 && length <= data.len());
    assert_eq!(decode(&data[..length]), Ok(Some((reply, length))));
    for end in 0..length.min(256) {
        if end < length {
            assert_eq!(decode(&data[..end]), Ok(None), "the first {end} bytes of {length}");
        }
    }
}
