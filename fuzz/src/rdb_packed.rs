//! Compressed files of any bytes: a damaged frame ends in an error within its limits, and a whole file reads
//! the same behind an envelope.

use std::io::{Read, Write};

use martlet_rdb::envelope::Unpacked;
use martlet_rdb::pack::{Codec, Packer};

use crate::rdb_file;

const ENVELOPE: &[u8] = b"VCS\x01\x01\x00\x01";
/// The first bytes of a frame of each codec.
const FRAMES: [&[u8]; 2] = [b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"];
/// A frame may say that it holds much more than it has.
const READ_MAX_BYTES: u64 = 1 << 22;

/// The input is what a frame holds behind its first bytes, and a file that is compressed.
pub fn check(data: &[u8]) {
    for frame in FRAMES {
        let bytes = [ENVELOPE, frame, data].concat();
        if let Ok(mut unpacked) = Unpacked::open(bytes.as_slice()) {
            let mut out = Vec::new();
            let _ = unpacked.by_ref().take(READ_MAX_BYTES).read_to_end(&mut out);
            assert!(unpacked.packed_bytes().is_some_and(|taken| taken <= bytes.len() as u64));
        }
    }
    let plain = rdb_file::one_by_one(data);
    for packed in packed(data) {
        let mut unpacked = Unpacked::open(packed.as_slice()).expect("a frame as the codec writes it");
        let mut out = Vec::new();
        unpacked.read_to_end(&mut out).expect("the frame is whole");
        assert!(out == data);
        assert_eq!(unpacked.packed_bytes(), Some(packed.len() as u64));
        // A plain file may have more behind its end.
        let again = rdb_file::one_by_one(&packed);
        if again.1.is_ok() {
            assert_eq!(again, plain);
        }
    }
}

/// The bytes behind an envelope, with each codec, with checksums and without.
fn packed(bytes: &[u8]) -> [Vec<u8>; 4] {
    let ways = [(Codec::Lz4, true), (Codec::Zstd, true), (Codec::Lz4, false), (Codec::Zstd, false)];
    ways.map(|(codec, has_checksums)| {
        let mut packer = Packer::new(Vec::new(), Some(codec), has_checksums);
        packer.write_all(bytes).expect("a vector takes all");
        packer.finish().expect("a vector takes all")
    })
}

/// Files, and what frames of them hold behind their first bytes.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = crate::seeds::files();
    let frames = files.iter().flat_map(|file| packed(file));
    let rests = frames.map(|bytes| bytes.get(ENVELOPE.len() + 4..).unwrap_or_default().to_vec());
    rests.chain(files.iter().cloned()).collect()
}
