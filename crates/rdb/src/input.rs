//! Where encoded bytes come from: a slice, or a file.

use std::io::Read;

use crate::Error;
use crate::crc64::{crc64, followed_by_zeros};

/// Bytes in order, of which it is known how many are left.
pub trait Input {
    /// Bytes that are left.
    fn remaining(&self) -> u64;

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] if there are fewer, [`Error::Io`].
    fn take(&mut self, len: usize) -> Result<&[u8], Error>;
}

/// What follows from [`Input`], for every input.
pub trait InputExt: Input {
    /// The next bytes as an array.
    ///
    /// # Errors
    /// As [`Input::take`].
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)?.first_chunk::<N>().copied().ok_or(Error::Truncated)
    }

    /// The next byte.
    ///
    /// # Errors
    /// As [`Input::take`].
    #[inline]
    fn byte(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// `count` as a number of things that take at least one byte each.
    ///
    /// # Errors
    /// [`Error::Truncated`] if there cannot be as many.
    #[inline]
    fn count(&self, count: u64) -> Result<usize, Error> {
        if count > self.remaining() {
            return Err(Error::Truncated);
        }
        usize::try_from(count).map_err(|_| Error::Truncated)
    }
}

impl<I: Input + ?Sized> InputExt for I {}

impl<I: Input + ?Sized> Input for &mut I {
    fn remaining(&self) -> u64 {
        (**self).remaining()
    }

    fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        (**self).take(len)
    }
}

impl Input for &[u8] {
    #[inline]
    fn remaining(&self) -> u64 {
        self.len() as u64
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        self.split_off(..len).ok_or(Error::Truncated)
    }
}

/// The length of a file that ends where its reader does.
pub const UNKNOWN_LEN: u64 = 1 << 62;

/// Bytes read from a file at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// A file that is read from its start to its end, with the checksum of the taken part.
pub struct FileInput<R> {
    file: R,
    buffer: Vec<u8>,
    /// Bytes of `buffer` before it have been taken.
    at: usize,
    /// Bytes of `buffer` before it are in `crc`.
    summed: usize,
    crc: u64,
    /// The checksum of earlier parts, as if zeros followed to the end of the file.
    earlier: u64,
    wants_sum: bool,
    /// Bytes that are not in the buffer yet, if the file is as long as was said.
    unread: u64,
    /// It has ended, though its length is unknown: nothing but the buffer is left.
    has_ended: bool,
    /// Its length is [`UNKNOWN_LEN`].
    is_open: bool,
    /// Bytes that have left the buffer.
    gone: u64,
}

impl<R: Read> FileInput<R> {
    /// The `len` bytes of `file`, or all that there are if that is [`UNKNOWN_LEN`]; the checksum is kept if
    /// `wants_sum`.
    pub fn new(file: R, len: u64, wants_sum: bool) -> FileInput<R> {
        FileInput {
            file,
            buffer: Vec::new(),
            at: 0,
            summed: 0,
            crc: 0,
            earlier: 0,
            wants_sum,
            unread: len,
            has_ended: false,
            is_open: len == UNKNOWN_LEN,
            gone: 0,
        }
    }

    /// The file.
    pub fn file(&self) -> &R {
        &self.file
    }

    /// Bytes taken so far.
    pub fn offset(&self) -> u64 {
        self.gone + self.at as u64
    }

    fn sum_up(&mut self) {
        if self.wants_sum {
            self.crc = crc64(self.crc, self.buffer.get(self.summed..self.at).unwrap_or(&[]));
        }
        self.summed = self.at;
    }

    /// The checksum of the bytes taken so far, without those given away, as if zeros followed to the end of
    /// the file, and zeros were in place of those.
    pub fn sum_as_if_zeros_followed(&mut self) -> u64 {
        self.sum_up();
        if self.wants_sum {
            self.earlier ^= followed_by_zeros(self.crc, self.remaining());
            self.crc = 0;
        }
        self.earlier
    }

    /// The next `want` bytes, or all that are left, without taking them.
    ///
    /// # Errors
    /// As [`Input::take`], but not [`Error::Truncated`] for a file as long as it was said to be.
    pub fn window(&mut self, want: usize) -> Result<&[u8], Error> {
        let want = (want as u64).min(self.remaining()) as usize;
        if self.buffer.len() - self.at < want {
            self.read_more(want)?;
        }
        let end = if self.has_ended { self.buffer.len().min(self.at + want) } else { self.at + want };
        self.buffer.get(self.at..end).ok_or(Error::Truncated)
    }

    /// Takes `len` bytes of the last window without adding them to the checksum: another thread adds them.
    pub fn give_away(&mut self, len: usize) {
        self.sum_as_if_zeros_followed();
        self.at = (self.at + len).min(self.buffer.len());
        self.summed = self.at;
    }

    /// Has `len` bytes in the buffer.
    fn fill(&mut self, len: usize) -> Result<(), Error> {
        self.read_more(len)?;
        if self.buffer.len() - self.at < len { Err(Error::Truncated) } else { Ok(()) }
    }

    /// Has `len` bytes in the buffer, or all that are left of a file of unknown length.
    fn read_more(&mut self, len: usize) -> Result<(), Error> {
        if self.has_ended {
            return Ok(());
        }
        self.sum_up();
        self.buffer.drain(..self.at);
        self.gone += self.at as u64;
        (self.at, self.summed) = (0, 0);
        let lack = len - self.buffer.len();
        if lack as u64 > self.unread {
            return Err(Error::Truncated);
        }
        // A larger read might wait for bytes that are not needed.
        let want = if self.is_open { lack } else { lack.max(BUFFER_BYTES) };
        let want = (want as u64).min(self.unread);
        let got = self.file.by_ref().take(want).read_to_end(&mut self.buffer);
        let got = got.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::Truncated,
            std::io::ErrorKind::InvalidData => Error::Corrupt("damaged compressed data"),
            kind => Error::Io(kind),
        })? as u64;
        self.unread -= got;
        if got < want && !self.is_open {
            return Err(Error::Truncated);
        }
        self.has_ended = got < want;
        Ok(())
    }
}

impl<R: Read> Input for FileInput<R> {
    fn remaining(&self) -> u64 {
        self.unread + (self.buffer.len() - self.at) as u64
    }

    fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        if self.buffer.len() - self.at < len {
            self.fill(len)?;
        }
        let from = self.at;
        self.at += len;
        self.buffer.get(from..self.at).ok_or(Error::Truncated)
    }
}
