//! The open bucket of a rule in the saved form, which differs by aggregator and version.

use super::{Field, Reader, SavedError};
use crate::aggregate::{Accumulator, Aggregator, Mean, Moments, State};
use crate::twa::Twa;

/// Appends an accumulator's fields.
pub(super) fn encode(accumulator: &Accumulator, fields: &mut Vec<Field>) {
    match accumulator.state() {
        State::Extremes(greatest, smallest) => fields.extend([*greatest, *smallest].map(Field::Double)),
        State::Total(total) => fields.push(Field::Double(*total)),
        State::Mean(mean) => {
            fields.extend([mean.value, mean.count].map(Field::Double));
            fields.push(Field::Unsigned(u64::from(mean.has_overflowed)));
        }
        State::Pick(pick) => {
            fields.push(Field::Double(pick.value));
            if accumulator.aggregator() == Aggregator::First {
                fields.push(Field::Unsigned(u64::from(pick.is_fresh)));
            }
        }
        State::Moments(moments) => {
            fields.extend([moments.sum, moments.squares].map(Field::Double));
            fields.push(Field::Unsigned(moments.count));
        }
        State::Twa(twa) => encode_twa(twa, fields),
    }
}

fn encode_twa(twa: &Twa, fields: &mut Vec<Field>) {
    fields.push(Field::Double(twa.area));
    fields.push(Field::Unsigned(twa.previous.0));
    fields.push(Field::Double(twa.previous.1));
    let numbers = [
        twa.edges.0,
        twa.edges.1,
        twa.first,
        twa.last,
        u64::from(twa.is_first_bucket),
        twa.count,
        u64::from(twa.is_reverse),
    ];
    fields.extend(numbers.map(Field::Unsigned));
}

/// Most samples that a saved bucket may count: no series gets as many more as a counter has left.
const SAMPLES_MAX: u64 = 1 << 62;

impl<I: Iterator<Item = Field>> Reader<I> {
    /// How many samples a bucket has.
    fn samples(&mut self) -> Result<u64, SavedError> {
        let name = "samples of a bucket";
        Some(self.unsigned(name)?).filter(|count| *count <= SAMPLES_MAX).ok_or(SavedError::Value(name))
    }

    pub(super) fn context(&mut self, aggregator: Aggregator) -> Result<Accumulator, SavedError> {
        let name = "bucket";
        let state = match aggregator {
            Aggregator::Min | Aggregator::Max | Aggregator::Range => {
                let extremes = State::Extremes(self.double(name)?, self.double(name)?);
                if self.version < 6 {
                    // A flag, as a string of one byte.
                    self.string(name)?;
                }
                extremes
            }
            Aggregator::Sum | Aggregator::Count | Aggregator::CountNan | Aggregator::CountAll => {
                State::Total(self.single_value()?)
            }
            Aggregator::Last => Accumulator::pick(self.single_value()?, false),
            Aggregator::First => {
                let value = self.double(name)?;
                let is_fresh = self.since(3, 0, |reader| reader.unsigned(name))? != 0;
                Accumulator::pick(value, is_fresh)
            }
            Aggregator::Avg => {
                let (value, count) = (self.double(name)?, self.double(name)?);
                let has_overflowed = self.since(4, 0, |reader| reader.unsigned(name))? != 0;
                State::Mean(Mean { value, count, has_overflowed })
            }
            Aggregator::StdP | Aggregator::StdS | Aggregator::VarP | Aggregator::VarS => {
                let (sum, squares) = (self.double(name)?, self.double(name)?);
                State::Moments(Moments { sum, squares, count: self.samples()? })
            }
            Aggregator::Twa => State::Twa(Box::new(self.twa()?)),
        };
        Accumulator::from_state(aggregator, state).ok_or(SavedError::Value("aggregator"))
    }

    /// A value, with a flag behind it in versions 3 to 6.
    fn single_value(&mut self) -> Result<f64, SavedError> {
        let value = self.double("bucket")?;
        if (3..7).contains(&self.version) {
            self.unsigned("bucket")?;
        }
        Ok(value)
    }

    fn twa(&mut self) -> Result<Twa, SavedError> {
        let name = "bucket";
        let area = self.double(name)?;
        let previous = (self.unsigned(name)?, self.double(name)?);
        let edges = (self.unsigned(name)?, self.unsigned(name)?);
        let (first, last) = (self.unsigned(name)?, self.unsigned(name)?);
        let is_first_bucket = self.unsigned(name)? != 0;
        let count = self.samples()?;
        // A rule's samples come in order of time.
        if self.unsigned(name)? != 0 {
            return Err(SavedError::Value(name));
        }
        Ok(Twa { area, previous, edges, first, last, is_first_bucket, count, is_reverse: false })
    }
}
