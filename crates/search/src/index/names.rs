//! The terms of a whole index, or the tags of a field, in order and each once, by steps of bounded length.
//!
//! The walk holds some hundred names of each partition, and no lock between two steps. A name that is added
//! or removed between two steps may or may not be among those that the walk hands on.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::partition::Partition;
use super::postings::Layout;
use super::whole::Index;

/// The order in which RediSearch's tries have names: that of their bytes as numbers with a sign.
pub fn trie_order(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(|&byte| byte.cast_signed()).cmp(b.iter().map(|&byte| byte.cast_signed()))
}

/// Names that a step takes of a partition.
const CHUNK: usize = 256;

/// Which names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// The terms of all text fields, those of dead documents included until their collection.
    Terms,
    /// The tags of a field that live documents have.
    Tags(usize),
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Walk {
    names: Names,
    /// The greatest name so far.
    last: Option<Box<[u8]>>,
}

impl Walk {
    /// A walk that has not begun.
    pub fn new(names: Names) -> Walk {
        Walk { names, last: None }
    }

    /// Hands some names on, ascending; whether they were the last.
    pub fn step(&mut self, index: &Index, each: &mut impl FnMut(&[u8])) -> bool {
        let mut found = BTreeSet::new();
        // Beyond this name a partition may have more than it was asked for.
        let mut end: Option<Box<[u8]>> = None;
        for partition in (0..index.partitions()).filter_map(|number| index.partition(number)) {
            let stopped = self.take(&partition, &mut found);
            if let Some(stopped) = stopped
                && end.as_ref().is_none_or(|end| stopped < *end)
            {
                end = Some(stopped);
            }
        }
        let names = found.iter().take_while(|name| end.as_ref().is_none_or(|end| *name <= end));
        names.for_each(|name| each(name));
        let is_done = end.is_none();
        self.last = end;
        is_done
    }

    /// Takes the next names of a partition; the name at which it stopped, if there are more.
    fn take(&self, partition: &Partition, found: &mut BTreeSet<Box<[u8]>>) -> Option<Box<[u8]>> {
        let (dictionary, needs_life) = match self.names {
            Names::Terms => (partition.terms(), false),
            Names::Tags(field) => (partition.tags(field)?, true),
        };
        let last = self.last.as_deref();
        let next = dictionary.from(last.unwrap_or_default()).filter(|(name, _)| last != Some(*name));
        for (at, (name, number)) in next.enumerate() {
            let is_there = !needs_life
                || dictionary.at(number).is_some_and(|(_, tag)| partition.has_live(Layout::IDS, tag));
            if is_there {
                found.insert(name.into());
            }
            if at + 1 >= CHUNK {
                return Some(name.into());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
