//! The saved form: a series as the fields of RedisTimeSeries' module value, as DUMP and RDB files carry it.
//!
//! Encoding versions 0 to 9 are read; 8 (RedisTimeSeries 1.12 and Redis 8) and 9 (with NaN, Redis 8.6) are
//! written. Chunks are written as RedisTimeSeries compresses them, to the bit, and read into this crate's own
//! form.
//!
//! Invariant: a series is read whole and in order, or refused; no allocation follows a number that was read,
//! only fields that are there.

mod context;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::aggregate::Aggregator;
use crate::chunk::Chunk;
use crate::gorilla;
use crate::rule::{Buckets, Rule};
use crate::sample::{DuplicatePolicy, Sample, TIMESTAMP_MAX};
use crate::series::{Label, Labels, Series, Settings};
use crate::store::{CHUNK_BYTES_MAX, Encoding, SAMPLE_BYTES, Store};

/// The module type's name.
pub const TYPE_NAME: &str = "TSDB-TYPE";
/// The version that every reader since Redis Stack 7.4 takes.
pub const VERSION_COMMON: u64 = 8;
/// The newest version.
pub const VERSION_NEWEST: u64 = 9;

/// A chunk that was saved may be as much larger than the size of chunks as samples in its middle make it.
const SAVED_CHUNK_BYTES_MAX: u64 = 2 * CHUNK_BYTES_MAX;
/// The option of series whose chunks are not compressed.
const OPTION_UNCOMPRESSED: u64 = 1;
/// The option of those whose chunks are.
const OPTION_COMPRESSED: u64 = 2;
/// The open bucket of a rule that has none.
const NO_BUCKET: u64 = u64::MAX;

/// One typed field of a module's value. Fields are equal when their bits are.
#[derive(Clone, Debug)]
pub enum Field {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A double.
    Double(f64),
    /// A string.
    String(Vec<u8>),
}

impl PartialEq for Field {
    fn eq(&self, other: &Field) -> bool {
        match (self, other) {
            (Field::Unsigned(one), Field::Unsigned(other)) => one == other,
            (Field::Signed(one), Field::Signed(other)) => one == other,
            (Field::Double(one), Field::Double(other)) => one.to_bits() == other.to_bits(),
            (Field::String(one), Field::String(other)) => one == other,
            _ => false,
        }
    }
}

/// Why a saved form was refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedError {
    /// An encoding version that is not known.
    Version(u64),
    /// A field is missing, or is of another type.
    Field(&'static str),
    /// A field has a value that cannot be.
    Value(&'static str),
    /// There is more than the value.
    Trailing,
}

impl fmt::Display for SavedError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SavedError::Version(version) => write!(formatter, "unknown version {version} of a time series"),
            SavedError::Field(name) => write!(formatter, "a time series without its {name}"),
            SavedError::Value(name) => write!(formatter, "a time series with a wrong {name}"),
            SavedError::Trailing => formatter.write_str("more than a time series"),
        }
    }
}

impl std::error::Error for SavedError {}

/// How a series is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// [`VERSION_COMMON`] or [`VERSION_NEWEST`].
    pub version: u64,
    /// Whether rules and source are written, as in files; DUMP leaves them out.
    pub has_references: bool,
}

/// A series that was read.
#[derive(Debug)]
pub struct Loaded {
    /// The key under which it was saved; RESTORE may give it another.
    pub key: Vec<u8>,
    /// The series.
    pub series: Series,
}

/// The oldest version that every reader of it takes for the series: buckets without numbers, and what counts
/// them, came with the newest.
pub fn version_of(series: &Series) -> u64 {
    let is_new = |rule: &Rule| {
        let counts = matches!(rule.aggregator(), Aggregator::CountNan | Aggregator::CountAll);
        counts || rule.has_samples != rule.open.is_some()
    };
    if series.rules().iter().any(is_new) { VERSION_NEWEST } else { VERSION_COMMON }
}

/// The fields of a series at `key`, all at once.
pub fn encode(key: &[u8], series: &Series, options: SaveOptions) -> Vec<Field> {
    let mut fields = encode_head(key, series, options);
    for chunk in series.store().chunks() {
        encode_chunk(chunk, series.store().encoding(), &mut fields);
    }
    fields
}

