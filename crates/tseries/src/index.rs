//! `LabelIndex`: from labels to the series that have them.
//!
//! Each pair of a name and a value is kept once, with the ordered set of the series that have it; a series
//! keeps the numbers of its pairs, so that it can be removed without telling its labels. Sets are
//! [`OrderedMap`]s: a clone of the index's sets is cheap, and a walk can go on after any series.
//!
//! Invariant: a series is in the set of a pair if and only if the pair is one of the series'; a pair or a
//! name without series does not exist.

use hashbrown::HashMap;
use martlet_types::ordered::OrderedMap;
use martlet_types::size_class::allocated_bytes;

use crate::filter::{Condition, Filter, Predicate};

/// A set of series, by number.
type Ids = OrderedMap<u64, ()>;

/// A name and a value, and the series that have them.
#[derive(Clone, Debug)]
struct Pair {
    name: Box<[u8]>,
    value: Box<[u8]>,
    ids: Ids,
}

/// The values of a name.
#[derive(Clone, Debug, Default)]
struct Name {
    /// The pairs of its values.
    values: HashMap<Box<[u8]>, u32>,
    /// Series that have it with any value.
    ids: Ids,
}

/// See the [module docs](self).
#[derive(Clone, Debug, Default)]
pub struct LabelIndex {
    names: HashMap<Box<[u8]>, Name>,
    pairs: Vec<Option<Pair>>,
    /// Places in `pairs` that are free.
    free: Vec<u32>,
    /// The pairs of each series.
    series: HashMap<u64, Box<[u32]>>,
}

impl LabelIndex {
    /// An empty index.
    pub fn new() -> LabelIndex {
        LabelIndex::default()
    }

    /// Number of series that have labels.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether no series has labels.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Sets the labels of a series, in the place of those that it had.
    pub fn insert<'a>(&mut self, id: u64, labels: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) {
        self.remove(id);
        let mut pairs: Vec<u32> = labels.into_iter().map(|(name, value)| self.pair(name, value)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for place in &pairs {
            if let Some(Some(pair)) = self.pairs.get_mut(*place as usize) {
                pair.ids.insert(id, ());
                if let Some(name) = self.names.get_mut(&pair.name) {
                    name.ids.insert(id, ());
                }
            }
        }
        if !pairs.is_empty() {
            self.series.insert(id, pairs.into());
        }
    }

    /// The place of a pair, which is made if need be.
    fn pair(&mut self, name: &[u8], value: &[u8]) -> u32 {
        let known = self.names.get(name).and_then(|known| known.values.get(value));
        if let Some(place) = known {
            return *place;
        }
        let pair = Pair { name: name.into(), value: value.into(), ids: Ids::new() };
        let place = match self.free.pop() {
            Some(place) => {
                self.pairs[place as usize] = Some(pair);
                place
            }
            None => {
                self.pairs.push(Some(pair));
                // Pairs are bounded by memory: each takes far more than the byte that 2^32 of them could.
                (self.pairs.len() - 1) as u32
            }
        };
        self.names.entry(name.into()).or_default().values.insert(value.into(), place);
        place
    }

