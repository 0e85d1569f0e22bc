//! Custom dictionaries: named sets of terms that spell checking includes or excludes.
//!
//! A server has one set of dictionaries, which belong to no index. A term keeps its case; terms are compared
//! without it where words are checked. The empty text is no term.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::Error;
use crate::text::fold::folded;

/// Bytes of a term beside its own: the nodes of two trees.
const TERM_OVERHEAD_BYTES: usize = 96;
/// Most terms and names of all dictionaries; RediSearch has no limit.
pub const TERMS_MAX: usize = 1 << 20;
/// Most bytes of all dictionaries, about.
pub const BYTES_MAX: usize = 1 << 28;

/// A set of terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    /// By the term without its case its spellings, of which there is at least one.
    spellings: BTreeMap<Box<[u8]>, BTreeSet<Box<[u8]>>>,
    len: usize,
    bytes: usize,
}

impl Dictionary {
    fn bytes_of(term: &[u8]) -> usize {
        2 * term.len() + TERM_OVERHEAD_BYTES
    }

    fn add(&mut self, term: &[u8]) -> bool {
        let is_new =
            !term.is_empty() && self.spellings.entry((*folded(term)).into()).or_default().insert(term.into());
        if is_new {
            self.len += 1;
            self.bytes += Self::bytes_of(term);
        }
        is_new
    }

    fn delete(&mut self, term: &[u8]) -> bool {
        let name = folded(term);
        let Some(spellings) = self.spellings.get_mut(&*name) else { return false };
        let was_there = spellings.remove(term);
        if spellings.is_empty() {
            self.spellings.remove(&*name);
        }
        if was_there {
            self.len -= 1;
            self.bytes -= Self::bytes_of(term);
        }
        was_there
    }

    /// How many terms there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no term.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is a term that differs from this folded one in its case at most.
    pub fn has_folded(&self, term: &[u8]) -> bool {
        self.spellings.contains_key(term)
    }

    /// The folded terms from `from` on, ascending, each with its first spelling.
    pub fn folded_from<'a>(&'a self, from: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let all =
            self.spellings.range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Unbounded));
        all.filter_map(|(folded, spellings)| Some((&**folded, &**spellings.first()?)))
    }

    /// The terms, ascending by their bytes.
    pub fn terms(&self) -> Vec<&[u8]> {
        let mut terms: Vec<&[u8]> = self.spellings.values().flatten().map(|term| &**term).collect();
        terms.sort_unstable();
        terms
    }
}

/// The dictionaries of a server, by name.
#[derive(Clone, Debug, Default)]
pub struct Dictionaries {
    all: BTreeMap<Box<[u8]>, Arc<Dictionary>>,
    /// Terms of all dictionaries.
    terms: usize,
    /// Bytes of the names and terms.
    bytes: usize,
}

impl Dictionaries {
    /// FT.DICTADD: adds terms to a dictionary, which exists from then on. Returns how many are new.
    ///
    /// # Errors
    /// There may be too many terms, or bytes of them, then; nothing has changed.
    pub fn add(&mut self, name: &[u8], terms: &[&[u8]]) -> Result<usize, Error> {
        let name_bytes = if self.all.contains_key(name) { 0 } else { name.len() + TERM_OVERHEAD_BYTES };
        let bytes: usize = terms.iter().map(|term| Dictionary::bytes_of(term)).sum();
        if self.terms + self.all.len() + terms.len() >= TERMS_MAX {
            return Err(Error::new(format!("Dictionaries have at most {TERMS_MAX} terms")));
        }
        if self.bytes + name_bytes + bytes > BYTES_MAX {
            return Err(Error::new(format!("Dictionaries have at most {BYTES_MAX} bytes")));
        }
        let dictionary = Arc::make_mut(self.all.entry(name.into()).or_default());
        let before = dictionary.bytes;
        let added = terms.iter().filter(|term| dictionary.add(term)).count();
        self.terms += added;
        self.bytes += name_bytes + dictionary.bytes - before;
        Ok(added)
    }

    /// FT.DICTDEL: takes terms from a dictionary. Returns how many there were. A dictionary without terms
    /// stays, as in RediSearch.
    pub fn delete(&mut self, name: &[u8], terms: &[&[u8]]) -> usize {
        let Some(dictionary) = self.all.get_mut(name) else { return 0 };
        // Spell checking that is on its way keeps the old one: a copy is made for that alone.
        let dictionary = Arc::make_mut(dictionary);
        let before = dictionary.bytes;
        let deleted = terms.iter().filter(|term| dictionary.delete(term)).count();
        self.terms -= deleted;
        self.bytes -= before - dictionary.bytes;
        deleted
    }

