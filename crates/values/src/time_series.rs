//! Time series, as RedisTimeSeries saves them, and the index of their labels.
//!
//! Invariant: a database's [`SeriesIndex`] has exactly the series of its table that have labels. It keeps a
//! copy of each one's labels, so that no other labels can have their stamp.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};
use martlet_keyspace::{ModuleObject, ValueIndex};
use martlet_rdb::module::{Item, ItemReader, ItemWriter};
use martlet_spec::data_type::{self, TypeView};
use martlet_tseries::filter::Filter;
use martlet_tseries::index::LabelIndex;
use martlet_tseries::rule::Rule;
use martlet_tseries::saved::{self, Field, SaveOptions};
use martlet_tseries::series::{Labels, Series};

use crate::digest::Digest;
use crate::export::Export;
use crate::module::{ModuleDescriptor, ModuleType};
use crate::{Error, Owner};

/// A time series as a key's value.
#[derive(Clone, Debug)]
pub struct TimeSeries(pub Series);

impl Deref for TimeSeries {
    type Target = Series;

    #[inline]
    fn deref(&self) -> &Series {
        &self.0
    }
}

impl DerefMut for TimeSeries {
    #[inline]
    fn deref_mut(&mut self) -> &mut Series {
        &mut self.0
    }
}

impl TimeSeries {
    /// The keys that it names: its source, and the destinations of its rules.
    pub fn links(&self) -> impl Iterator<Item = &[u8]> {
        self.source().into_iter().chain(self.rules().iter().map(|rule| &*rule.destination))
    }

    /// Whether it names other keys.
    pub fn has_links(&self) -> bool {
        self.source().is_some() || !self.rules().is_empty()
    }
}

impl ModuleObject for TimeSeries {
    fn type_name(&self) -> &str {
        saved::TYPE_NAME
    }

    fn element_count(&self) -> usize {
        self.store().total() as usize
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn free_effort(&self) -> usize {
        self.store().chunk_count()
    }

    fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        self.0.queue_step(probe.step, queue)
    }

    fn index_stamp(&self) -> u64 {
        self.settings().labels.stamp()
    }

    fn new_index(&self) -> Option<Box<dyn ValueIndex>> {
        Some(Box::<SeriesIndex>::default())
    }

    fn cut_links(&mut self) {
        self.0.cut_links();
    }
}

/// The series of a database's shard by their labels.
#[derive(Debug, Default)]
pub struct SeriesIndex {
    labels: LabelIndex,
    series: HashMap<u64, Indexed>,
}

/// A series that has labels.
#[derive(Debug)]
struct Indexed {
    key_hash: u64,
    labels: Labels,
}

impl ValueIndex for SeriesIndex {
    fn insert(&mut self, id: u64, key_hash: u64, object: &dyn ModuleObject) {
        let object: &dyn std::any::Any = object;
        let Some(series) = object.downcast_ref::<TimeSeries>() else { return };
        let labels = series.settings().labels.clone();
        self.labels.insert(id, labels.iter().map(|(name, value)| (&**name, &**value)));
        self.series.insert(id, Indexed { key_hash, labels });
    }

    fn remove(&mut self, id: u64) {
        self.labels.remove(id);
        self.series.remove(&id);
    }
}

impl SeriesIndex {
    /// Number of series.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The series that a filter admits: the hash of each one's key and its number (`Db::indexed`).
    pub fn matching<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = (u64, u64)> + 'a {
        let ids = self.labels.matches(filter).collect();
        ids.into_iter().filter_map(|id| Some((self.series.get(&id)?.key_hash, id)))
    }

    /// All series, as [`SeriesIndex::matching`] has them.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.series.iter().map(|(id, indexed)| (indexed.key_hash, *id))
    }

    /// The labels of a series.
    pub fn labels(&self, id: u64) -> Option<&Labels> {
        self.series.get(&id).map(|indexed| &indexed.labels)
    }
}

pub(crate) static DESCRIPTOR: ModuleDescriptor = ModuleDescriptor::of::<TimeSeries>();

