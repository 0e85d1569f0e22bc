//! The reducers of GROUPBY. The states of all groups lie side by side, so that a batch of rows goes through
//! one loop for each reducer.

mod bind;
mod quantile;
mod sketch;

pub(super) use bind::Kind;

use super::batch::Batch;
use super::expression::Slot;
use super::key::{hash_value, is_same};
use super::value::Value;
use hashbrown::{HashSet, HashTable};
use martlet_base::random::Random;
use quantile::Quantiles;
use sketch::Sketch;

/// A row of a batch, and the group that it belongs to.
pub(super) type Member = (u32, u32);

/// A reducer with its states.
#[derive(Debug)]
pub(super) struct Reducer {
    kind: Kind,
    /// Whether a least or greatest number may be infinite: it is one of several.
    keeps_infinite: bool,
    states: States,
    random: Random,
    /// Bytes on the heap beyond the states themselves.
    bytes: usize,
}

/// The states, one for each group.
#[derive(Debug)]
enum States {
    Counts(Vec<u64>),
    Sums(Vec<Sum>),
    Numbers(Vec<f64>),
    Deviations(Vec<Deviation>),
    Quantiles(Vec<Quantiles>),
    Distinct(Vec<HashSet<u64>>),
    Sketches(Vec<Sketch>),
    Lists(Vec<List>),
    Firsts(Vec<First>),
    Samples(Vec<Sample>),
}

#[derive(Clone, Debug, Default)]
struct Sum {
    total: f64,
    rows: u64,
}

/// Welford's method.
#[derive(Clone, Debug, Default)]
struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    fn add(&mut self, number: f64) {
        self.count += 1;
        if self.count == 1 {
            self.mean = number;
            return;
        }
        let before = self.mean;
        self.mean += (number - before) / self.count as f64;
        self.squares += (number - before) * (number - self.mean);
    }

    fn finish(&self) -> f64 {
        match self.count {
            0 | 1 => 0.0,
            count => (self.squares / (count - 1) as f64).sqrt(),
        }
    }
}

/// Distinct values in the order in which they came.
#[derive(Clone, Debug, Default)]
struct List {
    values: Vec<Value>,
    index: HashTable<u32>,
}

impl List {
    /// Adds a value that is not there yet; bytes.
    fn add(&mut self, value: &Value) -> usize {
        let hash = hash_value(value);
        let List { values, index } = self;
        let is_there = |at: &u32| values.get(*at as usize).is_some_and(|other| is_same(other, value));
        let Ok(position) = u32::try_from(values.len()) else { return 0 };
        if index.find(hash, is_there).is_some() {
            return 0;
        }
        values.push(value.clone());
        index.insert_unique(hash, position, |at| values.get(*at as usize).map_or(0, hash_value));
        size_of::<Value>() + size_of::<u64>() + value.heap_bytes()
    }
}

#[derive(Clone, Debug, Default)]
struct First {
    value: Option<Value>,
    by: Option<Value>,
}

