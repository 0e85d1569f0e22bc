//! The numbers of a field: by document in a column, and in order for ranges that few documents are in.

use std::collections::VecDeque;
use std::ops::Bound;

use hashbrown::HashMap;

use super::DocId;
use super::bits::{Bits, WINDOW};
use super::documents::PAGE;
use super::sorted::Sorted;

/// Values of a page of the column; those of ids without one are NaN.
type Values = Box<[f64]>;

/// So many documents of a word of a window are looked at one by one, more of them all together.
const FEW_OF_A_WORD: u32 = 12;

/// A range of numbers.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Range {
    /// The lower end.
    pub min: Bound<f64>,
    /// The upper end.
    pub max: Bound<f64>,
}

impl Range {
    /// Whether a number is in it.
    #[inline(always)]
    pub fn has(&self, value: f64) -> bool {
        let above = match self.min {
            Bound::Included(min) => value >= min,
            Bound::Excluded(min) => value > min,
            Bound::Unbounded => true,
        };
        let below = match self.max {
            Bound::Included(max) => value <= max,
            Bound::Excluded(max) => value < max,
            Bound::Unbounded => true,
        };
        above & below
    }

    /// The least and the greatest number in it.
    fn ends(&self) -> (f64, f64) {
        let least = match self.min {
            Bound::Included(min) => min,
            Bound::Excluded(min) => min.next_up(),
            Bound::Unbounded => f64::NEG_INFINITY,
        };
        let greatest = match self.max {
            Bound::Included(max) => max,
            Bound::Excluded(max) => max.next_down(),
            Bound::Unbounded => f64::INFINITY,
        };
        (least, greatest)
    }

    fn is_above(&self, value: f64) -> bool {
        match self.min {
            Bound::Included(min) => value < min,
            Bound::Excluded(min) => value <= min,
            Bound::Unbounded => false,
        }
    }

    fn ends_before(&self, value: f64) -> bool {
        match self.max {
            Bound::Included(max) => value > max,
            Bound::Excluded(max) => value >= max,
            Bound::Unbounded => false,
        }
    }
}

/// See the [module docs](self). No value is NaN.
#[derive(Debug, Default)]
pub struct Numbers {
    order: Sorted<(f64, DocId)>,
    column: VecDeque<Option<Values>>,
    /// The number of the column's first page.
    first: u64,
    /// Documents with more than one value: the column has the first.
    several: HashMap<DocId, Box<[f64]>>,
}

fn compare(a: &(f64, DocId), b: &(f64, DocId)) -> std::cmp::Ordering {
    // -0 and 0 are one number.
    (a.0 + 0.0).total_cmp(&(b.0 + 0.0)).then(a.1.cmp(&b.1))
}

impl Numbers {
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no document has a value.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Pages of values in order.
    pub fn blocks(&self) -> usize {
        self.order.pages()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.order.heap_bytes()
            + self.column.capacity() * size_of::<Option<Values>>()
            + self.column.iter().flatten().count() * PAGE * size_of::<f64>()
            + self.several.capacity() * size_of::<(DocId, Box<[f64]>)>()
            + self.several.values().map(|values| size_of_val(&**values)).sum::<usize>()
    }

    /// Adds a document's values; its id is above all others.
    pub fn add(&mut self, id: DocId, values: &[f64]) {
        let Some(&value) = values.first() else { return };
        let page = id / PAGE as u64;
        if self.column.is_empty() {
            self.first = page;
        }
        let index = (page - self.first) as usize;
        if index >= self.column.len() {
            self.column.resize_with(index + 1, || None);
        }
        let column = self.column[index].get_or_insert_with(|| vec![f64::NAN; PAGE].into_boxed_slice());
        column[id as usize % PAGE] = value;
        if values.len() > 1 {
            self.several.insert(id, values.into());
        }
        for &value in values {
            self.order.insert((value, id), |other| compare(other, &(value, id)));
        }
    }

    /// Takes a document's values out.
    pub fn remove(&mut self, id: DocId) {
        let index = (id / PAGE as u64).wrapping_sub(self.first) as usize;
        let Some(Some(page)) = self.column.get_mut(index) else { return };
        let value = std::mem::replace(&mut page[id as usize % PAGE], f64::NAN);
        if value.is_nan() {
            return;
        }
        let values = self.several.remove(&id).unwrap_or_else(|| Box::new([value]));
        for value in values {
            self.order.remove(|other| compare(other, &(value, id)));
        }
    }

    /// Drops the pages of ids below `first`, all of which are dead.
    pub fn drop_pages(&mut self, first: DocId) {
        while self.first < first / PAGE as u64 && self.column.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// The document's values.
    pub fn get(&self, id: DocId) -> impl Iterator<Item = f64> + '_ {
        let index = (id / PAGE as u64).wrapping_sub(self.first) as usize;
        let value = self.column.get(index).and_then(Option::as_ref).map(|page| page[id as usize % PAGE]);
        let first = value.filter(|value| !value.is_nan());
        let rest = if self.several.is_empty() { None } else { self.several.get(&id) };
        first.into_iter().chain(rest.into_iter().flat_map(|values| values.iter().skip(1).copied()))
    }

