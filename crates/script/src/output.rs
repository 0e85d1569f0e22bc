//! Memory that a Rust function has for itself while it works for a script.
//!
//! Invariant: it counts as memory of the script's state while it lives. An [`Output`] never has more than
//! scripts can have, its later copy as a string of Lua's included.

use crate::memory::Memory;
use crate::stack::{Raise, Stack};

/// Bytes by which it grows at least.
const STEP_BYTES: usize = 256;

/// A buffer that grows as far as the memory of scripts reaches.
pub struct Output<'m> {
    bytes: Vec<u8>,
    memory: &'m Memory,
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        self.memory.subtract(self.bytes.capacity());
    }
}

impl<'m> Output<'m> {
    /// An empty one, of the memory of the stack's state.
    pub fn new(stack: &Stack<'m>) -> Output<'m> {
        Output { bytes: Vec::new(), memory: stack.memory() }
    }

    /// The bytes written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes were written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes written, to be changed in place.
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Makes room for this many bytes more.
    ///
    /// # Errors
    /// [`Raise::Memory`]
    #[inline]
    pub fn reserve(&mut self, more: usize) -> Result<(), Raise> {
        if self.bytes.capacity() - self.bytes.len() >= more { Ok(()) } else { self.grow(more) }
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Result<(), Raise> {
        let least = self.bytes.len().checked_add(more).ok_or(Raise::Memory)?;
        let amply = least.max(2 * self.bytes.capacity()).max(STEP_BYTES);
        let capacity =
            [amply, least].into_iter().find(|&capacity| self.fits(capacity)).ok_or(Raise::Memory)?;
        self.memory.subtract(self.bytes.capacity());
        let grown = self.bytes.try_reserve_exact(capacity - self.bytes.len());
        self.memory.add(self.bytes.capacity());
        grown.map_err(|_| Raise::Memory)
    }

    /// Whether it can be that large: the old buffer stays until it is copied, and Lua's copy comes later.
    fn fits(&self, capacity: usize) -> bool {
        capacity.checked_mul(2).is_some_and(|bytes| self.memory.has_room(bytes))
    }

    /// Appends a byte.
    ///
    /// # Errors
    /// [`Raise::Memory`]
    #[inline]
    pub fn push(&mut self, byte: u8) -> Result<(), Raise> {
        self.reserve(1)?;
        self.bytes.push(byte);
        Ok(())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Raise::Memory`]
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), Raise> {
        self.reserve(bytes.len())?;
        martlet_base::copy::extend(&mut self.bytes, bytes);
        Ok(())
    }
}

/// Counts bytes of Rust's as memory of a script's state while it lives.
pub struct Held<'m> {
    memory: &'m Memory,
    bytes: usize,
}

impl<'m> Held<'m> {
    /// Counts this many bytes.
    ///
    /// # Errors
    /// [`Raise::Memory`] if scripts cannot have them.
    pub fn new(stack: &Stack<'m>, bytes: usize) -> Result<Held<'m>, Raise> {
        stack.need(bytes)?;
        let memory = stack.memory();
        memory.add(bytes);
        Ok(Held { memory, bytes })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.memory.subtract(self.bytes);
    }
}
