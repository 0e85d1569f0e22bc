//! From a reducer's arguments to the slots that it reads.

use crate::Error;
use crate::aggregate::expression::Slot;
use crate::aggregate::request::Reduce;
use crate::arguments::{Cursor, Numbers};

/// The most numbers of a sample or a buffer.
const SAMPLE_MAX: u32 = 1000;
/// Numbers that QUANTILE collects before it merges them, unless given.
const RESOLUTION: u32 = 500;

/// A reducer with the slots that it reads.
#[derive(Copy, Clone, Debug)]
pub(in crate::aggregate) enum Kind {
    Count,
    Sum(Slot),
    Average(Slot),
    /// The sums and the numbers of rows that parts have.
    AverageOfParts {
        total: Slot,
        rows: Slot,
    },
    Min(Slot),
    Max(Slot),
    Deviation(Slot),
    Quantile {
        slot: Slot,
        quantile: f64,
        resolution: u32,
    },
    CountDistinct(Slot),
    CountDistinctish(Slot),
    Sketch(Slot),
    SketchSum(Slot),
    ToList(Slot),
    /// `by`: the slot to sort by, and whether in descending order.
    FirstValue {
        slot: Slot,
        by: Option<(Slot, bool)>,
    },
    RandomSample {
        slot: Slot,
        count: u32,
    },
}

