//! Writing what [`envelope`](crate::envelope) reads: a stream that is compressed as a whole, behind its
//! envelope, as Valkey 9.2 writes it.
//!
//! An LZ4 frame has linked blocks of 64 KB. A Zstd frame is put together from pieces of 1 MB that are
//! compressed apart: a block that begins a piece refers to none before it, and the encoder never uses the
//! history of offsets, so blocks of several frames may follow each other in one. With checksums both codecs
//! end with that of the whole content, and LZ4's blocks have their own.
//!
//! Invariant: nothing is written before the first byte or the end; the stream is whole once
//! [`Packer::finish`] has returned.

use std::io::{self, Cursor, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use ruzstd::encoding::{CompressionLevel, FrameCompressor, MatchGeneratorDriver};
use xxhash_rust::xxh64::Xxh64;

use crate::envelope::{KIND_RDB, MAGIC, VERSION, ZSTD_FRAME};

/// A way to compress a whole stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

impl Codec {
    /// The word that parameters and capabilities have for it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// Its number in an envelope.
    fn id(self) -> u8 {
        match self {
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        }
    }
}

/// A writer that compresses what goes through it, or passes it on as it is.
pub struct Packer<W: Write> {
    form: Form<W>,
    /// The envelope, until it is written.
    envelope: Vec<u8>,
}

enum Form<W: Write> {
    Plain(W),
    Lz4(Box<FrameEncoder<W>>),
    Zstd(Box<ZstdEncoder<W>>),
}

impl<W: Write> Packer<W> {
    /// Bytes for `out`, compressed by this codec, if there is one, with checksums if they are wanted.
    pub fn new(out: W, codec: Option<Codec>, has_checksums: bool) -> Packer<W> {
        let form = match codec {
            None => Form::Plain(out),
            Some(Codec::Lz4) => {
                let info = FrameInfo::new()
                    .block_size(BlockSize::Max64KB)
                    .block_mode(BlockMode::Linked)
                    .block_checksums(has_checksums)
                    .content_checksum(has_checksums);
                Form::Lz4(Box::new(FrameEncoder::with_frame_info(info, out)))
            }
            Some(Codec::Zstd) => Form::Zstd(Box::new(ZstdEncoder::new(out, has_checksums))),
        };
        let envelope =
            codec.map_or_else(Vec::new, |codec| [MAGIC, &[VERSION, codec.id(), 0, KIND_RDB]].concat());
        Packer { form, envelope }
    }

    fn begin(&mut self) -> io::Result<()> {
        let out = match &mut self.form {
            Form::Plain(out) => out,
            Form::Lz4(encoder) => encoder.get_mut(),
            Form::Zstd(encoder) => &mut encoder.out,
        };
        out.write_all(&std::mem::take(&mut self.envelope))
    }

    /// Ends the frame and gives `out` back.
    ///
    /// # Errors
    /// The refusal of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin()?;
        match self.form {
            Form::Plain(out) => Ok(out),
            Form::Lz4(encoder) => encoder.finish().map_err(io::Error::from),
            Form::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.envelope.is_empty() {
            self.begin()?;
        }
        match &mut self.form {
            Form::Plain(out) => out.write(bytes),
            Form::Lz4(encoder) => encoder.write(bytes),
            Form::Zstd(encoder) => encoder.write(bytes),
        }
    }

    /// Flushes what has reached `out`; a block that is not full stays here until the end.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.form {
            Form::Plain(out) => out.flush(),
            Form::Lz4(encoder) => encoder.get_mut().flush(),
            Form::Zstd(encoder) => encoder.out.flush(),
        }
    }
}

/// Bytes of a piece that is compressed by itself.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of the header that the encoder writes: the magic number, the descriptor, the window.
const FRAME_HEADER_BYTES: usize = 6;
/// In a frame's descriptor: a checksum ends it.
const HAS_CHECKSUM: u8 = 4;
/// The window of 128 KB, which is the encoder's.
const WINDOW: u8 = 7 << 3;
const BLOCK_HEADER_BYTES: usize = 3;
/// In a block's header: the last one of its frame.
const IS_LAST: u32 = 1;
/// The type of a block that is one byte many times.
const REPEATED: u32 = 1;

struct ZstdEncoder<W: Write> {
    out: W,
    piece: Vec<u8>,
    compressor: FrameCompressor<Cursor<Vec<u8>>, Vec<u8>, MatchGeneratorDriver>,
    hash: Option<Xxh64>,
    has_header: bool,
}

impl<W: Write> ZstdEncoder<W> {
    fn new(out: W, has_checksum: bool) -> ZstdEncoder<W> {
        ZstdEncoder {
            out,
            piece: Vec::new(),
            compressor: FrameCompressor::new(CompressionLevel::Fastest),
            hash: has_checksum.then(|| Xxh64::new(0)),
            has_header: false,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.capacity() == 0 {
            self.piece.reserve_exact(PIECE_BYTES);
        }
        let len = bytes.len().min(PIECE_BYTES - self.piece.len());
        let taken = bytes.get(..len).unwrap_or_default();
        self.piece.extend_from_slice(taken);
        if self.piece.len() == PIECE_BYTES {
            self.write_piece()?;
        }
        Ok(len)
    }

    fn write_header(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_header, true) {
            let descriptor = if self.hash.is_some() { HAS_CHECKSUM } else { 0 };
            self.out.write_all(&ZSTD_FRAME)?;
            self.out.write_all(&[descriptor, WINDOW])?;
        }
        Ok(())
    }

