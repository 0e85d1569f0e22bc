//! The envelope of a file that is compressed as a whole, as Valkey 9.2 writes it (`rdbcompression lz4` or
//! `zstd`), read here and written by [`pack`](crate::pack).
//!
//! ```text
//! "VCS" │ version: 1 │ codec: 1 │ 0 │ kind: 1 (RDB) │ one frame of the codec
//! ```
//!
//! The codec is 1 for LZ4, 2 for Zstd. An older branch of Valkey's had other numbers, and each codec's frames
//! begin with a number of their own: the latter decides.
//!
//! Invariant: no byte behind the frame is taken, and a frame that is torn or whose checksums are wrong ends
//! in an error, never in a shorter file. A frame's window has a limit: 4 MB for LZ4, the decoder's for Zstd.

use std::io::{self, Chain, Cursor, Read};

use lz4_flex::frame::FrameDecoder;
use ruzstd::decoding::StreamingDecoder;

use crate::Error;

/// What an envelope begins with.
pub const MAGIC: &[u8] = b"VCS";
/// Bytes of an envelope.
pub const ENVELOPE_BYTES: usize = 7;

pub(crate) const VERSION: u8 = 1;
const CODECS: std::ops::RangeInclusive<u8> = 1..=2;
pub(crate) const KIND_RDB: u8 = 1;
/// The first bytes of a frame of LZ4, <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>.
const LZ4_FRAME: [u8; 4] = 0x184d_2204_u32.to_le_bytes();
/// The first bytes of a frame of Zstd, RFC 8878.
pub(crate) const ZSTD_FRAME: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

/// Checks an envelope.
///
/// # Errors
/// [`Error::Unknown`] for one of another kind.
pub fn check(envelope: &[u8]) -> Result<(), Error> {
    match envelope.strip_prefix(MAGIC) {
        Some([VERSION, codec, 0, KIND_RDB]) if CODECS.contains(codec) => Ok(()),
        _ => Err(Error::Unknown("compressed file of an unknown kind")),
    }
}

/// The bytes of a source before they were compressed, or as they are.
pub struct Unpacked<R: Read> {
    form: Form<Counted<R>>,
    /// Its source is compressed.
    is_packed: bool,
    /// Nothing more of the frame will come.
    has_ended: bool,
}

/// Bytes that were read before it was known whose they are, and the rest.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

enum Form<R: Read> {
    Plain(R),
    Lz4(Box<FrameDecoder<R>>),
    Zstd(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
}

/// A source, and how many of its bytes were taken.
struct Counted<R> {
    source: Whole<R>,
    taken: u64,
    /// More was wanted than there is. A whole frame says itself where it ends.
    has_ended: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.taken += count as u64;
        self.has_ended |= count == 0 && !into.is_empty();
        Ok(count)
    }
}

/// Reads until there are `len` bytes, or the source ends.
fn read_up_to(source: &mut impl Read, bytes: &mut Vec<u8>, len: usize) -> Result<(), Error> {
    let want = len.saturating_sub(bytes.len()) as u64;
    source.by_ref().take(want).read_to_end(bytes).map(|_| ()).map_err(|error| Error::Io(error.kind()))
}

impl<R: Read> Unpacked<R> {
    /// Looks at the source's first bytes.
    ///
    /// # Errors
    /// [`Error`] for an envelope that is not known, or whose frame cannot begin.
    pub fn open(mut source: R) -> Result<Unpacked<R>, Error> {
        let mut first = Vec::new();
        read_up_to(&mut source, &mut first, MAGIC.len())?;
        if first != MAGIC {
            let form =
                Form::Plain(Counted { source: Cursor::new(first).chain(source), taken: 0, has_ended: false });
            return Ok(Unpacked { form, is_packed: false, has_ended: false });
        }
        read_up_to(&mut source, &mut first, ENVELOPE_BYTES)?;
        if first.len() < ENVELOPE_BYTES {
            return Err(Error::Truncated);
        }
        check(&first)?;
        let mut frame = Vec::new();
        read_up_to(&mut source, &mut frame, LZ4_FRAME.len())?;
        let begin: [u8; 4] = frame.as_slice().try_into().map_err(|_| Error::Truncated)?;
        let taken = ENVELOPE_BYTES as u64;
        let counted = Counted { source: Cursor::new(frame).chain(source), taken, has_ended: false };
        let form = match begin {
            LZ4_FRAME => Form::Lz4(Box::new(FrameDecoder::new(counted))),
            ZSTD_FRAME => {
                let decoder = StreamingDecoder::new(counted);
                Form::Zstd(Box::new(decoder.map_err(|_| Error::Corrupt("a Zstd frame that cannot begin"))?))
            }
            _ => return Err(Error::Unknown("compressed file of an unknown codec")),
        };
        Ok(Unpacked { form, is_packed: true, has_ended: false })
    }

    /// Whether its source is compressed: how long the bytes are is only known at their end.
    pub fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Bytes taken of the source so far, if it is compressed.
    pub fn packed_bytes(&self) -> Option<u64> {
        self.packed().map(|counted| counted.taken)
    }

    fn packed(&self) -> Option<&Counted<R>> {
        match &self.form {
            Form::Plain(_) => None,
            Form::Lz4(decoder) => Some(decoder.get_ref()),
            Form::Zstd(decoder) => Some(decoder.get_ref()),
        }
    }
}

