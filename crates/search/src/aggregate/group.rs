//! GROUPBY: rows of equal properties become one. A row whose property is an array belongs to the group of
//! each element; of several arrays, to the group of each combination.

use super::batch::Batch;
use super::expression::Slot;
use super::key::{hash_value, is_same, mix};
use super::reducers::{Kind, Member, Reducer};
use super::value::Value;
use crate::Error;
use hashbrown::HashTable;

/// The most groups that one row may belong to.
const COMBINATIONS_MAX: usize = 1 << 20;

/// From properties to the number of their group.
#[derive(Debug, Default)]
struct Keys {
    /// Properties of a group.
    width: usize,
    table: HashTable<u32>,
    hashes: Vec<u64>,
    /// The properties of all groups, one group after another.
    values: Vec<Value>,
    heap_bytes: usize,
}

impl Keys {
    fn get_mut(&mut self, group: usize) -> &mut [Value] {
        self.values.get_mut(group * self.width..(group + 1) * self.width).unwrap_or_default()
    }

    /// The group of these properties; a group that is not known yet is added.
    fn find<'a>(&mut self, values: impl Iterator<Item = &'a Value> + Clone) -> Result<u32, Error> {
        let Keys { width, table, hashes, values: keys, heap_bytes } = self;
        let hash = values.clone().fold(0, |hash, value| mix(hash, hash_value(value)));
        let is_group = |group: &u32| {
            let from = *group as usize * *width;
            hashes.get(*group as usize) == Some(&hash)
                && keys.get(from..from + *width).is_some_and(|keys| {
                    keys.iter().zip(values.clone()).all(|(key, value)| is_same(key, value))
                })
        };
        if let Some(group) = table.find(hash, is_group) {
            return Ok(*group);
        }
        let group =
            u32::try_from(hashes.len()).map_err(|_| Error::new("GROUPBY: there are too many groups"))?;
        hashes.push(hash);
        for value in values {
            *heap_bytes += value.heap_bytes();
            keys.push(value.clone());
        }
        table.insert_unique(hash, group, |group| hashes.get(*group as usize).copied().unwrap_or(0));
        Ok(group)
    }
}

/// The groups.
#[derive(Debug)]
pub(super) struct Grouper {
    slots: Vec<Slot>,
    keys: Keys,
    reducers: Vec<Reducer>,
    members: Vec<Member>,
    /// By place in the dictionary of this number the group of its value, or [`UNKNOWN`].
    by_code: Vec<u32>,
    dictionary: u64,
    /// Groups that have been drained.
    drained: usize,
}

/// No group.
const UNKNOWN: u32 = u32::MAX;

impl Grouper {
    /// Groups by these slots. `seed` is for RANDOM_SAMPLE.
    pub(super) fn new(slots: Vec<Slot>, reducers: Vec<Kind>, seed: u64) -> Self {
        let reducers =
            reducers.into_iter().zip(seed..).map(|(kind, seed)| Reducer::new(kind, seed)).collect();
        let keys = Keys { width: slots.len(), ..Keys::default() };
        let (members, by_code) = (Vec::new(), Vec::new());
        Grouper { slots, keys, reducers, members, by_code, dictionary: 0, drained: 0 }
    }

    /// The slots of the properties.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The groups of a part's rows, from which [`Grouper::of_rest`] makes those of all; none if a reducer has
    /// to see all rows itself.
    pub(super) fn of_part(&self) -> Option<Grouper> {
        let kinds: Option<Vec<Vec<Kind>>> =
            self.reducers.iter().map(|reducer| Some(reducer.kind().of_parts(0)?.0)).collect();
        let mut part = Grouper::new(self.slots.clone(), kinds?.concat(), 0);
        part.reducers.iter_mut().for_each(Reducer::keep_infinite);
        Some(part)
    }

    /// The groups of all parts, from rows of [`Grouper::of_part`].
    pub(super) fn of_rest(&self) -> Option<Grouper> {
        let mut slot = self.slots.len();
        let mut kinds = Vec::with_capacity(self.reducers.len());
        for reducer in &self.reducers {
            let (of_part, of_rest) = reducer.kind().of_parts(slot)?;
            slot += of_part.len();
            kinds.push(of_rest);
        }
        Some(Grouper::new((0..self.slots.len()).collect(), kinds, 0))
    }

    /// The slots of the rows that come out.
    pub(super) fn width(&self) -> usize {
        self.slots.len() + self.reducers.len()
    }

    /// The slots that are read of the rows that come in.
    pub(super) fn read_slots(&self) -> Vec<Slot> {
        let reduced = self.reducers.iter().flat_map(|reducer| reducer.kind().slots().into_iter().flatten());
        self.slots.iter().copied().chain(reduced).collect()
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.keys.hashes.len()
    }

