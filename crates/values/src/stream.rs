//! Streams: nodes of entries, each a listpack, and consumer groups.
//!
//! ```text
//! nodes:  count, then per node its first id as string of 16 bytes, and a listpack as string
//! length │ last id │ first id, highest deleted id, entries ever added: from 19 on
//! groups: count, then per group
//!   name │ last id │ entries read, -1 if unknown: from 19 on
//!   pending:   count, then per entry id: 16 │ delivered at, ms: 8 │ deliveries
//!   consumers: count, then per consumer
//!     name │ seen at, ms: 8 │ active at, ms: 8, from 21 on │ count, ids: 16 each
//!   without consumer: count, ids: 16 each, in the order in which they were released: 27
//! from 26 on:
//!   seconds that idempotency records are kept │ most of a producer
//!   producers: count, then per producer name │ count, then per record name │ id
//!   records ever made │ duplicates
//! ```
//!
//! Ids of 16 bytes are big-endian, others two lengths. A node's listpack:
//!
//! ```text
//! entries │ deleted entries │ names' count │ name … │ 0 │ entry …
//! entry: flags: 1 deleted, 2 has those names │ ms - first ms │ seq - first seq │
//!        count, if it has its own names │ value …, or name, value … │ elements before this one
//! ```

use martlet_keyspace::Object;
use martlet_rdb::input::{Input, InputExt};
use martlet_rdb::{Error, Sink, Writer, listpack, read_bytes, read_count, read_plain_length, skip_bytes};
use martlet_rdb::{write_bytes, write_length};
use martlet_spec::data_type::{self, TypeView};
use martlet_types::element::Element;
use martlet_types::stream::{
    Entry, Group, Id, Idempotency, IdempotencyLimits, Log, NodeView, Pending, Stream,
};

use crate::commands::{Commands, number};
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType, Requirement};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::{
    VERSION_IDEMPOTENCY, VERSION_LISTPACKS, VERSION_RELEASED, VERSION_SET_LISTPACKS, VERSION_STREAMS,
    VERSION_VALKEY,
};

mod commands;

/// The forms, of which each has all that those before have.
const PLAIN: u8 = 15;
const WITH_COUNTERS: u8 = 19;
const WITH_ACTIVITY: u8 = 21;
const WITH_IDEMPOTENCY: u8 = 26;
const WITH_RELEASED: u8 = 27;

const DELETED: i64 = 1;
const SAME_NAMES: i64 = 2;
/// Elements of an entry besides names and values: flags and both numbers of the id.
const ENTRY_ELEMENTS: i64 = 3;
const BAD_NODE: Error = Error::Corrupt("Stream listpack integrity check failed.");
const OUT_OF_ORDER: Error = Error::Corrupt("stream entries out of order");

pub(crate) static DESCRIPTOR: Descriptor = Descriptor::of::<Stream>();

impl DataType for Stream {
    const RDB_TYPES: &'static [RdbType] = &[
        RdbType { byte: PLAIN, since: VERSION_STREAMS },
        RdbType { byte: WITH_COUNTERS, since: VERSION_LISTPACKS },
        RdbType { byte: WITH_ACTIVITY, since: VERSION_SET_LISTPACKS },
        RdbType { byte: WITH_IDEMPOTENCY, since: VERSION_IDEMPOTENCY },
        RdbType { byte: WITH_RELEASED, since: VERSION_RELEASED },
    ];
    const REQUIREMENTS: &'static [Requirement] = &[
        Requirement { version: VERSION_STREAMS, in_valkey: true, values: "streams" },
        Requirement {
            version: VERSION_IDEMPOTENCY,
            in_valkey: false,
            values: "streams with idempotency records",
        },
        Requirement {
            version: VERSION_RELEASED,
            in_valkey: false,
            values: "streams with entries that are pending without a consumer",
        },
    ];
    // Redis has none.
    const KEYSIZES: Option<&'static str> = None;
    const VIEW: Option<&'static TypeView> = Some(&data_type::STREAM);

    fn rdb_type(&self, version: u16) -> u8 {
        if version >= VERSION_VALKEY {
            // Valkey has no further forms.
            return WITH_ACTIVITY;
        }
        match version.max(self.lowest_version()) {
            VERSION_RELEASED.. => WITH_RELEASED,
            VERSION_IDEMPOTENCY.. => WITH_IDEMPOTENCY,
            VERSION_SET_LISTPACKS.. => WITH_ACTIVITY,
            VERSION_LISTPACKS.. => WITH_COUNTERS,
            _ => PLAIN,
        }
    }

    fn write(&self, out: &mut Writer<'_>, byte: u8, compress: bool) {
        write(out, self, byte, compress);
    }

    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<Stream, Error> {
        read(input, encoded.byte, encoded.limits.idempotency)
    }

    fn skip(input: &mut &[u8], byte: u8, _version: u16) -> Result<(), Error> {
        skip(input, byte)
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        commands::stream(self, key, out);
    }

    fn digest(&self, digest: &mut Digest) {
        for entry in self.log().range(Id::MIN, Id::MAX) {
            digest.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.fields {
                digest.mix_element(name);
                digest.mix_element(value);
            }
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            for entry in self.log().range(Id::MIN, Id::MAX) {
                out.array(|out| {
                    out.text(&number(entry.id));
                    for (name, value) in entry.fields {
                        out.element(name);
                        out.element(value);
                    }
                });
            }
        });
    }
}

