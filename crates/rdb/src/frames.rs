//! A stream of bytes without an end in compressed frames, which each can be read once it is there.
//!
//! ```text
//! F5 "MS" version: 1 │ frames: codec: 1 │ bytes packed: 3 │ bytes plain - 1: 2 │ sum: 4 │ packed
//! ```
//!
//! Numbers are little-endian; the sum is the lower half of XXH64 of the plain bytes. Codec 1 is a block of
//! LZ4, which may refer to the 64 KB before it of the bytes that were in blocks of LZ4; 2 is a whole frame of
//! Zstd; 3 are the bytes themselves, which count for LZ4's blocks. Commands never begin with the first byte.
//!
//! Invariant: a frame has at most 64 KB, plain, and little more packed. A reader keeps no more than the bytes
//! that it was given and 128 KB; behind a damaged frame it gives nothing but the error.

use std::io::{self, Cursor, Write};

use lz4_flex::block::decompress_into_with_dict;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use ruzstd::decoding::FrameDecoder;
use ruzstd::encoding::{CompressionLevel, FrameCompressor, MatchGeneratorDriver};
use xxhash_rust::xxh64::xxh64;

use crate::Error;
use crate::pack::Codec;

/// Most plain bytes of a frame.
pub const FRAME_BYTES: usize = 64 << 10;
/// How a stream in frames begins.
const MARK: [u8; 4] = [0xf5, b'M', b'S', 1];
const HEADER_BYTES: usize = 10;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;
const STORED: u8 = 3;
/// Most packed bytes of a frame: both codecs add little to bytes that they cannot shorten.
const PACKED_MAX_BYTES: usize = FRAME_BYTES + 256;
/// How far back LZ4's blocks refer.
const WINDOW_BYTES: usize = 64 << 10;
/// Fewer bytes are left to LZ4, whose blocks refer to earlier ones; each frame of Zstd begins anew.
const ZSTD_MIN_BYTES: usize = 16 << 10;
/// Bytes before the first block of the LZ4 frame: its magic number, its descriptor and that one's checksum.
const LZ4_HEADER_BYTES: usize = 7;
/// In the word before an LZ4 block: its bytes are not compressed.
const LZ4_STORED: u32 = 1 << 31;

/// Whether a stream is one in frames, by its first byte.
pub fn begins(stream: &[u8]) -> bool {
    stream.first() == MARK.first()
}

fn sum(plain: &[u8]) -> u32 {
    xxh64(plain, 0) as u32
}

type ZstdCompressor = FrameCompressor<Cursor<Vec<u8>>, Vec<u8>, MatchGeneratorDriver>;

/// Puts a stream into frames.
pub struct FrameWriter {
    codec: Codec,
    lz4: FrameEncoder<Vec<u8>>,
    zstd: Option<Box<ZstdCompressor>>,
    has_blocks: bool,
    has_begun: bool,
}

