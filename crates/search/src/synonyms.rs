//! Synonyms: groups of terms of which each finds the others.
//!
//! A document with a term of a group has the group's own term, `~id`, at the same place; a query for a term
//! of the group seeks that, too. Documents that were indexed before a group has grown must be indexed again.
//! An index's synonyms do not change: an update makes new ones.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use martlet_base::hash::hash_bytes;

use crate::Error;

/// The byte before the id of a group.
pub const SYNONYM_PREFIX: u8 = b'~';
/// Most memberships of terms in groups, of one index; RediSearch has no limit.
pub const MEMBERSHIPS_MAX: usize = 1 << 20;
/// Most bytes of an index's synonyms, about.
pub const BYTES_MAX: usize = 1 << 28;
/// Most groups of a term.
pub const GROUPS_MAX: usize = 1024;
/// Bytes of a term beside its own.
const TERM_BYTES: usize = size_of::<(Box<[u8]>, Vec<Box<[u8]>>)>();

/// The synonyms of an index.
#[derive(Clone, Debug, Default)]
pub struct Synonyms {
    /// By term its groups, with their prefix, in the order in which it joined them.
    groups: HashMap<Box<[u8]>, Vec<Box<[u8]>>>,
    memberships: usize,
    bytes: usize,
    fingerprint: u64,
}

/// FT.SYNUPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// The index's name.
    pub index: &'a [u8],
    /// The group's id; it exists from then on.
    pub group: &'a [u8],
    /// SKIPINITIALSCAN: documents that are indexed already stay as they are.
    pub skip_initial_scan: bool,
    /// The terms that join the group.
    pub terms: &'a [&'a [u8]],
}

impl<'a> Update<'a> {
    /// The update of these arguments, from the index's name on. SKIPINITIALSCAN is a term unless it stands
    /// behind the group.
    ///
    /// # Errors
    /// There are too few.
    pub fn parse(arguments: &'a [&'a [u8]]) -> Result<Update<'a>, Error> {
        let [index, group, terms @ ..] = arguments else { return Err(arity()) };
        let Some((first, rest)) = terms.split_first() else { return Err(arity()) };
        let skip_initial_scan = first.eq_ignore_ascii_case(b"SKIPINITIALSCAN");
        Ok(Update { index, group, skip_initial_scan, terms: if skip_initial_scan { rest } else { terms } })
    }
}

/// Whether the id of a group is among groups with their prefix.
fn is_member(groups: &[Box<[u8]>], id: &[u8]) -> bool {
    groups.iter().any(|group| group.get(1..) == Some(id))
}

fn arity() -> Error {
    Error::new("wrong number of arguments for 'FT.SYNUPDATE' command")
}

impl Synonyms {
    /// Adds terms to a group, in lower case as far as they are ASCII; whether any of them is new there.
    ///
    /// # Errors
    /// There may be too many memberships, or bytes of them, or groups of one term, then; nothing has changed.
    pub fn add(&mut self, group: &[u8], terms: &[&[u8]]) -> Result<bool, Error> {
        self.check(group, terms)?;
        let before = self.memberships;
        let group = [&[SYNONYM_PREFIX], group].concat().into_boxed_slice();
        for term in terms {
            let term = term.to_ascii_lowercase().into_boxed_slice();
            let mark = hash_bytes(&term).rotate_left(17) ^ hash_bytes(&group);
            let bytes = term.len() + TERM_BYTES;
            let groups = self.groups.entry(term).or_insert_with(|| {
                self.bytes += bytes;
                Vec::new()
            });
            if !groups.contains(&group) {
                self.fingerprint = self.fingerprint.wrapping_add(mark.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                self.bytes += group.len() + size_of::<Box<[u8]>>();
                self.memberships += 1;
                groups.push(group.clone());
            }
        }
        Ok(self.memberships > before)
    }

    /// Refuses terms for which there may not be room.
    fn check(&self, group: &[u8], terms: &[&[u8]]) -> Result<(), Error> {
        if terms.len() > MEMBERSHIPS_MAX - self.memberships {
            return Err(Error::new(format!("An index has at most {MEMBERSHIPS_MAX} synonyms")));
        }
        let one = TERM_BYTES + group.len() + size_of::<Box<[u8]>>() + 1;
        let bytes = terms.iter().fold(self.bytes, |sum, term| sum.saturating_add(term.len() + one));
        if bytes > BYTES_MAX {
            return Err(Error::new(format!("An index has at most {BYTES_MAX} bytes of synonyms")));
        }
        let has_room = |term: &&[u8]| {
            let groups = self.groups.get(&*term.to_ascii_lowercase());
            groups.is_none_or(|groups| groups.len() < GROUPS_MAX || is_member(groups, group))
        };
        if !terms.iter().all(has_room) {
            return Err(Error::new(format!("A term has at most {GROUPS_MAX} groups of synonyms")));
        }
        Ok(())
    }

    /// Updates that make the same of no synonyms: groups, each with terms. A term's groups are in their
    /// order.
    pub fn updates(&self) -> Vec<(&[u8], Vec<&[u8]>)> {
        // A term joins its first group in the first round, its second one in the second.
        let mut rounds: BTreeMap<(usize, &[u8]), Vec<&[u8]>> = BTreeMap::new();
        for (term, groups) in &self.groups {
            for (round, group) in groups.iter().enumerate() {
                rounds.entry((round, group.get(1..).unwrap_or_default())).or_default().push(term);
            }
        }
        let mut updates: Vec<_> = rounds.into_iter().map(|((_, group), terms)| (group, terms)).collect();
        updates.iter_mut().for_each(|(_, terms)| terms.sort_unstable());
        updates
    }

    /// Whether no term has a synonym.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups of a term in lower case, each with the `~` that terms of groups have.
    pub fn groups(&self, term: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.groups.get(term).into_iter().flatten().map(|group| &**group)
    }

    /// FT.SYNDUMP: the terms, ascending (RediSearch: in no order), each with the ids of its groups. RESP2: an
    /// array of a bulk string and an array of bulk strings in turns; RESP3: a map of the same.
    pub fn dump(&self) -> Vec<(&[u8], Vec<&[u8]>)> {
        fn ids(groups: &[Box<[u8]>]) -> Vec<&[u8]> {
            groups.iter().filter_map(|group| group.get(1..)).collect()
        }
        let mut all: Vec<_> = self.groups.iter().map(|(term, groups)| (&**term, ids(groups))).collect();
        all.sort_unstable();
        all
    }

    /// A number that an update changes: documents that were indexed with another one are indexed again.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(synonyms: &Synonyms) -> String {
        let ids =
            |ids: Vec<&[u8]>| ids.iter().map(|id| String::from_utf8_lossy(id)).collect::<Vec<_>>().join(",");
        let all = synonyms.dump().into_iter();
        all.map(|(term, all)| format!("{}:{} ", String::from_utf8_lossy(term), ids(all))).collect()
    }