fn write_id(out: &mut Writer<'_>, id: Id) {
    write_length(out, id.ms);
    write_length(out, id.seq);
}

/// Writes a stream in the form of `byte`.
fn write(out: &mut Writer<'_>, stream: &Stream, byte: u8, compress: bool) {
    let log = stream.log();
    write_length(out, log.node_count() as u64);
    let mut node = listpack::Writer::new();
    for view in log.nodes() {
        write_bytes(out, &view.master().to_bytes(), compress);
        push_node(&mut node, &view);
        node.finish(|bytes| write_bytes(out, bytes, compress));
    }
    write_length(out, log.len());
    write_id(out, log.last_id());
    if byte != PLAIN {
        write_id(out, log.first_id());
        write_id(out, log.max_deleted_id());
        write_length(out, log.entries_added());
    }
    write_length(out, stream.group_count() as u64);
    for (name, group) in stream.groups() {
        write_bytes(out, name, compress);
        write_id(out, group.last_id);
        if byte != PLAIN {
            write_length(out, group.entries_read.unwrap_or(u64::MAX));
        }
        write_group(out, group, byte, compress);
    }
    if byte >= WITH_IDEMPOTENCY {
        write_idempotency(out, stream, compress);
    }
}

fn write_idempotency(out: &mut Writer<'_>, stream: &Stream, compress: bool) {
    let limits = stream.idempotency_limits();
    write_length(out, u64::from(limits.duration_s));
    write_length(out, u64::from(limits.max_records));
    let Some(table) = stream.idempotency() else {
        return (0..3).for_each(|_| write_length(out, 0));
    };
    write_length(out, table.producer_count() as u64);
    for (producer, records) in table.producers() {
        write_bytes(out, producer, compress);
        write_length(out, records as u64);
        for (name, id) in table.records(producer) {
            write_bytes(out, name, compress);
            write_id(out, id);
        }
    }
    write_length(out, table.added);
    write_length(out, table.duplicates);
}

fn push_node(out: &mut listpack::Writer, node: &NodeView<'_>) {
    let count = node.name_count() as i64;
    [i64::from(node.count()), 0, count].into_iter().for_each(|int| out.push(Element::Int(int)));
    node.names().for_each(|name| out.push(name));
    out.push(Element::Int(0));
    let master = node.master();
    for Entry { id, fields } in node.entries() {
        let (has_master_names, count) = (fields.has_master_names(), fields.len() as i64);
        out.push(Element::Int(if has_master_names { SAME_NAMES } else { 0 }));
        out.push(Element::Int(id.ms.wrapping_sub(master.ms) as i64));
        out.push(Element::Int(id.seq.wrapping_sub(master.seq) as i64));
        if !has_master_names {
            out.push(Element::Int(count));
        }
        for (name, value) in fields {
            if !has_master_names {
                out.push(name);
            }
            out.push(value);
        }
        out.push(Element::Int(entry_elements(has_master_names, count)));
    }
}

/// Elements of an entry, without the last one, which is their number.
fn entry_elements(has_master_names: bool, count: i64) -> i64 {
    ENTRY_ELEMENTS + if has_master_names { count } else { 1 + 2 * count }
}