    /// Bytes of the groups and their reducers.
    pub(super) fn bytes(&self) -> usize {
        let groups =
            self.len() * (size_of::<u64>() + size_of::<u32>() + self.slots.len() * size_of::<Value>());
        let by_code = self.by_code.len() * size_of::<u32>();
        groups + by_code + self.keys.heap_bytes + self.reducers.iter().map(Reducer::bytes).sum::<usize>()
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    ///
    /// A row belongs to too many groups, or there are too many.
    pub(super) fn absorb(&mut self, batch: &Batch) -> Result<(), Error> {
        self.members.clear();
        match *self.slots {
            [slot] if batch.codes(slot).is_some() => self.find_by_codes(batch, slot)?,
            _ => (0..batch.len()).try_for_each(|row| self.find(batch, row))?,
        }
        self.reduce(batch);
        Ok(())
    }

    /// Finds the groups of rows whose property is in a dictionary.
    fn find_by_codes(&mut self, batch: &Batch, slot: Slot) -> Result<(), Error> {
        let Some((dictionary, codes)) = batch.codes(slot) else { return Ok(()) };
        if self.dictionary != dictionary.number {
            self.dictionary = dictionary.number;
            self.by_code.clear();
        }
        self.by_code.resize(dictionary.values.len(), UNKNOWN);
        for (row, code) in codes.iter().enumerate() {
            match self.by_code.get(*code as usize) {
                None => self.find(batch, row)?,
                Some(&UNKNOWN) => {
                    self.find(batch, row)?;
                    if let (Some(known), Some((_, group))) =
                        (self.by_code.get_mut(*code as usize), self.members.last())
                    {
                        *known = *group;
                    }
                }
                Some(&group) => self.members.push((row as u32, group)),
            }
        }
        Ok(())
    }

    /// Finds the group of a row, or the groups.
    fn find(&mut self, batch: &Batch, row: usize) -> Result<(), Error> {
        let value = |slot: &Slot| batch.value(row, *slot).unwrap_or(&Value::Null);
        if self.slots.iter().any(|slot| matches!(value(slot), Value::Array(_))) {
            return self.explode(batch, row);
        }
        let group = self.keys.find(self.slots.iter().map(value))?;
        self.members.push((row as u32, group));
        Ok(())
    }

    fn reduce(&mut self, batch: &Batch) {
        let groups = self.len();
        for reducer in &mut self.reducers {
            reducer.grow(groups);
            reducer.absorb(batch, &self.members);
        }
    }

    /// Adds a row to the group of each combination of its arrays' elements.
    fn explode(&mut self, batch: &Batch, row: usize) -> Result<(), Error> {
        const NULL: &[Value] = &[Value::Null];
        let alternatives: Vec<&[Value]> = self
            .slots
            .iter()
            .map(|slot| match batch.value(row, *slot) {
                None => NULL,
                Some(Value::Array(values)) if values.is_empty() => NULL,
                Some(Value::Array(values)) => &**values,
                Some(value) => std::slice::from_ref(value),
            })
            .collect();
        let combinations = alternatives.iter().try_fold(1usize, |product, values| {
            product.checked_mul(values.len()).filter(|product| *product <= COMBINATIONS_MAX)
        });
        let combinations = combinations
            .ok_or_else(|| Error::new("GROUPBY: the arrays of a row have too many combinations"))?;
        let mut chosen = vec![0usize; alternatives.len()];
        for _ in 0..combinations {
            let picked = alternatives
                .iter()
                .zip(&chosen)
                .map(|(values, index)| values.get(*index).unwrap_or(&Value::Null));
            let group = self.keys.find(picked)?;
            self.members.push((row as u32, group));
            // The last array moves first.
            for (index, values) in chosen.iter_mut().zip(&alternatives).rev() {
                *index += 1;
                if *index < values.len() {
                    break;
                }
                *index = 0;
            }
        }
        Ok(())
    }

    /// Moves groups to a batch: the properties, then the reducers' values. Returns whether all have been
    /// moved.
    pub(super) fn drain(&mut self, batch: &mut Batch, most: usize) -> bool {
        let end = self.len().min(self.drained + most);
        for group in self.drained..end {
            let row = batch.push(0);
            let made = self.keys.get_mut(group).iter_mut().map(std::mem::take);
            let reduced = self.reducers.iter_mut().map(|reducer| reducer.finish(group));
            for (slot, value) in row.iter_mut().zip(made.chain(reduced)) {
                *slot = Some(value);
            }
        }
        self.drained = end;
        end == self.len()
    }
}
