//! The count of references to a block that is copied on write.
//!
//! Invariant: a thread that sees one reference, and holds it, is alone with the block.

use std::sync::atomic::{AtomicU32, Ordering};

/// Count of the references to a block that is copied when written while shared.
///
/// Only the holder of a block's single reference may write it; a holder that sees one reference knows that no
/// other thread can take another.
#[repr(transparent)]
#[derive(Debug)]
pub struct RefCount(AtomicU32);

impl RefCount {
    /// Far more references than there can be; reached only by leaking them.
    const MAX: u32 = u32::MAX / 2;

    /// One reference.
    pub const fn one() -> RefCount {
        RefCount(AtomicU32::new(1))
    }

    /// Whether there is one reference. A plain load.
    #[inline(always)]
    pub fn is_one(&self) -> bool {
        // Acquire: what former holders did happened before.
        self.0.load(Ordering::Acquire) == 1
    }

    /// Takes one more reference.
    #[inline]
    pub fn retain(&self) {
        if self.0.fetch_add(1, Ordering::Relaxed) > RefCount::MAX {
            std::process::abort();
        }
    }

    /// Gives a reference up; returns whether it was the last, so that the caller frees the block.
    #[inline]
    pub fn release(&self) -> bool {
        // The holder of the only reference needs no locked instruction.
        self.is_one() || {
            let last = self.0.fetch_sub(1, Ordering::Release) == 1;
            if last {
                std::sync::atomic::fence(Ordering::Acquire);
            }
            last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_counted() {
        let count = RefCount::one();
        assert!(count.is_one());
        count.retain();
        assert!(!count.is_one());
        assert!(!count.release());
        assert!(count.is_one());
        assert!(count.release());
    }
}
