//! Keys as the commands that make them: the base of an append-only file without `aof-use-rdb-preamble`.

use martlet_base::number::{NumberBuffer, format_f64_seventeen};
use martlet_engine::{SavedKey, SavedValue};
use martlet_journal::encode;
use martlet_keyspace::Value;
use martlet_rdb::file::SlotImport;
use martlet_types::array::Array;
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hash::NO_EXPIRY;
use martlet_types::stream::{Group, Id, Idempotency, Stream};

/// Elements of a collection that one command adds (Redis: `AOF_REWRITE_ITEMS_PER_CMD`).
const ELEMENTS: usize = 64;

/// Writes keys as commands.
#[derive(Debug, Default)]
pub struct CommandBase {
    db: Option<usize>,
    /// The written bytes.
    pub bytes: Vec<u8>,
}

fn text(element: Element<'_>) -> Vec<u8> {
    element.as_bytes(&mut IntBuffer::new()).to_vec()
}

fn number(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

impl CommandBase {
    /// Appends what loads a library of functions.
    pub fn write_library(&mut self, code: &[u8]) {
        self.command(&[b"FUNCTION", b"LOAD", code]);
    }

    /// Appends what says that slots' keys are on their way.
    pub fn write_import(&mut self, import: &SlotImport) {
        let ranges = import.ranges.iter().flat_map(|(first, last)| [number(first), number(last)]);
        let ranges: Vec<_> = ranges.collect();
        let words = [b"CLUSTER".as_slice(), b"SYNCSLOTS", b"ESTABLISH", b"NAME", &import.name, b"SLOTSRANGE"];
        self.command(&words.into_iter().chain(ranges.iter().map(Vec::as_slice)).collect::<Vec<_>>());
    }

    /// Appends what makes the key.
    pub fn key(&mut self, saved: &SavedKey<'_>) {
        if self.db.replace(saved.db) != Some(saved.db) {
            self.command(&[b"SELECT", &number(saved.db)]);
        }
        match saved.value {
            SavedValue::Str(value) => self.command(&[b"SET", saved.key, &value.to_vec()]),
            SavedValue::Shared(value) => self.value(saved.key, value),
        }
        if let Some(at_ms) = saved.expiry_ms {
            self.command(&[b"PEXPIREAT", saved.key, &number(at_ms)]);
        }
    }

    fn value(&mut self, key: &[u8], value: &Value) {
        match value {
            Value::Int(value) => self.command(&[b"SET", key, &number(value)]),
            Value::Str { bytes, .. } => self.command(&[b"SET", key, bytes]),
            Value::List(list) => self.elements(b"RPUSH", key, list.iter().map(|element| [text(element)])),
            Value::Set(set) => self.elements(b"SADD", key, set.iter().map(|member| [text(member)])),
            Value::ZSet(zset) => {
                let pair = |score: f64, member| {
                    [format_f64_seventeen(score, &mut NumberBuffer::new()).to_vec(), text(member)]
                };
                self.elements(b"ZADD", key, zset.iter().map(|entry| pair(entry.score, entry.member)));
            }
            Value::Stream(stream) => self.stream(key, stream),
            Value::Array(array) => self.array(key, array),
            Value::Hash(hash) => {
                self.elements(b"HMSET", key, hash.iter().map(|field| [text(field.name), text(field.value)]));
                for field in hash.iter().filter(|field| field.expire_at_ms != NO_EXPIRY) {
                    let at_ms = number(field.expire_at_ms);
                    self.command(&[b"HPEXPIREAT", key, &at_ms, b"FIELDS", b"1", &text(field.name)]);
                }
            }
        }
    }

    fn array(&mut self, key: &[u8], array: &Array) {
        self.elements(b"ARMSET", key, array.iter().map(|(index, element)| [number(index), text(element)]));
        if array.cursor().is_some() {
            self.command(&[b"ARSEEK", key, &number(array.next_index())]);
        }
    }

    fn stream(&mut self, key: &[u8], stream: &Stream) {
        let log = stream.log();
        let last_id = number(log.last_id());
        let gone = gone_records(stream);
        if log.is_empty() && gone.is_empty() {
            // The entry is trimmed as soon as it is added.
            let id = if log.last_id() == Id::MIN { b"0-1".to_vec() } else { last_id.clone() };
            self.command(&[b"XADD", key, b"MAXLEN", b"0", &id, b"x", b"y"]);
        }
        let mut ids = gone.iter().copied().peekable();
        for entry in log.range(Id::MIN, Id::MAX) {
            while let Some(id) = ids.next_if(|id| *id < entry.id) {
                self.command(&[b"XADD", key, &number(id), b"x", b"y"]);
            }
            let id = number(entry.id);
            let fields: Vec<_> = entry.fields.flat_map(|(name, value)| [text(name), text(value)]).collect();
            let fields = fields.iter().map(Vec::as_slice);
            self.command(&[b"XADD", key, &id].into_iter().chain(fields).collect::<Vec<_>>());
        }
        ids.for_each(|id| self.command(&[b"XADD", key, &number(id), b"x", b"y"]));
        if let Some(table) = stream.idempotency() {
            self.idempotency(key, stream, table, &gone);
        }
        let (added, deleted) = (number(log.entries_added()), number(log.max_deleted_id()));
        self.command(&[b"XSETID", key, &last_id, b"ENTRIESADDED", &added, b"MAXDELETEDID", &deleted]);
        stream.groups().for_each(|(name, group)| self.group(key, name, group));
    }

    /// The names under which producers have added entries. Those of deleted entries were added again, so that
    /// their records can follow, and are removed after that.
    fn idempotency(&mut self, key: &[u8], stream: &Stream, table: &Idempotency, gone: &[Id]) {
        let limits = stream.idempotency_limits();
        let (duration, max) = (number(limits.duration_s), number(limits.max_records));
        self.command(&[b"XCFGSET", key, b"IDMP-DURATION", &duration, b"IDMP-MAXSIZE", &max]);
        let log = stream.log();
        for (producer, _) in table.producers() {
            for (name, id) in table.records(producer) {
                if log.contains(id) || gone.binary_search(&id).is_ok() {
                    self.command(&[b"XIDMPRECORD", key, producer, name, &number(id)]);
                }
            }
        }
        if gone.is_empty() {
        } else if log.is_empty() {
            self.command(&[b"XTRIM", key, b"MAXLEN", b"0"]);
        } else if log.max_deleted_id() == Id::MIN {
            self.command(&[b"XTRIM", key, b"MINID", &number(log.first_id())]);
        } else {
            gone.iter().for_each(|id| self.command(&[b"XDEL", key, &number(*id)]));
        }
    }

    fn group(&mut self, key: &[u8], name: &[u8], group: &Group) {
        let last_id = number(group.last_id);
        let read = group.entries_read.map_or_else(|| b"-1".to_vec(), number);
        self.command(&[b"XGROUP", b"CREATE", key, name, &last_id, b"ENTRIESREAD", &read]);
        for (_, consumer) in group.consumers() {
            self.command(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer.name()]);
            for id in consumer.pending_from(Id::MIN) {
                let Some(pending) = group.pending(id) else { continue };
                let (time, count) = (number(pending.delivered_ms), number(pending.deliveries));
                let options: [&[u8]; 6] = [b"TIME", &time, b"RETRYCOUNT", &count, b"JUSTID", b"FORCE"];
                let claim = [b"XCLAIM", key, name, consumer.name(), b"0", &number(id)];
                self.command(&claim.into_iter().chain(options).collect::<Vec<_>>());
            }
        }
        for id in group.released() {
            let Some(pending) = group.pending(id) else { continue };
            let (id, count) = (number(id), number(pending.deliveries));
            let release: [&[u8]; 10] =
                [b"XNACK", key, name, b"FAIL", b"IDS", b"1", &id, b"RETRYCOUNT", &count, b"FORCE"];
            self.command(&release);
        }
    }

    fn elements<const N: usize>(&mut self, name: &[u8], key: &[u8], all: impl Iterator<Item = [Vec<u8>; N]>) {
        let mut all = all.peekable();
        while all.peek().is_some() {
            let some: Vec<_> = all.by_ref().take(ELEMENTS).flatten().collect();
            let args: Vec<&[u8]> = [name, key].into_iter().chain(some.iter().map(Vec::as_slice)).collect();
            self.command(&args);
        }
    }

    fn command(&mut self, args: &[&[u8]]) {
        encode(&mut self.bytes, args.iter().copied());
    }
}

/// The ids of entries that are gone, but that producers are remembered to have added; ascending. Without a
/// deletion by id, only of those before the first entry: no command takes out others without a trace.
fn gone_records(stream: &Stream) -> Vec<Id> {
    let log = stream.log();
    let bound = if log.max_deleted_id() == Id::MIN && !log.is_empty() { log.first_id() } else { Id::MAX };
    let Some(table) = stream.idempotency() else { return Vec::new() };
    let records = table.producers().flat_map(|(producer, _)| table.records(producer));
    let is_gone = |id: &Id| *id != Id::MIN && *id < bound && !log.contains(*id);
    let mut ids: Vec<Id> = records.map(|(_, id)| id).filter(is_gone).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