    /// Compresses the piece and writes its blocks.
    fn write_piece(&mut self) -> io::Result<()> {
        self.write_header()?;
        if let Some(hash) = &mut self.hash {
            hash.update(&self.piece);
        }
        self.compressor.set_source(Cursor::new(std::mem::take(&mut self.piece)));
        self.compressor.set_drain(Vec::with_capacity(PIECE_BYTES / 2));
        self.compressor.compress();
        let frame = self.compressor.take_drain().unwrap_or_default();
        // Its room serves the next piece.
        self.piece = self.compressor.take_source().map(Cursor::into_inner).unwrap_or_default();
        self.piece.clear();
        let mut rest = match frame.get(..FRAME_HEADER_BYTES) {
            Some([m, a, g, i, _, WINDOW]) if [*m, *a, *g, *i] == ZSTD_FRAME => {
                frame.get(FRAME_HEADER_BYTES..).unwrap_or_default()
            }
            _ => return Err(io::Error::other("a Zstd frame with another header than the encoder writes")),
        };
        while let Some((block, is_last, behind)) = split_block(rest) {
            self.out.write_all(&block)?;
            if is_last {
                return Ok(());
            }
            rest = behind;
        }
        Err(io::Error::other("a Zstd frame that does not end"))
    }

    fn finish(mut self) -> io::Result<W> {
        if !self.piece.is_empty() {
            self.write_piece()?;
        }
        self.write_header()?;
        // An empty block, the last one.
        self.out.write_all(&[IS_LAST as u8, 0, 0])?;
        if let Some(hash) = &self.hash {
            self.out.write_all(&(hash.digest() as u32).to_le_bytes())?;
        }
        Ok(self.out)
    }
}

/// The first block of `blocks` as one that is not the last, whether it was, and what follows it.
fn split_block(blocks: &[u8]) -> Option<(Vec<u8>, bool, &[u8])> {
    let (header, behind) = blocks.split_first_chunk::<BLOCK_HEADER_BYTES>()?;
    let word = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let len = if word >> 1 & 3 == REPEATED { 1 } else { (word >> 3) as usize };
    let (content, behind) = behind.split_at_checked(len)?;
    let word = (word & !IS_LAST).to_le_bytes();
    Some(([&word[..BLOCK_HEADER_BYTES], content].concat(), header[0] & IS_LAST as u8 != 0, behind))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;
    use crate::envelope::Unpacked;

    fn pack(bytes: &[u8], codec: Option<Codec>, has_checksums: bool, step: usize) -> Vec<u8> {
        let mut packer = Packer::new(Vec::new(), codec, has_checksums);
        bytes.chunks(step).for_each(|some| packer.write_all(some).unwrap());
        packer.flush().unwrap();
        packer.finish().unwrap()
    }

    fn unpack(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut unpacked = Unpacked::open(bytes).map_err(|error| io::Error::other(error.to_string()))?;
        unpacked.read_to_end(&mut out)?;
        Ok(out)
    }

    /// Compressible text of several pieces, noise, and runs of one byte.
    fn mixed(len: usize) -> Vec<u8> {
        let mut state = 1u32;
        let byte = |at: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match at >> 17 & 3 {
                0 => b"a text that repeats itself, "[at % 28],
                1 => (state >> 24) as u8,
                2 => 0,
                _ => b"0123456789"[(state >> 29) as usize],
            }
        };
        (0..len).map(byte).collect()
    }

    #[test]
    fn streams_of_many_pieces_go_round() {
        for len in [0, 1, 100, 70_000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 77] {
            let text = mixed(len);
            for codec in [None, Some(Codec::Lz4), Some(Codec::Zstd)] {
                for has_checksums in [false, true] {
                    let packed = pack(&text, codec, has_checksums, 300_000);
                    assert!(unpack(&packed).unwrap() == text, "{len} {codec:?} {has_checksums}");
                    let head = codec.map(|codec| [b'V', b'C', b'S', 1, codec.id(), 0, 1]);
                    assert!(head.is_none_or(|head| packed.starts_with(&head)));
                    assert!(codec.is_none() || len < 100_000 || packed.len() < len / 4 * 3, "{codec:?}");
                }
            }
        }
    }

    #[test]
    fn a_torn_or_spoilt_stream_is_an_error() {
        let text = mixed(400_000);
        for codec in [Codec::Lz4, Codec::Zstd] {
            let packed = pack(&text, Some(codec), true, 9_000);
            for cut in [3, 6, 7, 12, packed.len() / 2, packed.len() - 5, packed.len() - 1] {
                assert!(unpack(&packed[..cut]).is_err(), "{codec:?} cut at {cut}");
            }
            for at in [7, 30, packed.len() / 2, packed.len() - 1] {
                let mut spoilt = packed.clone();
                spoilt[at] ^= 0x10;
                assert!(unpack(&spoilt).map_or(true, |read| read != text), "{codec:?} {at}");
            }
        }
    }

    #[test]
    fn the_refusal_of_the_receiver_is_passed_on() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let text = mixed(3_000_000);
        for codec in [None, Some(Codec::Lz4), Some(Codec::Zstd)] {
            for room in [0, 7, 5_000] {
                let mut packer = Packer::new(Full(room), codec, true);
                let written = packer.write_all(&text).and_then(|()| packer.finish().map(|_| ()));
                assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull, "{codec:?} {room}");
            }
        }
    }

    proptest! {
        #[test]
        fn texts_go_round(text in prop::collection::vec(b'a'..b'e', 0..9000), step in 1usize..700) {
            for codec in [Codec::Lz4, Codec::Zstd] {
                prop_assert_eq!(&unpack(&pack(&text, Some(codec), true, step)).unwrap(), &text);
            }
        }
    }
}
