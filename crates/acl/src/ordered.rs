//! `Ordered`: names with values, each name once, in the order in which they were given.
//!
//! Adding, finding and removing one costs O(log n): a user may be given a hundred thousand rules in one
//! request.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub(crate) struct Ordered<N, V> {
    /// With the number of the entry, by which they are in order.
    by_name: BTreeMap<N, (u64, V)>,
    next: u64,
}

impl<N: Ord, V> Ordered<N, V> {
    pub fn new() -> Ordered<N, V> {
        Ordered { by_name: BTreeMap::new(), next: 0 }
    }

    /// The value of a name; `value`, at the end of the order, if there was none.
    pub fn get_or_add(&mut self, name: N, value: V) -> &mut V {
        let next = self.next;
        self.next += 1;
        &mut self.by_name.entry(name).or_insert((next, value)).1
    }

    pub fn has<Q: Ord + ?Sized>(&self, name: &Q) -> bool
    where
        N: Borrow<Q>,
    {
        self.by_name.contains_key(name)
    }

    /// Whether there was such a name.
    pub fn remove<Q: Ord + ?Sized>(&mut self, name: &Q) -> bool
    where
        N: Borrow<Q>,
    {
        self.by_name.remove(name).is_some()
    }

    /// Removes the names in a range of their own order.
    pub fn remove_range<R: RangeBounds<N>>(&mut self, range: R)
    where
        N: Clone,
    {
        let names: Vec<N> = self.by_name.range(range).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.by_name.remove(&name);
        }
    }

    pub fn clear(&mut self) {
        self.by_name.clear();
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&N, &V)> {
        self.by_name.iter().map(|(name, (_, value))| (name, value))
    }

    /// All of them, in the order in which they were given.
    pub fn in_order(&self) -> impl Iterator<Item = (&N, &V)> {
        let mut all: Vec<_> = self.by_name.iter().collect();
        all.sort_unstable_by_key(|(_, (number, _))| *number);
        all.into_iter().map(|(name, (_, value))| (name, value))
    }
}

impl<N: Ord, V: PartialEq> PartialEq for Ordered<N, V> {
    fn eq(&self, other: &Ordered<N, V>) -> bool {
        self.in_order().eq(other.in_order())
    }
}

impl<N: Ord, V: Eq> Eq for Ordered<N, V> {}
