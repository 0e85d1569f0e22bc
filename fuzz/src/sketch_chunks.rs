//! BF.LOADCHUNK and CF.LOADCHUNK of any pieces: they never panic nor allocate by a header that lies, and the
//! filter that comes of it takes commands.
//!
//! The input is a byte for the type, the header's length in two bytes and the header; then pieces, each with
//! its position in four bytes and its length in one.

use martlet_sketch::{Bloom, Cuckoo};

/// A header reserves branches of tables of 64 GiB at most, and 65,535 filters.
const HEAP_MAX_BYTES: usize = 8 << 20;

/// See the [module docs](self).
pub fn check(data: &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<3>() else { return };
    let len = usize::from(u16::from_le_bytes([head[1], head[2]])).min(rest.len());
    let (header, pieces) = rest.split_at(len);
    if head[0] % 2 == 0 {
        let Ok(mut bloom) = Bloom::from_header(header) else { return };
        assert!(bloom.heap_bytes() < HEAP_MAX_BYTES);
        each_piece(pieces, |position, piece| bloom.load_chunk(position, piece).is_ok());
        let _ = (bloom.add_all(&[b"a", b"b"]), bloom.contains_all(&[b"a"]), bloom.scan_dump(0));
    } else {
        let Ok(mut cuckoo) = Cuckoo::from_header(header) else { return };
        assert!(cuckoo.heap_bytes() < HEAP_MAX_BYTES);
        each_piece(pieces, |position, piece| cuckoo.load_chunk(position, piece).is_ok());
        let _ = (cuckoo.add(b"a"), cuckoo.add_new(b"b"), cuckoo.delete(b"a"), cuckoo.scan_dump(0));
    }
}

fn each_piece(mut pieces: &[u8], mut load: impl FnMut(i64, &[u8]) -> bool) {
    while let Some((head, rest)) = pieces.split_first_chunk::<5>() {
        let position = i64::from(i32::from_le_bytes([head[0], head[1], head[2], head[3]]));
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(head[4])));
        // A piece that is refused is followed by others.
        let _ = load(position, piece);
        pieces = rest;
    }
}

/// A small dump of each type.
pub fn seeds() -> Vec<Vec<u8>> {
    let options = martlet_sketch::bloom::Options { capacity: 3, ..Default::default() };
    let mut bloom = Bloom::new(options).expect("a small filter");
    bloom.add_all(&[b"1", b"2", b"3", b"4", b"5"]);
    let options = martlet_sketch::cuckoo::Options { capacity: 4, ..Default::default() };
    let mut cuckoo = Cuckoo::new(options).expect("a small filter");
    cuckoo.add_all(&[b"1", b"2", b"3", b"4", b"5", b"6"], false);
    let mut seeds = vec![vec![0], vec![1]];
    let mut positions = [0, 0];
    loop {
        let chunks = [
            Some(bloom.scan_dump(positions[0])).filter(|chunk| chunk.next != 0),
            cuckoo.scan_dump(positions[1]),
        ];
        if chunks.iter().all(Option::is_none) {
            return seeds;
        }
        for ((seed, position), chunk) in seeds.iter_mut().zip(&mut positions).zip(chunks) {
            let Some(chunk) = chunk else { continue };
            if *position == 0 {
                seed.extend((chunk.bytes.len() as u16).to_le_bytes());
            } else {
                seed.extend((chunk.next as i32).to_le_bytes());
                seed.push(chunk.bytes.len() as u8);
            }
            seed.extend(chunk.bytes);
            *position = chunk.next;
        }
    }
}
