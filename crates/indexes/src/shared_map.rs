//! A map by name whose copies share their parts: a copy that is then changed costs one part, not the map.
//!
//! Invariant: a name is in the part that its hash selects, once.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Parts of a map: about the square root of the entries of a large one, so that copying the list of parts
/// costs as much as copying a part.
const PARTS: usize = 128;

/// A part's entries.
type Part<V> = HashTable<(Box<[u8]>, V)>;

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub(crate) struct SharedMap<V> {
    parts: Box<[Arc<Part<V>>]>,
    hasher: DefaultHashBuilder,
    len: usize,
}

impl<V> Default for SharedMap<V> {
    fn default() -> SharedMap<V> {
        let empty = Arc::new(HashTable::new());
        let parts = std::iter::repeat_n(empty, PARTS).collect();
        SharedMap { parts, hasher: DefaultHashBuilder::default(), len: 0 }
    }
}

impl<V> SharedMap<V> {
    /// The hash of a name, and its part.
    fn place(&self, name: &[u8]) -> (u64, usize) {
        let hash = self.hasher.hash_one(name);
        // The table takes its bits from both ends.
        (hash, (hash >> 32) as usize % PARTS)
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&V> {
        let (hash, part) = self.place(name);
        let found = self.parts.get(part)?.find(hash, |(known, _)| **known == *name);
        found.map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.parts.iter().flat_map(|part| part.iter()).map(|(name, value)| (&**name, value))
    }

    /// All entries by name.
    pub(crate) fn sorted(&self) -> Vec<(&[u8], &V)> {
        let mut entries: Vec<_> = self.iter().collect();
        entries.sort_unstable_by_key(|(name, _)| *name);
        entries
    }
}

impl<V: Clone> SharedMap<V> {
    /// Sets the value of a name; the value before.
    pub(crate) fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        let (hash, part) = self.place(name);
        let hasher = &self.hasher;
        let part = Arc::make_mut(self.parts.get_mut(part)?);
        if let Some((_, known)) = part.find_mut(hash, |(known, _)| **known == *name) {
            return Some(std::mem::replace(known, value));
        }
        part.insert_unique(hash, (name.into(), value), |(name, _)| hasher.hash_one(&**name));
        self.len += 1;
        None
    }

    /// Removes a name; its value.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<V> {
        if !self.contains(name) {
            return None;
        }
        let (hash, part) = self.place(name);
        let part = Arc::make_mut(self.parts.get_mut(part)?);
        let entry = part.find_entry(hash, |(known, _)| **known == *name).ok()?;
        self.len -= 1;
        Some(entry.remove().0.1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use martlet_base::random::Random;

    use super::*;

    #[test]
    fn copies_are_maps_of_their_own() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let mut copies = vec![(SharedMap::default(), BTreeMap::new())];
        for step in 0..5_000 {
            let which = random.below(copies.len() as u64) as usize;
            if step % 500 == 499 {
                let copy = copies[which].clone();
                copies.push(copy);
            }
            let (shared, model) = &mut copies[which];
            let name = random.below(400).to_string().into_bytes();
            if random.below(3) == 0 {
                assert_eq!(shared.remove(&name), model.remove(&name));
            } else {
                assert_eq!(shared.insert(&name, step), model.insert(name.clone(), step));
            }
            assert_eq!(shared.get(&name), model.get(&name));
        }
        for (shared, model) in &copies {
            let wanted: Vec<(&[u8], &i32)> = model.iter().map(|(name, value)| (&name[..], value)).collect();
            assert_eq!((shared.sorted(), shared.len()), (wanted, model.len()));
            assert_eq!(shared.is_empty(), model.is_empty());
        }
    }

    /// The reason for the parts: adding to a copy of a large map leaves nearly all of it shared.
    #[test]
    fn a_changed_copy_shares_the_rest() {
        let mut map = SharedMap::default();
        for number in 0..10_000_u32 {
            assert_eq!(map.insert(&number.to_le_bytes(), number), None);
        }
        let mut copy = map.clone();
        copy.insert(b"another", 0);
        copy.remove(b"none");
        let shared = map.parts.iter().zip(&copy.parts).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!((shared, map.len(), copy.len()), (PARTS - 1, 10_000, 10_001));
    }
}
