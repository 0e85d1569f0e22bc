//! Bytes on their way out: a connection's own, or shared.

use std::fmt;
use std::ops::Deref;

use triomphe::Arc;

/// The bytes to send. They do not move in memory, however often the value is moved.
pub enum Buffer {
    /// To be used again once they are sent.
    Owned(Vec<u8>),
    /// Unchanged until then: a writer makes its own copy.
    Shared(Arc<Vec<u8>>),
    /// Bytes that another owner keeps.
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
