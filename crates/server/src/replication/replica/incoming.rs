//! The bytes that come from the primary: plain, or a stream in compressed frames, which its first byte shows.
//!
//! Invariant: no more than a read's bytes are put out at once. The socket is read only while no whole frame
//! is left; behind a damaged frame every read fails.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use martlet_client::stream::Stream;
use martlet_persistence::frames::{self, FrameReader};

/// Most bytes that come out of frames at once.
const READ_BYTES: usize = 96 << 10;

enum Form {
    Plain,
    /// The stream of commands begins.
    Unknown,
    Frames(Box<FrameReader>),
}

/// A connection to the primary.
pub(super) struct Incoming {
    stream: Stream,
    form: Form,
}

impl Incoming {
    /// The handshake comes first, and the data set.
    pub fn new(stream: Stream) -> Incoming {
        Incoming { stream, form: Form::Plain }
    }

    /// From here on the stream of commands comes, unless it has begun before; of that `received` has the
    /// first bytes, which are replaced by those of the commands.
    ///
    /// # Errors
    /// They are damaged.
    pub fn begin_stream(&mut self, received: &mut Vec<u8>) -> io::Result<()> {
        if let Form::Plain = self.form {
            self.form = Form::Unknown;
            let first = std::mem::take(received);
            self.take_in(&first, received)?;
        }
        Ok(())
    }

    fn take_in(&mut self, bytes: &[u8], received: &mut Vec<u8>) -> io::Result<()> {
        if let Form::Unknown = self.form
            && !bytes.is_empty()
        {
            let is_framed = frames::begins(bytes);
            self.form = if is_framed { Form::Frames(Box::default()) } else { Form::Plain };
        }
        match &mut self.form {
            Form::Frames(reader) => {
                reader.push(bytes);
                reader
                    .take(received, READ_BYTES)
                    .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
            }
            Form::Plain | Form::Unknown => {
                received.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Whether a read gives something without the socket.
    pub fn has_frame(&self) -> bool {
        matches!(&self.form, Form::Frames(reader) if reader.has_frame())
    }

    /// Whether the connection is encrypted.
    pub fn is_secure(&self) -> bool {
        self.stream.is_secure()
    }

    /// As [`Stream::read_some`], with the bytes of the commands; 0 at the end only.
    pub fn read_some(&mut self, received: &mut Vec<u8>) -> io::Result<usize> {
        if let Form::Plain = self.form {
            return self.stream.read_some(received);
        }
        if self.has_frame() {
            self.take_in(&[], received)?;
            return Ok(1);
        }
        let mut bytes = Vec::new();
        let count = self.stream.read_some(&mut bytes)?;
        self.take_in(&bytes, received)?;
        Ok(count)
    }

    /// As [`Stream::send`].
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.send(bytes)
    }
}

impl AsFd for Incoming {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
