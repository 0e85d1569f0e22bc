//! Small items in an order that the caller knows, in pages, so that an insertion moves few of them.

use std::cmp::Ordering;

/// Most items of a page.
const PAGE: usize = if cfg!(test) { 8 } else { 512 };

/// Items in ascending order. Each call is given the order, which must be the same for all calls.
#[derive(Debug)]
pub struct Sorted<T> {
    pages: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Sorted { pages: Vec::new(), len: 0 }
    }
}

impl<T: Copy> Sorted<T> {
    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Vec<T>>()
            + self.pages.iter().map(|page| page.capacity() * size_of::<T>()).sum::<usize>()
    }

    /// The page and place of the first item that is not below, as `below` says.
    fn place(&self, below: impl Fn(&T) -> bool) -> (usize, usize) {
        let page = self.pages.partition_point(|page| page.last().is_some_and(&below));
        (page, self.pages.get(page).map_or(0, |items| items.partition_point(below)))
    }

    /// Adds `item`. `order` compares an item with it; an item that is equal is replaced, and returned.
    pub fn insert(&mut self, item: T, order: impl Fn(&T) -> Ordering) -> Option<T> {
        let (mut page, mut at) = self.place(|other| order(other) == Ordering::Less);
        if let Some(other) = self.pages.get_mut(page).and_then(|items| items.get_mut(at))
            && order(other) == Ordering::Equal
        {
            return Some(std::mem::replace(other, item));
        }
        if page == self.pages.len() {
            // Above all: behind the last item of the last page.
            match page.checked_sub(1) {
                Some(last) => (page, at) = (last, self.pages[last].len()),
                None => self.pages.push(Vec::new()),
            }
        }
        if self.pages[page].len() == PAGE {
            // A page that is only appended to is left full.
            let half = if at == PAGE { PAGE } else { PAGE / 2 };
            let upper = self.pages[page].split_off(half);
            self.pages[page].shrink_to_fit();
            self.pages.insert(page + 1, upper);
            if at > half || half == PAGE {
                (page, at) = (page + 1, at - half);
            }
        }
        self.pages[page].insert(at, item);
        self.len += 1;
        None
    }

    /// Takes out the item that `order` calls equal.
    pub fn remove(&mut self, order: impl Fn(&T) -> Ordering) -> Option<T> {
        let (page, at) = self.place(|other| order(other) == Ordering::Less);
        let items = self.pages.get_mut(page)?;
        if order(items.get(at)?) != Ordering::Equal {
            return None;
        }
        let item = items.remove(at);
        self.len -= 1;
        if items.is_empty() {
            self.pages.remove(page);
        } else if items.len() < PAGE / 4 {
            self.join(page);
        }
        Some(item)
    }

    /// Joins a small page with a neighbour, if both fit well into one.
    fn join(&mut self, page: usize) {
        let left = if page > 0 { page - 1 } else { page };
        if let [a, b, ..] = &mut self.pages[left..]
            && a.len() + b.len() <= PAGE / 4 * 3
        {
            a.append(b);
            self.pages.remove(left + 1);
        }
    }

    /// The item that `order` calls equal.
    pub fn get(&self, order: impl Fn(&T) -> Ordering) -> Option<&T> {
        let (page, at) = self.place(|other| order(other) == Ordering::Less);
        self.pages.get(page)?.get(at).filter(|item| order(item) == Ordering::Equal)
    }

    /// The items that are not below, as `below` says, ascending.
    pub fn from(&self, below: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
        let (page, at) = self.place(below);
        let first = self.pages.get(page).map_or(&[][..], |items| &items[at..]);
        let rest = self.pages.get(page + 1..).unwrap_or_default();
        first.iter().chain(rest.iter().flatten())
    }

    /// How many items are below, as `below` says.
    pub fn rank(&self, below: impl Fn(&T) -> bool) -> usize {
        let (page, at) = self.place(below);
        self.pages[..page].iter().map(Vec::len).sum::<usize>() + at
    }

    /// All items, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }

    /// Keeps the items of which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.pages.iter_mut().for_each(|page| page.retain(&mut keep));
        self.pages.retain(|page| !page.is_empty());
        self.len = self.pages.iter().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set_in_order() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        for _ in 0..40 {
            let mut sorted = Sorted::default();
            let mut model = BTreeSet::new();
            let (range, growth) = (1 + random.below(300), 1 + random.below(9));
            for _ in 0..600 {
                let item = random.below(range) as u32;
                if random.below(10) < growth {
                    assert_eq!(sorted.insert(item, |o: &u32| o.cmp(&item)).is_none(), model.insert(item));
                } else {
                    assert_eq!(sorted.remove(|o| o.cmp(&item)).is_some(), model.remove(&item));
                }
                assert_eq!(sorted.len(), model.len());
                assert_eq!(sorted.get(|o| o.cmp(&item)).is_some(), model.contains(&item));
                assert_eq!(sorted.rank(|o| *o < item), model.range(..item).count(), "seed {seed}");
            }
            assert!(sorted.iter().eq(model.iter()), "seed {seed}");
            let from = random.below(range) as u32;
            assert!(sorted.from(|o| *o < from).eq(model.range(from..)), "seed {seed}");
            sorted.retain(|o| o % 2 == 0);
            model.retain(|o| o % 2 == 0);
            assert!(sorted.iter().eq(model.iter()));
            assert_eq!(sorted.len(), model.len());
        }
    }

    #[test]
    fn what_is_appended_to_stays_full() {
        let mut sorted = Sorted::default();
        for item in 0..8 * PAGE {
            sorted.insert(item, |o: &usize| o.cmp(&item));
        }
        assert_eq!(sorted.pages.len(), 8);
    }
}
