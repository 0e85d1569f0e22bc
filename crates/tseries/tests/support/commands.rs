//! A command layer over the crate, as small as the comparison with RedisTimeSeries needs.

use super::{Reply, payload};
use martlet_base::number::{parse_f64, parse_i64};
use martlet_tseries::aggregate::Aggregator;
use martlet_tseries::error::Error;
use martlet_tseries::filter::Filter;
use martlet_tseries::index::LabelIndex;
use martlet_tseries::query::merge::Reduce;
use martlet_tseries::query::{AggregationOptions, Align, BucketTimestamp, RangeOptions, RangeQuery, Rows};
use martlet_tseries::rule::{Action, Buckets, Effect, Rule};
use martlet_tseries::sample::{DuplicatePolicy, Sample};
use martlet_tseries::saved::{self, Field, SaveOptions};
use martlet_tseries::series::{Series, Settings, label};
use martlet_tseries::store::Encoding;
use std::collections::BTreeMap;

/// Keys and their series.
#[derive(Default)]
pub struct Db {
    pub series: BTreeMap<Vec<u8>, Series>,
    index: LabelIndex,
    ids: Vec<Vec<u8>>,
    /// RedisTimeSeries takes an earlier sample for a destination's last one, from the time that an upsert
    /// puts a later one there until a bucket is closed. It is kept here so that nothing else differs.
    stale: BTreeMap<Vec<u8>, Sample>,
}

type Answer = Result<Reply, String>;

fn told(error: Error) -> String {
    error.reply().to_owned()
}

/// Arguments by name, from the one after `at` on.
struct Options<'a>(&'a [Vec<u8>]);

impl<'a> Options<'a> {
    fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|argument| argument.eq_ignore_ascii_case(name.as_bytes()))
    }

    fn after(&self, name: &str, offset: usize) -> Option<&'a [u8]> {
        self.0.get(self.find(name)? + offset).map(|argument| &**argument)
    }

    fn number(&self, name: &str, offset: usize) -> Option<u64> {
        self.after(name, offset).and_then(parse_i64).map(|number| number as u64)
    }
}

impl Db {
    /// The reply to a command; replies of commands that only the oracle has are null.
    pub fn call(&mut self, arguments: &[Vec<u8>]) -> Reply {
        let name = String::from_utf8_lossy(&arguments[0]).to_lowercase();
        let rest = &arguments[1..];
        let answer = match &*name {
            "ts.create" => self.create(rest),
            "ts.alter" => self.alter(rest),
            "ts.add" => self.add(rest),
            "ts.incrby" => self.increment(rest, 1.0),
            "ts.decrby" => self.increment(rest, -1.0),
            "ts.del" => self.delete(rest),
            "ts.createrule" => self.create_rule(rest),
            "ts.deleterule" => self.delete_rule(rest),
            "ts.get" => self.get(rest),
            "ts.range" => self.range(rest, false),
            "ts.revrange" => self.range(rest, true),
            "ts.mrange" => self.group(rest, false),
            "ts.mrevrange" => self.group(rest, true),
            "ts.queryindex" => self.query_index(rest),
            "ts.info" => self.info(rest),
            "dump" => self.dump(rest),
            "flushall" => {
                *self = Db::default();
                Ok(Reply::Simple("OK".to_owned()))
            }
            other => panic!("no command {other}"),
        };
        answer.unwrap_or_else(Reply::Error)
    }

    fn known(&self, key: &[u8]) -> Result<&Series, String> {
        self.series.get(key).ok_or_else(|| "ERR TSDB: the key does not exist".to_owned())
    }

    fn known_mut(&mut self, key: &[u8]) -> Result<&mut Series, String> {
        self.series.get_mut(key).ok_or_else(|| "ERR TSDB: the key does not exist".to_owned())
    }

    fn settings(rest: &[Vec<u8>], mut settings: Settings) -> Result<Settings, String> {
        let options = Options(rest);
        if let Some(retention) = options.number("RETENTION", 1) {
            settings.retention_ms = retention;
        }
        if let Some(bytes) = options.number("CHUNK_SIZE", 1) {
            settings.chunk_bytes = bytes;
        }
        if let Some(name) = options.after("DUPLICATE_POLICY", 1) {
            let policy = DuplicatePolicy::from_name(name);
            settings.policy = Some(policy.ok_or("ERR TSDB: Unknown DUPLICATE_POLICY")?);
        }
        if let Some(time) = options.number("IGNORE", 1) {
            settings.ignore_time_ms = time;
            settings.ignore_value = options.after("IGNORE", 2).and_then(parse_f64).unwrap_or(0.0);
        }
        if let Some(start) = options.find("LABELS") {
            let pairs = rest[start + 1..].chunks_exact(2);
            let labels: Result<Vec<_>, _> = pairs.map(|pair| label(&pair[0], &pair[1])).collect();
            settings.labels = labels.map_err(told)?.into();
        }
        Ok(settings)
    }

