//! `Hash`: fields with values and perhaps expiry times, packed in one block or in a hash table.
//!
//! The encoding is the one that OBJECT ENCODING names, and conversions are Redis': `listpack` up to two
//! limits, `listpackex` if a field of such a hash has had an expiry time, else `hashtable`; nothing converts
//! back. Expiry times cost something only where they are set: a third element per field in a `listpackex`,
//! nine bytes in a table's entry.
//!
//! Invariant: the value is one pointer, and a clone of a table shares its blocks. A field whose time
//! has come reads as absent wherever a method takes the time; it stays until it is collected or written
//! again.

mod iter;
#[cfg(test)]
mod tests;
mod timed;

use crate::element::{Element, IntBuffer};
use crate::packed::Packed;
use crate::set::Selection;
use crate::size_class::allocated_bytes;
use crate::table::{Fields, Table, hash_field};
use crate::tagged::{TaggedBox, one_word};
use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};
use martlet_base::random::Random;
use timed::{TimedFields, field_at};

pub use crate::table::{NO_EXPIRY, Reclaim};
pub use iter::Iter;

/// When a hash becomes a hashtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashLimits {
    /// Most fields of a listpack (`hash-max-listpack-entries`).
    pub listpack_max_entries: usize,
    /// Longest field or value of a listpack in bytes (`hash-max-listpack-value`).
    pub listpack_max_value_bytes: usize,
}

impl Default for HashLimits {
    /// Redis' defaults.
    fn default() -> HashLimits {
        HashLimits { listpack_max_entries: 512, listpack_max_value_bytes: 64 }
    }
}

/// What writing a value does to the field's expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldExpiry {
    /// A field that expires still does, at the same time.
    Keep,
    /// The field does not expire any more.
    Clear,
    /// The field expires at this time, Unix milliseconds.
    At(i64),
}

/// A field as the hash hands it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The field's name.
    pub name: Element<'a>,
    /// Its value.
    pub value: Element<'a>,
    /// When it expires, Unix milliseconds; [`NO_EXPIRY`] if it does not.
    pub expire_at_ms: i64,
}

impl Field<'_> {
    /// Whether the field has not expired by `now_ms`.
    #[inline]
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.expire_at_ms > now_ms
    }
}

/// A hash; see the module's description.
#[derive(Clone)]
pub struct Hash {
    form: Word,
}

one_word! {
    Word, Form, FormMut {
        Packed(Packed),
        Timed(TaggedBox<TimedFields, 1>),
        Table(TaggedBox<Large, 2>),
    }
}

#[derive(Clone)]
struct Large {
    table: Table<Fields>,
    /// See [`Hash::indexed_expiry_ms`].
    indexed_ms: i64,
}

impl Hash {
    /// An empty hash.
    pub fn new() -> Hash {
        Hash { form: Packed::new().into() }
    }

    /// A hash of these fields and values, one after another; the caller has seen that no name is there twice.
    pub fn of_packed(pairs: Packed) -> Hash {
        debug_assert!(pairs.len().is_multiple_of(2));
        Hash { form: pairs.into() }
    }

    /// An empty hash, packed, with room for `bytes` of fields and values.
    pub fn with_capacity(bytes: usize) -> Hash {
        Hash { form: Packed::with_capacity(bytes).into() }
    }

    /// Number of fields, expired ones that were not collected included.
    #[inline]
    pub fn len(&self) -> usize {
        match self.form.get() {
            Form::Packed(packed) => packed.len() / 2,
            Form::Timed(timed) => timed.len(),
            Form::Table(large) => large.table.len(),
        }
    }

    /// Whether the hash is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of fields that have not expired by `now_ms`. O(1) unless some have.
    pub fn live_len(&self, now_ms: i64) -> usize {
        if self.next_expiry_ms() > now_ms {
            return self.len();
        }
        self.iter().filter(|field| field.is_live(now_ms)).count()
    }

    /// The block of field, value, field, value… if the hash is one, and no field expires.
    pub fn packed(&self) -> Option<&Packed> {
        match self.form.get() {
            Form::Packed(packed) => Some(packed),
            _ => None,
        }
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        match self.form.get() {
            Form::Packed(_) => "listpack",
            Form::Timed(_) => "listpackex",
            Form::Table(_) => "hashtable",
        }
    }

