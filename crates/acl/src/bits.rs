//! A set of commands by their places in the table.
//!
//! Invariant: as long as the table, so a place that the table has is always in range; any other is not in
//! the set.

/// See the [module docs](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Box<[u64]>,
    len: usize,
}

impl Bits {
    /// The empty set over a table of `len` commands.
    pub fn new(len: usize) -> Bits {
        Bits { words: vec![0; len.div_ceil(64)].into(), len }
    }

    /// Whether the command at `place` is in the set.
    #[inline]
    pub fn has(&self, place: usize) -> bool {
        self.words.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Adds the command at `place`, or takes it out.
    pub fn set(&mut self, place: usize, on: bool) {
        let Some(word) = self.words.get_mut(place / 64).filter(|_| place < self.len) else { return };
        let bit = 1 << (place % 64);
        if on { *word |= bit } else { *word &= !bit }
    }

    /// Adds all commands, or takes all out.
    pub fn set_all(&mut self, on: bool) {
        for place in 0..self.len {
            self.set(place, on);
        }
    }

    /// Whether all commands are in the set.
    pub fn is_full(&self) -> bool {
        (0..self.len).all(|place| self.has(place))
    }
}
