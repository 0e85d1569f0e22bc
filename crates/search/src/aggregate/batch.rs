//! Rows between the steps of an aggregation: many at a time, in one allocation.

use std::sync::Arc;

use super::expression::Slot;
use super::value::Value;

/// Rows of equal width.
#[derive(Debug, Default)]
pub struct Batch {
    width: usize,
    values: Vec<Option<Value>>,
    coded: Vec<Coded>,
    documents: Vec<u64>,
    /// By row, the fields of LOAD * without a slot; empty unless some row has one.
    extra: Vec<Vec<(Box<[u8]>, Value)>>,
}

/// Values that rows name by their places.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    /// A dictionary whose places have other values has another number.
    pub number: u64,
    /// The values; null at places that no row names.
    pub values: Vec<Value>,
}

/// A slot whose values are in a dictionary.
#[derive(Debug)]
struct Coded {
    slot: Slot,
    dictionary: Arc<Dictionary>,
    /// By row the place of its value; beyond the dictionary: the value is in the row, if there is one.
    codes: Vec<u32>,
}

impl Batch {
    /// No rows of `width` slots.
    pub fn new(width: usize) -> Self {
        Batch { width, ..Batch::default() }
    }

    /// The slots of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Removes all rows; from now on they have `width` slots.
    pub fn clear(&mut self, width: usize) {
        self.width = width;
        self.values.clear();
        self.coded.clear();
        self.documents.clear();
        self.extra.clear();
    }

    /// Adds rows without values; the numbers by which the source knows them.
    pub fn extend(&mut self, documents: impl Iterator<Item = u64>) {
        self.documents.extend(documents);
        self.values.resize(self.documents.len() * self.width, None);
        if !self.extra.is_empty() {
            self.extra.resize_with(self.documents.len(), Vec::new);
        }
    }

    /// Gives all rows the values of a slot by their places in a dictionary; a row with a place beyond it has
    /// its own value. Rows are not added after this, nor moved: only GROUPBY knows of dictionaries, and
    /// [`Pipeline::coded`](super::pipeline::Pipeline::coded) has the slots.
    pub fn encode(&mut self, slot: Slot, dictionary: Arc<Dictionary>, codes: Vec<u32>) {
        self.coded.push(Coded { slot, dictionary, codes });
    }

    /// The dictionary of a slot, and the places of its rows there.
    pub fn codes(&self, slot: Slot) -> Option<(&Dictionary, &[u32])> {
        let coded = self.coded.iter().find(|coded| coded.slot == slot)?;
        Some((&coded.dictionary, &coded.codes))
    }

    /// The value of a slot, wherever it is.
    #[inline]
    pub fn value(&self, row: usize, slot: Slot) -> Option<&Value> {
        if !self.coded.is_empty()
            && let Some((dictionary, codes)) = self.codes(slot)
            && let Some(value) = codes.get(row).and_then(|code| dictionary.values.get(*code as usize))
        {
            return Some(value);
        }
        self.row(row).get(slot)?.as_ref()
    }

    /// Adds a row without values. `document` is the number by which the source knows it.
    pub fn push(&mut self, document: u64) -> &mut [Option<Value>] {
        let from = self.values.len();
        self.values.resize(from + self.width, None);
        self.documents.push(document);
        if !self.extra.is_empty() {
            self.extra.push(Vec::new());
        }
        self.values.get_mut(from..).unwrap_or_default()
    }

    /// The slots of a row.
    pub fn row(&self, row: usize) -> &[Option<Value>] {
        self.values.get(row * self.width..(row + 1) * self.width).unwrap_or_default()
    }

    /// The slots of a row.
    pub fn row_mut(&mut self, row: usize) -> &mut [Option<Value>] {
        self.values.get_mut(row * self.width..(row + 1) * self.width).unwrap_or_default()
    }

    /// The number of a row's document; of a group it is 0.
    pub fn document(&self, row: usize) -> u64 {
        self.documents.get(row).copied().unwrap_or(0)
    }

    /// Adds a field that LOAD * found and that has no slot.
    pub fn push_extra(&mut self, row: usize, name: Box<[u8]>, value: Value) {
        if self.extra.is_empty() {
            self.extra.resize_with(self.documents.len(), Vec::new);
        }
        if let Some(fields) = self.extra.get_mut(row) {
            fields.push((name, value));
        }
    }

    /// Takes the fields of a row that have no slot.
    pub fn take_extra(&mut self, row: usize) -> Vec<(Box<[u8]>, Value)> {
        self.extra.get_mut(row).map(std::mem::take).unwrap_or_default()
    }

    /// The fields of a row that have no slot.
    pub fn extra(&self, row: usize) -> &[(Box<[u8]>, Value)] {
        self.extra.get(row).map_or(&[], Vec::as_slice)
    }

    /// Keeps the rows for which `is_kept` holds, in their order.
    pub fn retain(&mut self, mut is_kept: impl FnMut(usize) -> bool) {
        let mut kept = 0;
        for row in 0..self.len() {
            if !is_kept(row) {
                continue;
            }
            if kept != row {
                for slot in 0..self.width {
                    self.values.swap(kept * self.width + slot, row * self.width + slot);
                }
                self.documents.swap(kept, row);
                if !self.extra.is_empty() {
                    self.extra.swap(kept, row);
                }
            }
            kept += 1;
        }
        self.values.truncate(kept * self.width);
        self.documents.truncate(kept);
        self.extra.truncate(kept);
    }

    /// Moves the rows of `other`, which has the same width, to the end.
    pub fn append(&mut self, other: &mut Batch) {
        if !other.extra.is_empty() || !self.extra.is_empty() {
            self.extra.resize_with(self.documents.len(), Vec::new);
            other.extra.resize_with(other.documents.len(), Vec::new);
            self.extra.append(&mut other.extra);
        }
        self.values.append(&mut other.values);
        self.documents.append(&mut other.documents);
    }

    /// Bytes that the rows take, with those of their values.
    pub fn bytes(&self) -> usize {
        let heap: usize = self.values.iter().flatten().map(Value::heap_bytes).sum();
        let extra = self.extra.iter().flatten().map(|(name, value)| 64 + name.len() + value.heap_bytes());
        heap + size_of_val(&*self.values) + extra.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_with_all_that_is_theirs() {
        let mut batch = Batch::new(2);
        for number in 0..5u64 {
            batch.push(number)[1] = Some(Value::Number(number as f64));
            batch.push_extra(number as usize, Box::from(&b"x"[..]), Value::Number(number as f64 * 10.0));
        }
        batch.retain(|row| row % 2 == 0);
        let shown: Vec<_> = (0..batch.len())
            .map(|row| {
                let number = batch.row(row)[1].as_ref().and_then(Value::to_number);
                (batch.document(row), number, batch.extra(row)[0].1.to_number())
            })
            .collect();
        let expected: Vec<_> =
            [0, 2, 4].map(|number| (number, Some(number as f64), Some(number as f64 * 10.0))).into();
        assert_eq!(shown, expected);
        let mut other = Batch::new(2);
        other.push(9);
        other.append(&mut batch);
        assert_eq!((other.len(), batch.len(), other.extra(0).len(), other.extra(3).len()), (4, 0, 0, 1));
        assert!(other.bytes() > 4 * 2 * size_of::<Option<Value>>());
    }

    #[test]
    fn rows_may_have_no_slots() {
        let mut batch = Batch::new(0);
        assert!(batch.push(1).is_empty() && batch.push(2).is_empty());
        batch.retain(|row| row == 1);
        assert_eq!((batch.len(), batch.document(0)), (1, 2));
    }
}