    /// Bytes that the allocator gave.
    pub fn heap_bytes(&self) -> usize {
        match self.form.get() {
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Timed(timed) => allocated_bytes(size_of::<TimedFields>()) + timed.heap_bytes(),
            Form::Table(large) => allocated_bytes(size_of::<Large>()) + large.table.heap_bytes(),
        }
    }

    /// To be called before up to `fields` fields are set, of which no name or value is longer than
    /// `longest_bytes`: becomes a hashtable at once if with them it would have to.
    #[inline]
    pub fn before_growth(&mut self, fields: usize, longest_bytes: usize, limits: HashLimits) {
        if fields > limits.listpack_max_entries || longest_bytes > limits.listpack_max_value_bytes {
            self.convert_to_table();
        }
    }

    /// The field, if it has not expired by `now_ms`.
    #[inline]
    pub fn get(&self, name: &[u8], now_ms: i64) -> Option<Field<'_>> {
        let field = match self.form.get() {
            Form::Table(large) => Field::from(large.table.get(hash_field(name), name)?),
            Form::Packed(packed) => {
                let pos = packed.find_pos(name, 2)?;
                let value = packed.at(packed.next(pos)?);
                Field { name: packed.at(pos), value, expire_at_ms: NO_EXPIRY }
            }
            Form::Timed(timed) => timed.get(Element::parse(name))?,
        };
        field.is_live(now_ms).then_some(field)
    }

    /// Whether there is such a field and it has not expired by `now_ms`.
    #[inline]
    pub fn contains(&self, name: &[u8], now_ms: i64) -> bool {
        self.get(name, now_ms).is_some()
    }

    /// One probe step for a search's reads; worthwhile for tables only.
    #[inline]
    pub fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        match self.form.get() {
            Form::Table(large) => large.table.queue_probe(probe, queue),
            _ => Progress::Done,
        }
    }

    /// Sets a field; returns whether it was absent. A field that has expired by `now_ms` is treated as
    /// absent.
    #[inline]
    pub fn set(
        &mut self,
        name: &[u8],
        value: Element<'_>,
        expiry: FieldExpiry,
        limits: HashLimits,
        now_ms: i64,
    ) -> bool {
        match self.form.get_mut() {
            FormMut::Table(large) => set_in_table(&mut large.table, name, value, expiry, now_ms),
            _ => self.set_compact(name, value, expiry, limits, now_ms),
        }
    }

    fn set_compact(
        &mut self,
        name: &[u8],
        value: Element<'_>,
        expiry: FieldExpiry,
        limits: HashLimits,
        now_ms: i64,
    ) -> bool {
        let longest = name.len().max(value.byte_len());
        let fits = longest <= limits.listpack_max_value_bytes && self.has_room(name.len() + value.byte_len());
        if !fits {
            self.convert_to_table();
        } else if let FieldExpiry::At(_) = expiry {
            self.convert_to_timed();
        }
        let is_new = match self.form.get_mut() {
            FormMut::Table(large) => return set_in_table(&mut large.table, name, value, expiry, now_ms),
            FormMut::Timed(timed) => timed.set(Element::parse(name), value, expiry, now_ms),
            FormMut::Packed(packed) => set_in_packed(packed, Element::parse(name), value),
        };
        if self.len() > limits.listpack_max_entries {
            self.convert_to_table();
        }
        is_new
    }

    fn has_room(&self, text_bytes: usize) -> bool {
        match self.form.get() {
            Form::Packed(packed) => packed.has_room(2, text_bytes),
            Form::Timed(timed) => timed.has_room(text_bytes),
            Form::Table(_) => true,
        }
    }

    /// Removes a field that has not expired by `now_ms`, or any field where that is `i64::MIN`; whether there
    /// was one.
    #[inline]
    pub fn remove(&mut self, name: &[u8], now_ms: i64) -> bool {
        match self.form.get_mut() {
            FormMut::Packed(packed) => match packed.find_pos(name, 2) {
                Some(pos) => {
                    packed.remove_at(pos, 2);
                    true
                }
                None => false,
            },
            FormMut::Timed(timed) => timed.remove(Element::parse(name), now_ms),
            FormMut::Table(large) => {
                let (hash, table) = (hash_field(name), &mut large.table);
                if table.next_expiry_ms() <= now_ms
                    && table.get(hash, name).is_none_or(|entry| entry.expire_at_ms <= now_ms)
                {
                    return false;
                }
                table.remove(hash, name)
            }
        }
    }

    /// Removes a field that has expired by `now_ms`; whether there was one.
    pub fn remove_expired(&mut self, name: &[u8], now_ms: i64) -> bool {
        if self.next_expiry_ms() > now_ms || self.contains(name, now_ms) {
            return false;
        }
        self.remove(name, i64::MIN)
    }

    /// All fields, expired ones included, in no order that means anything.
    pub fn iter(&self) -> Iter<'_> {
        match self.form.get() {
            Form::Packed(packed) => Iter::Packed(packed.iter()),
            Form::Timed(timed) => Iter::Timed(timed.iter()),
            Form::Table(large) => Iter::Table(large.table.iter()),
        }
    }

    /// Passes about `count` fields that have not expired by `now_ms` to `f` and returns the next cursor, 0 at
    /// the end: [`Table::scan`] for a table; all fields at once, whatever the cursor, for the others.
    pub fn scan(&self, cursor: u64, count: usize, now_ms: i64, mut f: impl FnMut(Field<'_>)) -> u64 {
        let mut live = |field: Field<'_>| {
            if field.is_live(now_ms) {
                f(field);
            }
        };
        match self.form.get() {
            Form::Table(large) => large.table.scan(cursor, count, |entry| live(Field::from(entry))),
            _ => {
                self.iter().for_each(live);
                0
            }
        }
    }

    /// A field chosen uniformly among those that have not expired by `now_ms`.
    pub fn random(&self, now_ms: i64, random: &mut Random) -> Option<Field<'_>> {
        let index = |random: &mut Random, len: usize| random.below(len as u64) as usize;
        if self.next_expiry_ms() <= now_ms {
            let live = self.live_len(now_ms);
            let nth = index(random, live);
            return self.iter().filter(|field| field.is_live(now_ms)).nth(nth);
        }
        match self.form.get() {
            Form::Packed(packed) => {
                let pos = packed.seek(2 * index(random, packed.len() / 2))?;
                let value = packed.at(packed.next(pos)?);
                Some(Field { name: packed.at(pos), value, expire_at_ms: NO_EXPIRY })
            }
            Form::Timed(timed) => timed.iter().nth(index(random, timed.len())),
            Form::Table(large) => large.table.random(random).map(Field::from),
        }
    }

    /// Hands `count` distinct fields that have not expired by `now_ms`, or all if there are fewer, to `f`.
    /// Each combination is equally likely; the order is not random.
    pub fn sample<'a>(
        &'a self,
        count: usize,
        now_ms: i64,
        random: &mut Random,
        mut f: impl FnMut(Field<'a>),
    ) {
        let len = self.live_len(now_ms);
        if let Form::Table(large) = self.form.get()
            && len == large.table.len()
            && large.table.sample(count, random, |entry| f(Field::from(entry)))
        {
            return;
        }
        let mut choice = Selection::new(count, len);
        let live = self.iter().filter(|field| field.is_live(now_ms));
        live.filter(|_| choice.next(random)).for_each(f);
    }

    /// Changes the expiry time of a field, [`NO_EXPIRY`] for none; whether there is such a field, expired or
    /// not.
    pub fn set_expiry(&mut self, name: &[u8], expire_at_ms: i64) -> bool {
        if let Form::Packed(packed) = self.form.get() {
            if packed.find_pos(name, 2).is_none() {
                return false;
            }
            if expire_at_ms == NO_EXPIRY {
                return true;
            }
            self.convert_to_timed();
        }
        match self.form.get_mut() {
            FormMut::Packed(_) => false,
            FormMut::Timed(timed) => timed.set_expiry(Element::parse(name), expire_at_ms),
            FormMut::Table(large) => large.table.set_expiry(hash_field(name), name, expire_at_ms),
        }
    }

    /// A time before which no field expires; [`NO_EXPIRY`] if no field has an expiry time. O(1).
    #[inline]
    pub fn next_expiry_ms(&self) -> i64 {
        match self.form.get() {
            Form::Packed(_) => NO_EXPIRY,
            Form::Timed(timed) => timed.next_expiry_ms(),
            Form::Table(large) => large.table.next_expiry_ms(),
        }
    }

    /// Removes fields that have expired by `now_ms`, at most `limit`, and hands each to `f` before. Returns
    /// how many. If fewer than `limit`, [`Hash::next_expiry_ms`] is later than `now_ms` afterwards.
    pub fn collect_expired(&mut self, now_ms: i64, limit: usize, mut f: impl FnMut(Field<'_>)) -> usize {
        match self.form.get_mut() {
            FormMut::Packed(_) => 0,
            FormMut::Timed(timed) => timed.collect_expired(now_ms, limit, |elements, pos, at_ms| {
                field_at(elements, pos, at_ms).into_iter().for_each(&mut f);
            }),
            FormMut::Table(large) => {
                large.table.collect_expired(now_ms, limit, |entry| f(Field::from(entry)))
            }
        }
    }

    /// The time under which the owner has this hash in its index of hashes with expiring fields;
    /// [`NO_EXPIRY`] if it has not. The hash only keeps it, through clones and conversions too.
    #[inline]
    pub fn indexed_expiry_ms(&self) -> i64 {
        match self.form.get() {
            Form::Packed(_) => NO_EXPIRY,
            Form::Timed(timed) => timed.indexed_ms,
            Form::Table(large) => large.indexed_ms,
        }
    }

    /// Notes under which time the owner has put this hash in its index; see [`Hash::indexed_expiry_ms`]. A
    /// hash that has never had an expiring field cannot be in it.
    pub fn set_indexed_expiry_ms(&mut self, at_ms: i64) {
        match self.form.get_mut() {
            FormMut::Packed(_) => debug_assert_eq!(at_ms, NO_EXPIRY),
            FormMut::Timed(timed) => timed.indexed_ms = at_ms,
            FormMut::Table(large) => large.indexed_ms = at_ms,
        }
    }

    /// Gives a large hash up, to be freed in slices; a small one is freed at once.
    pub fn into_reclaim(mut self) -> Option<Reclaim<Fields>> {
        match self.form.get_mut() {
            FormMut::Table(large) => Some(std::mem::take(&mut large.table).into_reclaim()),
            _ => None,
        }
    }

    #[cold]
    fn convert_to_table(&mut self) {
        if let Form::Table(_) = self.form.get() {
            return;
        }
        let mut table = Table::new();
        for field in self.iter() {
            let (mut name, mut value) = (IntBuffer::new(), IntBuffer::new());
            let (name, value) = (field.name.as_bytes(&mut name), field.value.as_bytes(&mut value));
            table.insert(hash_field(name), name, value, field.expire_at_ms);
        }
        let indexed_ms = self.indexed_expiry_ms();
        self.form = TaggedBox::new(Large { table, indexed_ms }).into();
    }

    /// Makes a listpackex of a listpack, or a hashtable where the third elements have no room.
    #[cold]
    fn convert_to_timed(&mut self) {
        let Form::Packed(packed) = self.form.get() else { return };
        match TimedFields::from_elements(packed.iter(), packed.bytes_used()) {
            Some(timed) => self.form = TaggedBox::new(timed).into(),
            None => self.convert_to_table(),
        }
    }
}