    fn create(&mut self, rest: &[Vec<u8>]) -> Answer {
        if self.series.contains_key(&rest[0]) {
            return Err("ERR TSDB: key already exists".to_owned());
        }
        let settings = Db::settings(&rest[1..], Settings::default())?;
        let encoding = match Options(rest).after("ENCODING", 1) {
            Some(name) if name.eq_ignore_ascii_case(b"uncompressed") => Encoding::Uncompressed,
            _ => Encoding::Compressed,
        };
        let series = Series::new(encoding, settings).map_err(told)?;
        self.insert(&rest[0], series);
        Ok(Reply::Simple("OK".to_owned()))
    }

    fn insert(&mut self, key: &[u8], series: Series) {
        let labels = series.settings().labels.clone();
        self.ids.push(key.to_vec());
        let id = self.ids.len() as u64 - 1;
        self.index.insert(id, labels.iter().map(|(name, value)| (&**name, &**value)));
        self.series.insert(key.to_vec(), series);
    }

    fn alter(&mut self, rest: &[Vec<u8>]) -> Answer {
        let series = self.known_mut(&rest[0])?;
        let settings = Db::settings(&rest[1..], series.settings().clone())?;
        series.alter(settings).map_err(told)?;
        let labels = self.known(&rest[0])?.settings().labels.clone();
        let id = self.ids.iter().position(|id| *id == rest[0]).expect("an id") as u64;
        self.index.insert(id, labels.iter().map(|(name, value)| (&**name, &**value)));
        Ok(Reply::Simple("OK".to_owned()))
    }

    fn add(&mut self, rest: &[Vec<u8>]) -> Answer {
        let timestamp = parse_i64(&rest[1]).ok_or("ERR TSDB: invalid timestamp")? as u64;
        let value = parse_f64(&rest[2]).ok_or("ERR TSDB: invalid value")?;
        if !self.series.contains_key(&rest[0]) {
            let series = Series::new(Encoding::Compressed, Db::settings(&rest[3..], Settings::default())?);
            self.insert(&rest[0], series.map_err(told)?);
        }
        let policy = Options(rest).after("ON_DUPLICATE", 1).and_then(DuplicatePolicy::from_name);
        let mut effects = Vec::new();
        let series = self.known_mut(&rest[0])?;
        let added = series.add(Sample::new(timestamp, value), policy, DuplicatePolicy::Block, &mut effects);
        let added = added.map_err(told)?;
        self.apply(&rest[0], effects);
        Ok(Reply::Integer(added.timestamp as i64))
    }

    fn increment(&mut self, rest: &[Vec<u8>], sign: f64) -> Answer {
        let by = parse_f64(&rest[1]).ok_or("ERR TSDB: invalid increase/decrease value")?;
        let timestamp = Options(rest).number("TIMESTAMP", 1).ok_or("ERR TSDB: invalid timestamp")?;
        let mut effects = Vec::new();
        let added = self.known_mut(&rest[0])?.increment(timestamp, by * sign, &mut effects).map_err(told)?;
        self.apply(&rest[0], effects);
        Ok(Reply::Integer(added.timestamp as i64))
    }

    fn delete(&mut self, rest: &[Vec<u8>]) -> Answer {
        let (from, to) = span(&rest[1..])?;
        let mut effects = Vec::new();
        let deleted = self.known_mut(&rest[0])?.delete(from, to, &mut effects).map_err(told)?;
        self.apply(&rest[0], effects);
        Ok(Reply::Integer(deleted as i64))
    }

    fn apply(&mut self, source: &[u8], effects: Vec<Effect>) {
        for effect in effects {
            let Some(destination) = self.series.get_mut(&*effect.destination) else { continue };
            let last = destination.last();
            let answer = destination.apply(&effect.action);
            let stale = self.stale.get(&*effect.destination).copied();
            let stale = match (&effect.action, stale.or(last)) {
                (Action::Replace(new), Some(last)) if new.timestamp > last.timestamp => Some(last),
                (Action::Replace(new), Some(last)) if new.timestamp == last.timestamp => {
                    stale.and(Some(*new))
                }
                (Action::Replace(_), _) => stale,
                (Action::Close(_), _) => None,
                (Action::Delete(from, to), _) => {
                    stale.filter(|stale| !(*from..=*to).contains(&stale.timestamp))
                }
                (Action::Reopen(_), _) => stale.filter(|stale| answer != Some(stale.timestamp)),
            };
            match stale {
                Some(stale) => self.stale.insert(effect.destination.to_vec(), stale),
                None => self.stale.remove(&*effect.destination),
            };
            if let Action::Reopen(_) = effect.action {
                let source = self.series.get_mut(source).expect("the source of an effect");
                source.reopen(&effect.destination, answer);
            }
        }
    }

