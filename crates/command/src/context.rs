//! A handler's context: its arguments, the keys, the reply, and the settings that matter to it.

use std::sync::Arc;

use martlet_base::number::{LongDouble, parse_f64, parse_f64_saturating, parse_i64};
use martlet_base::random::Random;
use martlet_engine::{Awaited, Keys};
use martlet_keyspace::{ExpiryChange, Key, Object};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Cursor, Error, Outcome, Presentation};
use martlet_tseries::policy::CompactionPolicy;
use martlet_tseries::sample::DuplicatePolicy;
use martlet_tseries::series::CHUNK_BYTES_DEFAULT;
use martlet_tseries::store::Encoding;
use martlet_types::array::ArrayLimits;
use martlet_types::hash::HashLimits;
use martlet_types::list::ListLimit;
use martlet_types::set::SetLimits;
use martlet_types::stream::{IdempotencyLimits, StreamLimits};
use martlet_types::zset::ZSetLimits;
use martlet_values::Limits;

use crate::fieldset::Fieldsets;
use crate::sketch::settings::SketchSettings;

/// Configuration that handlers read; the server makes a new one when the configuration changes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Longest string, in bytes (`proto-max-bulk-len`).
    pub string_max_bytes: usize,
    /// Number of databases (`databases`).
    pub databases: usize,
    /// The server is a node of a cluster (`cluster-enabled`): a command's keys are of one slot.
    pub is_clustered: bool,
    /// Percentage of the operations that a cluster could not run which are counted; 0 in a cluster.
    pub compatibility_sample_percent: u32,
    /// Until which size a list is a listpack (`list-max-listpack-size`).
    pub list_limit: ListLimit,
    /// When a set changes its encoding (`set-max-intset-entries`, `set-max-listpack-entries`,
    /// `set-max-listpack-value`).
    pub set_limits: SetLimits,
    /// When a hash becomes a hashtable (`hash-max-listpack-entries`, `hash-max-listpack-value`).
    pub hash_limits: HashLimits,
    /// When a sorted set becomes a skiplist (`zset-max-listpack-entries`, `zset-max-listpack-value`).
    pub zset_limits: ZSetLimits,
    /// When a node of a stream is full (`stream-node-max-bytes`, `stream-node-max-entries`).
    pub stream_limits: StreamLimits,
    /// When slices of an array change their reported form (`array-slice-size`, `array-sparse-kmax`,
    /// `array-sparse-kmin`).
    pub array_limits: ArrayLimits,
    /// Limits on the records of producers in a stream that is created (`stream-idmp-duration`,
    /// `stream-idmp-maxsize`).
    pub idempotency_limits: IdempotencyLimits,
    /// Length up to which a HyperLogLog is sparse, in bytes (`hll-sparse-max-bytes`).
    pub hll_sparse_max_bytes: usize,
    /// Whether strings are compressed in DUMP and files (`rdbcompression`).
    pub rdb_compression: bool,
    /// Whether FLUSHALL and FLUSHDB without a word answer before the removed values are freed
    /// (`lazyfree-lazy-user-flush`).
    pub lazy_user_flush: bool,
    /// Whether small numbers count as one object each that all keys share (OBJECT REFCOUNT): not where each
    /// key has an LRU or LFU clock that matters (`maxmemory`, `maxmemory-policy`).
    pub shared_integers: bool,
    /// As what the server presents itself (`martlet-presents-as`).
    pub presentation: Presentation,
    /// Whether no search of a vector set is left to another thread (`vset-force-single-threaded-execution`).
    pub vector_sets_inline: bool,
    /// Whether VADD looks for an element's neighbours while others use its shard: there are several threads.
    pub inserts_beside_others: bool,
    /// Options of filters that commands create (`bf-*`, `cf-*`).
    pub sketch: SketchSettings,
    /// What a time series begins with (`ts-*`).
    pub series: SeriesSettings,
}

