//! Sets of hash slots, laid out as on the wire.

/// Number of hash slots.
pub const SLOTS: u16 = 16_384;
/// Length of a set on the wire, in bytes.
pub const SET_BYTES: usize = SLOTS as usize / 8;

/// A set of slots: a bit for each, the lowest of a byte first. 2 KB, so it is kept in a box.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u8; SET_BYTES]>);

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet(Box::new([0; SET_BYTES]))
    }
}

impl SlotSet {
    /// The set that these bytes are; `None` when their number is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<SlotSet> {
        Some(SlotSet(Box::new(bytes.try_into().ok()?)))
    }

    /// Its bytes, as on the wire.
    pub fn as_bytes(&self) -> &[u8; SET_BYTES] {
        &self.0
    }

    /// Whether it has the slot; none from [`SLOTS`] on.
    pub fn contains(&self, slot: u16) -> bool {
        self.0.get(usize::from(slot / 8)).is_some_and(|byte| byte & (1 << (slot % 8)) != 0)
    }

    /// Adds a slot; whether it was not there before.
    pub fn insert(&mut self, slot: u16) -> bool {
        let Some(byte) = self.0.get_mut(usize::from(slot / 8)) else { return false };
        let is_new = *byte & (1 << (slot % 8)) == 0;
        *byte |= 1 << (slot % 8);
        is_new
    }

    /// Removes a slot; whether it was there.
    pub fn remove(&mut self, slot: u16) -> bool {
        let Some(byte) = self.0.get_mut(usize::from(slot / 8)) else { return false };
        let was_there = *byte & (1 << (slot % 8)) != 0;
        *byte &= !(1 << (slot % 8));
        was_there
    }

    /// How many slots it has.
    pub fn len(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// Its slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().zip(0u16..).filter(|(byte, _)| **byte != 0).flat_map(|(byte, index)| {
            (0..8).filter(move |bit| byte & (1 << bit) != 0).map(move |bit| index * 8 + bit)
        })
    }

    /// Its slots as ranges, first and last, ascending.
    pub fn ranges(&self) -> Vec<(u16, u16)> {
        let (mut ranges, mut begun) = (Vec::new(), None);
        for (byte, index) in self.0.iter().zip(0u16..) {
            // Mostly all of a byte's slots are like those before them.
            if *byte == if begun.is_some() { u8::MAX } else { 0 } {
                continue;
            }
            for bit in 0..8 {
                let slot = index * 8 + bit;
                match (begun, byte & (1 << bit) != 0) {
                    (None, true) => begun = Some(slot),
                    (Some(first), false) => {
                        ranges.push((first, slot - 1));
                        begun = None;
                    }
                    _ => {}
                }
            }
        }
        ranges.extend(begun.map(|first| (first, SLOTS - 1)));
        ranges
    }

    /// Its slots without the other set's.
    pub fn without(&self, other: &SlotSet) -> SlotSet {
        let mut rest = self.clone();
        rest.0.iter_mut().zip(other.0.iter()).for_each(|(byte, gone)| *byte &= !gone);
        rest
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> SlotSet {
        let mut set = SlotSet::default();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        #[test]
        fn a_set_is_a_set(steps in proptest::collection::vec((0..SLOTS + 2, proptest::bool::ANY), 0..200)) {
            let (mut set, mut model) = (SlotSet::default(), BTreeSet::new());
            for (slot, is_added) in steps {
                let changed = if is_added { set.insert(slot) } else { set.remove(slot) };
                let expected = slot < SLOTS && if is_added { model.insert(slot) } else { model.remove(&slot) };
                assert_eq!(changed, expected);
            }
            assert!(set.iter().eq(model.iter().copied()));
            assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            let ranged: Vec<u16> = set.ranges().into_iter().flat_map(|(first, last)| first..=last).collect();
            assert!(ranged.iter().eq(model.iter()));
            assert_eq!(SlotSet::from_bytes(set.as_bytes()), Some(set.clone()));
            assert_eq!(set.without(&set), SlotSet::default());
        }
    }
}
