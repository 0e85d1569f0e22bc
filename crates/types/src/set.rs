//! `Set`: a set of byte strings that may expire, as sorted integers, packed in one block, or in a hash table.
//!
//! The encoding is the one that OBJECT ENCODING names, and conversions are Redis 7.2's: a set of integers is
//! an `intset` up to one limit, another small set a `listpack` up to two, or a `listpackex` if a member has
//! had an expiry time (Redis 8.12), all others are a `hashtable`; removals never convert back. Expiry times
//! cost something only where they are set: a second element per member in a `listpackex`, nine bytes in a
//! table's entry.
//!
//! Invariant: the value is one pointer, and a clone of a table shares its blocks. A member whose time has
//! come reads as absent wherever a method takes the time; it stays until it is collected or added again.

mod draw;
mod iter;
#[cfg(test)]
mod tests;

use crate::element::{Element, IntBuffer, int_text_len};
use crate::intset::Intset;
use crate::packed::Packed;
use crate::size_class::allocated_bytes;
use crate::table::{Members, Table, hash_field};
use crate::tagged::{TaggedBox, one_word};
use crate::timed::Timed;
use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};

pub use crate::table::{NO_EXPIRY, Reclaim};
pub(crate) use draw::Selection;
pub use iter::Iter;

/// When a set changes its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// Most members of an intset (`set-max-intset-entries`).
    pub intset_max_entries: usize,
    /// Most members of a listpack (`set-max-listpack-entries`).
    pub listpack_max_entries: usize,
    /// Longest member of a listpack in bytes (`set-max-listpack-value`).
    pub listpack_max_value_bytes: usize,
}

impl Default for SetLimits {
    /// Redis' defaults.
    fn default() -> SetLimits {
        SetLimits { intset_max_entries: 512, listpack_max_entries: 128, listpack_max_value_bytes: 64 }
    }
}

/// Redis bounds an intset to this many members, whatever is configured.
const INTSET_HARD_MAX: usize = 1 << 30;

/// Longest text of an integer in bytes.
const INT_TEXT_MAX_BYTES: usize = 20;
/// Most bytes that an integer takes in a [`Packed`].
const PACKED_INT_MAX_BYTES: usize = 9;

/// A member as the set hands it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The member.
    pub element: Element<'a>,
    /// When it expires, Unix milliseconds; [`NO_EXPIRY`] if it does not.
    pub expire_at_ms: i64,
}

impl<'a> Member<'a> {
    /// One that does not expire.
    #[inline]
    fn lasting(element: Element<'a>) -> Member<'a> {
        Member { element, expire_at_ms: NO_EXPIRY }
    }

    /// Whether the member has not expired by `now_ms`.
    #[inline]
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.expire_at_ms > now_ms
    }
}

/// Elements of a member in a `listpackex`.
const STEP: usize = 2;

/// The members of a `listpackex`.
type TimedMembers = Timed<STEP>;

/// A set; see the module's description.
#[derive(Clone)]
pub struct Set {
    form: Word,
}

one_word! {
    Word, Form, FormMut {
        Packed(Packed),
        Intset(Intset),
        Table(TaggedBox<Large, 2>),
        Timed(TaggedBox<TimedMembers, 3>),
    }
}

#[derive(Clone)]
struct Large {
    table: Table<Members>,
    /// See [`Set::indexed_expiry_ms`].
    indexed_ms: i64,
}

impl From<Table<Members>> for Large {
    fn from(table: Table<Members>) -> Large {
        Large { table, indexed_ms: NO_EXPIRY }
    }
}

impl Set {
    /// An empty set, an intset; see [`Set::prepare`].
    pub fn new() -> Set {
        Set { form: Intset::new().into() }
    }

    /// An empty set, a listpack.
    pub fn new_listpack() -> Set {
        Set::with_capacity(0)
    }

    /// An empty set, a listpack with room for `bytes` of members.
    pub fn with_capacity(bytes: usize) -> Set {
        Set { form: Packed::with_capacity(bytes).into() }
    }

    /// An empty set, a hashtable.
    pub fn new_hashtable() -> Set {
        Set { form: TaggedBox::new(Large::from(Table::new())).into() }
    }