/// A decoder's own errors as one kind; those of its source as they are.
fn of_decoder(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Other | io::ErrorKind::InvalidInput => {
            io::Error::new(io::ErrorKind::InvalidData, error)
        }
        _ => error,
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.form {
            Form::Plain(counted) => return counted.read(into),
            // Behind its end a decoder would begin with another frame.
            _ if self.has_ended => Ok(0),
            Form::Lz4(decoder) => decoder.read(into),
            Form::Zstd(decoder) => decoder.read(into),
        };
        let is_torn = |stream: &Unpacked<R>| stream.packed().is_some_and(|counted| counted.has_ended);
        let count = match read {
            Err(_) if is_torn(self) => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => read.map_err(of_decoder)?,
        };
        if count > 0 || into.is_empty() {
            return Ok(count);
        }
        self.has_ended = true;
        if is_torn(self) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // LZ4's decoder compares its checksums by itself.
        if let Form::Zstd(stream) = &self.form
            && let Some(sum) = stream.decoder.get_checksum_from_data()
            && stream.decoder.get_calculated_checksum() != Some(sum)
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum of a Zstd frame is wrong"));
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    const HEAD: [u8; ENVELOPE_BYTES] = [b'V', b'C', b'S', 1, 1, 0, 1];

    fn lz4(bytes: &[u8], checksums: bool) -> Vec<u8> {
        let info = lz4_flex::frame::FrameInfo::new().block_checksums(checksums).content_checksum(checksums);
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The same in every packing that is read.
    fn packed(bytes: &[u8]) -> Vec<Vec<u8>> {
        let zstd = compress_to_vec(bytes, CompressionLevel::Fastest);
        let frames = [lz4(bytes, false), lz4(bytes, true), zstd];
        frames.iter().map(|frame| [&HEAD[..], frame].concat()).collect()
    }

    fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut unpacked = Unpacked::open(bytes).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        unpacked.read_to_end(&mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    #[test]
    fn other_envelopes_are_refused() {
        assert_eq!(check(&HEAD), Ok(()));
        assert_eq!(check(b"VCS\x01\x02\x00\x01"), Ok(()));
        for other in
            [b"VCS\x02\x01\x00\x01", b"VCS\x01\x03\x00\x01", b"VCS\x01\x01\x01\x01", b"VCS\x01\x01\x00\x02"]
        {
            assert!(matches!(Unpacked::open(&other[..]).err(), Some(Error::Unknown(_))), "{other:?}");
        }
        assert_eq!(Unpacked::open(&HEAD[..5]).err(), Some(Error::Truncated));
        assert_eq!(Unpacked::open(&HEAD[..]).err(), Some(Error::Truncated));
        let other = [&HEAD[..], b"\x50\x2a\x4d\x18\x00\x00\x00\x00"].concat();
        assert!(matches!(Unpacked::open(other.as_slice()).err(), Some(Error::Unknown(_))));
    }

    #[test]
    fn nothing_behind_the_frame_is_taken() {
        let text = b"some text, some text and some more text".repeat(9000);
        for bytes in packed(&text) {
            let followed = [bytes.as_slice(), b"*1\r\n$4\r\nPING\r\n"].concat();
            let mut unpacked = Unpacked::open(followed.as_slice()).unwrap();
            let mut out = Vec::new();
            unpacked.read_to_end(&mut out).unwrap();
            assert!(out == text && unpacked.is_packed());
            assert_eq!(unpacked.packed_bytes(), Some(bytes.len() as u64));
            assert_eq!(unpacked.read(&mut [0; 9]).unwrap(), 0);
        }
        assert_eq!(unpack(b"REDIS0011").unwrap(), b"REDIS0011");
        assert_eq!(unpack(b"VC").unwrap(), b"VC");
        assert_eq!(Unpacked::open(&b"REDIS"[..]).unwrap().packed_bytes(), None);
    }

    #[test]
    fn a_torn_frame_is_an_error() {
        let text: Vec<u8> = (0..2000u32).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect();
        for bytes in packed(&text) {
            for end in
                (0..bytes.len()).step_by(97).chain([bytes.len() - 4, bytes.len() - 1]).filter(|end| *end >= 3)
            {
                assert!(unpack(&bytes[..end]).is_err(), "{end} of {}", bytes.len());
            }
        }
    }

    proptest! {
        #[test]
        fn texts_go_round(text in prop::collection::vec(b'a'..b'e', 0..5000), piece in 1usize..300) {
            for bytes in packed(&text) {
                let mut unpacked = Unpacked::open(bytes.as_slice()).unwrap();
                let (mut out, mut buffer) = (Vec::<u8>::new(), vec![0; piece]);
                loop {
                    let count = unpacked.read(&mut buffer).unwrap();
                    if count == 0 {
                        break;
                    }
                    out.extend(&buffer[..count]);
                }
                prop_assert_eq!(&out, &text);
            }
        }

        #[test]
        fn damage_never_panics(text in prop::collection::vec(b'a'..b'e', 0..500), at: prop::sample::Index, byte: u8) {
            for mut bytes in packed(&text) {
                *at.get_mut(&mut bytes) = byte;
                let _ = unpack(&bytes);
            }
        }
    }
}
