//! Aggregators and their accumulators, which ranges, rules and reducers share.
//!
//! Invariant: samples come in order of time, or all in the opposite order; an accumulator's value is, to the
//! bit, that of RedisTimeSeries, which adds doubles one after another.

use crate::error::Error;
use crate::sample::{Sample, nan};
use crate::twa::Twa;

/// How the samples of a bucket become one value. The numbers are those of the saved form.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Aggregator {
    /// The smallest value.
    Min = 1,
    /// The greatest value.
    Max = 2,
    /// The sum.
    Sum = 3,
    /// The arithmetic mean.
    Avg = 4,
    /// The number of samples that are no NaN.
    Count = 5,
    /// The value of the earliest sample.
    First = 6,
    /// The value of the latest sample.
    Last = 7,
    /// The greatest value less the smallest.
    Range = 8,
    /// The standard deviation of a population.
    StdP = 9,
    /// The standard deviation of a sample.
    StdS = 10,
    /// The variance of a population.
    VarP = 11,
    /// The variance of a sample.
    VarS = 12,
    /// The mean weighted by time.
    Twa = 13,
    /// The number of NaN.
    CountNan = 14,
    /// The number of samples.
    CountAll = 15,
}

/// Most aggregators that one list names.
pub const AGGREGATORS_MAX: usize = 16;

impl Aggregator {
    /// Every aggregator.
    pub const ALL: [Aggregator; 15] = [
        Aggregator::Min,
        Aggregator::Max,
        Aggregator::Sum,
        Aggregator::Avg,
        Aggregator::Count,
        Aggregator::First,
        Aggregator::Last,
        Aggregator::Range,
        Aggregator::StdP,
        Aggregator::StdS,
        Aggregator::VarP,
        Aggregator::VarS,
        Aggregator::Twa,
        Aggregator::CountNan,
        Aggregator::CountAll,
    ];

    /// The aggregator of a name in any case.
    pub fn from_name(name: &[u8]) -> Result<Aggregator, Error> {
        let mut all = Aggregator::ALL.into_iter();
        let found = all.find(|aggregator| aggregator.name().as_bytes().eq_ignore_ascii_case(name));
        found.ok_or(Error::UnknownAggregator)
    }

    /// The aggregators of a list of names with commas, as AGGREGATION takes since Redis 8.10.
    pub fn list(text: &[u8]) -> Result<Vec<Aggregator>, Error> {
        let mut found = Vec::new();
        for name in text.split(|byte| *byte == b',') {
            if name.is_empty() {
                return Err(Error::EmptyAggregator);
            }
            if found.len() == AGGREGATORS_MAX {
                return Err(Error::TooManyAggregators);
            }
            found.push(Aggregator::from_name(name)?);
        }
        Ok(found)
    }

    /// The aggregator of a name that may reduce several series to one (REDUCE).
    pub fn reducer(name: &[u8]) -> Result<Aggregator, Error> {
        match Aggregator::from_name(name) {
            Ok(Aggregator::First | Aggregator::Last | Aggregator::Twa) | Err(_) => Err(Error::Reducer),
            Ok(aggregator) => Ok(aggregator),
        }
    }

    /// The name in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Aggregator::Min => "min",
            Aggregator::Max => "max",
            Aggregator::Sum => "sum",
            Aggregator::Avg => "avg",
            Aggregator::Count => "count",
            Aggregator::First => "first",
            Aggregator::Last => "last",
            Aggregator::Range => "range",
            Aggregator::StdP => "std.p",
            Aggregator::StdS => "std.s",
            Aggregator::VarP => "var.p",
            Aggregator::VarS => "var.s",
            Aggregator::Twa => "twa",
            Aggregator::CountNan => "countnan",
            Aggregator::CountAll => "countall",
        }
    }

    /// The aggregator of a number of the saved form.
    pub fn from_saved(number: u64) -> Option<Aggregator> {
        Aggregator::ALL.into_iter().find(|aggregator| *aggregator as u64 == number)
    }

    /// Whether a value counts.
    #[inline]
    pub fn takes(self, value: f64) -> bool {
        match self {
            Aggregator::CountNan => value.is_nan(),
            Aggregator::CountAll => true,
            _ => !value.is_nan(),
        }
    }

    /// Whether it counts samples, so that none are 0.
    pub fn counts(self) -> bool {
        matches!(self, Aggregator::Count | Aggregator::CountNan | Aggregator::CountAll)
    }
}

