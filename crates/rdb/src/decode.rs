//! Bytes to values, strictly: what Redis refuses with `sanitize-dump-payload yes` is refused, for every
//! source.

use martlet_base::number::parse_f64;
use martlet_types::array::{Array, ArrayLimits};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hash::{FieldExpiry, Hash, HashLimits, NO_EXPIRY};
use martlet_types::list::{List, ListBuilder, ListLimit};
use martlet_types::set::{Set, SetLimits};
use martlet_types::stream::{IdempotencyLimits, Stream};
use martlet_types::zset::{Added, ZSet, ZSetLimits};

use crate::encode::{Source, VERSION_VALKEY};
use crate::input::Input;
use crate::kind::Kind;
use crate::string::{read_bytes, read_count, read_plain_length};
use crate::together::Together;
use crate::{Error, array, intset, listpack, stream, ziplist};

/// When collections change their encoding, and what streams remember.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// For lists.
    pub list: ListLimit,
    /// For sets.
    pub set: SetLimits,
    /// For hashes.
    pub hash: HashLimits,
    /// For sorted sets.
    pub zset: ZSetLimits,
    /// For arrays.
    pub array: ArrayLimits,
    /// Limits of a stream's producers where the stream itself has none.
    pub idempotency: IdempotencyLimits,
}

/// A value that was read.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A sorted set.
    ZSet(ZSet),
    /// A hash.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
    /// An array.
    Array(Array),
}

impl Value {
    /// The value as something to be encoded.
    pub fn source(&self) -> Source<'_> {
        match self {
            Value::String(bytes) => Source::String(Element::parse(bytes)),
            Value::List(list) => Source::List(list),
            Value::Set(set) => Source::Set(set),
            Value::ZSet(zset) => Source::ZSet(zset),
            Value::Hash(hash) => Source::Hash(hash),
            Value::Stream(stream) => Source::Stream(stream),
            Value::Array(array) => Source::Array(array),
        }
    }
}

/// Redis refuses field expiry times beyond (`EB_EXPIRE_TIME_MAX`).
const EXPIRY_MAX_MS: u64 = (1 << 48) - 2;

/// Reads a value of `kind`, written by `version` of the format; its type byte has been read.
///
/// # Errors
/// [`Error`]; the number of bytes taken is unknown then.
pub fn read_value(input: &mut impl Input, kind: Kind, version: u16, limits: &Limits) -> Result<Value, Error> {
    let mut scratch = Vec::new();
    Ok(match kind {
        Kind::String => Value::String(read_bytes(input, &mut scratch)?.to_vec()),
        Kind::List => {
            let mut list = ListBuilder::new();
            for _ in 0..read_count(input)? {
                list.push(read_bytes(input, &mut scratch)?);
            }
            Value::List(finish_list(list, limits)?)
        }
        Kind::ListZiplist => {
            let mut list = ListBuilder::new();
            let ziplist = read_bytes(input, &mut scratch)?;
            list.extend(ziplist::read(ziplist, "List ziplist integrity check failed.")?);
            Value::List(finish_list(list, limits)?)
        }
        Kind::ListQuicklist | Kind::ListQuicklist2 => Value::List(read_quicklist(input, kind, limits)?),
        Kind::Set => Value::Set(read_set(input, limits.set)?),
        Kind::SetIntset => Value::Set(read_intset(read_bytes(input, &mut scratch)?, limits.set)?),
        Kind::SetListpack => Value::Set(set_of_listpack(read_bytes(input, &mut scratch)?, limits.set)?),
        Kind::ZSet | Kind::ZSet2 => Value::ZSet(read_zset(input, kind, limits.zset)?),
        Kind::ZSetListpack => {
            let elements = listpack::read(read_bytes(input, &mut scratch)?)?;
            Value::ZSet(zset_of_pairs(elements.element_bytes(), elements, limits.zset)?)
        }
        Kind::ZSetZiplist => {
            let ziplist = read_bytes(input, &mut scratch)?;
            let elements = ziplist::read(ziplist, "Zset ziplist integrity check failed.")?;
            Value::ZSet(zset_of_pairs(0, elements.into_iter().map(Ok), limits.zset)?)
        }
        Kind::Hash => Value::Hash(read_hash(input, Times::Absent, limits.hash)?),
        Kind::HashTimed => {
            let earliest_ms = u64::from_le_bytes(input.array()?);
            Value::Hash(read_hash(input, Times::Relative(earliest_ms), limits.hash)?)
        }
        Kind::HashTimedOld => {
            let times = if version >= VERSION_VALKEY { Times::After } else { Times::Absolute };
            Value::Hash(read_hash(input, times, limits.hash)?)
        }
        Kind::HashZipmap => {
            let elements = ziplist::read_zipmap(read_bytes(input, &mut scratch)?)?;
            Value::Hash(hash_of(0, elements.into_iter().map(Ok), false, limits.hash)?)
        }
        Kind::HashZiplist => {
            let ziplist = read_bytes(input, &mut scratch)?;
            let elements = ziplist::read(ziplist, "Hash ziplist integrity check failed.")?;
            Value::Hash(hash_of(0, elements.into_iter().map(Ok), false, limits.hash)?)
        }
        Kind::HashListpack => {
            let elements = listpack::read(read_bytes(input, &mut scratch)?)?;
            Value::Hash(hash_of(elements.element_bytes(), elements, false, limits.hash)?)
        }
        Kind::Stream | Kind::Stream2 | Kind::Stream3 | Kind::Stream4 | Kind::Stream5 => {
            Value::Stream(stream::read(input, kind, limits.idempotency)?)
        }
        Kind::Array => Value::Array(array::read(input, limits.array)?),
        Kind::HashListpackTimed | Kind::HashListpackTimedOld => {
            if kind == Kind::HashListpackTimed {
                input.array::<8>()?;
            }
            let elements = listpack::read(read_bytes(input, &mut scratch)?)?;
            Value::Hash(hash_of(elements.element_bytes(), elements, true, limits.hash)?)
        }
    })
}