fn write_group(out: &mut Writer<'_>, group: &Group, byte: u8, compress: bool) {
    // Earlier kinds have no place for pending entries without a consumer; such a stream is not written as
    // one.
    let has_released = byte >= WITH_RELEASED;
    let hidden = if has_released { 0 } else { group.released_count() };
    write_length(out, (group.pending_count() - hidden) as u64);
    for (id, pending) in group.pending_from(Id::MIN) {
        if pending.consumer.is_none() && !has_released {
            continue;
        }
        out.put(&id.to_bytes());
        out.put(&pending.delivered_ms.to_le_bytes());
        write_length(out, pending.deliveries);
    }
    write_length(out, group.consumer_count() as u64);
    for (_, consumer) in group.consumers() {
        write_bytes(out, consumer.name(), compress);
        out.put(&consumer.seen_ms.to_le_bytes());
        if byte >= WITH_ACTIVITY {
            out.put(&consumer.active_ms.to_le_bytes());
        }
        write_length(out, consumer.pending_count() as u64);
        consumer.pending_from(Id::MIN).for_each(|id| out.put(&id.to_bytes()));
    }
    if has_released {
        write_length(out, group.released_count() as u64);
        group.released().for_each(|id| out.put(&id.to_bytes()));
    }
}

fn read_id(input: &mut (impl Input + ?Sized)) -> Result<Id, Error> {
    Ok(Id { ms: read_plain_length(input)?, seq: read_plain_length(input)? })
}

/// Reads a stream that was written in the form of `byte`; it has these limits if it does not tell its own.
fn read(
    input: &mut (impl Input + ?Sized),
    byte: u8,
    idempotency: IdempotencyLimits,
) -> Result<Stream, Error> {
    let (mut stream, mut scratch) = (Stream::new(), Vec::new());
    stream.set_default_idempotency_limits(idempotency);
    let mut last = None;
    for _ in 0..read_count(input)? {
        let master = read_bytes(input, &mut scratch)?;
        let master = master
            .try_into()
            .map_err(|_| Error::Corrupt("Stream node key entry is not the size of a stream ID"))?;
        let node = listpack::read(read_bytes(input, &mut scratch)?)?.recounting();
        last = NodeReader { elements: node, master: Id::from_bytes(master), last }.read(&mut stream)?;
    }
    read_counters(input, byte, stream.log_mut(), last)?;
    for _ in 0..read_count(input)? {
        let name = read_bytes(input, &mut scratch)?.to_vec();
        let last_id = read_id(input)?;
        let entries_read = match byte {
            PLAIN => stream.log().entries_up_to(last_id),
            _ => Some(read_plain_length(input)?).filter(|count| i64::try_from(*count).is_ok()),
        };
        let mut group = Group::new(last_id, entries_read);
        read_group(input, byte, &mut group)?;
        if !stream.add_group(&name, group) {
            return Err(Error::Corrupt("Duplicated consumer group name"));
        }
    }
    if byte >= WITH_IDEMPOTENCY {
        read_idempotency(input, &mut stream)?;
    }
    Ok(stream)
}

/// Reads the numbers about all entries. Those that follow from the entries are counted again: Redis loads
/// files in which they are wrong, as its unstable branch of 2018 did not adjust a trimmed stream's length.
fn read_counters(
    input: &mut (impl Input + ?Sized),
    byte: u8,
    log: &mut Log,
    last: Option<Id>,
) -> Result<(), Error> {
    if read_plain_length(input)? > 0 && log.is_empty() {
        return Err(Error::Corrupt("Stream length inconsistent with rax entries"));
    }
    let last_id = read_id(input)?.max(last.unwrap_or(Id::MIN));
    log.set_last_id(last_id);
    log.set_entries_added(log.len());
    if byte != PLAIN {
        read_id(input)?;
        log.set_max_deleted_id(read_id(input)?.min(last_id));
        log.set_entries_added(read_plain_length(input)?.max(log.len()));
    }
    Ok(())
}