/// The fields before those of the chunks, so that a caller may write the chunks one by one.
pub fn encode_head(key: &[u8], series: &Series, options: SaveOptions) -> Vec<Field> {
    let (settings, store) = (series.settings(), series.store());
    let last = series.last().unwrap_or_default();
    let encoding = match store.encoding() {
        Encoding::Compressed => OPTION_COMPRESSED,
        Encoding::Uncompressed => OPTION_UNCOMPRESSED,
    };
    let mut fields = vec![Field::String(key.to_vec())];
    let mut unsigned = |number: u64| fields.push(Field::Unsigned(number));
    unsigned(settings.retention_ms);
    unsigned(settings.chunk_bytes);
    unsigned(encoding);
    unsigned(last.timestamp);
    fields.push(Field::Double(last.value));
    fields.push(Field::Unsigned(store.total()));
    fields.push(Field::Unsigned(settings.policy.map_or(0, |policy| policy as u64)));
    match series.source().filter(|_| options.has_references) {
        Some(source) => fields.extend([Field::Unsigned(1), Field::String(source.to_vec())]),
        None => fields.push(Field::Unsigned(0)),
    }
    fields.extend([Field::Unsigned(settings.ignore_time_ms), Field::Double(settings.ignore_value)]);
    fields.push(Field::Unsigned(settings.labels.len() as u64));
    for (name, value) in settings.labels.iter() {
        fields.extend([Field::String(name.to_vec()), Field::String(value.to_vec())]);
    }
    let rules = if options.has_references { series.rules() } else { &[] };
    fields.push(Field::Unsigned(rules.len() as u64));
    rules.iter().for_each(|rule| encode_rule(rule, options.version, &mut fields));
    fields.push(Field::Unsigned(store.chunk_count() as u64));
    fields
}

fn encode_rule(rule: &Rule, version: u64, fields: &mut Vec<Field>) {
    fields.push(Field::String(rule.destination.to_vec()));
    fields.push(Field::Unsigned(rule.buckets.duration()));
    fields.push(Field::Unsigned(rule.buckets.alignment()));
    fields.push(Field::Unsigned(rule.aggregator() as u64));
    fields.push(Field::Unsigned(rule.open.unwrap_or(NO_BUCKET)));
    if version >= VERSION_NEWEST {
        fields.push(Field::Unsigned(u64::from(rule.has_samples)));
    }
    context::encode(&rule.accumulator, fields);
}

/// The fields of one chunk.
pub fn encode_chunk(chunk: &Chunk, encoding: Encoding, fields: &mut Vec<Field>) {
    let samples = chunk.to_samples();
    let first = samples.first().copied().unwrap_or_default();
    let size = chunk.capacity_bytes;
    if encoding == Encoding::Uncompressed {
        let mut bytes = Vec::with_capacity(size as usize);
        for sample in &samples {
            bytes.extend(sample.timestamp.to_le_bytes());
            bytes.extend(sample.value.to_le_bytes());
        }
        bytes.resize(size as usize, 0);
        fields.extend([first.timestamp, samples.len() as u64, size].map(Field::Unsigned));
        fields.push(Field::String(bytes));
        return;
    }
    let (bytes, meter) = gorilla::encode(samples.into_iter(), size as usize);
    let numbers = [
        size,
        meter.count,
        meter.bits,
        if meter.count == 0 { 0 } else { first.value.to_bits() },
        first.timestamp,
        meter.timestamp,
        meter.delta as u64,
        meter.value,
        u64::from(meter.leading),
        u64::from(meter.trailing),
    ];
    fields.extend(numbers.map(Field::Unsigned));
    fields.push(Field::String(bytes));
}

/// Reads a series of an encoding version; the fields end with it.
pub fn decode(fields: impl IntoIterator<Item = Field>, version: u64) -> Result<Loaded, SavedError> {
    if version > VERSION_NEWEST {
        return Err(SavedError::Version(version));
    }
    let mut reader = Reader { fields: fields.into_iter(), version };
    let key = reader.string("key")?;
    let head = reader.head()?;
    let labels = reader.labels()?;
    let rules = reader.rules()?;
    if head.source.is_some() && !rules.is_empty() {
        return Err(SavedError::Value("source"));
    }
    let store = reader.store(head.encoding, head.settings.chunk_bytes)?;
    if reader.fields.next().is_some() {
        return Err(SavedError::Trailing);
    }
    let mut series = Series::with_store(store, Settings { labels, ..head.settings });
    rules.into_iter().for_each(|rule| series.add_rule(rule));
    if head.source.is_some() {
        series.set_source(head.source.as_deref());
    }
    Ok(Loaded { key, series })
}

