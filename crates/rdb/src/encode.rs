//! Values to bytes.
//!
//! A value is written in the form of the format's version that is nearest to its encoding ([`Form`]). A value
//! without such a form, as a set that is a listpack before version 11, is written as strings, and becomes a
//! listpack again where it is read.

use martlet_base::number::{NumberBuffer, format_f64};
use martlet_types::array::Array;
use martlet_types::element::Element;
use martlet_types::hash::{Field, Hash, NO_EXPIRY};
use martlet_types::list::{List, Run};
use martlet_types::packed::Packed;
use martlet_types::set::Set;
use martlet_types::stream::{Features, Stream};
use martlet_types::zset::ZSet;

use crate::kind::Kind;
use crate::sink::Sink;
use crate::string::{write_bytes, write_element, write_length};
use crate::{array, intset, listpack, stream};

/// Counts bytes.
struct Counter(usize);

impl Sink for Counter {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// A value to be encoded.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A string, or the integer that it spells.
    String(Element<'a>),
    /// A list.
    List(&'a List),
    /// A set.
    Set(&'a Set),
    /// A sorted set.
    ZSet(&'a ZSet),
    /// A hash.
    Hash(&'a Hash),
    /// A stream.
    Stream(&'a Stream),
    /// An array.
    Array(&'a Array),
}

/// Bytes of a quicklist's node, as with `list-max-listpack-size` -2.
const NODE_MAX_BYTES: usize = 8192;
/// An element of this size or more is a separate node and not a listpack. Redis: `packed_threshold`.
const PLAIN_MIN_BYTES: usize = 1 << 30;

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// For readers of this version of the format, at least [`VERSION_OLDEST`].
    pub version: u16,
    /// Compress strings where that pays.
    pub compress: bool,
}

/// The oldest version that is written: Redis 2.6's.
pub const VERSION_OLDEST: u16 = 6;
/// The first with streams: Redis 5.0's.
pub const VERSION_STREAMS: u16 = 9;
/// The first with listpacks: Redis 7.0's.
const VERSION_LISTPACKS: u16 = 10;
/// The first with sets that are listpacks, and times at which consumers were active: Redis 7.2's.
const VERSION_SET_LISTPACKS: u16 = 11;
/// The first with binary scores: Redis 4.0's.
const VERSION_BINARY_SCORES: u16 = 8;
/// The first with fields that expire: Redis 7.4's.
pub const VERSION_TIMED: u16 = 12;

/// The first with arrays: Redis 8.8's.
pub const VERSION_ARRAYS: u16 = 14;
/// The first with idempotency records of streams: Redis 8.6's.
pub const VERSION_IDEMPOTENCY: u16 = 13;
/// The first version with entries of streams that are pending without a consumer: Redis 8.8's.
pub const VERSION_RELEASED: u16 = 14;

/// Of Valkey 9, which reads none from [`VERSION_TIMED`] on but this.
pub const VERSION_VALKEY: u16 = 80;

/// The oldest version that can hold the value: [`VERSION_OLDEST`] but for hashes with fields that expire,
/// streams and arrays.
pub fn lowest_version(value: Source<'_>) -> u16 {
    match value {
        Source::Hash(hash) if hash.next_expiry_ms() != NO_EXPIRY => VERSION_TIMED,
        Source::Stream(stream) => match stream.features() {
            Features { has_released: true, .. } => VERSION_RELEASED,
            Features { has_idempotency: true, .. } => VERSION_IDEMPOTENCY,
            _ => VERSION_STREAMS,
        },
        Source::Array(_) => VERSION_ARRAYS,
        _ => VERSION_OLDEST,
    }
}

/// The kind as which [`write_value`] writes the value for readers of `version`; one of its
/// [`lowest_version`] if no older one can hold it.
pub fn encoded_kind(value: Source<'_>, version: u16) -> Kind {
    let packs = version >= VERSION_LISTPACKS;
    match value {
        Source::String(_) => Kind::String,
        Source::List(_) if packs => Kind::ListQuicklist2,
        Source::List(_) => Kind::List,
        Source::Set(set) if set.encoding() == "intset" => Kind::SetIntset,
        Source::Set(set) if version >= VERSION_SET_LISTPACKS && set.encoding() == "listpack" => {
            Kind::SetListpack
        }
        Source::Set(_) => Kind::Set,
        Source::ZSet(zset) if packs && zset.encoding() == "listpack" => Kind::ZSetListpack,
        Source::ZSet(_) if version >= VERSION_BINARY_SCORES => Kind::ZSet2,
        Source::ZSet(_) => Kind::ZSet,
        Source::Hash(hash) if !packs && hash.next_expiry_ms() == NO_EXPIRY => Kind::Hash,
        Source::Hash(hash) => match (hash.encoding(), hash.next_expiry_ms() != NO_EXPIRY) {
            ("hashtable", false) => Kind::Hash,
            (_, true) if version >= VERSION_VALKEY => Kind::HashTimedOld,
            ("hashtable", true) => Kind::HashTimed,
            (_, false) => Kind::HashListpack,
            (_, true) => Kind::HashListpackTimed,
        },
        // Valkey has no further kinds.
        Source::Stream(_) if version >= VERSION_VALKEY => Kind::Stream3,
        Source::Stream(stream) => stream_kind(stream, version),
        Source::Array(_) => Kind::Array,
    }
}

/// The kind of a stream for readers of a version of Redis.
fn stream_kind(stream: &Stream, version: u16) -> Kind {
    match version.max(lowest_version(Source::Stream(stream))) {
        VERSION_RELEASED.. => Kind::Stream5,
        VERSION_IDEMPOTENCY.. => Kind::Stream4,
        VERSION_SET_LISTPACKS.. => Kind::Stream3,
        VERSION_LISTPACKS.. => Kind::Stream2,
        _ => Kind::Stream,
    }
}

/// Writes the value, without its type byte, in the form of [`encoded_kind`].
pub fn write_value(out: &mut impl Sink, value: Source<'_>, form: Form) {
    let compress = form.compress;
    match (value, encoded_kind(value, form.version)) {
        (Source::String(text), _) => write_element(out, text, compress),
        (Source::List(list), Kind::List) => {
            write_length(out, list.len() as u64);
            list.iter().for_each(|element| write_element(out, element, compress));
        }
        (Source::List(list), _) => write_list(out, list, compress),
        (Source::Set(set), Kind::SetIntset) => {
            let ints: Vec<i64> = set.iter().filter_map(|member| member.as_int()).collect();
            write_bytes(out, &intset::write(&ints), compress);
        }
        (Source::Set(set), Kind::SetListpack) => {
            write_packed(out, set.packed(), set.iter(), compress);
        }
        (Source::Set(set), _) => {
            write_length(out, set.len() as u64);
            set.iter().for_each(|member| write_element(out, member, compress));
        }
        (Source::ZSet(zset), Kind::ZSetListpack) => {
            write_packed(out, zset.packed(), std::iter::empty(), compress);
        }
        (Source::ZSet(zset), kind) => {
            write_length(out, zset.len() as u64);
            // From the highest on, as Redis does: a reader inserts at the head each time.
            for entry in zset.range(0..usize::MAX, true) {
                write_element(out, entry.member, compress);
                match kind {
                    Kind::ZSet => write_text_score(out, entry.score),
                    _ => out.put(&entry.score.to_le_bytes()),
                }
            }
        }
        (Source::Hash(hash), Kind::HashListpack) => {
            let elements = hash.iter().flat_map(|field| [field.name, field.value]);
            write_packed(out, hash.packed(), elements, compress);
        }
        (Source::Hash(hash), Kind::HashListpackTimed) => write_timed_listpack(out, hash, compress),
        (Source::Hash(hash), Kind::HashTimed) => write_timed_hash(out, hash, compress),
        (Source::Hash(hash), Kind::HashTimedOld) => write_timed_hash_of_valkey(out, hash, compress),
        (Source::Stream(stream), kind) => stream::write(out, stream, kind, compress),
        (Source::Array(array), _) => array::write(out, array, compress),
        (Source::Hash(hash), _) => {
            write_length(out, hash.len() as u64);
            for field in hash.iter() {
                write_element(out, field.name, compress);
                write_element(out, field.value, compress);
            }
        }
    }
}

/// A score before version 8.
fn write_text_score(out: &mut impl Sink, score: f64) {
    if score.is_infinite() {
        return out.put(&[if score > 0.0 { 254 } else { 255 }]);
    }
    let mut buffer = NumberBuffer::new();
    let text = format_f64(score, &mut buffer);
    // No number takes more than some twenty digits.
    out.put(&[text.len() as u8]);
    out.put(text);
}

/// Bytes that [`write_value`] would write.
pub fn encoded_len(value: Source<'_>, form: Form) -> usize {
    let mut counter = Counter(0);
    write_value(&mut counter, value, form);
    counter.0
}

/// A quicklist's node that is one element.
const PLAIN: u64 = 1;
/// A quicklist's node that is a listpack.
const PACKED: u64 = 2;

/// The number of nodes stands in front, so it is walked twice: once for sizes only. A node is as many whole
/// runs as fit.
fn write_list(out: &mut impl Sink, list: &List, compress: bool) {
    let (mut nodes, mut used) = (0, 0);
    list.runs(|run| nodes += u64::from(starts_node(&mut used, run)));
    write_length(out, nodes);
    let mut node = listpack::Writer::new();
    used = 0;
    list.runs(|run| {
        if starts_node(&mut used, run) {
            write_node(out, &mut node, compress);
        }
        match run.first() {
            Some(Element::Bytes(text)) if text.len() >= PLAIN_MIN_BYTES => {
                write_length(out, PLAIN);
                write_bytes(out, text, compress);
            }
            _ => node.extend(run.len(), |bytes| run.write_listpack(bytes)),
        }
    });
    write_node(out, &mut node, compress);
}

/// Whether a run does not fit into the node of those before, which take `used` bytes of it.
fn starts_node(used: &mut usize, run: Run<'_>) -> bool {
    let bytes = run.listpack_bytes();
    let starts = *used == 0 || *used + bytes > NODE_MAX_BYTES - listpack::EMPTY_BYTES;
    *used = if starts { bytes } else { *used + bytes };
    starts
}

fn write_node(out: &mut impl Sink, node: &mut listpack::Writer, compress: bool) {
    if !node.is_empty() {
        write_length(out, PACKED);
        node.finish(|bytes| write_bytes(out, bytes, compress));
    }
}

/// A listpack of the elements, which are those of the block if there is one: they are all but listpack's
/// entries there.
fn write_packed<'a>(
    out: &mut impl Sink,
    packed: Option<&Packed>,
    elements: impl Iterator<Item = Element<'a>>,
    compress: bool,
) {
    let mut listpack = listpack::Writer::new();
    match packed {
        Some(packed) => listpack.extend(packed.len(), |bytes| packed.write_listpack(bytes)),
        None => elements.for_each(|element| listpack.push(element)),
    }
    listpack.finish(|bytes| write_bytes(out, bytes, compress));
}

/// When the first field expires.
fn earliest_ms(hash: &Hash) -> i64 {
    hash.iter().map(|field| field.expire_at_ms).min().unwrap_or(NO_EXPIRY).max(0)
}

/// Redis keeps the fields of such a listpack in order of time, those without at the end.
fn write_timed_listpack(out: &mut impl Sink, hash: &Hash, compress: bool) {
    let mut fields: Vec<Field<'_>> = hash.iter().collect();
    fields.sort_by_key(|field| field.expire_at_ms);
    out.put(&earliest_ms(hash).to_le_bytes());
    let mut listpack = listpack::Writer::new();
    for field in fields {
        listpack.push(field.name);
        listpack.push(field.value);
        listpack.push(Element::Int(if field.expire_at_ms == NO_EXPIRY { 0 } else { field.expire_at_ms }));
    }
    listpack.finish(|bytes| write_bytes(out, bytes, compress));
}

fn write_timed_hash(out: &mut impl Sink, hash: &Hash, compress: bool) {
    let earliest_ms = earliest_ms(hash);
    out.put(&earliest_ms.to_le_bytes());
    write_length(out, hash.len() as u64);
    for field in hash.iter() {
        let relative = match field.expire_at_ms {
            NO_EXPIRY => 0,
            at_ms => at_ms.saturating_sub(earliest_ms).max(0) as u64 + 1,
        };
        write_length(out, relative);
        write_element(out, field.name, compress);
        write_element(out, field.value, compress);
    }
}

fn write_timed_hash_of_valkey(out: &mut impl Sink, hash: &Hash, compress: bool) {
    write_length(out, hash.len() as u64);
    for field in hash.iter() {
        write_element(out, field.name, compress);
        write_element(out, field.value, compress);
        let at_ms = if field.expire_at_ms == NO_EXPIRY { -1 } else { field.expire_at_ms };
        out.put(&at_ms.to_le_bytes());
    }
}