fn finish_list(list: ListBuilder, limits: &Limits) -> Result<List, Error> {
    let mut list = list.finish();
    if list.is_empty() {
        return Err(Error::Empty("list"));
    }
    list.after_building(limits.list);
    Ok(list)
}

fn read_quicklist(input: &mut impl Input, kind: Kind, limits: &Limits) -> Result<List, Error> {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let mut scratch = Vec::new();
    let mut list = ListBuilder::new();
    for _ in 0..read_count(input)? {
        let container = if kind == Kind::ListQuicklist2 { Some(read_plain_length(input)?) } else { None };
        let node = read_bytes(input, &mut scratch)?;
        match container {
            _ if node.is_empty() => return Err(Error::Corrupt("empty quicklist node")),
            None => list.extend(ziplist::read(node, "Ziplist integrity check failed.")?),
            Some(PLAIN) => list.push(node),
            Some(PACKED) => {
                let mut elements = listpack::read(node)?;
                loop {
                    while let Some((entry, size)) = elements.short_text() {
                        list.push_packed_text(entry, size);
                    }
                    match elements.next() {
                        Some(element) => list.push(element?),
                        None => break,
                    }
                }
            }
            Some(_) => return Err(Error::Corrupt("unknown quicklist container")),
        }
    }
    finish_list(list, limits)
}

const DUPLICATE_ENTRY: Error = Error::Corrupt("duplicate sorted set member");
const DUPLICATE_MEMBER: Error = Error::Corrupt("duplicate set member");

/// An empty set in the encoding that Redis starts with for `count` members.
fn empty_set(count: usize, limits: SetLimits) -> Set {
    if count > limits.intset_max_entries.max(limits.listpack_max_entries) {
        Set::new_hashtable()
    } else {
        Set::new()
    }
}

fn read_set(input: &mut impl Input, limits: SetLimits) -> Result<Set, Error> {
    let count = read_count(input)?;
    let mut scratch = Vec::new();
    let mut set = empty_set(count, limits);
    let mut members = Together::new(count);
    for left in (0..count).rev() {
        let end = members.text(read_bytes(input, &mut scratch)?);
        members.push(end, end, ());
        if left == 0 || members.is_full() {
            members.add(&mut set, Set::queue_probe, |set, member, _, ()| {
                if set.add(Element::parse(member), limits) { Ok(()) } else { Err(DUPLICATE_MEMBER) }
            })?;
        }
    }
    if set.is_empty() { Err(Error::Empty("set")) } else { Ok(set) }
}