    /// To be called before about `count` members are added: an empty set takes the encoding that Redis
    /// creates for `first`, another becomes a hashtable if that many members exceed its encoding.
    #[inline]
    pub fn prepare(&mut self, first: &[u8], count: usize, limits: SetLimits) {
        match self.form.get() {
            Form::Table(_) => {}
            Form::Intset(ints) if ints.is_empty() => {
                if count <= limits.intset_max_entries && Element::Bytes(first).as_int().is_some() {
                    return;
                }
                *self = if count <= limits.listpack_max_entries {
                    Set::new_listpack()
                } else {
                    Set::new_hashtable()
                };
            }
            Form::Intset(_) if count <= limits.intset_max_entries => {}
            Form::Packed(_) | Form::Timed(_) if count <= limits.listpack_max_entries => {}
            _ => self.convert_to_table(),
        }
    }

    /// Number of members, expired ones that were not collected included.
    #[inline]
    pub fn len(&self) -> usize {
        match self.form.get() {
            Form::Intset(ints) => ints.len(),
            Form::Packed(packed) => packed.len(),
            Form::Table(large) => large.table.len(),
            Form::Timed(timed) => timed.len(),
        }
    }

    /// Number of members that have not expired by `now_ms`. O(1) unless some have.
    #[inline]
    pub fn live_len(&self, now_ms: i64) -> usize {
        if self.next_expiry_ms() > now_ms { self.len() } else { self.live(now_ms).count() }
    }

    /// Whether there is no member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block of members if the set is one, and no member expires.
    pub fn packed(&self) -> Option<&Packed> {
        match self.form.get() {
            Form::Packed(packed) => Some(packed),
            _ => None,
        }
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        match self.form.get() {
            Form::Intset(_) => "intset",
            Form::Packed(_) => "listpack",
            Form::Table(_) => "hashtable",
            Form::Timed(_) => "listpackex",
        }
    }

    /// Bytes that the allocator gave.
    pub fn heap_bytes(&self) -> usize {
        match self.form.get() {
            Form::Intset(ints) => ints.heap_bytes(),
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Table(large) => allocated_bytes(size_of::<Large>()) + large.table.heap_bytes(),
            Form::Timed(timed) => allocated_bytes(size_of::<TimedMembers>()) + timed.heap_bytes(),
        }
    }

    /// Whether `member` is in the set and has not expired by `now_ms`.
    #[inline]
    pub fn contains(&self, member: Element<'_>, now_ms: i64) -> bool {
        match self.form.get() {
            Form::Table(large) => {
                let mut buffer = IntBuffer::new();
                let bytes = member.as_bytes(&mut buffer);
                let (hash, table) = (hash_field(bytes), &large.table);
                if table.next_expiry_ms() > now_ms {
                    return table.contains(hash, bytes);
                }
                table.get(hash, bytes).is_some_and(|entry| entry.expire_at_ms > now_ms)
            }
            Form::Intset(ints) => member.as_int().is_some_and(|int| ints.contains(int)),
            Form::Packed(packed) => packed.find_pos(member, 1).is_some(),
            Form::Timed(timed) => timed.find(member).is_some_and(|pos| timed.expiry_at(pos) > now_ms),
        }
    }

    /// When a member that has not expired by `now_ms` does, Unix milliseconds; [`NO_EXPIRY`] if it does not;
    /// none if there is no such member.
    pub fn expiry(&self, member: Element<'_>, now_ms: i64) -> Option<i64> {
        let expire_at_ms = match self.form.get() {
            Form::Table(large) => {
                let mut buffer = IntBuffer::new();
                let bytes = member.as_bytes(&mut buffer);
                large.table.get(hash_field(bytes), bytes)?.expire_at_ms
            }
            Form::Timed(timed) => timed.expiry_at(timed.find(member)?),
            _ => return self.contains(member, now_ms).then_some(NO_EXPIRY),
        };
        Some(expire_at_ms).filter(|at_ms| *at_ms > now_ms)
    }

