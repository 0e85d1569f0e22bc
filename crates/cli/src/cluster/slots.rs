//! A set of hash slots.

use martlet_base::slot::SLOT_COUNT;
use std::fmt;

/// Which slots a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSet {
    /// One for each slot.
    held: Vec<bool>,
    len: usize,
}

impl SlotSet {
    /// No slot.
    pub fn new() -> SlotSet {
        SlotSet { held: vec![false; SLOT_COUNT], len: 0 }
    }

    /// Adds a slot; a number that is no slot's changes nothing.
    pub fn insert(&mut self, slot: u16) {
        if let Some(held) = self.held.get_mut(usize::from(slot)) {
            self.len += usize::from(!*held);
            *held = true;
        }
    }

    /// Takes a slot out.
    pub fn remove(&mut self, slot: u16) {
        if let Some(held) = self.held.get_mut(usize::from(slot)) {
            self.len -= usize::from(*held);
            *held = false;
        }
    }

    pub fn contains(&self, slot: u16) -> bool {
        self.held.get(usize::from(slot)).is_some_and(|held| *held)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        all().filter(|slot| self.contains(*slot))
    }

    /// Ranges of neighbours, first and last slot, ascending.
    pub fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> SlotSet {
        let mut set = SlotSet::new();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

/// `[0-5460],[7000]`
impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges().into_iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}[{first}]")?,
                false => write!(f, "{comma}[{first}-{last}]")?,
            }
        }
        Ok(())
    }
}

/// All slots.
pub fn all() -> impl Iterator<Item = u16> {
    0..SLOT_COUNT as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_ranges() {
        let mut set: SlotSet = [5, 0, 1, 16_383, 2, 1, 16_384].into_iter().collect();
        assert_eq!((set.len(), set.to_string().as_str()), (5, "[0-2],[5],[16383]"));
        set.remove(1);
        set.remove(1);
        assert_eq!((set.len(), set.ranges()), (4, vec![(0, 0), (2, 2), (5, 5), (16_383, 16_383)]));
        assert_eq!(SlotSet::new().to_string(), "");
        assert_eq!(all().collect::<SlotSet>().to_string(), "[0-16383]");
    }
}