/// A sum that falls back to a running mean when it would overflow.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Mean {
    /// The sum; the mean once it has overflowed.
    pub value: f64,
    /// Number of values.
    pub count: f64,
    /// Whether the sum has overflowed.
    pub has_overflowed: bool,
}

impl Mean {
    #[inline]
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let same_sign = (self.value < 0.0) == (value < 0.0);
        if self.has_overflowed || (same_sign && self.value.abs() > f64::MAX - value.abs()) {
            self.add_to_mean(value);
        } else {
            self.value += value;
        }
    }

    #[cold]
    fn add_to_mean(&mut self, value: f64) {
        let share = if self.has_overflowed { (self.count - 1.0) / self.count } else { 1.0 / self.count };
        self.value = self.value * share + value / self.count;
        self.has_overflowed = true;
    }

    fn mean(&self) -> f64 {
        if self.has_overflowed { self.value } else { self.value / self.count }
    }
}

/// Sums from which a variance follows.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Sum of the values.
    pub sum: f64,
    /// Sum of their squares.
    pub squares: f64,
    /// Number of values.
    pub count: u64,
}

impl Moments {
    #[inline]
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    fn variance(&self) -> f64 {
        let count = self.count as f64;
        let mean = self.sum / count;
        (self.squares - 2.0 * self.sum * self.sum / count + mean * mean * count) / count
    }

    /// Of no values it is NaN, as [`variance`](Self::variance) is.
    fn sample_variance(&self) -> f64 {
        let count = self.count as f64;
        if self.count == 1 { 0.0 } else { self.variance() * count / (count - 1.0) }
    }
}

/// The value of one sample, and when it was.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Pick {
    /// The value; of `Last`, that of an earlier bucket until this one has a sample.
    pub value: f64,
    timestamp: u64,
    /// Whether this bucket has no sample yet.
    pub is_fresh: bool,
}

/// The state of a bucket.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The greatest and the smallest value, of `Min`, `Max` and `Range`.
    Extremes(f64, f64),
    /// The value of `Sum`, `Count`, `CountNan`, `CountAll`.
    Total(f64),
    /// Of `Avg`.
    Mean(Mean),
    /// Of `First` and `Last`.
    Pick(Pick),
    /// Of `StdP`, `StdS`, `VarP`, `VarS`.
    Moments(Moments),
    /// Of `Twa`.
    Twa(Box<Twa>),
}

/// One aggregator at work on one bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulator {
    aggregator: Aggregator,
    state: State,
    is_reverse: bool,
}

impl Accumulator {
    /// One that has seen nothing; `is_reverse` if samples come from the latest to the earliest.
    pub fn new(aggregator: Aggregator, is_reverse: bool) -> Accumulator {
        let state = match aggregator {
            Aggregator::Min | Aggregator::Max | Aggregator::Range => State::Extremes(f64::MIN, f64::MAX),
            Aggregator::Sum | Aggregator::Count | Aggregator::CountNan | Aggregator::CountAll => {
                State::Total(0.0)
            }
            Aggregator::Avg => State::Mean(Mean::default()),
            Aggregator::First => State::Pick(Pick { value: 0.0, timestamp: 0, is_fresh: true }),
            Aggregator::Last => State::Pick(Pick { value: nan(), timestamp: 0, is_fresh: true }),
            Aggregator::StdP | Aggregator::StdS | Aggregator::VarP | Aggregator::VarS => {
                State::Moments(Moments::default())
            }
            Aggregator::Twa => State::Twa(Box::new(Twa::new(is_reverse))),
        };
        Accumulator { aggregator, state, is_reverse }
    }

    /// One with a state that was saved; `None` if the state is of another aggregator.
    pub fn from_state(aggregator: Aggregator, state: State) -> Option<Accumulator> {
        let mut accumulator = Accumulator::new(aggregator, false);
        let same = std::mem::discriminant(&accumulator.state) == std::mem::discriminant(&state);
        accumulator.state = state;
        same.then_some(accumulator)
    }

    /// A state of `First` or `Last` that was saved.
    pub fn pick(value: f64, is_fresh: bool) -> State {
        State::Pick(Pick { value, timestamp: 0, is_fresh })
    }

    /// Which aggregator it is.
    pub fn aggregator(&self) -> Aggregator {
        self.aggregator
    }

    /// Its state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The time-weighted mean, if it is one.
    pub fn twa(&self) -> Option<&Twa> {
        if let State::Twa(twa) = &self.state { Some(twa) } else { None }
    }

