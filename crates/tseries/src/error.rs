//! Errors, in RedisTimeSeries' own words.

use std::fmt;

/// Why an operation was refused; it has changed nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A sample older than the series' retention.
    OlderThanRetention,
    /// The timestamp is taken, and the policy does not let the two values be joined.
    Duplicate,
    /// TS.INCRBY at a timestamp before the last one.
    TimestampInPast,
    /// TS.INCRBY where the last value is NaN.
    IncrementOfNan,
    /// A deletion that would recompute buckets whose samples have expired.
    DeleteBeyondRetention,
    /// A rule whose source and destination are the same key.
    RuleToItself,
    /// The source of a rule is the destination of another.
    SourceIsDestination,
    /// The destination of a rule is the source of another.
    DestinationIsSource,
    /// The destination of a rule is the destination of another.
    DestinationIsTaken,
    /// TS.DELETERULE of a rule that is not there.
    NoSuchRule,
    /// A bucket of no length.
    BucketDuration,
    /// A chunk size that is not a multiple of 8 between 48 and 1,048,576.
    ChunkSize,
    /// A label or its value that is empty, or a value with a parenthesis or a comma.
    Labels,
    /// The name of no aggregator.
    UnknownAggregator,
    /// An empty name in a list of aggregators.
    EmptyAggregator,
    /// More aggregators than there are.
    TooManyAggregators,
    /// A reducer that GROUPBY does not take.
    Reducer,
    /// A malformed filter expression.
    Filter,
    /// Filters of which none names a value that is wanted.
    NoMatcher,
}

impl Error {
    /// The reply's text, with its code where RedisTimeSeries sends one.
    pub fn reply(self) -> &'static str {
        match self {
            Error::OlderThanRetention => "ERR TSDB: Timestamp is older than retention",
            Error::Duplicate => {
                "ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode, \
                 or either current or new value is NaN and DUPLICATE_POLICY is MAX/MIN/SUM"
            }
            Error::TimestampInPast => {
                "TSDB: timestamp must be equal to or higher than the maximum existing timestamp"
            }
            Error::IncrementOfNan => "ERR TSDB: cannot increment/decrement NaN value",
            Error::DeleteBeyondRetention => {
                "ERR TSDB: When a series has compactions, deleting samples or compaction buckets beyond the \
                 series retention period is not possible"
            }
            Error::RuleToItself => "ERR TSDB: the source key and destination key should be different",
            Error::SourceIsDestination => "ERR TSDB: the source key already has a source rule",
            Error::DestinationIsSource => "ERR TSDB: the destination key already has a dst rule",
            Error::DestinationIsTaken => "ERR TSDB: the destination key already has a src rule",
            Error::NoSuchRule => "ERR TSDB: compaction rule does not exist",
            Error::BucketDuration => "ERR TSDB: bucketDuration must be greater than zero",
            Error::ChunkSize => {
                "ERR TSDB: CHUNK_SIZE value must be a multiple of 8 in the range [48 .. 1048576]"
            }
            Error::Labels => "ERR TSDB: Couldn't parse LABELS",
            Error::UnknownAggregator => "ERR TSDB: Unknown aggregation type",
            Error::EmptyAggregator => "ERR TSDB: Empty aggregation type in list",
            Error::TooManyAggregators => "ERR TSDB: Too many aggregation types",
            Error::Reducer => "ERR TSDB: Invalid reducer type",
            Error::Filter => "ERR TSDB: failed parsing labels",
            Error::NoMatcher => "ERR TSDB: please provide at least one matcher",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reply())
    }
}

impl std::error::Error for Error {}
