//! A node: up to some hundred entries in one block.
//!
//! ```text
//! names of the first entry's fields │ entry │ entry │ …
//! entry: twice the number of its further bytes, +1 if it has its own names │ ms │ seq │ then
//!   names are those of the first entry:  value …
//!   others:                              count │ name │ value │ …
//! ```
//!
//! Numbers are LEB128; names and values are packed elements. `ms` is counted from the first entry's, and so
//! is `seq` within the same millisecond. An entry that is removed leaves nothing behind but its place in
//! `deleted` and `listpack_bytes`, which decide when the node is full, as Redis counts.

use crate::element::Element;
use crate::packed::encoding::{Encoded, decode_at};
use crate::packed::listpack::entry_bytes;
use crate::stream::Id;

/// Bytes of a listpack without elements, in Redis.
const LISTPACK_EMPTY_BYTES: usize = 7;

#[derive(Clone)]
pub(super) struct Node {
    /// The first entry's id, even if it has been removed.
    pub master: Id,
    /// The highest id that was added.
    pub last: Id,
    /// Entries.
    pub count: u32,
    /// Entries that have been removed.
    pub deleted: u32,
    name_count: u32,
    names_len: u32,
    /// Bytes of names and entries in Redis' listpack, the removed ones included.
    listpack_bytes: u32,
    bytes: Vec<u8>,
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number at `at`, and where the next thing is.
#[inline(always)]
fn number_at(bytes: &[u8], mut at: usize) -> (u64, usize) {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[at];
        number |= u64::from(byte & 0x7f) << shift;
        at += 1;
        if byte <= 0x7f {
            return (number, at);
        }
        shift += 7;
    }
}

#[inline]
fn put_element(out: &mut Vec<u8>, element: Element<'_>) -> usize {
    let code = Encoded::new(element);
    out.extend_from_slice(code.head());
    martlet_base::copy::extend(out, code.body);
    entry_bytes(code.size(), code.head()[0])
}

/// Bytes of an integer in a listpack.
fn int_bytes(int: i64) -> usize {
    let code = Encoded::new(Element::Int(int));
    entry_bytes(code.size(), code.head()[0])
}

