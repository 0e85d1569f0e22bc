//! Entries for which their leaf has no room, although the tree has distinguished all the hash bits that it
//! may.
//!
//! With a hash that clients cannot predict there are none: a leaf's worth of members that agree in
//! [`DEPTH_MAX`] bits would take some 2^54 trials. Should there be any, each costs O(log n), and the table is
//! right all the same.
//!
//! Invariant: a field is in the tree or here, never in both; `due` has the entries with an expiry time.

use super::entry::{Entry, NewEntry};
use super::{CURSOR_SHIFT, Kind, NO_EXPIRY, Table};
use crate::ordered::{self, OrderedMap};
use crate::size_class::allocated_bytes;
use std::sync::Arc;

/// Bytes of the hash's prefix at the beginning of a [`Name`].
const PREFIX_BYTES: usize = 6;
/// Reference counts of a shared text.
const COUNTS_BYTES: usize = 16;

/// The hash's prefix, as much as a cursor has of it and highest byte first, and the field: so names are in
/// the order in which tables are scanned.
type Name = Arc<[u8]>;

/// The name of a field; with `field` empty, the lowest of that prefix.
fn name(prefix: u64, field: &[u8]) -> Name {
    let [_, _, prefix @ ..] = prefix.to_be_bytes();
    [&prefix[..], field].concat().into()
}

/// The content under a name.
#[derive(Clone, Debug)]
struct Content {
    value: Arc<[u8]>,
    expire_at_ms: i64,
}

fn entry<'a>((name, content): (&'a Name, &'a Content)) -> Entry<'a> {
    Entry {
        field: name.get(PREFIX_BYTES..).unwrap_or_default(),
        value: &content.value,
        expire_at_ms: content.expire_at_ms,
    }
}

/// See the module's description.
#[derive(Clone)]
pub(super) struct Excess {
    entries: OrderedMap<Name, Content>,
    due: OrderedMap<(i64, Name), ()>,
    text_bytes: usize,
}

/// Iterator over all entries.
pub(super) struct Entries<'a>(ordered::Iter<'a, Name, Content>);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.0.next().map(entry)
    }
}

impl Excess {
    fn new() -> Excess {
        Excess { entries: OrderedMap::new(), due: OrderedMap::new(), text_bytes: 0 }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn get(&self, name: &Name) -> Option<Entry<'_>> {
        let found = self.entries.iter_from(name).next()?;
        (found.0 == name).then(|| entry(found))
    }

    /// Bytes that the allocator gave.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Excess>() + self.entries.heap_bytes() + self.due.heap_bytes() + self.text_bytes
    }

    /// A time before which no entry expires.
    pub fn earliest_expiry(&self) -> i64 {
        self.due.first().map_or(NO_EXPIRY, |((at_ms, _), ())| *at_ms)
    }

    fn put(&mut self, name: Name, value: &[u8], expire_at_ms: i64) {
        self.take(&name);
        self.text_bytes += text_bytes(name.len()) + text_bytes(value.len());
        if expire_at_ms != NO_EXPIRY {
            self.due.insert((expire_at_ms, name.clone()), ());
        }
        self.entries.insert(name, Content { value: value.into(), expire_at_ms });
    }

    fn take(&mut self, name: &[u8]) -> Option<Content> {
        let content = self.entries.remove(name)?;
        self.text_bytes -= text_bytes(name.len()) + text_bytes(content.value.len());
        if content.expire_at_ms != NO_EXPIRY {
            self.due.remove(&(content.expire_at_ms, Name::from(name)));
        }
        Some(content)
    }

    /// All entries, in the order of their hashes' prefixes.
    pub fn iter(&self) -> Entries<'_> {
        Entries(self.entries.iter())
    }

    /// Hands the entries whose hashes' prefixes are from `first` to `last` to `f`; how many.
    pub fn each_in(&self, first: u64, last: u64, f: &mut impl FnMut(Entry<'_>)) -> usize {
        let mut count = 0;
        let end = name(last, &[]);
        for found in self.entries.iter_from(&name(first, &[])) {
            if found.0.get(..PREFIX_BYTES) > end.get(..PREFIX_BYTES) {
                break;
            }
            f(entry(found));
            count += 1;
        }
        count
    }
}

fn text_bytes(len: usize) -> usize {
    allocated_bytes(COUNTS_BYTES + len)
}