impl First {
    fn add_sorted(&mut self, value: &Value, by: &Value, descending: bool) {
        let is_better = match &self.by {
            None => true,
            // Null is the worst, whatever the order.
            Some(Value::Null) => !matches!(by, Value::Null),
            Some(best) => {
                let order = by.compare(best);
                if descending { order.is_gt() } else { order.is_lt() }
            }
        };
        if is_better {
            (self.value, self.by) = (Some(value.clone()), Some(by.clone()));
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Sample {
    seen: u64,
    values: Vec<Value>,
}

impl Reducer {
    pub(super) fn new(kind: Kind, seed: u64) -> Self {
        let states = match kind {
            Kind::Count => States::Counts(Vec::new()),
            Kind::Sum(_) | Kind::Average(_) | Kind::AverageOfParts { .. } => States::Sums(Vec::new()),
            Kind::Min(_) | Kind::Max(_) => States::Numbers(Vec::new()),
            Kind::Deviation(_) => States::Deviations(Vec::new()),
            Kind::Quantile { .. } => States::Quantiles(Vec::new()),
            Kind::CountDistinct(_) => States::Distinct(Vec::new()),
            Kind::CountDistinctish(_) | Kind::Sketch(_) | Kind::SketchSum(_) => States::Sketches(Vec::new()),
            Kind::ToList(_) => States::Lists(Vec::new()),
            Kind::FirstValue { .. } => States::Firsts(Vec::new()),
            Kind::RandomSample { .. } => States::Samples(Vec::new()),
        };
        Reducer { kind, keeps_infinite: false, states, random: Random::seeded(seed), bytes: 0 }
    }

    /// The reducer's kind.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// See [`Reducer::keeps_infinite`].
    pub(super) fn keep_infinite(&mut self) {
        self.keeps_infinite = true;
    }

    /// Bytes of all states.
    pub(super) fn bytes(&self) -> usize {
        let states = match &self.states {
            States::Counts(states) => size_of_val(&**states),
            States::Sums(states) => size_of_val(&**states),
            States::Numbers(states) => size_of_val(&**states),
            States::Deviations(states) => size_of_val(&**states),
            States::Quantiles(states) => size_of_val(&**states),
            States::Distinct(states) => size_of_val(&**states),
            States::Sketches(states) => size_of_val(&**states),
            States::Lists(states) => size_of_val(&**states),
            States::Firsts(states) => size_of_val(&**states),
            States::Samples(states) => size_of_val(&**states),
        };
        states + self.bytes
    }

    /// Adds states until there are `groups`.
    pub(super) fn grow(&mut self, groups: usize) {
        match &mut self.states {
            States::Counts(states) => states.resize(groups, 0),
            States::Sums(states) => states.resize_with(groups, Sum::default),
            States::Numbers(states) => {
                let start = if matches!(self.kind, Kind::Max(_)) { f64::NEG_INFINITY } else { f64::INFINITY };
                states.resize(groups, start);
            }
            States::Deviations(states) => states.resize_with(groups, Deviation::default),
            States::Quantiles(states) => states.resize_with(groups, Quantiles::default),
            States::Distinct(states) => states.resize_with(groups, HashSet::new),
            States::Sketches(states) => states.resize_with(groups, Sketch::default),
            States::Lists(states) => states.resize_with(groups, List::default),
            States::Firsts(states) => states.resize_with(groups, First::default),
            States::Samples(states) => states.resize_with(groups, Sample::default),
        }
    }

    /// Adds rows to their groups.
    pub(super) fn absorb(&mut self, batch: &Batch, members: &[Member]) {
        let slot = self.kind.slot();
        let kind = self.kind;
        match (&mut self.states, kind) {
            (States::Counts(states), _) => {
                for (_, group) in members {
                    if let Some(count) = states.get_mut(*group as usize) {
                        *count += 1;
                    }
                }
            }
            (States::Sums(states), Kind::AverageOfParts { total, rows }) => {
                for (row, group) in members {
                    let number =
                        |slot| batch.value(*row as usize, slot).and_then(Value::to_number).unwrap_or(0.0);
                    if let Some(sum) = states.get_mut(*group as usize) {
                        sum.rows += number(rows) as u64;
                        sum.total += number(total);
                    }
                }
            }
            (States::Sums(states), _) => each(states, batch, members, slot, |sum, value| {
                sum.rows += 1;
                if let Some(number) = value.and_then(Value::to_number) {
                    sum.total += number;
                }
            }),
            (States::Numbers(states), Kind::Max(_)) => {
                each_number(states, batch, members, slot, |most, number| {
                    // RediSearch's comparison: a number replaces NaN.
                    *most = if *most > number { *most } else { number };
                })
            }
            (States::Numbers(states), _) => each_number(states, batch, members, slot, |least, number| {
                *least = if *least < number { *least } else { number };
            }),
            (States::Deviations(states), _) => each(states, batch, members, slot, |state, value| {
                numbers(value, |number| state.add(number));
            }),
            _ => self.absorb_large(batch, members),
        }
    }

    /// Reducers whose states grow.
    fn absorb_large(&mut self, batch: &Batch, members: &[Member]) {
        let (slot, kind) = (self.kind.slot(), self.kind);
        let (bytes, random) = (&mut self.bytes, &mut self.random);
        match (&mut self.states, kind) {
            (States::Quantiles(states), Kind::Quantile { resolution, .. }) => {
                each(states, batch, members, slot, |state, value| {
                    let before = state.bytes();
                    numbers(value, |number| state.insert(number, resolution as usize));
                    *bytes = (*bytes + state.bytes()).saturating_sub(before);
                });
            }
            (States::Distinct(states), _) => each(states, batch, members, slot, |state, value| match value {
                None | Some(Value::Null) => {}
                Some(value) => {
                    let before = state.capacity();
                    state.insert(hash_value(value));
                    *bytes += (state.capacity() - before) * (size_of::<u64>() + 1);
                }
            }),
            (States::Sketches(states), kind) => each(states, batch, members, slot, |state, value| {
                let before = state.bytes();
                match (kind, value) {
                    (_, None | Some(Value::Null)) => {}
                    (Kind::SketchSum(_), Some(value)) => state.merge(value.as_text().unwrap_or_default()),
                    (_, Some(value)) => state.add(value),
                }
                *bytes += state.bytes() - before;
            }),
            (States::Lists(states), _) => each(states, batch, members, slot, |state, value| match value {
                None => {}
                Some(Value::Array(values)) => {
                    *bytes += values.iter().map(|value| state.add(value)).sum::<usize>()
                }
                Some(value) => *bytes += state.add(value),
            }),
            (States::Firsts(states), Kind::FirstValue { by: None, .. }) => {
                each(states, batch, members, slot, |state, value| {
                    if state.value.is_none() {
                        state.value = Some(value.cloned().unwrap_or_default());
                    }
                });
            }
            (States::Firsts(states), Kind::FirstValue { by: Some((by, descending)), .. }) => {
                for (row, group) in members {
                    let get = |slot: Slot| batch.value(*row as usize, slot);
                    if let (Some(state), Some(value)) = (states.get_mut(*group as usize), get(slot)) {
                        state.add_sorted(value, get(by).unwrap_or(&Value::Null), descending);
                    }
                }
            }
            (States::Samples(states), Kind::RandomSample { count, .. }) => {
                each(states, batch, members, slot, |state, value| {
                    let Some(value) = value else { return };
                    if state.values.len() < count as usize {
                        *bytes += size_of::<Value>() + value.heap_bytes();
                        state.values.push(value.clone());
                    } else if let Some(place) = state.values.get_mut(random.below(state.seen + 1) as usize) {
                        *place = value.clone();
                    }
                    state.seen += 1;
                });
            }
            _ => {}
        }
    }

    /// The value of a group, whose state is given up.
    pub(super) fn finish(&mut self, group: usize) -> Value {
        let kind = self.kind;
        let number = match &mut self.states {
            States::Counts(states) => states.get(group).map(|count| *count as f64),
            States::Sums(states) => states.get(group).map(|sum| match kind {
                Kind::Average(_) | Kind::AverageOfParts { .. } if sum.rows > 0 => sum.total / sum.rows as f64,
                _ => sum.total,
            }),
            // Of no numbers it is 0; and of infinite ones, as RediSearch has it.
            States::Numbers(states) => {
                let is_none = |number: &f64| number.is_infinite() && !self.keeps_infinite;
                states.get(group).map(|number| if is_none(number) { 0.0 } else { *number })
            }
            States::Deviations(states) => states.get(group).map(Deviation::finish),
            States::Quantiles(states) => states.get_mut(group).map(|state| match kind {
                Kind::Quantile { quantile, .. } => state.query(quantile),
                _ => 0.0,
            }),
            States::Distinct(states) => states.get(group).map(|values| values.len() as f64),
            States::Sketches(states) => match (kind, states.get(group)) {
                (Kind::Sketch(_), Some(state)) => return state.serialised(),
                (_, state) => state.map(Sketch::count),
            },
            States::Lists(states) => {
                return states
                    .get_mut(group)
                    .map(|state| std::mem::take(&mut state.values))
                    .unwrap_or_default()
                    .into();
            }
            States::Firsts(states) => {
                return states.get_mut(group).and_then(|state| state.value.take()).unwrap_or_default();
            }
            States::Samples(states) => {
                return states
                    .get_mut(group)
                    .map(|state| std::mem::take(&mut state.values))
                    .unwrap_or_default()
                    .into();
            }
        };
        Value::Number(number.unwrap_or(0.0))
    }
}

/// Calls `add` with the state of each member's group and the value of its row.
fn each<S>(
    states: &mut [S],
    batch: &Batch,
    members: &[Member],
    slot: Slot,
    mut add: impl FnMut(&mut S, Option<&Value>),
) {
    for (row, group) in members {
        if let Some(state) = states.get_mut(*group as usize) {
            add(state, batch.value(*row as usize, slot));
        }
    }
}

/// As [`each`], with the rows that have a number.
fn each_number<S>(
    states: &mut [S],
    batch: &Batch,
    members: &[Member],
    slot: Slot,
    mut add: impl FnMut(&mut S, f64),
) {
    each(states, batch, members, slot, |state, value| {
        if let Some(number) = value.and_then(Value::to_number) {
            add(state, number);
        }
    });
}

/// Calls `add` with a value's number, or with those of an array's elements.
fn numbers(value: Option<&Value>, mut add: impl FnMut(f64)) {
    match value {
        Some(Value::Array(values)) => values.iter().filter_map(Value::to_number).for_each(add),
        Some(value) => {
            if let Some(number) = value.to_number() {
                add(number);
            }
        }
        None => {}
    }
}
