//! The arguments of commands on time series. An option is looked for by its name among all arguments that
//! follow the fixed ones, as RedisTimeSeries does it: unknown words are passed over.

use martlet_base::number::{parse_f64, parse_i64};
use martlet_protocol::request::Args;
use martlet_spec::Error;
use martlet_tseries::aggregate::Aggregator;
use martlet_tseries::filter::Filter;
use martlet_tseries::query::{AggregationOptions, Align, BucketTimestamp, RangeOptions};
use martlet_tseries::rule::Buckets;
use martlet_tseries::sample::{DuplicatePolicy, TIMESTAMP_MAX};
use martlet_tseries::series::{Label, Labels, Settings, label};
use martlet_tseries::store::{Encoding, check_chunk_bytes};

use super::refused;
use super::reply::Shown;
use crate::context::SeriesSettings;

/// Most labels of SELECTED_LABELS.
const SELECTED_MAX: usize = 50;
/// Words that end SELECTED_LABELS.
const SELECTED_END: [&str; 10] = [
    "WITHLABELS",
    "AGGREGATION",
    "LIMIT",
    "GROUPBY",
    "REDUCE",
    "FILTER",
    "FILTER_BY_VALUE",
    "FILTER_BY_TS",
    "COUNT",
    "EXCLUDEEMPTY",
];

/// The arguments from the first optional one on.
#[derive(Copy, Clone)]
pub(super) struct Options<'a> {
    args: Args<'a>,
    from: usize,
    /// Arguments that are passed over, as if they were not there: where they begin, and how many they are.
    hidden: (usize, usize),
}

/// Whether a text is this word in any case.
fn is(text: &[u8], word: &str) -> bool {
    text.eq_ignore_ascii_case(word.as_bytes())
}

impl<'a> Options<'a> {
    pub(super) fn new(args: Args<'a>, from: usize) -> Options<'a> {
        Options { args, from, hidden: (args.len(), 0) }
    }

    fn len(self) -> usize {
        self.args.len() - self.hidden.1
    }

    /// The arguments from a place on.
    fn rest(self, from: usize) -> impl Iterator<Item = &'a [u8]> {
        (from..self.len()).filter_map(move |at| self.get(at))
    }

    /// The error for a wrong number of arguments.
    fn arity(self) -> Error {
        let name = String::from_utf8_lossy(self.args.at(0)).to_lowercase();
        Error::Text(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// The place of an option's name.
    pub(super) fn find(self, name: &str) -> Option<usize> {
        self.find_from(name, self.from)
    }

    fn find_from(self, name: &str, from: usize) -> Option<usize> {
        (from..self.len()).find(|at| self.get(*at).is_some_and(|text| is(text, name)))
    }

    fn get(self, index: usize) -> Option<&'a [u8]> {
        let (hidden, count) = self.hidden;
        self.args.get(if index < hidden { index } else { index + count })
    }

    /// The integer behind an option's name.
    fn int(self, name: &str, error: &'static str) -> Result<Option<i64>, Error> {
        let Some(at) = self.find(name) else { return Ok(None) };
        self.get(at + 1).and_then(parse_i64).map(Some).ok_or(Error::Fixed(error))
    }

    /// LATEST.
    pub(super) fn has_latest(self) -> bool {
        self.find("LATEST").is_some()
    }
}

/// A time: an integer that is not negative.
pub(super) fn time(text: &[u8]) -> Option<u64> {
    parse_i64(text).and_then(|time| u64::try_from(time).ok())
}

/// The value of a sample: JSON's form of a number, or NaN.
pub(super) fn sample_value(text: &[u8]) -> Option<f64> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    if is(unsigned, "nan") || is(text, "+nan") {
        return Some(f64::NAN);
    }
    // No sign but a minus, no zero before other digits, and digits on both sides of a point.
    let whole = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = !matches!(unsigned.get(..whole)?, [] | [b'0', _, ..]);
    let rest = unsigned.get(whole..)?;
    let is_right = match rest {
        [] => true,
        [b'.', digits @ ..] => digits.first().is_some_and(u8::is_ascii_digit),
        [b'e' | b'E', ..] => true,
        _ => false,
    };
    if !is_number || !is_right {
        return None;
    }
    parse_f64(text).filter(|value| value.is_finite()).or_else(|| {
        // Too small for a double.
        std::str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| *value == 0.0)
    })
}

/// A number in an option, also an infinite one.
pub(super) fn number(text: &[u8]) -> Option<f64> {
    parse_f64(text).filter(|value| !value.is_nan())
}