/// The fields before the labels.
struct Head {
    settings: Settings,
    encoding: Encoding,
    source: Option<Vec<u8>>,
}

/// Takes fields one after another.
struct Reader<I> {
    fields: I,
    version: u64,
}

impl<I: Iterator<Item = Field>> Reader<I> {
    fn unsigned(&mut self, name: &'static str) -> Result<u64, SavedError> {
        match self.fields.next() {
            Some(Field::Unsigned(number)) => Ok(number),
            _ => Err(SavedError::Field(name)),
        }
    }

    /// A number of milliseconds.
    fn time(&mut self, name: &'static str) -> Result<u64, SavedError> {
        let time = self.unsigned(name)?;
        if time <= TIMESTAMP_MAX { Ok(time) } else { Err(SavedError::Value(name)) }
    }

    fn double(&mut self, name: &'static str) -> Result<f64, SavedError> {
        match self.fields.next() {
            Some(Field::Double(number)) => Ok(number),
            _ => Err(SavedError::Field(name)),
        }
    }

    fn string(&mut self, name: &'static str) -> Result<Vec<u8>, SavedError> {
        match self.fields.next() {
            Some(Field::String(text)) => Ok(text),
            _ => Err(SavedError::Field(name)),
        }
    }

    /// Reads something that this version has, or takes its value in earlier ones.
    fn since<T>(
        &mut self,
        version: u64,
        before: T,
        read: impl FnOnce(&mut Self) -> Result<T, SavedError>,
    ) -> Result<T, SavedError> {
        if self.version >= version { read(self) } else { Ok(before) }
    }

    fn head(&mut self) -> Result<Head, SavedError> {
        let retention_ms = self.time("retention")?;
        // Chunks were measured in samples once.
        let unit = if self.version < 2 { SAMPLE_BYTES } else { 1 };
        let chunk_bytes = self.unsigned("chunk size")?.checked_mul(unit);
        let is_size = |bytes: &u64| *bytes > 0 && bytes.is_multiple_of(8) && *bytes <= CHUNK_BYTES_MAX;
        let chunk_bytes = chunk_bytes.filter(is_size).ok_or(SavedError::Value("chunk size"))?;
        let options = self.since(1, OPTION_UNCOMPRESSED, |reader| reader.unsigned("options"))?;
        let is_compressed = options & OPTION_UNCOMPRESSED == 0;
        let encoding = if is_compressed { Encoding::Compressed } else { Encoding::Uncompressed };
        // These follow from the samples.
        self.since(2, 0, |reader| reader.unsigned("last timestamp"))?;
        self.since(2, 0.0, |reader| reader.double("last value"))?;
        self.since(2, 0, |reader| reader.unsigned("number of samples"))?;
        let policy = self.since(3, 0, |reader| reader.unsigned("policy"))?;
        let policy = DuplicatePolicy::from_saved(policy).map_err(|_| SavedError::Value("policy"))?;
        let has_source = self.since(2, 0, |reader| reader.unsigned("source"))? != 0;
        let source = if has_source { Some(self.string("source")?) } else { None };
        let ignore_time_ms = self.since(8, 0, |reader| reader.time("time to ignore"))?;
        let ignore_value = self.since(8, 0.0, |reader| reader.double("value to ignore"))?;
        if ignore_value.is_nan() || ignore_value < 0.0 {
            return Err(SavedError::Value("value to ignore"));
        }
        let labels = Labels::default();
        let settings = Settings { retention_ms, chunk_bytes, policy, ignore_time_ms, ignore_value, labels };
        Ok(Head { settings, encoding, source })
    }

    fn labels(&mut self) -> Result<Labels, SavedError> {
        let count = self.unsigned("labels")?;
        let label = |_| Ok((self.string("label")?.into(), self.string("label")?.into()));
        let labels: Vec<Label> = (0..count).map(label).collect::<Result<_, _>>()?;
        Ok(labels.into())
    }