impl ModuleType for TimeSeries {
    const NAME: &'static [u8; 9] = b"TSDB-TYPE";
    const ENCODING_VERSIONS: std::ops::RangeInclusive<u16> = 0..=saved::VERSION_NEWEST as u16;
    const VIEW: Option<&'static TypeView> = Some(&data_type::TIME_SERIES);

    fn written_version(&self) -> u16 {
        saved::version_of(self) as u16
    }

    fn save(&self, items: &mut ItemWriter<'_, '_>) {
        let Owner { key, has_links } = items.owner();
        let options = SaveOptions { version: saved::version_of(self), has_references: has_links };
        let mut fields = saved::encode_head(key, self, options);
        write(&mut fields, items);
        for chunk in self.store().chunks() {
            saved::encode_chunk(chunk, self.store().encoding(), &mut fields);
            write(&mut fields, items);
        }
    }

    fn load(items: &mut ItemReader<'_>, version: u16) -> Result<TimeSeries, Error> {
        let mut fields = Fields { items, error: None };
        let loaded = saved::decode(&mut fields, u64::from(version));
        match (fields.error, loaded) {
            (Some(error), _) => Err(error),
            (None, Ok(loaded)) => Ok(TimeSeries(loaded.series)),
            (None, Err(_)) => Err(Error::Corrupt("damaged time series")),
        }
    }

    fn digest(&self, digest: &mut Digest) {
        let settings = self.settings();
        digest.mix(format!("{:?}", self.store().encoding()).as_bytes());
        for number in [settings.retention_ms, settings.chunk_bytes, settings.ignore_time_ms] {
            digest.mix(&number.to_be_bytes());
        }
        digest.mix(&settings.ignore_value.to_bits().to_be_bytes());
        digest.mix(settings.policy.map_or("", |policy| policy.name()).as_bytes());
        for (name, value) in settings.labels.iter() {
            digest.mix(name);
            digest.mix(value);
        }
        // Ties to other keys are no content: DUMP leaves them out.
        for chunk in self.store().chunks() {
            for sample in chunk.to_samples() {
                digest.mix(&sample.timestamp.to_be_bytes());
                digest.mix(&sample.value.to_bits().to_be_bytes());
            }
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            out.array(|out| {
                for (name, value) in self.settings().labels.iter() {
                    out.array(|out| {
                        out.text(name);
                        out.text(value);
                    });
                }
            });
            out.array(|out| self.rules().iter().for_each(|rule| export_rule(rule, out)));
            out.array(|out| {
                for chunk in self.store().chunks() {
                    for sample in chunk.to_samples() {
                        out.array(|out| {
                            out.int(sample.timestamp);
                            out.float(sample.value);
                        });
                    }
                }
            });
        });
    }
}

fn export_rule(rule: &Rule, out: &mut Export<'_>) {
    out.array(|out| {
        out.text(&rule.destination);
        out.text(rule.aggregator().name().as_bytes());
        out.int(rule.buckets().duration());
        out.int(rule.buckets().alignment());
    });
}

/// Writes fields and leaves none.
fn write(fields: &mut Vec<Field>, items: &mut ItemWriter<'_, '_>) {
    for field in fields.drain(..) {
        match field {
            Field::Unsigned(number) => items.unsigned(number),
            Field::Signed(number) => items.signed(number),
            Field::Double(number) => items.double(number),
            Field::String(text) => items.string(&text),
        }
    }
}

/// The items of a value, for the decoder; it ends at the first error.
struct Fields<'a, 'b> {
    items: &'a mut ItemReader<'b>,
    error: Option<Error>,
}

impl Iterator for Fields<'_, '_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        if self.error.is_some() {
            return None;
        }
        match self.items.item_or_end() {
            Ok(None) => None,
            Ok(Some(Item::Unsigned(number))) => Some(Field::Unsigned(number)),
            Ok(Some(Item::Signed(number))) => Some(Field::Signed(number)),
            Ok(Some(Item::Float(number))) => Some(Field::Double(f64::from(number))),
            Ok(Some(Item::Double(number))) => Some(Field::Double(number)),
            Ok(Some(Item::String(text))) => Some(Field::String(text.to_vec())),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}