/// What TS.CREATE and TS.ALTER say of a series.
pub(super) struct Created {
    pub settings: Settings,
    pub encoding: Encoding,
}

/// The options of a series that is created.
pub(super) fn created(options: Options<'_>, defaults: &SeriesSettings) -> Result<Created, Error> {
    let labels = labels(options)?.unwrap_or_default();
    let retention = options.int("RETENTION", "ERR TSDB: Couldn't parse RETENTION")?;
    let retention_ms = match retention.map(u64::try_from) {
        None => defaults.retention_ms,
        Some(retention) => retention.map_err(|_| Error::Fixed("TSDB: Couldn't parse RETENTION"))?,
    };
    let chunk_bytes = chunk_bytes(options)?.unwrap_or(defaults.chunk_bytes);
    let encoding = encoding(options)?.unwrap_or(defaults.encoding);
    let policy = policy(options, "DUPLICATE_POLICY")?.unwrap_or(defaults.policy);
    let (ignore_time_ms, ignore_value) =
        ignored(options)?.unwrap_or((defaults.ignore_time_ms, defaults.ignore_value));
    let settings =
        Settings { retention_ms, chunk_bytes, policy: Some(policy), ignore_time_ms, ignore_value, labels };
    Ok(Created { settings, encoding })
}

/// LABELS: all arguments behind it, in pairs.
fn labels(options: Options<'_>) -> Result<Option<Labels>, Error> {
    let Some(at) = options.find("LABELS") else { return Ok(None) };
    let rest: Vec<&[u8]> = options.rest(at + 1).collect();
    let pairs = rest.chunks_exact(2).map(|pair| label(pair[0], pair[1]));
    let pairs: Vec<Label> = pairs.collect::<Result<_, _>>().map_err(refused)?;
    Ok(Some(pairs.into()))
}

fn chunk_bytes(options: Options<'_>) -> Result<Option<u64>, Error> {
    let bytes = options.int("CHUNK_SIZE", "ERR TSDB: Couldn't parse CHUNK_SIZE")?;
    let check = |bytes: i64| check_chunk_bytes(u64::try_from(bytes).unwrap_or(0)).map_err(refused);
    bytes.map(check).transpose()
}

fn encoding(options: Options<'_>) -> Result<Option<Encoding>, Error> {
    let named = |name: &[u8]| match () {
        () if is(name, "uncompressed") => Some(Encoding::Uncompressed),
        () if is(name, "compressed") => Some(Encoding::Compressed),
        () => None,
    };
    if let Some(at) = options.find("ENCODING") {
        let name = options.get(at + 1).ok_or_else(|| options.arity())?;
        return named(name).map(Some).ok_or(Error::Fixed("ERR TSDB: unknown ENCODING parameter"));
    }
    // The words alone, as before ENCODING.
    let words = [("COMPRESSED", Encoding::Compressed), ("UNCOMPRESSED", Encoding::Uncompressed)];
    Ok(words.into_iter().find(|(word, _)| options.find(word).is_some()).map(|(_, encoding)| encoding))
}

/// A duplicate policy behind an option's name.
pub(super) fn policy(options: Options<'_>, name: &str) -> Result<Option<DuplicatePolicy>, Error> {
    let Some(at) = options.find(name) else { return Ok(None) };
    let text = options.get(at + 1).ok_or(Error::Fixed("ERR TSDB: Couldn't parse DUPLICATE_POLICY"))?;
    let policy = DuplicatePolicy::from_name(text);
    policy.map(Some).ok_or(Error::Fixed("ERR TSDB: Unknown DUPLICATE_POLICY"))
}

fn ignored(options: Options<'_>) -> Result<Option<(u64, f64)>, Error> {
    let Some(at) = options.find("IGNORE") else { return Ok(None) };
    let time = options.get(at + 1).and_then(parse_i64);
    let value = options.get(at + 2).and_then(number);
    let (Some(time), Some(value)) = (time, value) else {
        return Err(Error::Fixed("ERR TSDB: Couldn't parse IGNORE"));
    };
    match u64::try_from(time) {
        Ok(time) if value >= 0.0 => Ok(Some((time, value))),
        _ => Err(Error::Fixed("ERR TSDB: IGNORE arguments cannot be negative")),
    }
}