fn read_idempotency(input: &mut (impl Input + ?Sized), stream: &mut Stream) -> Result<(), Error> {
    let mut limit = || -> Result<u32, Error> {
        let limit = u32::try_from(read_plain_length(input)?).ok().filter(|limit| *limit > 0);
        limit.ok_or(Error::Corrupt("Stream IDMP configuration out of range"))
    };
    let limits = IdempotencyLimits { duration_s: limit()?, max_records: limit()? };
    let (mut table, mut scratch) = (Idempotency::default(), Vec::new());
    for _ in 0..read_count(input)? {
        let producer = read_bytes(input, &mut scratch)?.to_vec();
        for _ in 0..read_count(input)? {
            let name = read_bytes(input, &mut scratch)?.to_vec();
            let id = read_id(input)?;
            if table.get(&producer, &name).is_some() {
                return Err(Error::Corrupt("Duplicated IDMP entry loading a stream"));
            }
            table.insert(&producer, &name, id, u32::MAX);
        }
    }
    (table.added, table.duplicates) = (read_plain_length(input)?, read_plain_length(input)?);
    let is_used = table.added > 0 || table.duplicates > 0 || table.record_count() > 0;
    // Every stream of these kinds has limits: they are a setting of the stream only if they differ from the
    // default.
    stream.set_idempotency_limits(limits);
    if is_used {
        *stream.idempotency_mut() = table;
    }
    Ok(())
}

/// A node's listpack being read.
struct NodeReader<'a> {
    elements: listpack::Reader<'a>,
    master: Id,
    /// The last entry before.
    last: Option<Id>,
}

impl<'a> NodeReader<'a> {
    fn next(&mut self) -> Result<Element<'a>, Error> {
        self.elements.next().ok_or(BAD_NODE)?
    }

    fn int(&mut self) -> Result<i64, Error> {
        self.next()?.as_int().ok_or(BAD_NODE)
    }

    /// Reads the entries; the last one's id.
    fn read(mut self, stream: &mut Stream) -> Result<Option<Id>, Error> {
        // Both numbers of entries follow from the entries, which go to the listpack's end.
        let (_, _, name_count) = (self.int()?, self.int()?, self.int()?);
        let names = (0..name_count).map(|_| self.next()).collect::<Result<Vec<Element<'a>>, Error>>()?;
        if self.int()? != 0 {
            return Err(BAD_NODE);
        }
        if self.last.is_some_and(|last| self.master <= last) {
            return Err(OUT_OF_ORDER);
        }
        let (mut has_begun, mut deleted, mut fields) = (false, 0, Vec::new());
        while let Some(flags) = self.elements.next() {
            let flags = flags?.as_int().ok_or(BAD_NODE)?;
            let Some(id) = self.read_entry(flags, &names, &mut fields)? else {
                deleted += 1;
                continue;
            };
            if !std::mem::replace(&mut has_begun, true) {
                stream.log_mut().start_node(self.master, names.iter().copied());
            }
            stream.log_mut().push(id, fields.iter().copied());
        }
        if has_begun {
            stream.log_mut().set_deleted(deleted);
        }
        Ok(self.last)
    }

    /// Reads an entry behind its flags into `fields`; its id unless it has been deleted.
    fn read_entry(
        &mut self,
        flags: i64,
        names: &[Element<'a>],
        fields: &mut Vec<(Element<'a>, Element<'a>)>,
    ) -> Result<Option<Id>, Error> {
        let (ms, seq) = (self.int()?, self.int()?);
        let id =
            Id { ms: self.master.ms.wrapping_add(ms as u64), seq: self.master.seq.wrapping_add(seq as u64) };
        let has_master_names = flags & SAME_NAMES != 0;
        let count = if has_master_names { names.len() as i64 } else { self.int()? };
        if count <= 0 {
            return Err(BAD_NODE);
        }
        fields.clear();
        if has_master_names {
            for &name in names {
                fields.push((name, self.next()?));
            }
        } else {
            for _ in 0..count {
                fields.push((self.next()?, self.next()?));
            }
        }
        if self.int()? != entry_elements(has_master_names, count) {
            return Err(BAD_NODE);
        }
        if flags & DELETED != 0 {
            return Ok(None);
        }
        if id < self.master || id == Id::MIN || self.last.is_some_and(|last| id <= last) {
            return Err(OUT_OF_ORDER);
        }
        self.last = Some(id);
        Ok(Some(id))
    }
}

