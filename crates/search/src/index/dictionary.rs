//! Names with a value each, found by name at once, and in order: the terms of an index, the tags of a field.

use hashbrown::HashTable;
use martlet_base::hash::hash_bytes;
use martlet_base::prefetch::prefetch_object;
use smallvec::SmallVec;

use super::sorted::Sorted;

/// See the [module docs](self). A name is at most 4 GB, and there are at most 2^32 of them.
#[derive(Debug)]
pub struct Dictionary<V> {
    slots: Vec<Option<Slot<V>>>,
    free: Vec<u32>,
    table: HashTable<u32>,
    order: Sorted<u32>,
    name_bytes: usize,
}

/// A name; most are short, and stand in their slots.
type Name = SmallVec<[u8; 16]>;

#[derive(Debug)]
struct Slot<V> {
    name: Name,
    value: V,
}

impl<V> Default for Dictionary<V> {
    fn default() -> Self {
        Dictionary {
            slots: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            order: Sorted::default(),
            name_bytes: 0,
        }
    }
}

fn heap_of(name: &Name) -> usize {
    if name.spilled() { name.capacity() } else { 0 }
}

fn name_at<V>(slots: &[Option<Slot<V>>], at: u32) -> &[u8] {
    slots.get(at as usize).and_then(Option::as_ref).map_or(&[], |slot| &slot.name)
}