/// A series' settings with those that TS.ALTER names changed.
pub(super) fn altered(
    options: Options<'_>,
    defaults: &SeriesSettings,
    mut settings: Settings,
) -> Result<Settings, Error> {
    let Created { settings: given, .. } = created(options, defaults)?;
    if options.find("RETENTION").is_some() {
        settings.retention_ms = given.retention_ms;
    }
    if options.find("CHUNK_SIZE").is_some() {
        settings.chunk_bytes = given.chunk_bytes;
    }
    if options.find("DUPLICATE_POLICY").is_some() {
        settings.policy = given.policy;
    }
    if options.find("LABELS").is_some() {
        settings.labels = given.labels;
    }
    if options.find("IGNORE").is_some() {
        (settings.ignore_time_ms, settings.ignore_value) = (given.ignore_time_ms, given.ignore_value);
    }
    Ok(settings)
}

/// TS.CREATERULE's AGGREGATION and alignment; `None` without the word.
pub(super) fn rule(options: Options<'_>) -> Result<Option<(Aggregator, Buckets)>, Error> {
    let Some((at, aggregators, duration)) = aggregation_head(options)? else { return Ok(None) };
    let alignment = match options.len() {
        7 => options.get(at + 3).and_then(time),
        _ => Some(0),
    };
    let alignment = alignment.ok_or(Error::Fixed("ERR TSDB: Couldn't parse alignTimestamp"))?;
    let [aggregator] = aggregators[..] else {
        return Err(Error::Fixed("ERR TSDB: CREATERULE requires exactly one aggregation type"));
    };
    Ok(Some((aggregator, Buckets::new(duration, alignment).map_err(refused)?)))
}

/// The place of AGGREGATION, its aggregators and its duration.
fn aggregation_head(options: Options<'_>) -> Result<Option<(usize, Vec<Aggregator>, u64)>, Error> {
    let Some(at) = options.find("AGGREGATION") else { return Ok(None) };
    let (Some(names), Some(duration)) = (options.get(at + 1), options.get(at + 2).and_then(parse_i64)) else {
        return Err(Error::Fixed("ERR TSDB: Couldn't parse AGGREGATION"));
    };
    let aggregators = Aggregator::list(names).map_err(refused)?;
    let duration = u64::try_from(duration).unwrap_or(0);
    if duration == 0 {
        return Err(refused(martlet_tseries::error::Error::BucketDuration));
    }
    Ok(Some((at, aggregators, duration)))
}

/// A span of time: `-` and `+` stand for its ends.
pub(super) fn span(from: &[u8], to: &[u8]) -> Result<(u64, u64), Error> {
    let start = if from == b"-" { Some(0) } else { time(from) };
    let end = if to == b"+" { Some(TIMESTAMP_MAX) } else { time(to) };
    let start = start.ok_or(Error::Fixed("ERR TSDB: wrong fromTimestamp"))?;
    Ok((start, end.ok_or(Error::Fixed("ERR TSDB: wrong toTimestamp"))?))
}

/// What to read of a series: the span at `from`, and the options behind it.
pub(super) fn range(args: Args<'_>, from: usize, is_reverse: bool) -> Result<RangeOptions, Error> {
    range_of(Options::new(args, from + 2), is_reverse)
}

/// As [`range`] for several series: all have one span and one length of buckets, and each its aggregators.
pub(super) fn ranges(
    args: Args<'_>,
    from: usize,
    series: usize,
    is_reverse: bool,
) -> Result<Vec<RangeOptions>, Error> {
    const COUNT: Error =
        Error::Fixed("ERR TSDB: the number of AGGREGATION arguments must be equal to numkeys");
    let mut options = Options::new(args, from + 2);
    let Some(at) = options.find("AGGREGATION").filter(|_| series > 1) else {
        return Ok(vec![range_of(options, is_reverse)?; series]);
    };
    let mut aggregators = Vec::new();
    for place in at + 1..=at + series {
        let names = args.get(place).filter(|text| parse_i64(text).is_none()).ok_or(COUNT)?;
        if names.is_empty() {
            return Err(refused(martlet_tseries::error::Error::UnknownAggregator));
        }
        aggregators.push(Aggregator::list(names).map_err(refused)?);
    }
    if args.get(at + series + 1).is_some_and(|text| Aggregator::from_name(text).is_ok()) {
        return Err(COUNT);
    }
    options.hidden = (at + 2, series - 1);
    let shared = range_of(options, is_reverse)?;
    let of_one = |aggregators: Vec<Aggregator>| {
        let mut range = shared.clone();
        if let Some(aggregation) = &mut range.aggregation {
            aggregation.aggregators = aggregators;
        }
        range
    };
    Ok(aggregators.into_iter().map(of_one).collect())
}