/// What a time series that is created begins with, where its command does not say so.
#[derive(Clone, Debug)]
pub struct SeriesSettings {
    /// `ts-retention-policy`, milliseconds.
    pub retention_ms: u64,
    /// `ts-chunk-size-bytes`.
    pub chunk_bytes: u64,
    /// `ts-encoding`.
    pub encoding: Encoding,
    /// `ts-duplicate-policy`.
    pub policy: DuplicatePolicy,
    /// `ts-ignore-max-time-diff`, milliseconds.
    pub ignore_time_ms: u64,
    /// `ts-ignore-max-val-diff`.
    pub ignore_value: f64,
    /// The rules of series that TS.ADD, TS.INCRBY and TS.DECRBY create (`ts-compaction-policy`).
    pub compactions: Vec<CompactionPolicy>,
}

impl Default for SeriesSettings {
    fn default() -> Self {
        SeriesSettings {
            retention_ms: 0,
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            encoding: Encoding::Compressed,
            policy: DuplicatePolicy::Block,
            ignore_time_ms: 0,
            ignore_value: 0.0,
            compactions: Vec::new(),
        }
    }
}

impl Settings {
    /// Whether an operation that a cluster could not run counts.
    #[inline]
    pub fn samples_compatibility(&self, random: &mut Random) -> bool {
        let percent = self.compatibility_sample_percent;
        percent > 0 && (percent >= 100 || random.next_u64() % 100 < u64::from(percent))
    }

    /// When collections change their encoding that are read from RDB.
    pub fn decoding_limits(&self) -> Limits {
        Limits {
            list: self.list_limit,
            set: self.set_limits,
            hash: self.hash_limits,
            zset: self.zset_limits,
            array: self.array_limits,
            idempotency: self.idempotency_limits,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            string_max_bytes: martlet_base::limits::STRING_MAX_BYTES,
            databases: 16,
            is_clustered: false,
            compatibility_sample_percent: 0,
            list_limit: ListLimit::default(),
            set_limits: SetLimits::default(),
            hash_limits: HashLimits::default(),
            zset_limits: ZSetLimits::default(),
            stream_limits: StreamLimits::default(),
            array_limits: ArrayLimits::default(),
            idempotency_limits: IdempotencyLimits::default(),
            hll_sparse_max_bytes: 3000,
            rdb_compression: true,
            lazy_user_flush: false,
            shared_integers: true,
            vector_sets_inline: false,
            inserts_beside_others: false,
            sketch: SketchSettings::default(),
            series: SeriesSettings::default(),
            presentation: Presentation::Redis,
        }
    }
}

/// The event that a blocked client waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// One of the keys in these arguments with a value on which the handler, run again, can work.
    Keys(Vec<usize>, Awaited),
    /// The end of freeing removed values.
    Freed,
    /// Copies of its writes.
    Copies(Copies),
    /// Copies of the request itself, which is run again once there are.
    Replicated(Copies),
    /// The end of the server, or that it does not come about.
    Shutdown,
    /// The file that says which node of a cluster the server is to have been written.
    ClusterSaved,
    /// The reply, which is computed meanwhile.
    Computed(Computation),
    /// The reply, which a thread makes of other servers' answers.
    Asked,
}

/// The work of a [`Computation`].
type Compute = dyn Fn(&mut Computing, &mut Reply) + Send + Sync;

/// A reply that takes long to compute: another thread computes it while the client waits, and no other client
/// does.
#[derive(Clone)]
pub struct Computation(Arc<Compute>);

/// A computing thread's access to the keys.
pub struct Computing {
    /// Its view of the keys; nothing is locked.
    pub keys: Keys,
    /// Its number at the gate, which it is outside of. `None`: it is an I/O thread, and inside.
    pub outside: Option<usize>,
}

impl Computation {
    /// The reply that `write` writes.
    pub fn new(write: impl Fn(&mut Computing, &mut Reply) + Send + Sync + 'static) -> Computation {
        Computation(Arc::new(write))
    }

    /// Writes the reply.
    pub fn write(&self, computing: &mut Computing, reply: &mut Reply) {
        (self.0)(computing, reply);
    }
}

impl std::fmt::Debug for Computation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Computation")
    }
}