fn read_intset(bytes: &[u8], limits: SetLimits) -> Result<Set, Error> {
    let ints = intset::read(bytes)?;
    let mut set = if ints.len() > limits.intset_max_entries { Set::new_hashtable() } else { Set::new() };
    ints.into_iter().for_each(|int| {
        set.add(Element::Int(int), limits);
    });
    Ok(set)
}

fn set_of_listpack(bytes: &[u8], limits: SetLimits) -> Result<Set, Error> {
    let members = listpack::read(bytes)?;
    let mut set = Set::with_capacity(members.element_bytes());
    for member in members {
        if !set.add(member?, limits) {
            return Err(DUPLICATE_MEMBER);
        }
    }
    if set.is_empty() { Err(Error::Empty("set")) } else { Ok(set) }
}

fn add_entry(zset: &mut ZSet, member: &[u8], score: f64, limits: ZSetLimits) -> Result<(), Error> {
    if score.is_nan() {
        return Err(Error::Corrupt("score that is not a number"));
    }
    match zset.insert(member, score, limits) {
        Added::Added => Ok(()),
        _ => Err(DUPLICATE_ENTRY),
    }
}

fn read_zset(input: &mut impl Input, kind: Kind, limits: ZSetLimits) -> Result<ZSet, Error> {
    let count = read_count(input)?;
    let mut scratch = Vec::new();
    let mut zset = ZSet::with_hint(count, 0, limits);
    let mut entries = Together::new(count);
    for left in (0..count).rev() {
        let end = entries.text(read_bytes(input, &mut scratch)?);
        let score = match kind {
            Kind::ZSet2 => f64::from_le_bytes(input.array()?),
            _ => read_text_score(input)?,
        };
        entries.push(end, end, score);
        if left == 0 || entries.is_full() {
            entries.add(&mut zset, ZSet::queue_probe, |zset, member, _, score| {
                add_entry(zset, member, score, limits)
            })?;
        }
    }
    if zset.is_empty() { Err(Error::Empty("sorted set")) } else { Ok(zset) }
}

/// One byte of length, of which the highest three mean no text, and the text.
fn read_text_score(input: &mut impl Input) -> Result<f64, Error> {
    match input.byte()? {
        255 => Ok(f64::NEG_INFINITY),
        254 => Ok(f64::INFINITY),
        253 => Ok(f64::NAN),
        len => parse_f64(input.take(usize::from(len))?).ok_or(Error::Corrupt("score that is not a number")),
    }
}

