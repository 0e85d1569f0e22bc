//! A stream of bytes, cut into packets.

use super::decode::least_bytes;
use super::{HEADER_BYTES, SIGNATURE};
use martlet_base::limits::STRING_MAX_BYTES;

/// Longest packet: a published message whose channel and text are as long as strings can be.
pub const PACKET_MAX_BYTES: usize = 2 * STRING_MAX_BYTES + HEADER_BYTES + 8;
/// Bytes that must be present before the length and the kind can be read.
const START_BYTES: usize = 14;
/// A buffer above this is given back after its packet.
const KEPT_BYTES: usize = 64 * 1024;

/// Why a stream cannot be cut any more; its connection is to be closed, as Redis does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes are not the cluster bus'.
    #[error("bad signature received on the cluster bus")]
    Signature,
    /// A packet says that it is shorter than its header or longer than any may be.
    #[error("bad message length received on the cluster bus")]
    Length,
}

/// Received bytes of a connection that have not been taken.
///
/// Invariant: it grows by the received bytes, never by a length that a packet claims.
#[derive(Debug, Default)]
pub struct Frames {
    received: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Takes the next packet; `None` when more must be received.
    ///
    /// # Errors
    /// The bytes are not a packet. The rest of the stream is useless then.
    pub fn next_packet(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let waiting = self.received.get(self.taken..).unwrap_or_default();
        let Some(start) = waiting.first_chunk::<START_BYTES>() else {
            let signature = SIGNATURE.iter().zip(waiting).all(|(expected, byte)| expected == byte);
            self.forget_taken();
            return if signature { Ok(None) } else { Err(FrameError::Signature) };
        };
        if !start.starts_with(SIGNATURE) {
            return Err(FrameError::Signature);
        }
        let length = u32::from_be_bytes([start[4], start[5], start[6], start[7]]) as usize;
        if length < least_bytes(u16::from_be_bytes([start[12], start[13]])) || length > PACKET_MAX_BYTES {
            return Err(FrameError::Length);
        }
        if waiting.len() < length {
            self.forget_taken();
            return Ok(None);
        }
        let from = self.taken;
        self.taken += length;
        Ok(Some(&self.received[from..self.taken]))
    }

    fn forget_taken(&mut self) {
        self.received.drain(..self.taken);
        self.taken = 0;
        if self.received.is_empty() {
            self.received.shrink_to(KEPT_BYTES);
        }
    }
}
