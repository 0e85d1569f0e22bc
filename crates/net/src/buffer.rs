//! Bytes on their way out: a connection's own, or shared with whoever else has them.

use std::fmt;
use std::ops::Deref;

use triomphe::Arc;

/// What is sent. Its bytes stay where they are, however often it is moved.
pub enum Buffer {
    /// To be used again once they are sent.
    Owned(Vec<u8>),
    /// Nobody changes them before that: others make a copy of their own.
    Shared(Arc<Vec<u8>>),
    /// Likewise, of whoever else keeps bytes.
    Part(Box<dyn AsRef<[u8]> + Send>),
}

const _: () = assert!(size_of::<Buffer>() == size_of::<Vec<u8>>());

impl Buffer {
    /// Nothing.
    pub const EMPTY: Buffer = Buffer::Owned(Vec::new());
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.len()).finish()
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::EMPTY
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Owned(bytes) => bytes,
            Buffer::Shared(bytes) => bytes,
            Buffer::Part(bytes) => (**bytes).as_ref(),
        }
    }
}

impl From<Vec<u8>> for Buffer {
    #[inline]
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer::Owned(bytes)
    }
}