impl FrameWriter {
    /// Frames of this codec; with Zstd, small ones are of LZ4.
    pub fn new(codec: Codec) -> FrameWriter {
        let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Linked);
        let lz4 = FrameEncoder::with_frame_info(info, Vec::new());
        FrameWriter { codec, lz4, zstd: None, has_blocks: false, has_begun: false }
    }

    /// The next frame, of the first [`FRAME_BYTES`] of `plain`; before the first one goes the stream's mark.
    ///
    /// # Errors
    /// The encoder's, or there are no bytes.
    pub fn frame(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let plain = plain.get(..FRAME_BYTES).unwrap_or(plain);
        let last = u16::try_from(plain.len().wrapping_sub(1)).map_err(io::Error::other)?;
        let (codec, packed) = match self.codec {
            Codec::Zstd if plain.len() >= ZSTD_MIN_BYTES => (ZSTD, self.zstd_frame(plain)),
            _ => self.lz4_block(plain)?,
        };
        let len = packed.len() as u32;
        let mut frame = Vec::with_capacity(MARK.len() + HEADER_BYTES + packed.len());
        if !std::mem::replace(&mut self.has_begun, true) {
            frame.extend_from_slice(&MARK);
        }
        frame.push(codec);
        frame.extend_from_slice(len.to_le_bytes().get(..3).unwrap_or_default());
        frame.extend_from_slice(&last.to_le_bytes());
        frame.extend_from_slice(&sum(plain).to_le_bytes());
        frame.extend_from_slice(&packed);
        Ok(frame)
    }

    /// The encoder writes one frame of LZ4, of which the blocks are taken.
    fn lz4_block(&mut self, plain: &[u8]) -> io::Result<(u8, Vec<u8>)> {
        self.lz4.write_all(plain)?;
        self.lz4.flush()?;
        let mut block = std::mem::take(self.lz4.get_mut());
        let skipped = if std::mem::replace(&mut self.has_blocks, true) { 0 } else { LZ4_HEADER_BYTES };
        let word = block.get(skipped..).and_then(|rest| rest.first_chunk()).copied().map(u32::from_le_bytes);
        let begin = skipped + size_of::<u32>();
        let word = word.filter(|word| (word & !LZ4_STORED) as usize == block.len() - begin);
        let word = word.ok_or_else(|| io::Error::other("LZ4 has written more than a block"))?;
        block.drain(..begin);
        Ok((if word & LZ4_STORED == 0 { LZ4 } else { STORED }, block))
    }

    fn zstd_frame(&mut self, plain: &[u8]) -> Vec<u8> {
        let new = || Box::new(FrameCompressor::new(CompressionLevel::Fastest));
        let compressor = self.zstd.get_or_insert_with(new);
        // The room of the last frame serves this one.
        let mut source = compressor.take_source().map(Cursor::into_inner).unwrap_or_default();
        source.clear();
        source.extend_from_slice(plain);
        compressor.set_source(Cursor::new(source));
        compressor.set_drain(Vec::with_capacity(plain.len() / 2));
        compressor.compress();
        compressor.take_drain().unwrap_or_default()
    }
}

/// Takes a stream out of its frames.
#[derive(Default)]
pub struct FrameReader {
    input: Vec<u8>,
    /// Bytes of the input that were used.
    at: usize,
    has_begun: bool,
    /// The last plain bytes of LZ4's blocks.
    window: Vec<u8>,
    /// The bytes of the frame that is read.
    plain: Vec<u8>,
    zstd: Option<Box<FrameDecoder>>,
    failure: Option<Error>,
}

/// A frame's lengths, codec and checksum.
struct Header {
    codec: u8,
    packed: usize,
    plain: usize,
    sum: u32,
}

