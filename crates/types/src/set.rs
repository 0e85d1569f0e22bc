//! `Set`: a set of byte strings, as sorted integers, packed in one block, or in a hash table.
//!
//! The encoding is the one that OBJECT ENCODING names, and conversions are Redis 7.2's: a set of integers is
//! an `intset` up to one limit, another small set a `listpack` up to two, all others are a `hashtable`;
//! removals never convert back. Invariant: the value is one pointer, and a clone of a table shares
//! its blocks.

mod iter;
#[cfg(test)]
mod tests;

use crate::element::{Element, IntBuffer, int_text_len};
use crate::intset::Intset;
use crate::packed::Packed;
use crate::table::{Members, NO_EXPIRY, Table, hash_field};
use crate::tagged::{TaggedBox, one_word};
use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};
use martlet_base::random::Random;
use std::collections::HashSet;

pub use crate::table::Reclaim;
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

/// If fewer members than this share of those to be taken would stay, those that stay are moved instead of the
/// others. Redis: `SPOP_MOVE_STRATEGY_MUL`.
const MOVE_REMAINING_FACTOR: usize = 5;

/// If more than one in this many members is to be sampled, all members are walked. Redis:
/// `SRANDMEMBER_SUB_STRATEGY_MUL`.
const SAMPLE_WALK_FACTOR: usize = 3;

/// A set; see the module's description.
#[derive(Clone)]
pub struct Set {
    form: Word,
}