    /// Forgets a series: whether it was known.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some(places) = self.series.remove(&id) else { return false };
        for place in places {
            let Some(slot) = self.pairs.get_mut(place as usize) else { continue };
            let Some(pair) = slot else { continue };
            pair.ids.remove(&id);
            let is_empty = pair.ids.is_empty();
            if let Some(name) = self.names.get_mut(&pair.name) {
                // A series may have a name twice: it goes with the first pair, and again without harm.
                name.ids.remove(&id);
                if is_empty {
                    name.values.remove(&pair.value);
                }
                if name.values.is_empty() {
                    self.names.remove(&pair.name);
                }
            }
            if is_empty {
                *slot = None;
                self.free.push(place);
            }
        }
        true
    }

    /// Forgets all series.
    pub fn clear(&mut self) {
        *self = LabelIndex::default();
    }

    /// Labels of a series, in no particular order.
    pub fn labels(&self, id: u64) -> impl Iterator<Item = (&[u8], &[u8])> {
        let places = self.series.get(&id).map(|places| &**places).unwrap_or_default();
        let pairs = places.iter().filter_map(|place| self.pairs.get(*place as usize)?.as_ref());
        pairs.map(|pair| (&*pair.name, &*pair.value))
    }

    /// All names of labels (TS.QUERYLABELS LABELS), in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.keys().map(|name| &**name)
    }

    /// All values of a label (TS.QUERYLABELS VALUES), in no particular order.
    pub fn values(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.names.get(name).into_iter().flat_map(|name| name.values.keys().map(|value| &**value))
    }

    fn ids(&self, name: &Name, value: &[u8]) -> Option<&Ids> {
        let place = name.values.get(value)?;
        Some(&self.pairs.get(*place as usize)?.as_ref()?.ids)
    }

    /// The sets of series that a predicate names, whether it wants them or not.
    fn sets<'a>(&'a self, predicate: &'a Predicate) -> Vec<&'a Ids> {
        let Some(name) = self.names.get(&predicate.label) else { return Vec::new() };
        match &predicate.condition {
            Condition::In(values) | Condition::NotIn(values) => {
                values.iter().filter_map(|value| self.ids(name, value)).collect()
            }
            Condition::Exists | Condition::Missing => vec![&name.ids],
        }
    }

    /// The series that a filter admits, each once, beginning with the predicate that names the fewest.
    pub fn matches<'a>(&'a self, filter: &'a Filter) -> Matches<'a> {
        let mut tests: Vec<Test<'a>> = filter
            .predicates()
            .iter()
            .map(|predicate| {
                let sets = self.sets(predicate);
                let cost = sets.iter().map(|ids| ids.len()).sum();
                let is_wanted = matches!(predicate.condition, Condition::In(_) | Condition::Exists);
                Test { sets, is_wanted, cost }
            })
            .collect();
        // Those that want something first: the smallest of them is walked, the others are asked, first those
        // that are the most likely to say no.
        tests.sort_by_key(|test| (!test.is_wanted, test.cost));
        let walked = if tests.is_empty() { Vec::new() } else { tests.remove(0).sets };
        Matches { walked, tests, set: 0, after: None }
    }

    /// Bytes that the allocator has given.
    pub fn heap_bytes(&self) -> usize {
        let table = |entries: usize, entry: usize| allocated_bytes(entries * (entry + 1));
        let names = table(self.names.capacity(), size_of::<(Box<[u8]>, Name)>());
        let of_names = self.names.iter().map(|(text, name)| {
            let values = name.values.keys().map(|value| allocated_bytes(value.len())).sum::<usize>();
            let values = values + table(name.values.capacity(), size_of::<(Box<[u8]>, u32)>());
            allocated_bytes(text.len()) + values + name.ids.heap_bytes()
        });
        let of_pairs = self.pairs.iter().flatten().map(|pair| {
            allocated_bytes(pair.name.len()) + allocated_bytes(pair.value.len()) + pair.ids.heap_bytes()
        });
        let of_series = self.series.values().map(|places| allocated_bytes(places.len() * size_of::<u32>()));
        names
            + of_names.sum::<usize>()
            + allocated_bytes(self.pairs.capacity() * size_of::<Option<Pair>>())
            + of_pairs.sum::<usize>()
            + allocated_bytes(self.free.capacity() * size_of::<u32>())
            + table(self.series.capacity(), size_of::<(u64, Box<[u32]>)>())
            + of_series.sum::<usize>()
    }
}

/// A predicate as sets of series.
struct Test<'a> {
    sets: Vec<&'a Ids>,
    is_wanted: bool,
    cost: usize,
}

/// The series that a filter admits; see [`LabelIndex::matches`].
pub struct Matches<'a> {
    walked: Vec<&'a Ids>,
    tests: Vec<Test<'a>>,
    set: usize,
    /// The last series of the set that was looked at.
    after: Option<u64>,
}

impl Matches<'_> {
    /// The position of the walk, for [`resume`](Matches::resume).
    pub fn position(&self) -> (usize, Option<u64>) {
        (self.set, self.after)
    }

    /// Continues at the position of another walk of the same filter.
    pub fn resume(&mut self, position: (usize, Option<u64>)) {
        (self.set, self.after) = position;
    }

    /// Looks at up to `budget` series and appends those that are admitted: true when all have been looked at.
    pub fn step(&mut self, mut budget: usize, found: &mut Vec<u64>) -> bool {
        while let Some(ids) = self.walked.get(self.set) {
            let from = match self.after {
                None => Some(0),
                Some(after) => after.checked_add(1),
            };
            for id in from.into_iter().flat_map(|from| ids.iter_from(&from)).map(|(id, ())| *id) {
                if budget == 0 {
                    return false;
                }
                budget -= 1;
                self.after = Some(id);
                // A series with a label twice may be in two of the sets: the first one has it.
                let is_known = self.walked[..self.set].iter().any(|ids| ids.get(&id).is_some());
                if !is_known && self.tests.iter().all(|test| test.admits(id)) {
                    found.push(id);
                }
            }
            (self.set, self.after) = (self.set + 1, None);
        }
        true
    }

    /// All series that are admitted.
    pub fn collect(mut self) -> Vec<u64> {
        let mut found = Vec::new();
        self.step(usize::MAX, &mut found);
        found
    }
}

