//! Several series in one answer: GROUPBY with its reducer, and the rows of TS.NRANGE.
//!
//! Each series is read by a [`RangeQuery`] of its own; samples of one timestamp meet. The rows of a source
//! are fetched in slices, and so is the result.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{RangeOptions, RangeQuery, Rows};
use crate::aggregate::{Accumulator, Aggregator};
use crate::sample::{Sample, nan};
use crate::series::Series;

/// Rows that are fetched of a source at once.
const FETCH_ROWS: usize = 256;

/// One series of a merge.
struct Source {
    query: RangeQuery,
    rows: Rows,
    at: usize,
    width: usize,
    is_done: bool,
}

/// Series that are read together.
struct Merge {
    sources: Vec<Source>,
    /// Fronts of the sources that have one: the place in time, as it is ordered, and the source.
    fronts: BinaryHeap<Reverse<(u64, usize)>>,
    /// Sources whose next row is not known yet.
    pending: Vec<usize>,
    is_reverse: bool,
}

impl Merge {
    fn new(queries: impl Iterator<Item = (RangeOptions, Option<Sample>)>, is_reverse: bool) -> Merge {
        let sources: Vec<Source> = queries
            .map(|(options, latest)| Source {
                width: options.width(),
                query: RangeQuery::new(options, latest),
                rows: Rows::default(),
                at: 0,
                is_done: false,
            })
            .collect();
        let pending = (0..sources.len()).collect();
        Merge { sources, fronts: BinaryHeap::new(), pending, is_reverse }
    }

    fn place(&self, timestamp: u64) -> u64 {
        if self.is_reverse { !timestamp } else { timestamp }
    }

    /// Fetches rows of the sources that lack them, as far as the budget goes: whether all have a front or
    /// have ended.
    fn fill(&mut self, series: &[&Series], budget: &mut usize) -> bool {
        while let Some(index) = self.pending.pop() {
            let (Some(source), Some(series)) = (self.sources.get_mut(index), series.get(index)) else {
                continue;
            };
            if source.at == source.rows.len() && !source.is_done {
                if *budget == 0 {
                    self.pending.push(index);
                    return false;
                }
                source.rows.clear();
                source.at = 0;
                let slice = FETCH_ROWS.min(*budget);
                source.is_done = source.query.step(series, slice, &mut source.rows);
                *budget -= slice;
            }
            match source.rows.timestamps.get(source.at) {
                Some(timestamp) => {
                    let place = if self.is_reverse { !*timestamp } else { *timestamp };
                    self.fronts.push(Reverse((place, index)));
                }
                None if source.is_done => {}
                None => self.pending.push(index),
            }
        }
        true
    }

    /// Takes the rows of the next timestamp, each with its source; the fronts are complete.
    fn take(&mut self, mut with: impl FnMut(usize, &[f64])) -> Option<u64> {
        let Reverse((place, _)) = *self.fronts.peek()?;
        while let Some(Reverse((other, index))) = self.fronts.peek().copied()
            && other == place
        {
            self.fronts.pop();
            if let Some(source) = self.sources.get_mut(index) {
                let start = source.at * source.width;
                with(index, source.rows.values.get(start..start + source.width).unwrap_or_default());
                source.at += 1;
                self.pending.push(index);
            }
        }
        Some(self.place(place))
    }
}

/// GROUPBY … REDUCE over the series of one group.
pub struct Reduce {
    merge: Merge,
    accumulator: Accumulator,
    /// Most rows.
    left: Option<u64>,
}

impl Reduce {
    /// Reduces series, each with its sample of LATEST. The series are read in order of time, as Redis reads
    /// them even for TS.MREVRANGE: the caller turns the rows round, and counts them only then.
    pub fn new(options: &RangeOptions, latest: Vec<Option<Sample>>, reducer: Aggregator) -> Reduce {
        let count = options.count.filter(|_| !options.is_reverse);
        let options = RangeOptions { is_reverse: false, count: None, ..options.clone() };
        let queries = latest.into_iter().map(|latest| (options.clone(), latest));
        Reduce {
            merge: Merge::new(queries, false),
            accumulator: Accumulator::new(reducer, false),
            left: count,
        }
    }

    /// Reads about `budget` more samples of the series, in the same order at each call: true when done.
    pub fn step(&mut self, series: &[&Series], mut budget: usize, rows: &mut Rows) -> bool {
        loop {
            if self.left == Some(0) {
                return true;
            }
            if !self.merge.fill(series, &mut budget) {
                return false;
            }
            let accumulator = &mut self.accumulator;
            let mut is_valid = false;
            let taken = self.merge.take(|_, values| {
                let aggregator = accumulator.aggregator();
                for value in values.iter().filter(|value| aggregator.takes(**value)) {
                    accumulator.add(Sample { timestamp: 0, value: *value });
                    is_valid = true;
                }
            });
            let Some(timestamp) = taken else { return true };
            // Where no series has a number, only counts have an answer.
            let value = match (is_valid, accumulator.aggregator().counts()) {
                (true, _) => accumulator.value(),
                (false, true) => 0.0,
                (false, false) => nan(),
            };
            accumulator.reset();
            rows.push(Sample { timestamp, value });
            self.left = self.left.map(|left| left - 1);
        }
    }
}

/// TS.NRANGE and TS.NREVRANGE: a row per timestamp with the values of all series, NaN where one has none.
pub struct Pivot {
    merge: Merge,
    /// Where the values of each series begin in a row, and how many a row has.
    offsets: Vec<usize>,
    width: usize,
    left: Option<u64>,
}

impl Pivot {
    /// Reads series, each with options of its own (the aggregators differ) and its sample of LATEST. The
    /// first one's direction and COUNT hold for all.
    pub fn new(mut queries: Vec<(RangeOptions, Option<Sample>)>) -> Pivot {
        let (is_reverse, left) =
            queries.first().map_or((false, None), |(options, _)| (options.is_reverse, options.count));
        let mut offsets = Vec::with_capacity(queries.len());
        let mut width = 0;
        for (options, _) in &mut queries {
            (options.is_reverse, options.count) = (is_reverse, None);
            offsets.push(width);
            width += options.width();
        }
        Pivot { merge: Merge::new(queries.into_iter(), is_reverse), offsets, width, left }
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Reads about `budget` more samples of the series, in the same order at each call: true when done.
    pub fn step(&mut self, series: &[&Series], mut budget: usize, rows: &mut Rows) -> bool {
        loop {
            if self.left == Some(0) {
                return true;
            }
            if !self.merge.fill(series, &mut budget) {
                return false;
            }
            let start = rows.values.len();
            let (offsets, width) = (&self.offsets, self.width);
            let taken = self.merge.take(|index, values| {
                if rows.values.len() == start {
                    rows.values.resize(start + width, nan());
                }
                let from = start + offsets.get(index).copied().unwrap_or(0);
                if let Some(slots) = rows.values.get_mut(from..from + values.len()) {
                    slots.copy_from_slice(values);
                }
            });
            let Some(timestamp) = taken else { return true };
            rows.timestamps.push(timestamp);
            self.left = self.left.map(|left| left - 1);
        }
    }
}