impl PartialEq for Computation {
    fn eq(&self, other: &Computation) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Computation {}

/// Copies of writes that a client waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// The end of it in the journal.
    pub position: u64,
    /// Its end in the stream for replicas, once that is known.
    pub offset: Option<u64>,
    /// It is to be on this server's disk.
    pub local: bool,
    /// The wanted number of replicas.
    pub replicas: u64,
    /// And that on their disks.
    pub on_disk: bool,
}

impl Wait {
    /// For a value of this type at one of the keys in these arguments.
    pub fn value<T: Object>(key_indexes: impl IntoIterator<Item = usize>) -> Wait {
        let awaited = Awaited { kind: T::KIND, until_removed: false };
        Wait::Keys(key_indexes.into_iter().collect(), awaited)
    }
}

/// A handler's wish to wait; see [`Context::block_on`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// For what.
    pub wait: Wait,
    /// The arguments that meant something at this time only, resolved: so the handler is run again.
    pub resolved: Vec<(usize, Vec<u8>)>,
    /// When to give up, Unix milliseconds; `None` for never.
    pub deadline_ms: Option<i64>,
    /// When the handler is to be run again though nothing has changed, Unix milliseconds.
    pub again_ms: Option<i64>,
    /// The answer after a timeout.
    pub on_timeout: TimeoutReply,
}

impl Block {
    /// A wait after which the handler is run with the arguments as they are.
    pub fn new(wait: Wait, deadline_ms: Option<i64>, on_timeout: TimeoutReply) -> Block {
        Block { wait, resolved: Vec::new(), deadline_ms, again_ms: None, on_timeout }
    }
}

/// A blocked command's answer when its time is up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    /// A null array.
    NullArray,
    /// A null.
    Null,
    /// An empty array.
    EmptyArray,
    /// OK.
    Ok,
    /// How many replicas have it; with `on_disk` two integers: whether it is on this server's disk comes
    /// first.
    Copies(Copies),
    /// [`NO_REPLICAS`].
    NoReplicas,
}

/// Returned when too few replicas are in sync.
pub const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// Whether a user may read a key.
pub type KeyReader<'a> = &'a dyn Fn(&[u8]) -> bool;

/// See the [module docs](self).
pub struct Context<'a> {
    /// The request; argument 0 is the command's name.
    pub args: Args<'a>,
    /// The keys; those that the command's key spec names are held.
    pub keys: &'a mut Keys,
    /// Where the answer goes.
    pub reply: &'a mut Reply,
    /// Settings.
    pub settings: &'a Settings,
    /// The first key's argument index and hash, if it has been hashed on the way here.
    pub first_key: Option<(usize, u64)>,
    /// The user may read any key, also those that the request does not name.
    pub reads_any_key: bool,
    /// Whether the user may read a key that the request does not name; `None` for a user that may read any.
    pub may_read_key: Option<KeyReader<'a>>,
    /// Waiting is not allowed here (inside MULTI or a script): answer as if the time were up.
    pub deny_blocking: bool,
    /// The client's prepared field sets for HIMPORT.
    pub fieldsets: &'a mut Fieldsets,
    /// Set by [`Context::block_on`].
    pub block: Option<Box<Block>>,
}

impl<'a> Context<'a> {
    /// Counts an operation that a cluster could not run, if it is one of the sample.
    pub fn count_incompatible(&mut self) {
        if self.settings.samples_compatibility(&mut self.keys.random) {
            self.keys.counters().incompatible.add(1);
        }
    }