    /// How many values are in a range.
    pub fn count(&self, range: &Range) -> usize {
        let below = self.order.rank(|&(value, _)| range.is_above(value));
        self.order.rank(|&(value, _)| !range.ends_before(value)).saturating_sub(below)
    }

    /// The documents with a value in a range, in no order; one with several such values comes several times.
    pub fn ids(&self, range: Range) -> impl Iterator<Item = DocId> + '_ {
        self.order
            .from(move |&(value, _)| range.is_above(value))
            .take_while(move |&&(value, _)| !range.ends_before(value))
            .map(|&(_, id)| id)
    }

    /// Adds to `window` the documents in it with a value in a range. Of documents that are not in `wanted`
    /// any may be left out.
    pub fn fill(&self, range: &Range, wanted: &Bits, window: &mut Bits) {
        let (least, greatest) = range.ends();
        let has = |value: f64| (value >= least) & (value <= greatest);
        for page in 0..WINDOW / PAGE {
            let base = window.base() + (page * PAGE) as u64;
            let index = (base / PAGE as u64).wrapping_sub(self.first) as usize;
            let Some(Some(values)) = self.column.get(index) else { continue };
            let mut words = [0u64; PAGE / 64];
            let wanted = &wanted.words()[page * PAGE / 64..][..PAGE / 64];
            for ((word, values), &wanted) in words.iter_mut().zip(values.chunks_exact(64)).zip(wanted) {
                if wanted.count_ones() <= FEW_OF_A_WORD {
                    let mut rest = wanted;
                    while rest != 0 {
                        let bit = rest.trailing_zeros();
                        *word |= u64::from(has(values[bit as usize])) << bit;
                        rest &= rest - 1;
                    }
                } else {
                    for (bit, &value) in values.iter().enumerate() {
                        *word |= u64::from(has(value)) << bit;
                    }
                }
            }
            window.insert_words(page * PAGE / 64, &words);
        }
        for (&id, values) in &self.several {
            if window.covers(id) && values.iter().any(|&value| range.has(value)) {
                window.insert(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn bound(random: &mut Random) -> Bound<f64> {
        let value = random.below(60) as f64 / 2.0 - 3.0;
        match random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(value),
            3 => Bound::Excluded(value),
            _ => Bound::Included(f64::INFINITY),
        }
    }

    fn ids_of(numbers: &Numbers, range: Range) -> impl Iterator<Item = DocId> + '_ {
        numbers.ids(range)
    }

    #[test]
    fn ranges_have_what_a_scan_has() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        for _ in 0..15 {
            let mut numbers = Numbers::default();
            let mut model = BTreeMap::<DocId, Vec<f64>>::new();
            let mut id = random.below(5_000);
            for _ in 0..600 {
                id += 1 + random.below(60);
                let count = 1 + random.below(4) * u64::from(random.below(10) == 0);
                let values: Vec<f64> = (0..count).map(|_| random.below(50) as f64 / 2.0 - 2.0).collect();
                numbers.add(id, &values);
                model.insert(id, values);
                if random.below(3) == 0 {
                    let gone = *model.keys().nth(random.below(model.len() as u64) as usize).unwrap();
                    numbers.remove(gone);
                    model.remove(&gone);
                }
            }
            let first = *model.keys().next().unwrap();
            numbers.drop_pages(first);
            for (&id, values) in &model {
                assert!(numbers.get(id).eq(values.iter().copied()), "seed {seed}");
            }
            for _ in 0..20 {
                let range = Range { min: bound(&mut random), max: bound(&mut random) };
                let wanted: BTreeSet<DocId> = model
                    .iter()
                    .filter(|(_, v)| v.iter().any(|&v| range.has(v)))
                    .map(|(&id, _)| id)
                    .collect();
                let found: BTreeSet<DocId> = numbers.ids(range).collect();
                assert_eq!(found, wanted, "seed {seed} {range:?}");
                assert_eq!(numbers.count(&range), numbers.ids(range).count(), "seed {seed} {range:?}");
                let mut filled = BTreeSet::new();
                for base in (0..=id).step_by(WINDOW) {
                    let mut window = Bits::empty(base);
                    let mut wanted = Bits::empty(base);
                    wanted.or(&Bits::full(base));
                    let few = random.below(3) == 0;
                    wanted.retain(|_| !few || random.below(20) == 0);
                    numbers.fill(&range, &wanted, &mut window);
                    window.and(&wanted);
                    let all = ids_of(&numbers, range).filter(|id| wanted.contains(*id));
                    assert!(all.collect::<BTreeSet<_>>().into_iter().eq(window.iter()), "seed {seed}");
                    filled.extend(window.iter());
                    filled.extend(ids_of(&numbers, range).filter(|id| window.covers(*id)));
                }
                assert_eq!(filled, wanted, "seed {seed} {range:?}");
            }
        }
    }
}