    fn create_rule(&mut self, rest: &[Vec<u8>]) -> Answer {
        let options = Options(rest);
        let aggregator = options.after("AGGREGATION", 1).map(Aggregator::from_name);
        let aggregator = aggregator.ok_or("arity")?.map_err(told)?;
        let duration = options.number("AGGREGATION", 2).unwrap_or(0);
        let alignment = options.number("AGGREGATION", 3).unwrap_or(0);
        let buckets = Buckets::new(duration, alignment).map_err(told)?;
        let same = rest[0] == rest[1];
        let (source, destination) = if same {
            return Err(told(Error::RuleToItself));
        } else {
            (self.known(&rest[0])?, self.known(&rest[1])?)
        };
        Series::check_rule(&rest[0], source, &rest[1], destination).map_err(told)?;
        self.known_mut(&rest[0])?.add_rule(Rule::new(&rest[1], aggregator, buckets));
        self.known_mut(&rest[1])?.set_source(Some(&rest[0]));
        Ok(Reply::Simple("OK".to_owned()))
    }

    fn delete_rule(&mut self, rest: &[Vec<u8>]) -> Answer {
        self.known(&rest[1])?;
        self.known_mut(&rest[0])?.remove_rule(&rest[1]).map_err(told)?;
        self.known_mut(&rest[1])?.set_source(None);
        Ok(Reply::Simple("OK".to_owned()))
    }

    fn latest(&self, key: &[u8], series: &Series, rest: &[Vec<u8>]) -> Option<Sample> {
        Options(rest).find("LATEST")?;
        self.series.get(series.source()?)?.latest(key)
    }

    fn get(&mut self, rest: &[Vec<u8>]) -> Answer {
        let series = self.known(&rest[0])?;
        let last = self.stale.get(&rest[0]).copied().or(series.last());
        let sample = self.latest(&rest[0], series, rest).or(last);
        Ok(Reply::Array(sample.map_or(Vec::new(), |sample| {
            vec![Reply::Integer(sample.timestamp as i64), Reply::Double(sample.value)]
        })))
    }

    fn range(&mut self, rest: &[Vec<u8>], is_reverse: bool) -> Answer {
        let series = self.known(&rest[0])?;
        let options = range_options(&rest[1..], is_reverse)?;
        let latest = self.latest(&rest[0], series, rest);
        // In slices, so that these are compared as well.
        let (mut query, mut rows) = (RangeQuery::new(options, latest), Rows::default());
        while !query.step(series, 7, &mut rows) {}
        Ok(rendered(&rows))
    }

    fn matching(&self, expressions: &[Vec<u8>]) -> Result<Vec<&Vec<u8>>, String> {
        let filter = Filter::parse(expressions.iter().map(|text| &**text)).map_err(told)?;
        let mut keys: Vec<_> =
            self.index.matches(&filter).collect().into_iter().map(|id| &self.ids[id as usize]).collect();
        keys.sort();
        Ok(keys)
    }

    fn query_index(&mut self, rest: &[Vec<u8>]) -> Answer {
        Ok(Reply::Array(self.matching(rest)?.into_iter().map(|key| Reply::Bulk(key.clone())).collect()))
    }

    fn group(&mut self, rest: &[Vec<u8>], is_reverse: bool) -> Answer {
        let start = Options(rest).find("FILTER").expect("a filter");
        let groups = Options(rest).find("GROUPBY").expect("a label");
        let options = range_options(&rest[..start], is_reverse)?;
        let reducer = Aggregator::reducer(&rest[groups + 3]).map_err(told)?;
        let mut by_value: BTreeMap<&[u8], Vec<&Vec<u8>>> = BTreeMap::new();
        for key in self.matching(&rest[start + 1..groups])? {
            let mut labels = self.series[key].settings().labels.iter();
            if let Some((_, value)) = labels.find(|(name, _)| **name == *rest[groups + 1]) {
                by_value.entry(value).or_default().push(key);
            }
        }
        let mut answer = Vec::new();
        for (value, keys) in by_value {
            let series: Vec<&Series> = keys.iter().map(|key| &self.series[*key]).collect();
            let mut reduce = Reduce::new(&options, vec![None; keys.len()], reducer);
            let mut rows = Rows::default();
            while !reduce.step(&series, 50, &mut rows) {}
            if is_reverse {
                rows.timestamps.reverse();
                rows.values.reverse();
                let count = options.count.map_or(usize::MAX, |count| count as usize);
                rows.timestamps.truncate(count);
                rows.values.truncate(count);
            }
            let name = [&rest[groups + 1][..], b"=", value].concat();
            answer.push(Reply::Array(vec![Reply::Bulk(name), Reply::Array(vec![]), rendered(&rows)]));
        }
        Ok(Reply::Array(answer))
    }