fn range_of(options: Options<'_>, is_reverse: bool) -> Result<RangeOptions, Error> {
    let (start, end) = (options.args.at(options.from - 2), options.args.at(options.from - 1));
    let (first, last) = span(start, end)?;
    let mut range = RangeOptions::new(first, last);
    range.is_reverse = is_reverse;
    range.count = count(options)?;
    let aggregation = aggregation(options, first, last)?;
    let align = align(options)?;
    match (align, &aggregation) {
        (Align::Zero, _) => {}
        (_, None) => {
            return Err(Error::Fixed("ERR TSDB: ALIGN parameter can only be used with AGGREGATION"));
        }
        (Align::Start, _) if start == b"-" => {
            let text = "ERR TSDB: start alignment can only be used with explicit start timestamp";
            return Err(Error::Fixed(text));
        }
        (Align::End, _) if end == b"+" => {
            let text = "ERR TSDB: end alignment can only be used with explicit end timestamp";
            return Err(Error::Fixed(text));
        }
        _ => {}
    }
    range.aggregation = match aggregation {
        Some(mut asked) => {
            let alignment = align.timestamp(first, last);
            asked.buckets = Buckets::new(asked.buckets.duration(), alignment).map_err(refused)?;
            Some(asked)
        }
        None => None,
    };
    range.values = by_value(options)?;
    if let Some(timestamps) = by_timestamp(options)? {
        range.set_timestamps(&timestamps);
    }
    Ok(range)
}

/// COUNT, unless it is the name of an aggregator or a reducer.
fn count(options: Options<'_>) -> Result<Option<u64>, Error> {
    let Some(mut at) = options.find("COUNT") else { return Ok(None) };
    for before in ["AGGREGATION", "REDUCE"] {
        if options.find(before).is_some_and(|name| name + 1 == at) {
            match options.find_from("COUNT", at + 1) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
    }
    let text = options.get(at + 1).ok_or(Error::Fixed("ERR TSDB: COUNT argument is missing"))?;
    let count = parse_i64(text).ok_or(Error::Fixed("ERR TSDB: Couldn't parse COUNT"))?;
    let count = u64::try_from(count).ok().filter(|count| *count > 0);
    count.map(Some).ok_or(Error::Fixed("ERR TSDB: Invalid COUNT value"))
}

fn aggregation(options: Options<'_>, from: u64, to: u64) -> Result<Option<AggregationOptions>, Error> {
    let Some((at, aggregators, duration)) = aggregation_head(options)? else { return Ok(None) };
    let asked = AggregationOptions::new(aggregators, duration, Align::Zero, from, to);
    let mut asked = asked.map_err(refused)?;
    if let Some(empty) = options.find("EMPTY") {
        if empty != at + 3 && empty != at + 5 {
            return Err(Error::Fixed(
                "ERR TSDB: EMPTY flag should be the 3rd or 5th flag after AGGREGATION flag",
            ));
        }
        asked.has_empty = true;
    }
    if let Some(place) = options.find("BUCKETTIMESTAMP") {
        if place != at + 3 && place != at + 4 {
            return Err(Error::Fixed(
                "ERR TSDB: BUCKETTIMESTAMP flag should be the 3rd or 4th flag after AGGREGATION flag",
            ));
        }
        let name = options.get(place + 1).ok_or_else(|| options.arity())?;
        let timestamp = BucketTimestamp::from_name(name);
        asked.timestamp = timestamp.ok_or(Error::Fixed("ERR TSDB: unknown BUCKETTIMESTAMP parameter"))?;
    }
    Ok(Some(asked))
}

fn align(options: Options<'_>) -> Result<Align, Error> {
    let Some(at) = options.find("ALIGN") else { return Ok(Align::Zero) };
    let text = options.get(at + 1).ok_or_else(|| options.arity())?;
    match () {
        () if is(text, "start") || text == b"-" => Ok(Align::Start),
        () if is(text, "end") || text == b"+" => Ok(Align::End),
        () => time(text).map(Align::At).ok_or(Error::Fixed("ERR TSDB: unknown ALIGN parameter")),
    }
}

fn by_value(options: Options<'_>) -> Result<Option<(f64, f64)>, Error> {
    let Some(at) = options.find("FILTER_BY_VALUE") else { return Ok(None) };
    let (Some(low), Some(high)) = (options.get(at + 1), options.get(at + 2)) else {
        return Err(Error::Fixed("ERR TSDB: FILTER_BY_VALUE one or more arguments are missing"));
    };
    let low = number(low).ok_or(Error::Fixed("ERR TSDB: Couldn't parse MIN"))?;
    Ok(Some((low, number(high).ok_or(Error::Fixed("ERR TSDB: Couldn't parse MAX"))?)))
}

fn by_timestamp(options: Options<'_>) -> Result<Option<Vec<u64>>, Error> {
    let Some(at) = options.find("FILTER_BY_TS") else { return Ok(None) };
    let timestamps: Vec<u64> = options.rest(at + 1).map_while(time).collect();
    if timestamps.is_empty() {
        return Err(Error::Fixed("ERR TSDB: FILTER_BY_TS one or more arguments are missing"));
    }
    Ok(Some(timestamps))
}

/// WITHLABELS and SELECTED_LABELS.
pub(super) fn shown<'a>(options: Options<'a>) -> Result<Shown<'a>, Error> {
    let all = options.find("WITHLABELS").is_some();
    let Some(at) = options.find("SELECTED_LABELS") else {
        return Ok(if all { Shown::All } else { Shown::Nothing });
    };
    if all {
        return Err(Error::Fixed("ERR TSDB: cannot accept WITHLABELS and SELECT_LABELS together"));
    }
    let is_end = |text: &[u8]| SELECTED_END.iter().any(|word| is(text, word));
    let names: Vec<&[u8]> = options.rest(at + 1).take_while(|text| !is_end(text)).collect();
    match names.len() {
        0 => Err(Error::Fixed("ERR TSDB: SELECT_LABELS should have at least 1 parameter")),
        1..=SELECTED_MAX => Ok(Shown::Selected(names)),
        _ => Err(Error::Fixed("ERR TSDB: reached max size for SELECT_LABELS")),
    }
}