impl<K: Kind> Table<K> {
    /// The entry of a field that the tree does not have.
    #[inline]
    pub(super) fn excess_entry(&self, hash: u64, field: &[u8]) -> Option<Entry<'_>> {
        find(self.excess.as_deref()?, hash, field)
    }

    /// Changes the excess entries, if there are any, and accounts for their size; the last one takes the
    /// structure with it.
    fn edit_excess<R>(&mut self, f: impl FnOnce(&mut Excess) -> R) -> Option<R> {
        let excess = self.excess.as_deref_mut()?;
        self.heap_bytes -= excess.heap_bytes();
        let result = f(excess);
        match excess.len() {
            0 => self.excess = None,
            _ => self.heap_bytes += excess.heap_bytes(),
        }
        Some(result)
    }

    /// Puts an entry here that the tree has no room for; neither has one of its field.
    #[cold]
    pub(super) fn insert_in_excess(&mut self, hash: u64, new: &NewEntry<'_>) {
        if self.excess.is_none() {
            let excess = Box::new(Excess::new());
            self.heap_bytes += excess.heap_bytes();
            self.excess = Some(excess);
        }
        let name = name(hash >> CURSOR_SHIFT, new.field);
        self.edit_excess(|excess| excess.put(name, new.value, new.expire_at_ms));
        self.len += 1;
        if new.expire_at_ms != NO_EXPIRY {
            self.timed += 1;
            let earliest = if self.timed == 1 { NO_EXPIRY } else { self.earliest_expiry_ms };
            self.earliest_expiry_ms = earliest.min(new.expire_at_ms);
        }
    }

    /// Removes an entry that is not in the tree; whether there was one.
    #[cold]
    pub(super) fn remove_from_excess(&mut self, hash: u64, field: &[u8]) -> bool {
        let name = name(hash >> CURSOR_SHIFT, field);
        let Some(Some(content)) = self.edit_excess(|excess| excess.take(&name)) else { return false };
        self.len -= 1;
        self.timed -= usize::from(content.expire_at_ms != NO_EXPIRY);
        self.free_empty_root();
        true
    }

    /// Writes over an entry that is not in the tree; whether there was one.
    #[cold]
    pub(super) fn replace_in_excess(&mut self, hash: u64, new: &NewEntry<'_>) -> bool {
        if self.excess_entry(hash, new.field).is_none() {
            return false;
        }
        if K::HAS_VALUES {
            self.rewrite_excess(hash, new);
        }
        true
    }

    /// Removes an entry that is not in the tree and adds another one of its field.
    fn rewrite_excess(&mut self, hash: u64, new: &NewEntry<'_>) {
        self.remove_from_excess(hash, new.field);
        // The tree keeps at least an empty leaf, unless this was the table's only entry.
        self.insert(hash, new.field, new.value, new.expire_at_ms);
    }

    /// Gives an entry that is not in the tree another expiry time; whether there is one.
    #[cold]
    pub(super) fn set_expiry_in_excess(&mut self, hash: u64, field: &[u8], expire_at_ms: i64) -> bool {
        let Some(found) = self.excess_entry(hash, field) else { return false };
        let value = found.value.to_vec();
        self.rewrite_excess(hash, &NewEntry { field, value: &value, expire_at_ms });
        true
    }

    /// As [`Table::collect_expired`], for entries outside the tree.
    #[cold]
    pub(super) fn collect_excess(
        &mut self,
        now_ms: i64,
        limit: usize,
        f: &mut impl FnMut(Entry<'_>),
    ) -> usize {
        let collected = self.edit_excess(|excess| {
            let mut collected = 0;
            while collected < limit
                && let Some(((at_ms, name), ())) = excess.due.first()
                && *at_ms <= now_ms
            {
                let name = name.clone();
                if let Some(content) = excess.take(&name) {
                    f(entry((&name, &content)));
                    collected += 1;
                }
            }
            collected
        });
        let collected = collected.unwrap_or(0);
        self.len -= collected;
        self.timed -= collected;
        self.earliest_expiry_ms = self.root.earliest_expiry::<K>().min(self.excess_expiry());
        self.free_empty_root();
        collected
    }

    /// A time before which no entry outside the tree expires.
    #[inline]
    pub(super) fn excess_expiry(&self) -> i64 {
        self.excess.as_ref().map_or(NO_EXPIRY, |excess| excess.earliest_expiry())
    }
}

#[cold]
#[inline(never)]
fn find<'a>(excess: &'a Excess, hash: u64, field: &[u8]) -> Option<Entry<'a>> {
    excess.get(&name(hash >> CURSOR_SHIFT, field))
}