    /// One probe step for a search's reads; worthwhile for tables only.
    #[inline]
    pub fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        match self.form.get() {
            Form::Table(large) => large.table.queue_probe(probe, queue),
            _ => Progress::Done,
        }
    }

    /// Adds a member; whether it was absent. A member that has expired by `now_ms` is treated as absent;
    /// another one keeps its time.
    #[inline]
    pub fn add(&mut self, member: Element<'_>, limits: SetLimits, now_ms: i64) -> bool {
        self.insert(member, NO_EXPIRY, limits, now_ms)
    }

    /// As [`Set::add`]; an absent member gets an expiry time, [`NO_EXPIRY`] for none.
    #[inline]
    pub fn insert(&mut self, member: Element<'_>, expire_at_ms: i64, limits: SetLimits, now_ms: i64) -> bool {
        if let FormMut::Table(large) = self.form.get_mut() {
            return add_to_table(&mut large.table, member, expire_at_ms, now_ms);
        }
        if expire_at_ms != NO_EXPIRY {
            self.prepare_expiry(limits);
        }
        self.insert_compact(member, expire_at_ms, limits, now_ms)
    }

    fn insert_compact(
        &mut self,
        member: Element<'_>,
        expire_at_ms: i64,
        limits: SetLimits,
        now_ms: i64,
    ) -> bool {
        match self.form.get_mut() {
            FormMut::Table(large) => {
                return add_to_table(&mut large.table, member, expire_at_ms, now_ms);
            }
            FormMut::Intset(ints) => {
                let Some(int) = member.as_int() else {
                    self.leave_intset(member, limits, now_ms);
                    return true;
                };
                let most = limits.intset_max_entries.min(INTSET_HARD_MAX);
                if ints.len() < Intset::MAX_LEN || ints.contains(int) {
                    let added = ints.add(int);
                    if added && ints.len() > most {
                        self.convert_to_table();
                    }
                    return added;
                }
            }
            FormMut::Packed(packed) => {
                if packed.find_pos(member, 1).is_some() {
                    return false;
                }
                if packed.len() < limits.listpack_max_entries && fits(packed, member, limits) {
                    packed.push_back(member);
                    return true;
                }
            }
            FormMut::Timed(timed) => {
                if let Some(pos) = timed.find(member) {
                    let was_expired = timed.expiry_at(pos) <= now_ms;
                    if was_expired {
                        timed.set_time(pos, expire_at_ms);
                    }
                    return was_expired;
                }
                let bytes = member.byte_len();
                let fits = bytes <= limits.listpack_max_value_bytes && timed.has_room(bytes);
                if fits && timed.len() < limits.listpack_max_entries {
                    timed.push([member], expire_at_ms);
                    return true;
                }
            }
        }
        self.convert_to_table();
        self.insert_compact(member, expire_at_ms, limits, now_ms)
    }

    /// Changes the expiry time of a member, expired or not, [`NO_EXPIRY`] for none; whether there is one.
    pub fn set_expiry(&mut self, member: Element<'_>, expire_at_ms: i64, limits: SetLimits) -> bool {
        if let Form::Packed(_) | Form::Intset(_) = self.form.get() {
            if !self.contains(member, i64::MIN) || expire_at_ms == NO_EXPIRY {
                return self.contains(member, i64::MIN);
            }
            self.prepare_expiry(limits);
        }
        match self.form.get_mut() {
            FormMut::Packed(_) | FormMut::Intset(_) => false,
            FormMut::Timed(timed) => timed.set_expiry(member, expire_at_ms),
            FormMut::Table(large) => {
                let mut buffer = IntBuffer::new();
                let bytes = member.as_bytes(&mut buffer);
                large.table.set_expiry(hash_field(bytes), bytes, expire_at_ms)
            }
        }
    }

    /// Makes an encoding of the set whose members may expire: a listpackex if they are few enough, and may be
    /// long enough, for a listpack.
    #[cold]
    pub fn prepare_expiry(&mut self, limits: SetLimits) {
        let few = self.len() <= limits.listpack_max_entries;
        let timed = match self.form.get() {
            Form::Packed(packed) if few => TimedMembers::from_elements(packed.iter(), packed.bytes_used()),
            Form::Intset(ints) if few && limits.listpack_max_value_bytes >= INT_TEXT_MAX_BYTES => {
                let bytes = ints.len() * PACKED_INT_MAX_BYTES;
                TimedMembers::from_elements(ints.iter().map(Element::Int), bytes)
            }
            Form::Packed(_) | Form::Intset(_) => None,
            Form::Timed(_) | Form::Table(_) => return,
        };
        match timed {
            Some(timed) => self.form = TaggedBox::new(timed).into(),
            None => self.convert_to_table(),
        }
    }

    /// Adds a member that is no integer to an intset.
    fn leave_intset(&mut self, member: Element<'_>, limits: SetLimits, now_ms: i64) {
        let Form::Intset(ints) = self.form.get() else { return };
        let longest = [ints.first(), ints.last()].into_iter().flatten().map(int_text_len).max().unwrap_or(0);
        let packed_fits = ints.len() < limits.listpack_max_entries
            && longest <= limits.listpack_max_value_bytes
            && fits(&Packed::new(), member, limits)
            && ints.len() < Packed::MAX_LEN;
        if !packed_fits {
            self.convert_to_table();
            self.insert_compact(member, NO_EXPIRY, limits, now_ms);
            return;
        }
        let mut packed: Packed = ints.iter().map(Element::Int).collect();
        packed.push_back(member);
        self.form = packed.into();
    }

    #[cold]
    fn convert_to_table(&mut self) {
        let mut table = Table::new();
        for member in self.iter() {
            add_to_table(&mut table, member.element, member.expire_at_ms, i64::MIN);
        }
        self.form = TaggedBox::new(Large { table, indexed_ms: self.indexed_expiry_ms() }).into();
    }

    /// Makes an intset of the set if all members are integers and they are within the limit, as Redis does
    /// with the result of SINTERSTORE. No member expires.
    pub fn convert_to_intset_if_all_ints(&mut self, limits: SetLimits) {
        if matches!(self.form.get(), Form::Intset(_) | Form::Timed(_))
            || self.len() > limits.intset_max_entries.min(INTSET_HARD_MAX)
        {
            return;
        }
        let ints: Option<Vec<i64>> = self.iter().map(|member| member.element.as_int()).collect();
        if let Some(mut ints) = ints {
            ints.sort_unstable();
            self.form = Intset::from_sorted(&ints).into();
        }
    }

    /// Removes a member that has not expired by `now_ms`, or any member where that is `i64::MIN`; whether
    /// there was one.
    #[inline]
    pub fn remove(&mut self, member: Element<'_>, now_ms: i64) -> bool {
        match self.form.get_mut() {
            FormMut::Table(large) => {
                let mut buffer = IntBuffer::new();
                let bytes = member.as_bytes(&mut buffer);
                let (hash, table) = (hash_field(bytes), &mut large.table);
                if table.next_expiry_ms() <= now_ms
                    && table.get(hash, bytes).is_none_or(|entry| entry.expire_at_ms <= now_ms)
                {
                    return false;
                }
                table.remove(hash, bytes)
            }
            FormMut::Intset(ints) => member.as_int().is_some_and(|int| ints.remove(int)),
            FormMut::Packed(packed) => match packed.find_pos(member, 1) {
                Some(pos) => {
                    packed.remove_at(pos, 1);
                    true
                }
                None => false,
            },
            FormMut::Timed(timed) => timed.remove(member, now_ms),
        }
    }

    /// Removes a member that has expired by `now_ms`; whether there was one.
    pub fn remove_expired(&mut self, member: Element<'_>, now_ms: i64) -> bool {
        if self.next_expiry_ms() > now_ms || self.contains(member, now_ms) {
            return false;
        }
        self.remove(member, i64::MIN)
    }

    /// All members, expired ones included: ascending in an intset, else in no order that means anything.
    pub fn iter(&self) -> Iter<'_> {
        match self.form.get() {
            Form::Intset(ints) => Iter::Intset(ints.iter()),
            Form::Packed(packed) => Iter::Packed(packed.iter()),
            Form::Table(large) => Iter::Table(large.table.iter()),
            Form::Timed(timed) => Iter::Timed(timed.elements().iter()),
        }
    }

    /// The members that have not expired by `now_ms`, in the order of [`Set::iter`].
    pub fn live(&self, now_ms: i64) -> impl Iterator<Item = Element<'_>> {
        self.iter().filter(move |member| member.is_live(now_ms)).map(|member| member.element)
    }

    /// Passes about `count` members that have not expired by `now_ms` to `f` and returns the next cursor, 0
    /// at the end: [`Table::scan`] for a table; all members at once, whatever the cursor, for the others.
    pub fn scan(&self, cursor: u64, count: usize, now_ms: i64, mut f: impl FnMut(Element<'_>)) -> u64 {
        match self.form.get() {
            Form::Table(large) => large.table.scan(cursor, count, |entry| {
                if entry.expire_at_ms > now_ms {
                    f(Element::Bytes(entry.field));
                }
            }),
            _ => {
                self.live(now_ms).for_each(f);
                0
            }
        }
    }

    /// A time before which no member expires; [`NO_EXPIRY`] if no member has an expiry time. O(1).
    #[inline]
    pub fn next_expiry_ms(&self) -> i64 {
        match self.form.get() {
            Form::Packed(_) | Form::Intset(_) => NO_EXPIRY,
            Form::Timed(timed) => timed.next_expiry_ms(),
            Form::Table(large) => large.table.next_expiry_ms(),
        }
    }

    /// Removes members that have expired by `now_ms`, at most `limit`, and hands each to `f` before. Returns
    /// how many. If fewer than `limit`, [`Set::next_expiry_ms`] is later than `now_ms` afterwards.
    pub fn collect_expired(&mut self, now_ms: i64, limit: usize, mut f: impl FnMut(Member<'_>)) -> usize {
        match self.form.get_mut() {
            FormMut::Packed(_) | FormMut::Intset(_) => 0,
            FormMut::Timed(timed) => timed.collect_expired(now_ms, limit, |elements, pos, expire_at_ms| {
                f(Member { element: elements.at(pos), expire_at_ms });
            }),
            FormMut::Table(large) => {
                large.table.collect_expired(now_ms, limit, |entry| f(Member::from(entry)))
            }
        }
    }

    /// The time under which the owner has this set in its index of sets with expiring members; [`NO_EXPIRY`]
    /// if it has not. The set only keeps it, through clones and conversions too.
    #[inline]
    pub fn indexed_expiry_ms(&self) -> i64 {
        match self.form.get() {
            Form::Packed(_) | Form::Intset(_) => NO_EXPIRY,
            Form::Timed(timed) => timed.indexed_ms,
            Form::Table(large) => large.indexed_ms,
        }
    }

    /// Notes under which time the owner has put this set in its index; see [`Set::indexed_expiry_ms`]. A set
    /// that has never had an expiring member cannot be in it.
    pub fn set_indexed_expiry_ms(&mut self, at_ms: i64) {
        match self.form.get_mut() {
            FormMut::Packed(_) | FormMut::Intset(_) => debug_assert_eq!(at_ms, NO_EXPIRY),
            FormMut::Timed(timed) => timed.indexed_ms = at_ms,
            FormMut::Table(large) => large.indexed_ms = at_ms,
        }
    }

    /// Gives a large set up, to be freed in slices; a small one is freed at once.
    pub fn into_reclaim(mut self) -> Option<Reclaim<Members>> {
        match self.form.get_mut() {
            FormMut::Table(large) => Some(std::mem::take(&mut large.table).into_reclaim()),
            _ => None,
        }
    }
}

impl Default for Set {
    fn default() -> Set {
        Set::new()
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[inline]
fn add_to_table(table: &mut Table<Members>, member: Element<'_>, expire_at_ms: i64, now_ms: i64) -> bool {
    let mut buffer = IntBuffer::new();
    let bytes = member.as_bytes(&mut buffer);
    let hash = hash_field(bytes);
    if table.insert(hash, bytes, &[], expire_at_ms) {
        return true;
    }
    // Only a table with a member that may have expired is searched twice.
    table.next_expiry_ms() <= now_ms
        && table.get(hash, bytes).is_some_and(|entry| entry.expire_at_ms <= now_ms)
        && table.set_expiry(hash, bytes, expire_at_ms)
}

/// Whether one more member may be packed, its number apart.
fn fits(packed: &Packed, member: Element<'_>, limits: SetLimits) -> bool {
    let bytes = member.byte_len();
    bytes <= limits.listpack_max_value_bytes && packed.has_room(1, bytes)
}