/// The expressions of a filter, from one argument to before another.
pub(super) fn filter(args: Args<'_>, from: usize, to: usize) -> Result<Filter, Error> {
    Filter::parse((from..to).map(|at| args.at(at))).map_err(refused)
}

/// GROUPBY and REDUCE.
pub(super) struct Grouping<'a> {
    pub label: &'a [u8],
    pub reducer: Aggregator,
}

/// The arguments of TS.MRANGE behind its span.
pub(super) struct Selection<'a> {
    pub filter: Filter,
    pub shown: Shown<'a>,
    pub grouping: Option<Grouping<'a>>,
    /// EXCLUDEEMPTY.
    pub is_dense: bool,
}

/// FILTER, GROUPBY and what to show, of TS.MRANGE; `aggregators` is the number of AGGREGATION's.
pub(super) fn selection<'a>(args: Args<'a>, aggregators: usize) -> Result<Selection<'a>, Error> {
    let options = Options::new(args, 3);
    let at = options.find("FILTER").ok_or(Error::Fixed("ERR TSDB: missing FILTER argument"))?;
    let shown = shown(options)?;
    let group = options.find("GROUPBY");
    if group.is_some_and(|group| group < at) {
        return Err(Error::Fixed("ERR TSDB: GROUPBY should always come after filter"));
    }
    let end = group.unwrap_or(args.len());
    // A label may be called so.
    let exclude = options.find("EXCLUDEEMPTY").filter(|place| group.is_none_or(|group| *place != group + 1));
    if end == at + 1 {
        return Err(Error::Fixed("ERR TSDB: missing labels for filter argument"));
    }
    let filter = filter(args, at + 1, end)?;
    if exclude.is_some() && group.is_some() {
        return Err(Error::Fixed("ERR TSDB: EXCLUDEEMPTY is not allowed with GROUPBY"));
    }
    let grouping = match group {
        Some(group) => Some(grouping(options, group, aggregators)?),
        None => None,
    };
    Ok(Selection { filter, shown, grouping, is_dense: exclude.is_some() })
}

fn grouping<'a>(options: Options<'a>, at: usize, aggregators: usize) -> Result<Grouping<'a>, Error> {
    let label = options.get(at + 1).ok_or_else(|| options.arity())?;
    let reduce = options.find("REDUCE").filter(|_| options.len() - at == 4).ok_or_else(|| options.arity())?;
    let reducer =
        Aggregator::reducer(options.get(reduce + 1).ok_or_else(|| options.arity())?).map_err(refused)?;
    if aggregators > 1 {
        let text = "ERR TSDB: GROUPBY is not allowed when multiple aggregators are specified";
        return Err(Error::Fixed(text));
    }
    Ok(Grouping { label, reducer })
}