    fn info(&mut self, rest: &[Vec<u8>]) -> Answer {
        let series = self.known(&rest[0])?;
        let info = series.info();
        let numbers = [
            info.total_samples,
            info.first_timestamp,
            self.stale.get(&rest[0]).map_or(info.last_timestamp, |last| last.timestamp),
            series.settings().retention_ms,
            info.chunk_count as u64,
            info.chunk_bytes,
        ];
        Ok(Reply::Array(numbers.map(|number| Reply::Integer(number as i64)).into()))
    }

    fn dump(&mut self, rest: &[Vec<u8>]) -> Answer {
        let options = SaveOptions { version: saved::VERSION_COMMON, has_references: false };
        let mut fields = saved::encode(&rest[0], self.known(&rest[0])?, options);
        if let Some(last) = self.stale.get(&rest[0]) {
            (fields[4], fields[5]) = (Field::Unsigned(last.timestamp), Field::Double(last.value));
        }
        Ok(Reply::Bulk(payload::write(&fields, options.version)))
    }
}

fn rendered(rows: &Rows) -> Reply {
    let rows = rows.timestamps.iter().zip(&rows.values);
    let row = |(timestamp, value): (&u64, &f64)| {
        Reply::Array(vec![Reply::Integer(*timestamp as i64), Reply::Double(*value)])
    };
    Reply::Array(rows.map(row).collect())
}

fn span(rest: &[Vec<u8>]) -> Result<(u64, u64), String> {
    let from = if rest[0] == b"-" { Some(0) } else { parse_i64(&rest[0]) };
    let to = if rest[1] == b"+" { Some(i64::MAX) } else { parse_i64(&rest[1]) };
    let from = from.filter(|from| *from >= 0).ok_or("ERR TSDB: wrong fromTimestamp")?;
    let to = to.filter(|to| *to >= 0).ok_or("ERR TSDB: wrong toTimestamp")?;
    Ok((from as u64, to as u64))
}

fn range_options(rest: &[Vec<u8>], is_reverse: bool) -> Result<RangeOptions, String> {
    let (from, to) = span(rest)?;
    let options = Options(rest);
    let mut range = RangeOptions::new(from, to);
    range.is_reverse = is_reverse;
    if let Some(start) = options.find("FILTER_BY_TS") {
        let numbers = rest[start + 1..].iter().map_while(|text| parse_i64(text)).map(|number| number as u64);
        range.set_timestamps(&numbers.collect::<Vec<u64>>());
    }
    if let Some(low) = options.after("FILTER_BY_VALUE", 1).and_then(parse_f64) {
        range.values = options.after("FILTER_BY_VALUE", 2).and_then(parse_f64).map(|high| (low, high));
    }
    // COUNT is also the name of an aggregator.
    let counts = (0..rest.len()).filter(|at| rest[*at].eq_ignore_ascii_case(b"COUNT"));
    let is_option = |at: &usize| !rest[at - 1].eq_ignore_ascii_case(b"AGGREGATION");
    range.count =
        { counts }.find(is_option).and_then(|at| parse_i64(rest.get(at + 1)?)).map(|count| count as u64);
    let Some(name) = options.after("AGGREGATION", 1) else { return Ok(range) };
    let aggregators = Aggregator::list(name).map_err(told)?;
    let align = match options.after("ALIGN", 1) {
        None => Align::Zero,
        Some(b"-") => Align::Start,
        Some(b"+") => Align::End,
        Some(text) => Align::At(parse_i64(text).ok_or("ERR TSDB: unknown ALIGN parameter")? as u64),
    };
    let duration = options.number("AGGREGATION", 2).unwrap_or(0);
    let mut asked = AggregationOptions::new(aggregators, duration, align, from, to).map_err(told)?;
    if let Some(name) = options.after("BUCKETTIMESTAMP", 1) {
        asked.timestamp =
            BucketTimestamp::from_name(name).ok_or("ERR TSDB: unknown BUCKETTIMESTAMP parameter")?;
    }
    asked.has_empty = options.find("EMPTY").is_some();
    range.aggregation = Some(asked);
    Ok(range)
}