impl Test<'_> {
    fn admits(&self, id: u64) -> bool {
        self.sets.iter().any(|ids| ids.get(&id).is_some()) == self.is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;
    use std::collections::BTreeMap;

    type Model = BTreeMap<u64, Vec<(Vec<u8>, Vec<u8>)>>;

    fn text(random: &mut Random, of: &[u8]) -> Vec<u8> {
        vec![of[random.below(of.len() as u64) as usize]]
    }

    fn expression(random: &mut Random) -> Vec<u8> {
        let mut text_of = |of: &[u8]| text(random, of);
        let (label, one, other) = (text_of(b"abcd"), text_of(b"wxyz"), text_of(b"wxyz"));
        let values = match random.below(4) {
            0 => Vec::new(),
            1 => [b"(", &one[..], b",", &other[..], b")"].concat(),
            2 => b"()".to_vec(),
            _ => one,
        };
        let operator: &[u8] = if random.below(3) == 0 { b"!=" } else { b"=" };
        [&label[..], operator, &values[..]].concat()
    }

    fn check(index: &LabelIndex, model: &Model) {
        assert_eq!(index.len(), model.len());
        assert_eq!(index.pairs.iter().flatten().count() + index.free.len(), index.pairs.len());
        let mut names: Vec<&[u8]> = model.values().flatten().map(|(name, _)| &name[..]).collect();
        names.sort_unstable();
        names.dedup();
        let mut found: Vec<&[u8]> = index.names().collect();
        found.sort_unstable();
        assert_eq!(found, names);
        for name in names {
            let labels = model.values().flatten().filter(|(other, _)| other == name);
            let mut values: Vec<&[u8]> = labels.map(|(_, value)| &value[..]).collect();
            values.sort_unstable();
            values.dedup();
            let mut found: Vec<&[u8]> = index.values(name).collect();
            found.sort_unstable();
            assert_eq!(found, values);
        }
    }

    #[test]
    fn a_filter_finds_what_a_scan_finds() {
        let seed = 0x0069_6e64_6578;
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let (mut index, mut model) = (LabelIndex::new(), Model::new());
        for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
            let id = random.below(60);
            if random.below(3) == 0 {
                assert_eq!(index.remove(id), model.remove(&id).is_some());
            } else {
                let count = random.below(4);
                let labels: Vec<_> =
                    (0..count).map(|_| (text(&mut random, b"abcd"), text(&mut random, b"wxyz"))).collect();
                index.insert(id, labels.iter().map(|(name, value)| (&name[..], &value[..])));
                if labels.is_empty() {
                    model.remove(&id)
                } else {
                    model.insert(id, labels)
                };
            }
            let count = 1 + random.below(3);
            let expressions: Vec<Vec<u8>> = (0..count).map(|_| expression(&mut random)).collect();
            let Ok(filter) = Filter::parse(expressions.iter().map(|expression| &expression[..])) else {
                continue;
            };
            let labels_of = |labels: &Vec<(Vec<u8>, Vec<u8>)>| {
                filter.admits(labels.iter().map(|(name, value)| (&name[..], &value[..])))
            };
            let expected: Vec<u64> =
                model.iter().filter(|(_, labels)| labels_of(labels)).map(|(id, _)| *id).collect();
            let mut found = index.matches(&filter).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{expressions:?}");
            // In slices, beginning again at each.
            let (mut sliced, mut position) = (Vec::new(), (0, None));
            loop {
                let mut matches = index.matches(&filter);
                matches.resume(position);
                if matches.step(1 + random.below(5) as usize, &mut sliced) {
                    break;
                }
                position = matches.position();
            }
            sliced.sort_unstable();
            assert_eq!(sliced, expected);
        }
        check(&index, &model);
        let ids: Vec<u64> = model.keys().copied().collect();
        assert!(ids.iter().all(|id| index.labels(*id).count() > 0 && index.remove(*id)));
        check(&index, &Model::new());
        assert_eq!(index.pairs.len(), index.free.len());
    }
}