impl Kind {
    /// The reducer of REDUCE. `slot_of` finds properties.
    ///
    /// # Errors
    ///
    /// RediSearch's.
    pub(in crate::aggregate) fn bind(
        reduce: &Reduce,
        slot_of: &mut dyn FnMut(&[u8]) -> Option<Slot>,
    ) -> Result<Kind, Error> {
        let function = reduce.function.to_ascii_uppercase();
        let shown = String::from_utf8_lossy(&reduce.function).into_owned();
        let words: Vec<&[u8]> = reduce.arguments.iter().map(|word| &**word).collect();
        let mut cursor = Cursor::new(&words, Numbers::C);
        let mut property = |cursor: &mut Cursor<'_>| {
            let missing = || Error::new(format!("Missing arguments for {shown}"));
            let word = cursor.take_next().ok_or_else(missing)?;
            let name = word.strip_prefix(b"@").unwrap_or(word);
            slot_of(name).ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                Error::new(format!("Property `{name}` not present in document or pipeline"))
            })
        };
        let kind = match &*function {
            b"COUNT" if cursor.is_at_end() => Kind::Count,
            b"COUNT" => return Err(Error::new("Count accepts 0 values only")),
            b"SUM" => Kind::Sum(property(&mut cursor)?),
            b"AVG" => Kind::Average(property(&mut cursor)?),
            b"MIN" => Kind::Min(property(&mut cursor)?),
            b"MAX" => Kind::Max(property(&mut cursor)?),
            b"STDDEV" => Kind::Deviation(property(&mut cursor)?),
            b"COUNT_DISTINCT" => Kind::CountDistinct(property(&mut cursor)?),
            b"COUNT_DISTINCTISH" => Kind::CountDistinctish(property(&mut cursor)?),
            b"HLL" => Kind::Sketch(property(&mut cursor)?),
            b"HLL_SUM" => Kind::SketchSum(property(&mut cursor)?),
            b"TOLIST" => Kind::ToList(property(&mut cursor)?),
            b"QUANTILE" => quantile(property(&mut cursor)?, &shown, &mut cursor)?,
            b"FIRST_VALUE" => {
                let slot = property(&mut cursor)?;
                let mut by = None;
                if cursor.take("BY") {
                    let slot = property(&mut cursor)?;
                    let descending = cursor.take("DESC");
                    if !descending {
                        cursor.take("ASC");
                    }
                    by = Some((slot, descending));
                }
                Kind::FirstValue { slot, by }
            }
            b"RANDOM_SAMPLE" => {
                let slot = property(&mut cursor)?;
                let count = cursor.u32(0).map_err(|refused| refused.of("<sample size>"))?;
                if count > SAMPLE_MAX {
                    return Err(Error::new("Sample size too large"));
                }
                Kind::RandomSample { slot, count }
            }
            _ => return Err(Error::new(format!("No such reducer: {shown}"))),
        };
        // The other reducers ignore further arguments, as RediSearch's do.
        if matches!(kind, Kind::Quantile { .. } | Kind::FirstValue { .. })
            && let Some(word) = cursor.peek()
        {
            let (word, position) = (String::from_utf8_lossy(word), words.len() - cursor.len());
            return Err(Error::new(format!("Unknown argument `{word}` at position {position} for {shown}")));
        }
        Ok(kind)
    }

    /// Whether it sees a value as the number that it is or reads as.
    pub(in super::super) fn wants_numbers(self) -> bool {
        match self {
            Kind::Count
            | Kind::Sum(_)
            | Kind::Average(_)
            | Kind::AverageOfParts { .. }
            | Kind::Min(_)
            | Kind::Max(_)
            | Kind::Deviation(_)
            | Kind::Quantile { .. } => true,
            Kind::CountDistinct(_)
            | Kind::CountDistinctish(_)
            | Kind::Sketch(_)
            | Kind::SketchSum(_)
            | Kind::ToList(_)
            | Kind::FirstValue { .. }
            | Kind::RandomSample { .. } => false,
        }
    }

    /// What parts reduce their rows to, and what reduces that, which is in slots from `slot` on; none if the
    /// reducer has to see all rows.
    pub(in super::super) fn of_parts(self, slot: Slot) -> Option<(Vec<Kind>, Kind)> {
        Some(match self {
            Kind::Count => (vec![Kind::Count], Kind::Sum(slot)),
            Kind::Sum(_) => (vec![self], Kind::Sum(slot)),
            Kind::Average(of) => {
                (vec![Kind::Sum(of), Kind::Count], Kind::AverageOfParts { total: slot, rows: slot + 1 })
            }
            Kind::Min(_) => (vec![self], Kind::Min(slot)),
            Kind::Max(_) => (vec![self], Kind::Max(slot)),
            Kind::CountDistinctish(of) => (vec![Kind::Sketch(of)], Kind::SketchSum(slot)),
            Kind::ToList(_) => (vec![self], Kind::ToList(slot)),
            Kind::AverageOfParts { .. }
            | Kind::Deviation(_)
            | Kind::Quantile { .. }
            | Kind::CountDistinct(_)
            | Kind::Sketch(_)
            | Kind::SketchSum(_)
            | Kind::FirstValue { .. }
            | Kind::RandomSample { .. } => return None,
        })
    }

    /// The slots that it reads.
    pub(in super::super) fn slots(self) -> [Option<Slot>; 2] {
        match self {
            Kind::Count => [None, None],
            Kind::FirstValue { slot, by } => [Some(slot), by.map(|(by, _)| by)],
            Kind::AverageOfParts { total, rows } => [Some(total), Some(rows)],
            kind => [Some(kind.slot()), None],
        }
    }

    /// The slot that it reads.
    pub(super) fn slot(self) -> Slot {
        match self {
            Kind::Count => 0,
            Kind::Sum(slot)
            | Kind::Average(slot)
            | Kind::AverageOfParts { total: slot, .. }
            | Kind::Min(slot)
            | Kind::Max(slot)
            | Kind::Deviation(slot)
            | Kind::CountDistinct(slot)
            | Kind::CountDistinctish(slot)
            | Kind::Sketch(slot)
            | Kind::SketchSum(slot)
            | Kind::ToList(slot)
            | Kind::Quantile { slot, .. }
            | Kind::FirstValue { slot, .. }
            | Kind::RandomSample { slot, .. } => slot,
        }
    }
}

fn quantile(slot: Slot, shown: &str, cursor: &mut Cursor<'_>) -> Result<Kind, Error> {
    let quantile = cursor.f64().map_err(|refused| refused.of(shown))?;
    if !(0.0..=1.0).contains(&quantile) {
        return Err(Error::new("Percentage must be between 0.0 and 1.0"));
    }
    let mut resolution = RESOLUTION;
    if !cursor.is_at_end() {
        resolution = cursor.u32(0).map_err(|refused| refused.of("<resolution>"))?;
        if !(1..=SAMPLE_MAX).contains(&resolution) {
            return Err(Error::new("Invalid resolution"));
        }
    }
    Ok(Kind::Quantile { slot, quantile, resolution })
}
