//! Streams and packets of the cluster bus: no panic, no room for a length that is only claimed, the same
//! packets whatever pieces they come in, and read packets are written and read alike.

use martlet_cluster::packet::{Frames, Packet};

/// The input is a stream, and a packet.
pub fn check(data: &[u8]) {
    if let Ok(packet) = Packet::decode(data) {
        let bytes = packet.encode();
        assert_eq!(Packet::decode(&bytes), Ok(packet));
    }
    assert_eq!(packets(data, data.len().max(1)), packets(data, 11));
}

/// The packets of a stream that comes in pieces, and whether it ended in an error.
fn packets(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in stream.chunks(piece) {
        frames.push(piece);
        loop {
            match frames.next_packet() {
                Ok(Some(packet)) => found.push(packet.to_vec()),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}