impl Default for Hash {
    fn default() -> Hash {
        Hash::new()
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[inline]
fn set_in_table(
    table: &mut Table<Fields>,
    name: &[u8],
    value: Element<'_>,
    expiry: FieldExpiry,
    now_ms: i64,
) -> bool {
    let mut buffer = IntBuffer::new();
    let value = value.as_bytes(&mut buffer);
    let hash = hash_field(name);
    // Only a table with expiry times is searched twice.
    let old_ms = match table.timed_len() {
        0 => NO_EXPIRY,
        _ => table.get(hash, name).map_or(NO_EXPIRY, |entry| entry.expire_at_ms),
    };
    let was_expired = old_ms <= now_ms;
    let expire_at_ms = match expiry {
        FieldExpiry::At(at_ms) => at_ms,
        FieldExpiry::Keep if !was_expired => old_ms,
        FieldExpiry::Keep | FieldExpiry::Clear => NO_EXPIRY,
    };
    table.insert(hash, name, value, expire_at_ms) || was_expired
}

fn set_in_packed(packed: &mut Packed, name: Element<'_>, value: Element<'_>) -> bool {
    match packed.find_pos(name, 2) {
        Some(pos) => {
            if let Some(old) = packed.next(pos) {
                packed.replace_at(old, value);
            }
            false
        }
        None => {
            packed.insert_pair_at(packed.end(), name, value);
            true
        }
    }
}
