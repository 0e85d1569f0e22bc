//! Slots being imported: their keys are visible to the importing connection only, since they are on their way
//! here from another node.
//!
//! Invariant: the set of these slots changes behind the closed gate only. Requests for their keys are sent to
//! the slots' owner anyhow; walks, counts and random picks ask here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use martlet_base::hash::slot_in;
use martlet_base::limits::SHARD_COUNT;
use martlet_base::slot::SLOT_COUNT;
use martlet_keyspace::key_hash;

/// The slots whose keys live in a shard.
fn slots_of_shard(shard: usize) -> std::ops::Range<u16> {
    const SLOTS: usize = SLOT_COUNT / SHARD_COUNT;
    (shard * SLOTS) as u16..((shard + 1) * SLOTS) as u16
}

const WORDS: usize = SLOT_COUNT / 64;

/// See the [module docs](self).
pub struct HiddenSlots {
    any: AtomicBool,
    /// Their keys may have been deleted with all others.
    is_flushed: AtomicBool,
    bits: Box<[AtomicU64]>,
}

impl Default for HiddenSlots {
    fn default() -> HiddenSlots {
        HiddenSlots {
            any: AtomicBool::new(false),
            is_flushed: AtomicBool::new(false),
            bits: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl HiddenSlots {
    /// Hides these slots and no others; behind the closed gate.
    pub fn set(&self, slots: impl IntoIterator<Item = u16>) {
        self.bits.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let mut any = false;
        for slot in slots {
            self.bits[usize::from(slot) / 64].fetch_or(1 << (slot % 64), Ordering::Relaxed);
            any = true;
        }
        self.any.store(any, Ordering::Relaxed);
    }

    /// Whether there are any.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// All keys are deleted.
    pub(crate) fn note_flush(&self) {
        self.is_flushed.fetch_or(self.is_any(), Ordering::Relaxed);
    }

    /// Whether all keys have been deleted while some were hidden, since this was last asked.
    pub fn take_flushed(&self) -> bool {
        self.is_flushed.swap(false, Ordering::Relaxed)
    }

    /// Whether a slot is hidden.
    pub fn has(&self, slot: u16) -> bool {
        self.is_any() && self.bits[usize::from(slot) / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 == 1
    }

    /// Whether a key is.
    #[inline]
    pub fn has_key(&self, name: &[u8]) -> bool {
        self.is_any() && self.has(slot_in(key_hash(name)))
    }

    /// Those of a shard.
    pub fn in_shard(&self, shard: usize) -> impl Iterator<Item = u16> + '_ {
        let slots = if self.is_any() { slots_of_shard(shard) } else { 0..0 };
        slots.filter(|slot| self.has(*slot))
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::hash::shard_of_slot;

    use super::*;

    #[test]
    fn a_shards_hidden_slots_are_its_own() {
        let hidden = HiddenSlots::default();
        assert!(!hidden.is_any() && hidden.in_shard(0).next().is_none());
        let slots = [0, 15, 16, 5_000, 16_383];
        hidden.set(slots);
        for shard in 0..SHARD_COUNT {
            let own: Vec<u16> = slots.into_iter().filter(|slot| shard_of_slot(*slot) == shard).collect();
            assert_eq!(hidden.in_shard(shard).collect::<Vec<_>>(), own);
        }
        hidden.set([16]);
        assert!(hidden.has(16) && !hidden.has(15));
        hidden.set([]);
        assert!(!hidden.is_any() && !hidden.has(16));
    }
}