one_word! {
    Word, Form, FormMut {
        Packed(Packed),
        Intset(Intset),
        Table(TaggedBox<Table<Members>, 2>),
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
        Set { form: TaggedBox::new(Table::new()).into() }
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
            Form::Packed(_) if count <= limits.listpack_max_entries => {}
            _ => self.convert_to_table(),
        }
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match self.form.get() {
            Form::Intset(ints) => ints.len(),
            Form::Packed(packed) => packed.len(),
            Form::Table(table) => table.len(),
        }
    }

    /// Whether there is no member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block of members if the set is one.
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
        }
    }

    /// Bytes that the allocator gave.
    pub fn heap_bytes(&self) -> usize {
        match self.form.get() {
            Form::Intset(ints) => ints.heap_bytes(),
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Table(table) => {
                crate::size_class::allocated_bytes(size_of::<Table<Members>>()) + table.heap_bytes()
            }
        }
    }

    /// Whether `member` is in the set.
    #[inline]
    pub fn contains(&self, member: Element<'_>) -> bool {
        match self.form.get() {
            Form::Table(table) => {
                let mut buffer = IntBuffer::new();
                let bytes = member.as_bytes(&mut buffer);
                table.contains(hash_field(bytes), bytes)
            }
            Form::Intset(ints) => member.as_int().is_some_and(|int| ints.contains(int)),
            Form::Packed(packed) => packed.find_pos(member, 1).is_some(),
        }
    }

    /// One probe step for a search's reads; worthwhile for tables only.
    #[inline]
    pub fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        match self.form.get() {
            Form::Table(table) => table.queue_probe(probe, queue),
            _ => Progress::Done,
        }
    }

    /// Adds a member; whether it was absent.
    #[inline]
    pub fn add(&mut self, member: Element<'_>, limits: SetLimits) -> bool {
        if let FormMut::Table(table) = self.form.get_mut() {
            return add_to_table(table, member);
        }
        self.add_compact(member, limits)
    }

    fn add_compact(&mut self, member: Element<'_>, limits: SetLimits) -> bool {
        match self.form.get_mut() {
            FormMut::Table(table) => add_to_table(table, member),
            FormMut::Intset(ints) => {
                let Some(int) = member.as_int() else {
                    self.leave_intset(member, limits);
                    return true;
                };
                let most = limits.intset_max_entries.min(INTSET_HARD_MAX);
                if ints.len() >= Intset::MAX_LEN && !ints.contains(int) {
                    self.convert_to_table();
                    return self.add_compact(member, limits);
                }
                let added = ints.add(int);
                if added && ints.len() > most {
                    self.convert_to_table();
                }
                added
            }
            FormMut::Packed(packed) => {
                if packed.find_pos(member, 1).is_some() {
                    return false;
                }
                if packed.len() < limits.listpack_max_entries && fits(packed, member, limits) {
                    packed.push_back(member);
                } else {
                    self.convert_to_table();
                    self.add_compact(member, limits);
                }
                true
            }
        }
    }

    /// Adds a member that is no integer to an intset.
    fn leave_intset(&mut self, member: Element<'_>, limits: SetLimits) {
        let Form::Intset(ints) = self.form.get() else { return };
        let longest = [ints.first(), ints.last()].into_iter().flatten().map(int_text_len).max().unwrap_or(0);
        let packed_fits = ints.len() < limits.listpack_max_entries
            && longest <= limits.listpack_max_value_bytes
            && fits(&Packed::new(), member, limits)
            && ints.len() < Packed::MAX_LEN;
        if !packed_fits {
            self.convert_to_table();
            self.add_compact(member, limits);
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
            add_to_table(&mut table, member);
        }
        self.form = TaggedBox::new(table).into();
    }

    /// Makes an intset of the set if all members are integers and they are within the limit, as Redis does
    /// with the result of SINTERSTORE.
    pub fn convert_to_intset_if_all_ints(&mut self, limits: SetLimits) {
        if matches!(self.form.get(), Form::Intset(_))
            || self.len() > limits.intset_max_entries.min(INTSET_HARD_MAX)
        {
            return;
        }
        let ints: Option<Vec<i64>> = self.iter().map(|member| member.as_int()).collect();
        if let Some(mut ints) = ints {
            ints.sort_unstable();
            self.form = Intset::from_sorted(&ints).into();
        }
    }

    /// Removes a member; whether it was present.
    #[inline]
    pub fn remove(&mut self, member: Element<'_>) -> bool {
        match self.form.get_mut() {
            FormMut::Table(table) => {
                let mut buffer = IntBuffer::new();
                let bytes = member.as_bytes(&mut buffer);
                table.remove(hash_field(bytes), bytes)
            }
            FormMut::Intset(ints) => member.as_int().is_some_and(|int| ints.remove(int)),
            FormMut::Packed(packed) => match packed.find_pos(member, 1) {
                Some(pos) => {
                    packed.remove_at(pos, 1);
                    true
                }
                None => false,
            },
        }
    }

    /// All members: ascending in an intset, else in no order that means anything.
    pub fn iter(&self) -> Iter<'_> {
        match self.form.get() {
            Form::Intset(ints) => Iter::Intset(ints.iter()),
            Form::Packed(packed) => Iter::Packed(packed.iter()),
            Form::Table(table) => Iter::Table(table.iter()),
        }
    }

    /// Passes about `count` members to `f` and returns the next cursor, 0 at the end: [`Table::scan`] for a
    /// table; all members at once, whatever the cursor, for the others.
    pub fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(Element<'_>)) -> u64 {
        match self.form.get() {
            Form::Table(table) => table.scan(cursor, count, |entry| f(Element::Bytes(entry.field))),
            _ => {
                self.iter().for_each(f);
                0
            }
        }
    }

    /// A member chosen uniformly; none if the set is empty.
    pub fn random(&self, random: &mut Random) -> Option<Element<'_>> {
        let index = |random: &mut Random, len: usize| random.below(len as u64) as usize;
        match self.form.get() {
            Form::Intset(ints) => ints.get(index(random, ints.len())).map(Element::Int),
            Form::Packed(packed) => packed.get(index(random, packed.len())),
            Form::Table(table) => table.random(random).map(|entry| Element::Bytes(entry.field)),
        }
    }

    /// Hands `count` distinct members, or all if there are fewer, to `f`. Each combination is equally likely;
    /// the order is not random.
    pub fn sample<'a>(&'a self, count: usize, random: &mut Random, mut f: impl FnMut(Element<'a>)) {
        let len = self.len();
        match self.form.get() {
            Form::Table(table) if count.saturating_mul(SAMPLE_WALK_FACTOR) <= len => {
                let mut chosen = HashSet::with_capacity(count);
                while chosen.len() < count {
                    let Some(entry) = table.random(random) else { return };
                    if chosen.insert(entry.field.as_ptr()) {
                        f(Element::Bytes(entry.field));
                    }
                }
            }
            _ => {
                let mut choice = Selection::new(count, len);
                self.iter().filter(|_| choice.next(random)).for_each(f);
            }
        }
    }

    /// Removes a member chosen uniformly and hands it to `f`.
    pub fn pop<R>(&mut self, random: &mut Random, f: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        match self.form.get_mut() {
            FormMut::Intset(ints) => {
                let index = random.below(ints.len() as u64) as usize;
                let int = ints.get(index)?;
                ints.remove_index(index);
                Some(f(Element::Int(int)))
            }
            FormMut::Packed(packed) => {
                let pos = packed.seek(random.below(packed.len() as u64) as usize)?;
                let result = f(packed.at(pos));
                packed.remove_at(pos, 1);
                Some(result)
            }
            FormMut::Table(table) => {
                let mut member = Vec::new();
                table.pop_random(random, &mut member).then(|| f(Element::Bytes(&member)))
            }
        }
    }

    /// Removes `count` members, fewer than there are, each combination equally likely, and hands them to `f`.
    /// What stays may change its encoding, as in Redis.
    pub fn pop_many(
        &mut self,
        count: usize,
        limits: SetLimits,
        random: &mut Random,
        mut f: impl FnMut(Element<'_>),
    ) {
        let len = self.len();
        let remaining = len - count.min(len);
        match self.form.get_mut() {
            FormMut::Intset(ints) => {
                let mut choice = Selection::new(count, len);
                let keep = |int: &i64| {
                    let taken = choice.next(random);
                    if taken {
                        f(Element::Int(*int));
                    }
                    !taken
                };
                let kept: Vec<i64> = ints.iter().filter(keep).collect();
                *ints = Intset::from_sorted(&kept);
            }
            FormMut::Packed(packed) => {
                let mut choice = Selection::new(count, len);
                let keep = |member: &Element<'_>| {
                    let taken = choice.next(random);
                    if taken {
                        f(*member);
                    }
                    !taken
                };
                *packed = packed.iter().filter(keep).collect();
            }
            FormMut::Table(table) if remaining.saturating_mul(MOVE_REMAINING_FACTOR) > count => {
                let mut member = Vec::new();
                for _ in 0..count {
                    if table.pop_random(random, &mut member) {
                        f(Element::Bytes(&member));
                    }
                }
            }
            FormMut::Table(table) => {
                let mut kept = Set::new_listpack();
                let mut member = Vec::new();
                for _ in 0..remaining {
                    if table.pop_random(random, &mut member) {
                        kept.add(Element::Bytes(&member), limits);
                    }
                }
                table.iter().for_each(|entry| f(Element::Bytes(entry.field)));
                *self = kept;
            }
        }
    }

    /// Gives a large set up, to be freed in slices; a small one is freed at once.
    pub fn into_reclaim(mut self) -> Option<Reclaim<Members>> {
        match self.form.get_mut() {
            FormMut::Table(table) => Some(std::mem::take(&mut **table).into_reclaim()),
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
fn add_to_table(table: &mut Table<Members>, member: Element<'_>) -> bool {
    let mut buffer = IntBuffer::new();
    let bytes = member.as_bytes(&mut buffer);
    table.insert(hash_field(bytes), bytes, &[], NO_EXPIRY)
}

/// Whether one more member may be packed, its number apart.
fn fits(packed: &Packed, member: Element<'_>, limits: SetLimits) -> bool {
    let bytes = member.byte_len();
    bytes <= limits.listpack_max_value_bytes && packed.has_room(1, bytes)
}

/// Chooses `wanted` of `left` things that are met one after another, each combination equally likely.
pub(crate) struct Selection {
    wanted: usize,
    left: usize,
}

impl Selection {
    pub fn new(wanted: usize, of: usize) -> Selection {
        Selection { wanted: wanted.min(of), left: of }
    }

    /// Whether the next one is chosen.
    pub fn next(&mut self, random: &mut Random) -> bool {
        let chosen = random.below(self.left as u64) < self.wanted as u64;
        self.left = self.left.saturating_sub(1);
        self.wanted -= usize::from(chosen);
        chosen
    }
}