impl<V> Dictionary<V> {
    /// How many names there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether the dictionary is empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes on the heap, those of the values apart.
    pub fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Slot<V>>>()
            + self.name_bytes
            + self.table.capacity() * (size_of::<u32>() + 1)
            + self.order.heap_bytes()
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        self.table.find(hash_bytes(name), |&at| name_at(&self.slots, at) == name).copied()
    }

    /// The number of a name; it is the name's until that is removed.
    pub fn number(&self, name: &[u8]) -> Option<u32> {
        self.find(name)
    }

    /// The name and value of a number.
    pub fn at(&self, number: u32) -> Option<(&[u8], &V)> {
        self.slots.get(number as usize)?.as_ref().map(|slot| (&*slot.name, &slot.value))
    }

    /// The value of a number.
    pub fn at_mut(&mut self, number: u32) -> Option<&mut V> {
        self.slots.get_mut(number as usize)?.as_mut().map(|slot| &mut slot.value)
    }

    /// The value of a name.
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        self.at(self.find(name)?).map(|(_, value)| value)
    }

    /// For each of these hashes of names the number that the name most probably has, if it has one; see
    /// [`Dictionary::add_located`]. Memory is asked for all of them together.
    pub fn locate(&self, hashes: impl Iterator<Item = u64>, located: &mut Vec<u32>) {
        located.clear();
        located.extend(hashes.map(|hash| self.table.iter_hash(hash).next().copied().unwrap_or(u32::MAX)));
        for &number in &*located {
            if let Some(slot) = self.slots.get(number as usize) {
                prefetch_object(slot);
            }
        }
    }

    /// The number of a name, as [`Dictionary::add`] gives it; `located` is where it most probably stands.
    pub fn add_located(&mut self, name: &[u8], located: u32) -> u32
    where
        V: Default,
    {
        let is_it = self.slots.get(located as usize).and_then(Option::as_ref);
        match is_it.is_some_and(|slot| *slot.name == *name) {
            true => located,
            false => self.add(name).0,
        }
    }

    /// The number of a name, which is added with an empty value if it is not there, and whether it was added.
    pub fn add(&mut self, name: &[u8]) -> (u32, bool)
    where
        V: Default,
    {
        if let Some(at) = self.find(name) {
            return (at, false);
        }
        let slot = Slot { name: Name::from_slice(name), value: V::default() };
        self.name_bytes += heap_of(&slot.name);
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(slot);
                at
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() as u32 - 1
            }
        };
        let slots = &self.slots;
        self.table.insert_unique(hash_bytes(name), at, |&at| hash_bytes(name_at(slots, at)));
        self.order.insert(at, |&other| name_at(slots, other).cmp(name));
        (at, true)
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &[u8]) -> Option<V> {
        let at = self.find(name)?;
        let slots = &self.slots;
        self.order.remove(|&other| name_at(slots, other).cmp(name));
        if let Ok(entry) = self.table.find_entry(hash_bytes(name), |&other| other == at) {
            entry.remove();
        }
        self.free.push(at);
        let slot = self.slots[at as usize].take()?;
        self.name_bytes -= heap_of(&slot.name);
        Some(slot.value)
    }

    /// The names from `name` on, ascending, with their numbers.
    pub fn from(&self, name: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
        self.order.from(move |&at| name_at(&self.slots, at) < name).map(|&at| (name_at(&self.slots, at), at))
    }

    /// The names that begin with `prefix`, ascending, with their numbers.
    pub fn with_prefix(&self, prefix: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
        self.from(prefix).take_while(move |(name, _)| name.starts_with(prefix))
    }

    /// All names, ascending, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.order.iter().filter_map(|&at| self.at(at))
    }

    /// The values at up to `count` places from `place` on, in no order, and the place at which to continue,
    /// if there are more.
    pub fn values(&self, place: usize, count: usize) -> (impl Iterator<Item = &V>, Option<usize>) {
        let end = place.saturating_add(count).min(self.slots.len());
        let slots = self.slots.get(place..end).unwrap_or_default();
        let values = slots.iter().flatten().map(|slot| &slot.value);
        (values, (end < self.slots.len()).then_some(end))
    }

    /// Passes over up to `count` places from `place` on, in no order: values of which `keep` is false are
    /// removed with their names. Returns the place at which to continue, or none at the end.
    pub fn sweep(
        &mut self,
        place: usize,
        count: usize,
        mut keep: impl FnMut(&mut V) -> bool,
    ) -> Option<usize> {
        let end = place.saturating_add(count).min(self.slots.len());
        for at in place..end {
            let Some(slot) = &mut self.slots[at] else { continue };
            if !keep(&mut slot.value) {
                let name = slot.name.clone();
                self.remove(&name);
            }
        }
        (end < self.slots.len()).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;
    use std::collections::BTreeMap;

    fn name(random: &mut Random) -> Vec<u8> {
        (0..random.below(4)).map(|_| b'a' + random.below(3) as u8).collect()
    }

    #[test]
    fn it_is_a_map_in_order() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        for _ in 0..30 {
            let mut dictionary = Dictionary::<u64>::default();
            let mut model = BTreeMap::new();
            for _ in 0..400 {
                let name = name(&mut random);
                match random.below(3) {
                    0 => assert_eq!(dictionary.remove(&name), model.remove(&name)),
                    _ => {
                        let value = random.next_u64();
                        let mut located = Vec::new();
                        dictionary.locate([hash_bytes(&name)].into_iter(), &mut located);
                        let was_there = dictionary.get(&name).is_some();
                        let wrong = random.below(4) == 0;
                        let at = if wrong { random.below(5) as u32 } else { located[0] };
                        let (at, added) = match random.below(2) {
                            0 => dictionary.add(&name),
                            _ => (dictionary.add_located(&name, at), !was_there),
                        };
                        *dictionary.at_mut(at).unwrap() = value;
                        assert_eq!(added, model.insert(name.clone(), value).is_none());
                        assert_eq!(dictionary.number(&name), Some(at));
                    }
                }
                assert_eq!(dictionary.get(&name), model.get(&name), "seed {seed}");
                assert_eq!(dictionary.len(), model.len());
            }
            assert!(dictionary.iter().eq(model.iter().map(|(name, value)| (name.as_slice(), value))));
            let prefix = name(&mut random);
            let found: Vec<_> = dictionary.with_prefix(&prefix).map(|(name, _)| name.to_vec()).collect();
            let wanted: Vec<_> = model.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
            assert_eq!(found, wanted, "seed {seed}");

            let mut place = Some(0);
            while let Some(at) = place {
                place = dictionary.sweep(at, 7, |value| *value % 2 == 0);
            }
            model.retain(|_, value| *value % 2 == 0);
            assert!(dictionary.iter().eq(model.iter().map(|(name, value)| (name.as_slice(), value))));
        }
    }
}