impl FrameReader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.drain(..self.at);
        self.at = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Whether [`FrameReader::take`] gives something, without more input.
    pub fn has_frame(&self) -> bool {
        self.failure.is_some() || !matches!(self.whole(), Ok(None))
    }

    /// Appends the plain bytes of whole frames to `out`: of one, and of more as long as there are at most
    /// `most` bytes.
    ///
    /// # Errors
    /// A frame is damaged; so it is from then on.
    pub fn take(&mut self, out: &mut Vec<u8>, most: usize) -> Result<(), Error> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let taken = self.take_frames(out, most);
        self.failure = taken.err();
        taken
    }

    fn take_frames(&mut self, out: &mut Vec<u8>, most: usize) -> Result<(), Error> {
        let mut taken = 0;
        while let Some((header, begin)) = self.whole()? {
            if taken > 0 && taken + header.plain > most {
                return Ok(());
            }
            taken += header.plain;
            self.has_begun = true;
            self.at = begin + header.packed;
            self.unpack(&header, begin)?;
            out.extend_from_slice(&self.plain);
        }
        Ok(())
    }

    /// The header of the next frame, and where its packed bytes are, if all of it is there.
    fn whole(&self) -> Result<Option<(Header, usize)>, Error> {
        let mut begin = self.at;
        if !self.has_begun {
            let first = self.input.get(..MARK.len()).unwrap_or(&self.input);
            if !MARK.starts_with(first) {
                return Err(Error::Corrupt("frames of an unknown kind"));
            }
            begin += MARK.len();
        }
        let rest = self.input.get(begin..).unwrap_or_default();
        let Some(&[codec, a, b, c, d, e, s, t, u, v]) = rest.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = Header {
            codec,
            packed: u32::from_le_bytes([a, b, c, 0]) as usize,
            plain: usize::from(u16::from_le_bytes([d, e])) + 1,
            sum: u32::from_le_bytes([s, t, u, v]),
        };
        if !(LZ4..=STORED).contains(&codec) {
            return Err(Error::Corrupt("a frame of an unknown codec"));
        }
        if header.packed > PACKED_MAX_BYTES || codec == STORED && header.packed != header.plain {
            return Err(Error::Corrupt("a frame with a wrong length"));
        }
        let is_whole = rest.len() - HEADER_BYTES >= header.packed;
        Ok(is_whole.then_some((header, begin + HEADER_BYTES)))
    }

    /// Puts the plain bytes of a frame into place.
    fn unpack(&mut self, header: &Header, begin: usize) -> Result<(), Error> {
        let damaged = Error::Corrupt("a frame that is damaged");
        let packed = self.input.get(begin..begin + header.packed).ok_or(Error::Truncated)?;
        self.plain.clear();
        self.plain.resize(header.plain, 0);
        let len = match header.codec {
            STORED => {
                self.plain.copy_from_slice(packed);
                header.plain
            }
            LZ4 => {
                let window = self.window.get(self.window.len().saturating_sub(WINDOW_BYTES)..);
                decompress_into_with_dict(packed, &mut self.plain, window.unwrap_or_default())
                    .map_err(|_| damaged)?
            }
            _ => {
                let decoder = self.zstd.get_or_insert_default();
                decoder.decode_all(packed, &mut self.plain).map_err(|_| damaged)?
            }
        };
        if len != header.plain || sum(&self.plain) != header.sum {
            return Err(damaged);
        }
        if header.codec != ZSTD {
            if self.window.len() > WINDOW_BYTES {
                self.window.drain(..self.window.len() - WINDOW_BYTES);
            }
            self.window.extend_from_slice(&self.plain);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CODECS: [Codec; 2] = [Codec::Lz4, Codec::Zstd];

    /// Commands that are like each other, with some noise.
    fn commands(count: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut stream = Vec::new();
        for i in 0..count {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let text = format!("*3\r\n$3\r\nSET\r\n$9\r\nkey:{:05}\r\n$10\r\n{state:010}\r\n", i % 100_000);
            stream.extend_from_slice(text.as_bytes());
        }
        stream
    }

    /// Noise, which no codec shortens.
    fn noise(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| xxh64(&i.to_le_bytes(), 7) as u8).collect()
    }

    fn frames(stream: &[u8], codec: Codec, steps: &[usize]) -> Vec<u8> {
        let (mut writer, mut out, mut rest) = (FrameWriter::new(codec), Vec::new(), stream);
        for step in steps.iter().cycle() {
            let (piece, behind) = rest.split_at((*step).min(FRAME_BYTES).min(rest.len()));
            if piece.is_empty() {
                break;
            }
            out.extend(writer.frame(piece).unwrap());
            rest = behind;
        }
        out
    }

    /// The plain bytes of frames that come in pieces, and the error at their end, if there is one.
    fn read(frames: &[u8], piece: usize) -> (Vec<u8>, Result<(), Error>) {
        let (mut reader, mut out) = (FrameReader::default(), Vec::new());
        for bytes in frames.chunks(piece) {
            reader.push(bytes);
            while reader.has_frame() {
                let before = out.len();
                if let Err(error) = reader.take(&mut out, 96 << 10) {
                    assert_eq!(reader.take(&mut out, 1), Err(error));
                    return (out, Err(error));
                }
                assert!(out.len() > before && out.len() - before <= 96 << 10);
            }
            assert!(reader.input.len() - reader.at < PACKED_MAX_BYTES + HEADER_BYTES);
        }
        (out, Ok(()))
    }

    #[test]
    fn streams_go_round_in_frames_of_every_size() {
        let stream = [commands(9_000), noise(200_000), vec![b'x'; 300_000], commands(5_000)].concat();
        for codec in CODECS {
            for steps in [&[1usize << 20][..], &[FRAME_BYTES, 1, 700], &[90, 17_000], &[40_000]] {
                let packed = frames(&stream, codec, steps);
                assert!(begins(&packed) && packed.len() < stream.len() * 3 / 4, "{codec:?} {steps:?}");
                for piece in [1_000, 65_536, 1 << 22] {
                    let (plain, end) = read(&packed, piece);
                    assert!(plain == stream && end.is_ok(), "{codec:?} {steps:?} {piece} {end:?}");
                }
            }
        }
    }

    #[test]
    fn single_commands_are_shortened_by_those_before_them() {
        let stream = commands(3_000);
        for codec in CODECS {
            let packed = frames(&stream, codec, &[50]);
            assert!(packed.len() < stream.len() * 4 / 5, "{} of {}", packed.len(), stream.len());
        }
    }

    #[test]
    fn what_lies_is_refused() {
        let refused = |bytes: &[u8]| read(bytes, 1 << 20).1.unwrap_err();
        assert_eq!(refused(b"*1\r\n$4"), Error::Corrupt("frames of an unknown kind"));
        assert_eq!(refused(b"\xf5MS\x02"), Error::Corrupt("frames of an unknown kind"));
        let with = |header: [u8; 10]| [&MARK[..], &header].concat();
        let unknown = Error::Corrupt("a frame of an unknown codec");
        assert_eq!(refused(&with([0, 1, 0, 0, 0, 0, 0, 0, 0, 0])), unknown);
        assert_eq!(refused(&with([4, 1, 0, 0, 0, 0, 0, 0, 0, 0])), unknown);
        let length = Error::Corrupt("a frame with a wrong length");
        assert_eq!(refused(&with([LZ4, 0, 0, 2, 0, 0, 0, 0, 0, 0])), length);
        assert_eq!(refused(&with([STORED, 9, 0, 0, 9, 0, 0, 0, 0, 0])), length);
        // A length that the packed bytes do not keep.
        let mut longer = frames(&commands(100), Codec::Lz4, &[5_000]);
        longer[8] ^= 1;
        assert_eq!(refused(&longer), Error::Corrupt("a frame that is damaged"));
        assert!(FrameWriter::new(Codec::Lz4).frame(b"").is_err());
    }

    #[test]
    fn a_torn_stream_gives_its_whole_frames() {
        let stream = commands(2_000);
        for codec in CODECS {
            let packed = frames(&stream, codec, &[30_000, 100]);
            for cut in [0, 1, 3, 4, 13, 14, 500, packed.len() / 2, packed.len() - 1] {
                let (plain, end) = read(&packed[..cut], 777);
                assert!(end.is_ok() && plain.len() < stream.len() && stream.starts_with(&plain), "{cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_mutated_stream_never_gives_other_bytes(
            at in any::<prop::sample::Index>(), flip in 1u8.., piece in 1usize..3_000, zstd in any::<bool>(),
        ) {
            let stream = commands(1_500);
            let mut packed = frames(&stream, CODECS[usize::from(zstd)], &[20_000, 100, 3_000]);
            let at = at.index(packed.len());
            packed[at] ^= flip;
            let (plain, _) = read(&packed, piece);
            prop_assert!(plain.len() < stream.len() || plain == stream);
            prop_assert!(stream.starts_with(&plain));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600), codec in 1u8..4) {
            let len = bytes.len() as u8;
            let _ = read(&[&MARK[..], &[codec, len, 0, 0, 255, 1, 0, 0, 0, 0], &bytes].concat(), 100);
        }
    }
}