    /// Whether the user may read all of these keys, which the request does not name.
    pub fn may_read<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        self.may_read_key.is_none_or(|may_read| keys.all(may_read))
    }

    /// The argument at `index`; empty if absent, which arity excludes for the mandatory ones.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args.at(index)
    }

    /// Stores the argument at `index` as a string, whatever the key held. A long one becomes the value
    /// without being copied.
    #[inline]
    pub fn set_str(&mut self, key: &Key<'_>, index: usize, expiry: ExpiryChange) {
        match self.args.shared(index) {
            Some(bytes) => self.keys.set_shared(key, bytes, expiry),
            None => self.keys.set_str(key, self.args.at(index), expiry),
        }
    }

    /// Number of arguments, the command's name included.
    #[inline]
    pub fn argc(&self) -> usize {
        self.args.len()
    }

    /// A cursor at the argument at `index`.
    pub fn rest(&self, index: usize) -> Cursor<'a> {
        Cursor::new(self.args, index)
    }

    /// The argument at `index` as a key.
    #[inline]
    pub fn key(&self, index: usize) -> Key<'a> {
        match self.first_key {
            Some((first, hash)) if first == index => Key { bytes: self.arg(index), hash },
            _ => Key::new(self.arg(index)),
        }
    }

    /// The argument at `index` as an integer.
    ///
    /// # Errors
    /// [`Error::NotInteger`].
    pub fn int(&self, index: usize) -> Result<i64, Error> {
        parse_i64(self.arg(index)).ok_or(Error::NotInteger)
    }

    /// The argument at `index` as a finite or infinite number.
    ///
    /// # Errors
    /// [`Error::NotFloat`], also for NaN.
    pub fn float(&self, index: usize) -> Result<f64, Error> {
        let text = self.arg(index);
        // Valkey knows no hexadecimal ones.
        let is_known =
            !(self.settings.presentation.is_valkey() && text.iter().any(|c| matches!(c, b'x' | b'X')));
        parse_f64(text).filter(|f| is_known && !f.is_nan()).ok_or(Error::NotFloat)
    }

    /// The argument at `index` as a blocking command's timeout in seconds: the deadline, or `None` for 0.
    ///
    /// # Errors
    /// Redis' three texts for a text that is not a number, is negative or too large.
    pub fn deadline_ms(&self, index: usize) -> Result<Option<i64>, Error> {
        let seconds =
            seconds(self.arg(index)).ok_or(Error::Fixed("ERR timeout is not a float or out of range"))?;
        let ms = (seconds * 1000.0).ceil();
        if ms > i64::MAX as f64 - 1024.0 {
            return Err(Error::Fixed("ERR timeout is out of range"));
        }
        if ms < 0.0 {
            return Err(Error::Fixed("ERR timeout is negative"));
        }
        if ms == 0.0 {
            return Ok(None);
        }
        let deadline = (ms as i64).checked_add(self.keys.now_ms());
        deadline.map(Some).ok_or(Error::Fixed("ERR timeout is out of range"))
    }

    /// Ends a blocking command that found nothing: it waits, and is run again from its start if that is for
    /// keys; or, where waiting is not allowed, answers as if the time were up.
    pub fn block_on(&mut self, block: Block) -> Outcome {
        if self.deny_blocking {
            block.on_timeout.write(self.reply, |_| (false, 0));
        } else {
            self.block = Some(Box::new(block));
        }
        Ok(())
    }
}

/// A timeout: the range of C's `long double`, in which Redis reads it, is wider than a double's.
fn seconds(text: &[u8]) -> Option<f64> {
    if let Some(seconds) = parse_f64(text) {
        return Some(seconds);
    }
    let (wide, saturated) = (LongDouble::parse(text)?, parse_f64_saturating(text)?);
    let sign = if wide.is_negative() { -1.0 } else { 1.0 };
    Some(if saturated == 0.0 { sign * f64::MIN_POSITIVE } else { saturated })
}

impl TimeoutReply {
    /// Writes the answer; `copies` has whether the writes are on this server's disk, and how many replicas
    /// have them.
    pub fn write(self, reply: &mut Reply, copies: impl FnOnce(&Copies) -> (bool, i64)) {
        match self {
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Null => reply.null(),
            TimeoutReply::EmptyArray => reply.array(0),
            TimeoutReply::Ok => reply.ok(),
            TimeoutReply::NoReplicas => reply.error(NO_REPLICAS),
            TimeoutReply::Copies(of) => {
                let (is_on_disk, replicas) = copies(&of);
                if of.on_disk {
                    reply.array(2);
                    reply.int(i64::from(is_on_disk));
                }
                reply.int(replicas);
            }
        }
    }
}
