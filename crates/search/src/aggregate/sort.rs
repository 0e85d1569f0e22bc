//! SORTBY: the first rows of an order, kept in a heap whose root is the last of them.

use super::batch::Batch;
use super::expression::Slot;
use super::value::Value;
use std::cmp::Ordering;

/// A slot to sort by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) slot: Slot,
    pub(super) descending: bool,
}

#[derive(Debug)]
struct Row {
    values: Vec<Option<Value>>,
    document: u64,
    sequence: u64,
    extra: Vec<(Box<[u8]>, Value)>,
}

/// The sorter.
#[derive(Debug)]
pub(super) struct Sorter {
    keys: Vec<Key>,
    most: usize,
    heap: Vec<Row>,
    /// The rows that have left the heap, the last one first.
    ordered: Vec<Row>,
    sequence: u64,
    bytes: usize,
}

impl Sorter {
    pub(super) fn new(keys: Vec<Key>, most: usize) -> Self {
        Sorter { keys, most, heap: Vec::new(), ordered: Vec::new(), sequence: 0, bytes: 0 }
    }

    /// Bytes of the rows that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the rows of a batch.
    pub(super) fn absorb(&mut self, batch: &mut Batch) {
        for row in 0..batch.len() {
            self.sequence += 1;
            if self.most == 0 {
                continue;
            }
            if self.heap.len() < self.most {
                self.push(batch, row);
            } else if self.heap.first().is_some_and(|last| {
                compare(&self.keys, batch.row(row), self.sequence, &last.values, last.sequence).is_lt()
            }) {
                self.replace_last(batch, row);
            }
        }
    }

    fn push(&mut self, batch: &mut Batch, row: usize) {
        let values: Vec<_> = batch.row_mut(row).iter_mut().map(Option::take).collect();
        let extra = batch.extra(row).to_vec();
        self.bytes += size_of::<Row>() + row_bytes(&values);
        let mut at = self.heap.len();
        self.heap.push(Row { values, document: batch.document(row), sequence: self.sequence, extra });
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.is_later(at, parent) {
                break;
            }
            self.heap.swap(at, parent);
            at = parent;
        }
    }

    fn replace_last(&mut self, batch: &mut Batch, row: usize) {
        let extra = batch.extra(row).to_vec();
        let document = batch.document(row);
        if let Some(last) = self.heap.first_mut() {
            self.bytes -= row_bytes(&last.values);
            last.values.swap_with_slice(batch.row_mut(row));
            (last.document, last.sequence, last.extra) = (document, self.sequence, extra);
            self.bytes += row_bytes(&last.values);
        }
        self.sink();
    }

    fn is_later(&self, one: usize, two: usize) -> bool {
        match (self.heap.get(one), self.heap.get(two)) {
            (Some(one), Some(two)) => {
                compare(&self.keys, &one.values, one.sequence, &two.values, two.sequence).is_gt()
            }
            _ => false,
        }
    }

    /// Moves the root to its place.
    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let child = if self.is_later(right, left) { right } else { left };
            if !self.is_later(child, at) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    /// Does some of the work of emptying it; the first rows go to `batch`. Returns whether it is empty.
    pub(super) fn drain(&mut self, batch: &mut Batch, budget: usize) -> bool {
        for _ in 0..budget {
            if self.heap.is_empty() {
                let Some(row) = self.ordered.pop() else { return true };
                let index = batch.len();
                for (slot, value) in batch.push(row.document).iter_mut().zip(row.values) {
                    *slot = value;
                }
                for (name, value) in row.extra {
                    batch.push_extra(index, name, value);
                }
            } else {
                self.ordered.push(self.heap.swap_remove(0));
                self.sink();
            }
        }
        self.heap.is_empty() && self.ordered.is_empty()
    }
}

fn row_bytes(values: &[Option<Value>]) -> usize {
    size_of_val(values) + values.iter().flatten().map(Value::heap_bytes).sum::<usize>()
}

fn value<'a>(row: &'a [Option<Value>], key: &Key) -> Option<&'a Value> {
    row.get(key.slot)?.as_ref()
}

/// The order of two rows. A row without the property comes last, however it is sorted; equal rows come in the
/// order in which they arrived, or against it where the last key is descending.
fn compare(
    keys: &[Key],
    one: &[Option<Value>],
    one_sequence: u64,
    two: &[Option<Value>],
    two_sequence: u64,
) -> Ordering {
    for key in keys {
        let order = match (value(one, key), value(two, key)) {
            (Some(first), Some(second)) if key.descending => second.compare(first),
            (Some(first), Some(second)) => first.compare(second),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    let order = one_sequence.cmp(&two_sequence);
    if keys.last().is_some_and(|key| key.descending) { order.reverse() } else { order }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(numbers: &[Option<f64>], descending: bool, most: usize) -> Vec<(u64, Option<f64>)> {
        let mut sorter = Sorter::new(vec![Key { slot: 0, descending }], most);
        let mut batch = Batch::new(1);
        for (document, number) in numbers.iter().enumerate() {
            batch.push(document as u64)[0] = number.map(Value::Number);
        }
        sorter.absorb(&mut batch);
        let mut drained = Batch::new(1);
        let mut steps = 0;
        while !sorter.drain(&mut drained, 3) {
            steps += 1;
            assert!(steps < 10_000);
        }
        let number = |row| drained.row(row)[0].as_ref().and_then(Value::to_number);
        (0..drained.len()).map(|row| (drained.document(row), number(row))).collect()
    }

    #[test]
    fn the_first_rows_are_kept_in_order() {
        let numbers: Vec<_> = (0..1000).map(|number| Some(f64::from(number * 7919 % 1000))).collect();
        for most in [0, 1, 10, 1000, 5000] {
            let ascending: Vec<_> = sorted(&numbers, false, most).iter().map(|row| row.1).collect();
            let expected: Vec<_> = (0..most.min(1000)).map(|number| Some(number as f64)).collect();
            assert_eq!(ascending, expected);
            let descending: Vec<_> = sorted(&numbers, true, most).iter().map(|row| row.1).collect();
            let expected: Vec<_> = (0..most.min(1000)).map(|number| Some(999.0 - number as f64)).collect();
            assert_eq!(descending, expected);
        }
    }

    #[test]
    fn rows_without_the_property_come_last_and_equal_ones_in_order() {
        let numbers = [None, Some(1.0), Some(1.0), None, Some(0.0)];
        let documents =
            |descending| sorted(&numbers, descending, 10).iter().map(|row| row.0).collect::<Vec<_>>();
        assert_eq!(documents(false), [4, 1, 2, 0, 3]);
        assert_eq!(documents(true), [2, 1, 4, 3, 0]);
    }
}
