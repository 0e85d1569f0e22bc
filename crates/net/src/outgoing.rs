//! A connection's unsent output: the buffer under way, and those that wait behind it.
//!
//! `front` is empty exactly when nothing is under way; then nothing waits either. A buffer's bytes never move
//! while it is here (only its owner does), so the kernel may hold a pointer to them.

use std::collections::VecDeque;

use crate::Buffer;

/// The queue. Idle, it owns no memory.
#[derive(Debug, Default)]
pub struct Outgoing {
    front: Buffer,
    written: usize,
    /// Boxed because it is rare: most connections send one buffer at a time.
    #[allow(clippy::box_collection)]
    rest: Option<Box<VecDeque<Buffer>>>,
}

impl Outgoing {
    /// Whether nothing is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.front.is_empty()
    }

    /// Adds a buffer, which is not empty. True: it is the one under way now.
    #[inline]
    pub fn push(&mut self, buffer: Buffer) -> bool {
        debug_assert!(!buffer.is_empty());
        if self.front.is_empty() {
            self.front = buffer;
            self.written = 0;
            return true;
        }
        self.rest.get_or_insert_default().push_back(buffer);
        false
    }

    /// The bytes of the buffer under way that are not written yet.
    #[inline]
    pub fn unwritten(&self) -> &[u8] {
        self.front.get(self.written..).unwrap_or_default()
    }

    /// Notes that `count` more bytes are written. True: the buffer under way is done, see [`Outgoing::pop`].
    #[inline]
    pub fn advance(&mut self, count: usize) -> bool {
        self.written += count;
        debug_assert!(self.written <= self.front.len());
        self.written >= self.front.len()
    }

    /// Takes the buffer under way, done or given up; the next one follows. `None` when idle.
    #[inline]
    pub fn pop(&mut self) -> Option<Buffer> {
        if self.front.is_empty() {
            return None;
        }
        let next = match &mut self.rest {
            None => Buffer::EMPTY,
            Some(rest) => {
                let next = rest.pop_front().unwrap_or_default();
                if rest.is_empty() {
                    self.rest = None;
                }
                next
            }
        };
        self.written = 0;
        Some(std::mem::replace(&mut self.front, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_leave_in_order() {
        let mut outgoing = Outgoing::default();
        assert!(outgoing.is_idle() && outgoing.pop().is_none());
        assert!(outgoing.push(b"first".to_vec().into()));
        assert!(!outgoing.push(b"second".to_vec().into()));
        assert!(!outgoing.push(b"third".to_vec().into()));
        assert!(!outgoing.advance(2));
        assert_eq!(outgoing.unwritten(), b"rst");
        assert!(outgoing.advance(3));
        assert_eq!(*outgoing.pop().unwrap(), *b"first");
        assert_eq!(outgoing.unwritten(), b"second");
        assert_eq!(*outgoing.pop().unwrap(), *b"second");
        assert_eq!(*outgoing.pop().unwrap(), *b"third");
        assert!(outgoing.is_idle() && outgoing.rest.is_none());
    }
}