    /// See [`twa`](Accumulator::twa).
    pub fn twa_mut(&mut self) -> Option<&mut Twa> {
        if let State::Twa(twa) = &mut self.state { Some(twa) } else { None }
    }

    /// Adds a sample whose value counts.
    #[inline]
    pub fn add(&mut self, sample: Sample) {
        let value = sample.value;
        match &mut self.state {
            State::Extremes(greatest, smallest) => {
                if value > *greatest && self.aggregator != Aggregator::Min {
                    *greatest = value;
                }
                if value < *smallest && self.aggregator != Aggregator::Max {
                    *smallest = value;
                }
            }
            State::Total(total) => *total += if self.aggregator == Aggregator::Sum { value } else { 1.0 },
            State::Mean(mean) => mean.add(value),
            State::Pick(pick) => {
                let wins = if self.aggregator == Aggregator::First {
                    sample.timestamp < pick.timestamp
                } else {
                    sample.timestamp >= pick.timestamp
                };
                if pick.is_fresh || wins {
                    *pick = Pick { value, timestamp: sample.timestamp, is_fresh: false };
                }
            }
            State::Moments(moments) => moments.add(value),
            State::Twa(twa) => twa.add(sample),
        }
    }

    /// Adds samples of one bucket that follow one another, all of whose values count; the slices are equally
    /// long. The same as [`add`](Accumulator::add) of each, faster.
    pub fn add_run(&mut self, timestamps: &[u64], values: &[f64]) {
        match &mut self.state {
            State::Extremes(greatest, smallest) => {
                let (high, low) = extremes(values);
                // Equal zeros of two signs: the first one stays, as sample by sample.
                if high == 0.0 || low == 0.0 {
                    return self.add_each(timestamps, values);
                }
                if high > *greatest && self.aggregator != Aggregator::Min {
                    *greatest = high;
                }
                if low < *smallest && self.aggregator != Aggregator::Max {
                    *smallest = low;
                }
            }
            State::Total(total) if self.aggregator == Aggregator::Sum => {
                values.iter().for_each(|value| *total += value);
            }
            // A count of doubles is exact far beyond what memory holds.
            State::Total(total) => *total += values.len() as f64,
            State::Moments(moments) => values.iter().for_each(|value| moments.add(*value)),
            State::Mean(mean) => values.iter().for_each(|value| mean.add(*value)),
            State::Pick(_) => {
                // Only the ends of a run can be the earliest and the latest.
                let ends = values.len().min(2).min(timestamps.len());
                for index in [0, values.len().saturating_sub(1)].into_iter().take(ends) {
                    self.add(Sample { timestamp: timestamps[index], value: values[index] });
                }
            }
            State::Twa(twa) => twa.add_run(timestamps, values),
        }
    }

    fn add_each(&mut self, timestamps: &[u64], values: &[f64]) {
        for (timestamp, value) in timestamps.iter().zip(values) {
            self.add(Sample { timestamp: *timestamp, value: *value });
        }
    }

    /// The bucket's value, if it has any sample that counts.
    pub fn value(&self) -> f64 {
        match &self.state {
            State::Extremes(greatest, smallest) => match self.aggregator {
                Aggregator::Max => *greatest,
                Aggregator::Min => *smallest,
                _ => greatest - smallest,
            },
            State::Total(total) => *total,
            State::Mean(mean) => mean.mean(),
            State::Pick(pick) => pick.value,
            State::Moments(moments) => match self.aggregator {
                Aggregator::VarP => moments.variance(),
                Aggregator::VarS => moments.sample_variance(),
                Aggregator::StdP => moments.variance().sqrt(),
                _ => moments.sample_variance().sqrt(),
            },
            State::Twa(twa) => twa.value(),
        }
    }

    /// The value of a bucket without samples, under EMPTY. That of `Twa` follows from neighbours instead.
    pub fn empty_value(&self) -> f64 {
        match &self.state {
            State::Total(_) => 0.0,
            State::Pick(pick) if self.aggregator == Aggregator::Last => pick.value,
            _ => nan(),
        }
    }

    /// Makes the value of `Last` in empty buckets that of an earlier sample, or NaN for none. Others ignore
    /// it.
    pub fn carry(&mut self, sample: Option<Sample>) {
        if let (Aggregator::Last, State::Pick(pick)) = (self.aggregator, &mut self.state) {
            pick.value = sample.map_or_else(nan, |sample| sample.value);
            pick.timestamp = sample.map_or(0, |sample| sample.timestamp);
        }
    }

