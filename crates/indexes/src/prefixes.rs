//! Which indexes a key belongs to, by its first bytes.

use std::sync::Arc;

use crate::index::KeyIndex;
use crate::shared_map::SharedMap;

/// The prefixes of all indexes. A key is compared with one prefix of each length that there is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefixes {
    /// The lengths of prefixes, each once, rising, with the number of prefixes that have it.
    lengths: Vec<(usize, usize)>,
    indexes: SharedMap<Vec<Arc<KeyIndex>>>,
}

impl Prefixes {
    /// Adds an index, which is not there.
    pub(crate) fn add(&mut self, index: &Arc<KeyIndex>) {
        for prefix in index.prefixes().iter() {
            let mut indexes = self.indexes.get(prefix).cloned().unwrap_or_default();
            indexes.push(Arc::clone(index));
            if self.indexes.insert(prefix, indexes).is_none() {
                match self.lengths.binary_search_by_key(&prefix.len(), |(length, _)| *length) {
                    Ok(at) => self.lengths.get_mut(at).into_iter().for_each(|(_, count)| *count += 1),
                    Err(at) => self.lengths.insert(at, (prefix.len(), 1)),
                }
            }
        }
    }

    /// Removes an index.
    pub(crate) fn remove(&mut self, index: &Arc<KeyIndex>) {
        for prefix in index.prefixes().iter() {
            let Some(mut indexes) = self.indexes.remove(prefix) else { continue };
            indexes.retain(|known| !Arc::ptr_eq(known, index));
            if !indexes.is_empty() {
                self.indexes.insert(prefix, indexes);
                continue;
            }
            self.lengths.iter_mut().filter(|(length, _)| *length == prefix.len()).for_each(|(_, n)| *n -= 1);
            self.lengths.retain(|(_, count)| *count > 0);
        }
    }

    /// How many different prefixes there are.
    pub(crate) fn len(&self) -> usize {
        self.indexes.len()
    }

    /// All prefixes, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.indexes.iter().map(|(prefix, _)| prefix)
    }

    /// The indexes whose documents may have this name, each once.
    pub(crate) fn matches<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a Arc<KeyIndex>> {
        let begins = self.lengths.iter().map_while(|(length, _)| name.get(..*length));
        begins.filter_map(|begin| self.indexes.get(begin)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::index;

    #[test]
    fn each_index_of_a_name_is_found_once() {
        let indexes = [
            index("a PREFIX 3 user: user:1 us SCHEMA t TEXT"),
            index("b PREFIX 2 user: user: SCHEMA t TEXT"),
            index("c PREFIX 1 x SCHEMA t TEXT"),
            index("d SCHEMA t TEXT"),
        ];
        let mut prefixes = Prefixes::default();
        indexes.iter().for_each(|index| prefixes.add(index));
        let found = |prefixes: &Prefixes, name: &str| {
            let mut names: Vec<_> = prefixes.matches(name.as_bytes()).map(|i| i.name()).collect();
            names.sort();
            String::from_utf8(names.concat()).unwrap()
        };
        let wanted = [
            ("user:12", "abd"),
            ("usual", "ad"),
            ("user", "ad"),
            ("x", "cd"),
            ("", "d"),
            ("y", "d"),
            ("u", "d"),
        ];
        for (name, indexes) in wanted {
            assert_eq!(found(&prefixes, name), indexes, "{name}");
        }
        // Without an index the others are found; without all there is no length left.
        let mut left = prefixes.clone();
        left.remove(&indexes[1]);
        assert_eq!((found(&left, "user:12"), found(&prefixes, "user:12")), ("ad".into(), "abd".into()));
        indexes.iter().for_each(|index| left.remove(index));
        assert_eq!((found(&left, "user:12"), left.lengths.len()), (String::new(), 0));
        assert_eq!(Prefixes::default().matches(b"a").count(), 0);
    }
}