    fn rules(&mut self) -> Result<Vec<Rule>, SavedError> {
        let count = self.unsigned("rules")?;
        (0..count).map(|_| self.rule()).collect()
    }

    fn rule(&mut self) -> Result<Rule, SavedError> {
        let destination = self.string("destination")?;
        let duration = self.unsigned("bucket duration")?;
        let alignment = self.since(6, 0, |reader| reader.time("alignment"))?;
        let buckets = Buckets::new(duration, alignment).map_err(|_| SavedError::Value("bucket duration"))?;
        let aggregator = Aggregator::from_saved(self.unsigned("aggregator")?);
        let aggregator = aggregator.ok_or(SavedError::Value("aggregator"))?;
        let open = Some(self.unsigned("bucket")?).filter(|start| *start != NO_BUCKET);
        if open.is_some_and(|start| start > TIMESTAMP_MAX) {
            return Err(SavedError::Value("bucket"));
        }
        let has_samples = self.since(9, u64::from(open.is_some()), |reader| reader.unsigned("bucket"))?;
        let mut rule = Rule::new(&destination, aggregator, buckets);
        rule.accumulator = self.context(aggregator)?;
        (rule.open, rule.has_samples) = (open, has_samples != 0);
        Ok(rule)
    }

    fn store(&mut self, encoding: Encoding, chunk_bytes: u64) -> Result<Store, SavedError> {
        let mut store = Store::new(encoding, chunk_bytes);
        let count = self.unsigned("chunks")?;
        if self.version < 2 {
            for _ in 0..count {
                let sample = Sample::new(self.time("timestamp")?, self.double("value")?);
                if store.last().is_some_and(|last| last.timestamp >= sample.timestamp) {
                    return Err(SavedError::Value("timestamp"));
                }
                store.append(sample);
            }
            return Ok(store);
        }
        for _ in 0..count {
            let (samples, size) = match encoding {
                Encoding::Compressed => self.compressed()?,
                Encoding::Uncompressed => self.uncompressed()?,
            };
            let is_timed = samples.iter().all(|sample| sample.timestamp <= TIMESTAMP_MAX);
            if !is_timed || !store.load_chunk(&samples, size) {
                return Err(SavedError::Value("timestamp"));
            }
        }
        Ok(store)
    }

    fn compressed(&mut self) -> Result<(Vec<Sample>, u64), SavedError> {
        let size = self.unsigned("chunk size")?;
        let count = self.unsigned("number of samples")?;
        let bits = self.unsigned("number of bits")?;
        let value = f64::from_bits(self.unsigned("first value")?);
        let timestamp = self.unsigned("first timestamp")?;
        // The encoder's state follows from the samples.
        for name in ["last timestamp", "last delta", "last value", "leading zeros", "trailing zeros"] {
            self.unsigned(name)?;
        }
        let bytes = self.string("chunk")?;
        check_size(size, &bytes)?;
        let samples = gorilla::decode(Sample { timestamp, value }, count, &bytes, bits);
        Ok((samples.ok_or(SavedError::Value("chunk"))?, size))
    }

    fn uncompressed(&mut self) -> Result<(Vec<Sample>, u64), SavedError> {
        self.unsigned("first timestamp")?;
        let count = self.unsigned("number of samples")?;
        let size = self.unsigned("chunk size")?;
        let bytes = self.string("chunk")?;
        check_size(size, &bytes)?;
        let pairs = bytes.chunks_exact(SAMPLE_BYTES as usize);
        if count > pairs.len() as u64 {
            return Err(SavedError::Value("number of samples"));
        }
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let sample = |pair: &[u8]| Sample::new(word(&pair[..8]), f64::from_bits(word(&pair[8..])));
        Ok((pairs.take(count as usize).map(sample).collect(), size))
    }
}

fn check_size(size: u64, bytes: &[u8]) -> Result<(), SavedError> {
    let is_right =
        size == bytes.len() as u64 && size > 0 && size.is_multiple_of(8) && size <= SAVED_CHUNK_BYTES_MAX;
    if is_right { Ok(()) } else { Err(SavedError::Value("chunk size")) }
}
