//! Which indexes a key belongs to, by its first bytes.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::index::KeyIndex;

/// The prefixes of all indexes. A key is compared with one prefix of each length that there is.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    /// The lengths of prefixes, each once, rising.
    lengths: Vec<usize>,
    indexes: HashMap<Box<[u8]>, Vec<Arc<KeyIndex>>>,
}

impl Prefixes {
    /// The prefixes of these indexes.
    pub(crate) fn of<'a>(all: impl IntoIterator<Item = &'a Arc<KeyIndex>>) -> Prefixes {
        let mut prefixes = Prefixes::default();
        for index in all {
            for prefix in index.prefixes().iter() {
                prefixes.indexes.entry(prefix.into()).or_default().push(Arc::clone(index));
            }
        }
        prefixes.lengths = prefixes.indexes.keys().map(|prefix| prefix.len()).collect();
        prefixes.lengths.sort_unstable();
        prefixes.lengths.dedup();
        prefixes
    }

    /// The indexes whose documents may have this name, each once.
    pub(crate) fn matches<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a Arc<KeyIndex>> {
        let begins = self.lengths.iter().map_while(|length| name.get(..*length));
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
        let prefixes = Prefixes::of(&indexes);
        let found = |name: &str| {
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
            assert_eq!(found(name), indexes, "{name}");
        }
        assert_eq!(Prefixes::default().matches(b"a").count(), 0);
    }
}