impl Node {
    /// A node for entries from this one on, whose names are those of all that have the same.
    pub fn new<'a>(master: Id, names: impl ExactSizeIterator<Item = Element<'a>>) -> Node {
        let name_count = names.len() as u32;
        let mut bytes = Vec::new();
        let names_bytes: usize = names.map(|name| put_element(&mut bytes, name)).sum();
        let listpack_bytes = names_bytes + int_bytes(i64::from(name_count)) + int_bytes(0);
        Node {
            master,
            last: master,
            count: 0,
            deleted: 0,
            name_count,
            names_len: bytes.len() as u32,
            listpack_bytes: listpack_bytes as u32,
            bytes,
        }
    }

    /// Bytes that a listpack of Redis' with these entries, and those that were removed, has.
    pub fn listpack_bytes(&self) -> usize {
        let counts = int_bytes(i64::from(self.count)) + int_bytes(i64::from(self.deleted));
        LISTPACK_EMPTY_BYTES + counts + self.listpack_bytes as usize
    }

    /// Bytes that are allocated.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Node>() + size_of::<usize>() + self.bytes.capacity()
    }

    /// Gives back the bytes allocated for further entries.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Adds an entry, whose id is above all others.
    pub fn push<'a, F>(&mut self, id: Id, fields: F)
    where
        F: ExactSizeIterator<Item = (Element<'a>, Element<'a>)> + Clone,
    {
        let has_own_names = !self.has_names(fields.clone());
        let start = self.bytes.len();
        // Most entries are so short that their length takes one byte.
        self.bytes.push(0);
        let same_ms = id.ms == self.master.ms;
        put_number(&mut self.bytes, id.ms - self.master.ms);
        put_number(&mut self.bytes, if same_ms { id.seq - self.master.seq } else { id.seq });
        let count = fields.len();
        let mut listpack = int_bytes(i64::from(!has_own_names) * 2)
            + int_bytes((id.ms - self.master.ms) as i64)
            + int_bytes(id.seq.wrapping_sub(self.master.seq) as i64);
        if has_own_names {
            put_number(&mut self.bytes, count as u64);
            listpack += int_bytes(count as i64) + int_bytes(count as i64 * 2 + 4);
        } else {
            listpack += int_bytes(count as i64 + 3);
        }
        for (name, value) in fields {
            if has_own_names {
                listpack += put_element(&mut self.bytes, name);
            }
            listpack += put_element(&mut self.bytes, value);
        }
        self.set_length(start, has_own_names);
        self.listpack_bytes = self.listpack_bytes.saturating_add(listpack as u32);
        self.count += 1;
        self.last = id;
    }

    /// Writes the length of the last entry, for which there is one byte.
    fn set_length(&mut self, start: usize, has_own_names: bool) {
        let len = self.bytes.len() - start - 1;
        let number = (len as u64) << 1 | u64::from(has_own_names);
        let more = (u64::BITS - number.leading_zeros()).div_ceil(7).saturating_sub(1) as usize;
        if more > 0 {
            self.bytes.resize(start + 1 + len + more, 0);
            self.bytes.copy_within(start + 1..start + 1 + len, start + 1 + more);
        }
        for (at, place) in self.bytes.iter_mut().skip(start).take(more + 1).enumerate() {
            let is_last = at == more;
            *place = (number >> (7 * at)) as u8 & 0x7f | if is_last { 0 } else { 0x80 };
        }
    }

    /// Whether the names are those of the first entry, in the same order.
    #[inline]
    fn has_names<'a>(&self, fields: impl ExactSizeIterator<Item = (Element<'a>, Element<'a>)>) -> bool {
        if fields.len() != self.name_count as usize {
            return false;
        }
        let mut rest = self.names();
        for (name, _) in fields {
            let code = Encoded::new(name);
            if !code.is_at(rest) {
                return false;
            }
            rest = &rest[code.size()..];
        }
        true
    }

    fn names(&self) -> &[u8] {
        &self.bytes[..self.names_len as usize]
    }

    /// The names of the first entry's fields.
    pub fn master_names(&self) -> impl Iterator<Item = Element<'_>> {
        let mut rest = self.names();
        std::iter::from_fn(move || take_element(&mut rest))
    }

    /// Number of the first entry's fields.
    pub fn master_name_count(&self) -> usize {
        self.name_count as usize
    }

    /// The entries, in order.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        Entries { node: self, at: self.names_len as usize }
    }

    /// The entry at a place from [`Entries::at`].
    #[inline]
    pub fn entry_at(&self, at: usize) -> Option<Entry<'_>> {
        Entries { node: self, at }.next()
    }

    /// Removes the entry with this id; whether there was one.
    pub fn remove(&mut self, id: Id) -> bool {
        let Some(place) = self.place_of(id) else { return false };
        self.bytes.drain(place);
        self.count -= 1;
        self.deleted += 1;
        true
    }

    /// Whether there is an entry with this id.
    pub fn contains(&self, id: Id) -> bool {
        self.place_of(id).is_some()
    }

    fn place_of(&self, id: Id) -> Option<std::ops::Range<usize>> {
        let mut entries = self.entries();
        loop {
            let start = entries.at;
            let entry = entries.next()?;
            if entry.id == id {
                return Some(start..entries.at);
            }
            if entry.id > id {
                return None;
            }
        }
    }

    /// Removes entries, asked for each from the first on what becomes of it, given how many have gone; how
    /// many.
    pub fn remove_where(&mut self, mut fate: impl FnMut(u32, Id) -> Fate) -> u32 {
        let start = self.names_len as usize;
        let (mut kept, mut at, mut removed) = (start, start, 0);
        loop {
            let mut entries = Entries { node: self, at };
            let Some(id) = entries.next().map(|entry| entry.id) else { break };
            let end = entries.at;
            match fate(removed, id) {
                Fate::Removed => removed += 1,
                Fate::Kept if kept == at => kept = end,
                Fate::Kept => {
                    self.bytes.copy_within(at..end, kept);
                    kept += end - at;
                }
                Fate::KeptWithAllAfter => break,
            }
            at = end;
        }
        self.bytes.drain(kept..at);
        self.count -= removed;
        self.deleted += removed;
        removed
    }
}

/// What becomes of an entry.
pub(super) enum Fate {
    Kept,
    KeptWithAllAfter,
    Removed,
}

fn take_element<'a>(rest: &mut &'a [u8]) -> Option<Element<'a>> {
    if rest.is_empty() {
        return None;
    }
    let (element, size) = decode_at(rest, 0);
    *rest = &rest[size..];
    Some(element)
}

/// A node's entries.
pub(super) struct Entries<'a> {
    node: &'a Node,
    /// Where the next one is.
    pub at: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let (node, bytes) = (self.node, self.node.bytes.as_slice());
        if self.at >= bytes.len() {
            return None;
        }
        let (length, at) = number_at(bytes, self.at);
        let has_own_names = length & 1 == 1;
        self.at = at + (length >> 1) as usize;
        let (ms, at) = number_at(bytes, at);
        let (seq, at) = number_at(bytes, at);
        let (ms, seq) = (node.master.ms + ms, if ms == 0 { node.master.seq + seq } else { seq });
        let (count, at) = if has_own_names { number_at(bytes, at) } else { (u64::from(node.name_count), at) };
        let names = (!has_own_names).then(|| node.names());
        let fields = Fields { names, rest: &bytes[at..self.at], left: count as usize };
        Some(Entry { id: Id { ms, seq }, fields })
    }
}

/// An entry.
#[derive(Clone)]
pub struct Entry<'a> {
    /// Its id.
    pub id: Id,
    /// Names and values.
    pub fields: Fields<'a>,
}

/// Names and values of an entry.
#[derive(Clone)]
pub struct Fields<'a> {
    /// The names, if they are those of the node's first entry.
    names: Option<&'a [u8]>,
    /// Values, or names and values.
    rest: &'a [u8],
    left: usize,
}

impl Fields<'_> {
    /// Whether the names are those of the node's first entry.
    pub fn has_master_names(&self) -> bool {
        self.names.is_some()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Element<'a>, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let name = take_element(self.names.as_mut().unwrap_or(&mut self.rest))?;
        let value = take_element(&mut self.rest)?;
        self.left -= 1;
        Some((name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}