/// A sorted set of members and scores, one after another, of about `bytes` bytes. Redis writes them in order,
/// but need not have.
fn zset_of_pairs<'a>(
    bytes: usize,
    mut elements: impl Iterator<Item = Result<Element<'a>, Error>>,
    limits: ZSetLimits,
) -> Result<ZSet, Error> {
    let mut zset = ZSet::with_capacity(bytes);
    let mut last: Option<(f64, Element<'a>)> = None;
    let mut buffer = IntBuffer::new();
    while let Some(member) = elements.next() {
        let member = member?;
        let score = elements.next().ok_or(Error::Corrupt("sorted set member without score"))??;
        let score = match score {
            Element::Int(int) => int as f64,
            Element::Bytes(text) => parse_f64(text).unwrap_or(f64::NAN),
        };
        let ascends = last.is_none_or(|(before, above)| before < score || before == score && above < member);
        last = Some((score, member));
        let member = member.as_bytes(&mut buffer);
        if !ascends || score.is_nan() {
            add_entry(&mut zset, member, score, limits)?;
        } else if !zset.push(member, score, limits) {
            return Err(DUPLICATE_ENTRY);
        }
    }
    if zset.is_empty() { Err(Error::Empty("sorted set")) } else { Ok(zset) }
}

/// A hash being read. Nothing counts as expired, or a field that comes twice could go unnoticed.
struct Fields {
    hash: Hash,
    limits: HashLimits,
}

impl Fields {
    /// For `count` fields, as far as that is known.
    fn new(count: usize, limits: HashLimits) -> Fields {
        let mut hash = Hash::new();
        hash.before_growth(count, 0, limits);
        Fields { hash, limits }
    }

    /// For fields and values of about `bytes` bytes, few enough for a listpack.
    fn with_capacity(bytes: usize, limits: HashLimits) -> Fields {
        Fields { hash: Hash::with_capacity(bytes), limits }
    }

    fn add(&mut self, name: &[u8], value: Element<'_>, expiry: FieldExpiry) -> Result<(), Error> {
        if self.hash.set(name, value, expiry, self.limits, i64::MIN) {
            Ok(())
        } else {
            Err(Error::Corrupt("duplicate hash field"))
        }
    }

    fn finish(self) -> Result<Hash, Error> {
        if self.hash.is_empty() { Err(Error::Empty("hash")) } else { Ok(self.hash) }
    }
}

/// An expiry time from a file; 0 for none.
fn field_expiry(at_ms: u64) -> Result<FieldExpiry, Error> {
    match at_ms {
        0 => Ok(FieldExpiry::Clear),
        1..=EXPIRY_MAX_MS => Ok(FieldExpiry::At(at_ms as i64)),
        _ => Err(Error::Corrupt("expiry time of a hash field out of range")),
    }
}

/// The place of the expiry times in a hash of strings.
#[derive(Clone, Copy)]
enum Times {
    /// Without times.
    Absent,
    /// Before each pair, plus this minus one; 0 for none.
    Relative(u64),
    /// Before each pair; 0 for none.
    Absolute,
    /// After each pair, 8 bytes; -1 for none. Valkey 9.
    After,
}

impl Times {
    fn before(self, input: &mut impl Input) -> Result<FieldExpiry, Error> {
        let time = match self {
            Times::Absent | Times::After => return Ok(FieldExpiry::Clear),
            Times::Relative(_) | Times::Absolute => read_plain_length(input)?,
        };
        field_expiry(match self {
            Times::Relative(base_ms) if time > 0 => base_ms.saturating_add(time - 1),
            _ => time,
        })
    }

    fn after(input: &mut impl Input) -> Result<FieldExpiry, Error> {
        match i64::from_le_bytes(input.array()?) {
            -1 => Ok(FieldExpiry::Clear),
            at_ms => field_expiry(u64::try_from(at_ms).unwrap_or(u64::MAX)),
        }
    }
}

fn read_hash(input: &mut impl Input, times: Times, limits: HashLimits) -> Result<Hash, Error> {
    let count = read_count(input)?;
    let mut fields = Fields::new(count, limits);
    let mut scratch = Vec::new();
    let mut pairs = Together::new(count);
    for left in (0..count).rev() {
        let mut expiry = times.before(input)?;
        let name_end = pairs.text(read_bytes(input, &mut scratch)?);
        let value_end = pairs.text(read_bytes(input, &mut scratch)?);
        if let Times::After = times {
            expiry = Times::after(input)?;
        }
        pairs.push(name_end, value_end, expiry);
        if left == 0 || pairs.is_full() {
            pairs.add(
                &mut fields,
                |fields, probe, queue| fields.hash.queue_probe(probe, queue),
                |fields, name, value, expiry| fields.add(name, Element::parse(value), expiry),
            )?;
        }
    }
    fields.finish()
}

/// A hash of fields and values, one after another, of about `bytes` bytes, with times after each pair if
/// `timed`.
fn hash_of<'a>(
    bytes: usize,
    mut elements: impl Iterator<Item = Result<Element<'a>, Error>>,
    timed: bool,
    limits: HashLimits,
) -> Result<Hash, Error> {
    const PARTIAL: Error = Error::Corrupt("hash field without value");
    let mut fields = Fields::with_capacity(bytes, limits);
    let mut buffer = IntBuffer::new();
    while let Some(name) = elements.next() {
        let name = name?;
        let value = elements.next().ok_or(PARTIAL)??;
        let expiry = match timed.then(|| elements.next().ok_or(PARTIAL)) {
            None => FieldExpiry::Clear,
            Some(time) => {
                let at_ms = time??.as_int().and_then(|at_ms| u64::try_from(at_ms).ok());
                field_expiry(at_ms.unwrap_or(u64::MAX))?
            }
        };
        fields.add(name.as_bytes(&mut buffer), value, expiry)?;
    }
    let mut hash = fields.finish()?;
    if timed && hash.encoding() == "listpack" {
        keep_timed(&mut hash);
    }
    Ok(hash)
}

/// Makes a listpack the kind that has times, as it was where it was written.
fn keep_timed(hash: &mut Hash) {
    let Some(name) = hash.iter().next().map(|field| field.name.to_vec()) else { return };
    hash.set_expiry(&name, i64::MAX - 1);
    hash.set_expiry(&name, NO_EXPIRY);
}