/// Pending entries occur twice: with their times, then by consumer. Both must have the same ids.
fn read_group(input: &mut (impl Input + ?Sized), byte: u8, group: &mut Group) -> Result<(), Error> {
    let mut pending: Vec<(Id, i64, u64)> = Vec::new();
    for _ in 0..read_count(input)? {
        let id = Id::from_bytes(input.array()?);
        let delivered_ms = i64::from_le_bytes(input.array()?);
        pending.push((id, delivered_ms, read_plain_length(input)?));
    }
    pending.sort_unstable_by_key(|(id, _, _)| *id);
    if !pending.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(Error::Corrupt("Duplicated global PEL entry loading stream consumer group"));
    }
    let mut scratch = Vec::new();
    for number in 0..read_count(input)? {
        let name = read_bytes(input, &mut scratch)?.to_vec();
        let seen_ms = i64::from_le_bytes(input.array()?);
        let active_ms = if byte >= WITH_ACTIVITY { i64::from_le_bytes(input.array()?) } else { seen_ms };
        let consumer = group.add_consumer(&name, seen_ms);
        if group.consumer_count() != number + 1 {
            return Err(Error::Corrupt("Duplicate stream consumer detected."));
        }
        if let Some(consumer) = group.consumer_mut(consumer) {
            consumer.active_ms = active_ms;
        }
        for _ in 0..read_count(input)? {
            let id = Id::from_bytes(input.array()?);
            let at = pending
                .binary_search_by_key(&id, |(id, _, _)| *id)
                .map_err(|_| Error::Corrupt("Consumer entry not found in group global PEL"))?;
            if group.pending(id).is_some() {
                return Err(Error::Corrupt("Duplicated consumer PEL entry loading a stream consumer group"));
            }
            let (_, delivered_ms, deliveries) = pending[at];
            group.set_pending(id, Pending { consumer: Some(consumer), delivered_ms, deliveries });
        }
    }
    if byte >= WITH_RELEASED {
        read_released(input, group, &pending)?;
    }
    if group.pending_count() != pending.len() {
        return Err(Error::Corrupt("Stream CG PEL entry without consumer"));
    }
    Ok(())
}

/// The ids of pending entries without a consumer.
fn read_released(
    input: &mut (impl Input + ?Sized),
    group: &mut Group,
    pending: &[(Id, i64, u64)],
) -> Result<(), Error> {
    for _ in 0..read_count(input)? {
        let id = Id::from_bytes(input.array()?);
        let at = pending
            .binary_search_by_key(&id, |(id, _, _)| *id)
            .map_err(|_| Error::Corrupt("NACKed entry not found in group global PEL"))?;
        if group.pending(id).is_some() {
            return Err(Error::Corrupt("NACKed entry has a consumer, or comes twice"));
        }
        group.set_pending(id, Pending { consumer: None, delivered_ms: 0, deliveries: pending[at].2 });
    }
    Ok(())
}

/// Passes over a stream that was written in the form of `byte`.
fn skip(input: &mut &[u8], byte: u8) -> Result<(), Error> {
    let lengths = |input: &mut &[u8], count: usize| -> Result<(), Error> {
        (0..count).try_for_each(|_| read_plain_length(input).map(|_| ()))
    };
    for _ in 0..read_count(input)? {
        skip_bytes(input)?;
        skip_bytes(input)?;
    }
    lengths(input, if byte == PLAIN { 3 } else { 8 })?;
    for _ in 0..read_count(input)? {
        skip_bytes(input)?;
        lengths(input, if byte == PLAIN { 2 } else { 3 })?;
        for _ in 0..read_count(input)? {
            input.take(16 + 8)?;
            lengths(input, 1)?;
        }
        for _ in 0..read_count(input)? {
            skip_bytes(input)?;
            input.take(if byte >= WITH_ACTIVITY { 16 } else { 8 })?;
            for _ in 0..read_count(input)? {
                input.take(16)?;
            }
        }
        if byte >= WITH_RELEASED {
            for _ in 0..read_count(input)? {
                input.take(16)?;
            }
        }
    }
    if byte >= WITH_IDEMPOTENCY {
        lengths(input, 2)?;
        for _ in 0..read_count(input)? {
            skip_bytes(input)?;
            for _ in 0..read_count(input)? {
                skip_bytes(input)?;
                lengths(input, 2)?;
            }
        }
        lengths(input, 2)?;
    }
    Ok(())
}