    /// Whether it is a `Last` that has seen no sample in any bucket.
    pub fn lacks_carry(&self) -> bool {
        matches!(&self.state, State::Pick(pick) if self.aggregator == Aggregator::Last && pick.value.is_nan())
    }

    /// Begins the next bucket. `Last` keeps its value for empty ones.
    pub fn reset(&mut self) {
        match &mut self.state {
            State::Pick(pick) if self.aggregator == Aggregator::Last => pick.is_fresh = true,
            State::Twa(twa) => **twa = Twa::new(self.is_reverse),
            _ => *self = Accumulator::new(self.aggregator, self.is_reverse),
        }
    }

    /// Bytes that the allocator has given.
    pub fn heap_bytes(&self) -> usize {
        self.twa().map_or(0, |_| martlet_types::size_class::allocated_bytes(size_of::<Twa>()))
    }
}

/// The greatest and the smallest value, in lanes.
fn extremes(values: &[f64]) -> (f64, f64) {
    let mut high = [f64::MIN; 4];
    let mut low = [f64::MAX; 4];
    let groups = values.chunks_exact(4);
    let rest = groups.remainder();
    for group in groups {
        for lane in 0..4 {
            high[lane] = if group[lane] > high[lane] { group[lane] } else { high[lane] };
            low[lane] = if group[lane] < low[lane] { group[lane] } else { low[lane] };
        }
    }
    let all = |lanes: [f64; 4]| lanes.into_iter().chain(rest.iter().copied());
    let greatest = all(high).fold(f64::MIN, |most, value| if value > most { value } else { most });
    let smallest = all(low).fold(f64::MAX, |least, value| if value < least { value } else { least });
    (greatest, smallest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;

    #[test]
    fn names_and_numbers_go_round() {
        for aggregator in Aggregator::ALL {
            assert_eq!(Aggregator::from_name(aggregator.name().to_uppercase().as_bytes()), Ok(aggregator));
            assert_eq!(Aggregator::from_saved(aggregator as u64), Some(aggregator));
        }
        assert_eq!(Aggregator::list(b"avg,MAX"), Ok(vec![Aggregator::Avg, Aggregator::Max]));
        assert_eq!(Aggregator::list(b"avg,"), Err(Error::EmptyAggregator));
        assert_eq!(Aggregator::list(b"avg,mean"), Err(Error::UnknownAggregator));
        assert_eq!(Aggregator::list("min,".repeat(16).as_bytes()), Err(Error::EmptyAggregator));
        assert_eq!(Aggregator::list("min,".repeat(17).as_bytes()), Err(Error::TooManyAggregators));
        assert_eq!(Aggregator::reducer(b"twa"), Err(Error::Reducer));
        assert_eq!(Aggregator::reducer(b"std.s"), Ok(Aggregator::StdS));
    }

    #[test]
    fn a_run_is_its_samples_one_by_one() {
        let seed = 0x0072_756e;
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for round in 0..2000 {
            let aggregator = Aggregator::ALL[round % Aggregator::ALL.len()];
            let count = 1 + random.below(40) as usize;
            let mut timestamps: Vec<u64> = (1..=count as u64).collect();
            let is_reverse = random.below(2) == 0;
            if is_reverse {
                timestamps.reverse();
            }
            let kind = random.below(3);
            let values: Vec<f64> = timestamps
                .iter()
                .map(|_| match kind {
                    0 => [0.0, -0.0, 1.0, -1.0][random.below(4) as usize],
                    1 => random.unit_f64() - 0.5,
                    _ => f64::MAX * (random.unit_f64() - 0.2),
                })
                .collect();
            let (mut one, mut other) =
                (Accumulator::new(aggregator, is_reverse), Accumulator::new(aggregator, is_reverse));
            one.add_each(&timestamps, &values);
            let cut = random.below(count as u64 + 1) as usize;
            other.add_run(&timestamps[..cut], &values[..cut]);
            other.add_run(&timestamps[cut..], &values[cut..]);
            assert_eq!(one.value().to_bits(), other.value().to_bits(), "{aggregator:?} {values:?}");
        }
    }

    #[test]
    fn a_mean_beyond_the_greatest_double_stays_finite() {
        let mut mean = Accumulator::new(Aggregator::Avg, false);
        for timestamp in 1..=4 {
            mean.add(Sample::new(timestamp, f64::MAX));
        }
        assert!((mean.value() / f64::MAX - 1.0).abs() < 1e-12);
    }
}