    /// Drops a dictionary.
    pub fn drop(&mut self, name: &[u8]) {
        if let Some(dictionary) = self.all.remove(name) {
            self.terms -= dictionary.len();
            self.bytes -= name.len() + TERM_OVERHEAD_BYTES + dictionary.bytes;
        }
    }

    /// The dictionary that FT.DICTDUMP asks for; the reply is [`Dictionary::terms`] (RESP2: an array, RESP3:
    /// a set of bulk strings).
    ///
    /// # Errors
    /// There is no such dictionary.
    pub fn dump(&self, name: &[u8]) -> Result<Arc<Dictionary>, Error> {
        self.all.get(name).cloned().ok_or_else(|| Error::new("could not open dict key"))
    }

    /// A dictionary as it is now: it does not change.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Dictionary>> {
        self.all.get(name)
    }

    /// All dictionaries, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Dictionary)> {
        self.all.iter().map(|(name, dictionary)| (&**name, &**dictionary))
    }

    /// Bytes on the heap, about.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_those_of_redisearch() {
        // Replies of RediSearch 2.10.5.
        let mut all = Dictionaries::default();
        assert_eq!(all.add(b"d", &[b"helo"]), Ok(1));
        assert_eq!(all.add(b"d", &[b"helo", b"Abc", b"abd", b"x y", b"10", b"9", b"\xc3\x84b", b""]), Ok(6));
        let dump: [&[u8]; 7] = [b"10", b"9", b"Abc", b"abd", b"helo", b"x y", b"\xc3\x84b"];
        assert_eq!(all.dump(b"d").expect("a dictionary").terms(), dump);
        assert_eq!(
            all.dump(b"none").map_err(|error| error.to_string()),
            Err("could not open dict key".into())
        );
        assert_eq!(all.delete(b"none", &[b"a"]), 0);
        assert_eq!(all.delete(b"d", &[b"abc", b"Abc", b"Abc"]), 1);
        assert_eq!(all.delete(b"d", &dump), 6);
        assert_eq!(all.dump(b"d").expect("a dictionary").len(), 0);
        assert_eq!(all.get(b"d").map(|one| (one.len(), one.bytes)), Some((0, 0)));
        assert_eq!(all.add(b"e", &[b""]), Ok(0));
        assert!(all.dump(b"e").expect("a dictionary").is_empty());
        assert_eq!((all.terms, all.bytes), (0, 2 * (1 + TERM_OVERHEAD_BYTES)));
    }

    #[test]
    fn spellings_are_found_without_their_case() {
        let mut all = Dictionaries::default();
        assert_eq!(all.add(b"d", &[b"helo", b"HELO", b"Zoo"]), Ok(3));
        let before = Arc::clone(all.get(b"d").expect("a dictionary"));
        assert!(before.has_folded(b"helo") && before.has_folded(b"zoo") && !before.has_folded(b"Zoo"));
        let found: Vec<_> = before.folded_from(b"a").collect();
        assert_eq!(found, [(&b"helo"[..], &b"HELO"[..]), (b"zoo", b"Zoo")]);
        all.delete(b"d", &[b"HELO", b"helo"]);
        assert!(before.has_folded(b"helo") && !all.get(b"d").expect("a dictionary").has_folded(b"helo"));
        assert!(all.heap_bytes() > 0 && all.iter().count() == 1);
    }
    #[test]
    fn too_many_are_refused() {
        let mut all = Dictionaries::default();
        let terms = vec![&b"x"[..]; TERMS_MAX];
        assert!(all.add(b"d", &terms).is_err() && all.iter().count() == 0);
        assert_eq!(all.add(b"d", &terms[1..]), Ok(1));
        assert!(all.add(b"e", &terms[2..]).is_err());
        let long = vec![b'x'; BYTES_MAX / 2];
        assert!(all.add(b"d", &[&long]).is_err() && all.add(&long, &[&long[..BYTES_MAX / 4]]).is_err());
        assert_eq!(all.add(b"d", &[&long[..BYTES_MAX / 4]]), Ok(1));
        assert_eq!((all.terms, all.delete(b"d", &[&long[..BYTES_MAX / 4], b"x"])), (2, 2));
        assert_eq!((all.terms, all.bytes), (0, 1 + TERM_OVERHEAD_BYTES));
    }
}