    #[test]
    fn groups_are_those_of_redisearch() {
        // FT.SYNUPDATE and FT.SYNDUMP of RediSearch 2.10.5.
        let mut synonyms = Synonyms::default();
        assert_eq!(synonyms.add(b"g1", &[]), Ok(false));
        assert!(synonyms.is_empty() && synonyms.dump().is_empty());
        let terms: [&[u8]; 4] = [b"Boy", b"Child", "small \u{c4}B".as_bytes(), b"BOY"];
        assert_eq!(synonyms.add(b"g1", &terms), Ok(true));
        assert_eq!(dumped(&synonyms), "boy:g1 child:g1 small \u{c4}b:g1 ");
        assert_eq!(synonyms.add(b"g2", &[b"child", b"baby"]), Ok(true));
        assert_eq!(synonyms.add(b"G2", &[b"child", b""]), Ok(true));
        let fingerprint = synonyms.fingerprint();
        assert_eq!(synonyms.add(b"g1", &[b"child"]), Ok(false));
        assert_eq!(synonyms.fingerprint(), fingerprint);
        assert_eq!(dumped(&synonyms), ":G2 baby:g2 boy:g1 child:g1,g2,G2 small \u{c4}b:g1 ");
        assert!(synonyms.groups(b"child").eq([&b"~g1"[..], b"~g2", b"~G2"]));
        assert_eq!(synonyms.groups(b"girl").count(), 0);
        assert!(synonyms.heap_bytes() > 0);
    }

    #[test]
    fn too_many_are_refused() {
        let terms = vec![&b"x"[..]; MEMBERSHIPS_MAX + 1];
        let mut synonyms = Synonyms::default();
        assert!(synonyms.add(b"g", &terms).is_err() && synonyms.is_empty());
        assert_eq!(synonyms.add(b"g", &terms[1..]), Ok(true));
        assert_eq!((synonyms.memberships, synonyms.dump().len()), (1, 1));
        let long = vec![b'x'; BYTES_MAX];
        assert!(synonyms.add(b"g", &[&long]).is_err());
        for group in 1..GROUPS_MAX {
            assert_eq!(synonyms.add(format!("{group}").as_bytes(), &[b"X"]), Ok(true));
        }
        assert_eq!(synonyms.add(b"g", &[b"x"]), Ok(false));
        assert!(synonyms.add(b"more", &[b"y", b"x"]).is_err() && synonyms.dump().len() == 1);
        assert_eq!(synonyms.add(b"more", &[b"y"]), Ok(true));
    }

    #[test]
    fn updates_make_the_same_synonyms() {
        let mut synonyms = Synonyms::default();
        for (group, terms) in [("a", &["x", "y"][..]), ("b", &["y", "z", ""]), ("a", &["z"]), ("c", &["x"])] {
            let terms: Vec<&[u8]> = terms.iter().map(|term| term.as_bytes()).collect();
            assert_eq!(synonyms.add(group.as_bytes(), &terms), Ok(true));
        }
        let mut same = Synonyms::default();
        for (group, terms) in synonyms.updates() {
            assert_eq!(same.add(group, &terms), Ok(true));
        }
        assert_eq!(dumped(&same), dumped(&synonyms));
        assert_eq!(same.fingerprint(), synonyms.fingerprint());
    }

    #[test]
    fn updates_are_read() {
        let parse = |arguments: &[&[u8]]| {
            let found = Update::parse(arguments).map(|update| (update.skip_initial_scan, update.terms.len()));
            found.map_err(|error| error.to_string())
        };
        let wrong = Err("wrong number of arguments for 'FT.SYNUPDATE' command".to_owned());
        assert_eq!(parse(&[b"i"]), wrong);
        assert_eq!(parse(&[b"i", b"g"]), wrong);
        assert_eq!(parse(&[b"i", b"g", b"skipInitialScan"]), Ok((true, 0)));
        assert_eq!(parse(&[b"i", b"g", b"SKIPINITIALSCAN", b"skipinitialscan", b"w"]), Ok((true, 2)));
        assert_eq!(parse(&[b"i", b"g", b"v", b"SKIPINITIALSCAN"]), Ok((false, 2)));
    }
}
