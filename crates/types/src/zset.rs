//! The sorted set: members with a score each, in order of score and then of member bytes.
//!
//! Small ones are packed in one block ([`compact`]), larger ones are a B+-tree and an index ([`full`]). The
//! limits between the two are passed with every addition; a set never goes back to the small encoding by
//! itself. A clone is cheap whatever the size, and changes of either do not show in the other.
//!
//! Invariant: no member is twice in a set, no score is NaN, and a packed set obeys the limits
//! that were given with its last addition.

mod chunk;
mod compact;
mod full;
mod index;
mod leaf;
#[cfg(test)]
mod model;
mod range;
mod shared;
mod slots;
#[cfg(test)]
mod tests;
mod tree;

pub use range::Entries;

use crate::element::Element;
use crate::packed::Packed;
use crate::tagged::{TaggedArc, one_word};
use full::Full;
use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};
use martlet_base::random::Random;
use std::fmt;
use std::ops::Range;

/// A sorted set; see the module's description.
#[derive(Clone)]
pub struct ZSet {
    form: Word,
}

one_word! {
    Word, Form, FormMut {
        Packed(Packed),
        Full(TaggedArc<Full, 1>),
    }
}

/// Up to which size a set stays in the small encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZSetLimits {
    /// `zset-max-listpack-entries`: entries.
    pub listpack_max_entries: usize,
    /// `zset-max-listpack-value`: length of the longest member, in bytes.
    pub listpack_max_value_bytes: usize,
}

impl Default for ZSetLimits {
    fn default() -> ZSetLimits {
        ZSetLimits { listpack_max_entries: 128, listpack_max_value_bytes: 64 }
    }
}

/// A member and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The member.
    pub member: Element<'a>,
    /// Its score, never NaN.
    pub score: f64,
}

/// Conditions of an addition, as ZADD's options; all false adds or sets without condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Only add new members.
    pub nx: bool,
    /// Only change members that are there.
    pub xx: bool,
    /// Change a score only to a greater one.
    pub gt: bool,
    /// Change a score only to a smaller one.
    pub lt: bool,
    /// The score is added to the one that is there.
    pub incr: bool,
}

/// What an addition did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Added {
    /// The member is new.
    Added,
    /// The member has this other score now.
    Updated(f64),
    /// The member has had this score already.
    Unchanged(f64),
    /// The conditions forbade it.
    Skipped,
    /// The sum would be NaN; nothing changed.
    NotANumber,
}

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score.
    pub score: f64,
    /// Whether the score itself is outside.
    pub exclusive: bool,
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member: `-`.
    Min,
    /// After every member: `+`.
    Max,
    /// This member and those inside: `[member`.
    Inclusive(&'a [u8]),
    /// Members inside of this one: `(member`.
    Exclusive(&'a [u8]),
}

impl LexBound<'_> {
    /// Whether `member` is before a range that starts here.
    fn is_after(self, member: &[u8]) -> bool {
        match self {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Inclusive(bound) => member < bound,
            LexBound::Exclusive(bound) => member <= bound,
        }
    }

    /// Whether `member` is not after a range that ends here.
    fn is_not_before(self, member: &[u8]) -> bool {
        match self {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Inclusive(bound) => member <= bound,
            LexBound::Exclusive(bound) => member < bound,
        }
    }
}

impl Default for ZSet {
    fn default() -> ZSet {
        ZSet::new()
    }
}

impl ZSet {
    /// An empty set, packed.
    pub fn new() -> ZSet {
        ZSet { form: Packed::new().into() }
    }

    /// A set of these members and scores, one after another; the caller has seen that they ascend, that the
    /// scores are integers, and that no member is there twice.
    pub fn of_packed(pairs: Packed) -> ZSet {
        debug_assert!(pairs.len().is_multiple_of(2));
        ZSet { form: pairs.into() }
    }

    /// An empty set, packed, with room for `bytes` of entries.
    pub fn with_capacity(bytes: usize) -> ZSet {
        ZSet { form: Packed::with_capacity(bytes).into() }
    }

    /// An empty set in the encoding that `entries` of them, the longest member of `longest_bytes`, will need.
    pub fn with_hint(entries: usize, longest_bytes: usize, limits: ZSetLimits) -> ZSet {
        let mut set = ZSet::new();
        set.prepare(entries, longest_bytes, limits);
        set
    }

    /// Before `entries` are added, the first member of which has `first_bytes`: leaves the small encoding
    /// where Redis does, even if fewer will be there in the end.
    pub fn prepare(&mut self, entries: usize, first_bytes: usize, limits: ZSetLimits) {
        let too_long = self.is_empty() && first_bytes > limits.listpack_max_value_bytes;
        if entries > limits.listpack_max_entries || too_long {
            self.unpack();
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        match self.form.get() {
            Form::Packed(packed) => compact::len(packed),
            Form::Full(full) => full.len(),
        }
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block of member, score, member, score… if the set is one.
    pub fn packed(&self) -> Option<&Packed> {
        match self.form.get() {
            Form::Packed(packed) => Some(packed),
            _ => None,
        }
    }

    /// The name that OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        match self.form.get() {
            Form::Packed(_) => "listpack",
            Form::Full(_) => "skiplist",
        }
    }

    /// Bytes that the allocator gave for this set, shared ones included.
    pub fn heap_bytes(&self) -> usize {
        match self.form.get() {
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Full(full) => full.heap_bytes(),
        }
    }

    /// One probe step for the reads of a search for a member; worthwhile for large sets only.
    #[inline]
    pub fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        match self.form.get() {
            Form::Full(full) => full.queue_probe(probe, queue),
            Form::Packed(_) => Progress::Done,
        }
    }

    /// The score of a member.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match self.form.get() {
            Form::Packed(packed) => compact::find(packed, member).map(|(_, score)| score),
            Form::Full(full) => full.find(member).ok().map(|found| found.score),
        }
    }

    /// The rank of a member, counted from the lowest, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match self.form.get() {
            Form::Packed(packed) => {
                compact::find(packed, member).map(|(pos, score)| (compact::rank(packed, pos), score))
            }
            Form::Full(full) => full.find(member).ok().map(|found| (full.rank(found, member), found.score)),
        }
    }

    /// Adds a member or changes its score; `score` is not NaN.
    pub fn add(&mut self, member: &[u8], score: f64, options: AddOptions, limits: ZSetLimits) -> Added {
        debug_assert!(!score.is_nan());
        match self.form.get_mut() {
            FormMut::Packed(packed) => {
                if let Some((pos, old)) = compact::find(packed, member) {
                    let outcome = decide(old, score, options);
                    if let Added::Updated(new) = outcome {
                        compact::update(packed, pos, member, new);
                    }
                    return outcome;
                }
                if options.xx {
                    return Added::Skipped;
                }
                if compact::has_room(packed, limits, member) {
                    compact::insert(packed, member, score);
                } else {
                    let full = self.unpack();
                    if let Err(hash) = full.find(member) {
                        full.insert(hash, member, score);
                    }
                }
                Added::Added
            }
            FormMut::Full(full) => match full.find_to_add(member, score) {
                Ok(found) => {
                    let outcome = decide(found.score, score, options);
                    if let Added::Updated(new) = outcome {
                        full.make_mut().update(found, member, new);
                    }
                    outcome
                }
                Err(_) if options.xx => Added::Skipped,
                Err(hash) => {
                    full.make_mut().insert(hash, member, score);
                    Added::Added
                }
            },
        }
    }

    /// Adds a member or sets its score without condition.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: ZSetLimits) -> Added {
        self.add(member, score, AddOptions::default(), limits)
    }

    /// Adds entries that ascend and whose members are not there.
    pub fn extend_sorted<'a>(&mut self, entries: impl IntoIterator<Item = Entry<'a>>, limits: ZSetLimits) {
        let mut buffer = crate::element::IntBuffer::new();
        for entry in entries {
            let member = entry.member.as_bytes(&mut buffer);
            match self.form.get_mut() {
                FormMut::Packed(packed) if compact::has_room(packed, limits, member) => {
                    compact::insert_last(packed, member, entry.score);
                }
                _ => self.unpack().insert(index::member_hash(member), member, entry.score),
            }
        }
    }

    /// Adds an entry of an encoded set, unless its member is there already; whether it was not. `is_last` if
    /// it is after all others. Unlike [`ZSet::add`] this keeps a small set's minus zero, as Redis does.
    pub fn push(&mut self, member: &[u8], score: f64, is_last: bool, limits: ZSetLimits) -> bool {
        debug_assert!(!score.is_nan());
        match self.form.get_mut() {
            FormMut::Packed(packed) if compact::has_room(packed, limits, member) => {
                let absent = compact::find(packed, member).is_none();
                if absent {
                    compact::insert_encoded(packed, member, score, is_last);
                }
                absent
            }
            _ => matches!(self.insert(member, score, limits), Added::Added),
        }
    }

    /// Removes a member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match self.form.get_mut() {
            FormMut::Packed(packed) => {
                let (pos, score) = compact::find(packed, member)?;
                compact::remove(packed, pos);
                Some(score)
            }
            FormMut::Full(full) => {
                let found = full.find(member).ok()?;
                full.make_mut().remove(found, member);
                Some(found.score)
            }
        }
    }

    /// The entry at `rank`.
    pub fn at_rank(&self, rank: usize) -> Option<Entry<'_>> {
        self.range(rank..rank.saturating_add(1), false).next()
    }

    /// An entry chosen at random, each as likely as any other.
    pub fn random(&self, random: &mut Random) -> Option<Entry<'_>> {
        self.at_rank(random.below(self.len() as u64) as usize)
    }

    /// The ranks of entries with a score from `min` to `max`; empty without any.
    pub fn ranks_by_score(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let (start, end) = match self.form.get() {
            Form::Packed(packed) => (
                compact::partition(packed, |entry| {
                    if min.exclusive { entry.score <= min.score } else { entry.score < min.score }
                }),
                compact::partition(packed, |entry| {
                    if max.exclusive { entry.score < max.score } else { entry.score <= max.score }
                }),
            ),
            Form::Full(full) => {
                (full.rank_of_score(min.score, min.exclusive), full.rank_of_score(max.score, !max.exclusive))
            }
        };
        start..end.max(start)
    }

    /// The ranks of entries with a member from `min` to `max`, in a set whose scores are all equal; empty
    /// without any. With different scores some range is returned.
    pub fn ranks_by_lex(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let (start, end) = match self.form.get() {
            Form::Packed(packed) => {
                let mut buffer = crate::element::IntBuffer::new();
                (
                    compact::partition(packed, |entry| min.is_after(entry.member.as_bytes(&mut buffer))),
                    compact::partition(packed, |entry| max.is_not_before(entry.member.as_bytes(&mut buffer))),
                )
            }
            Form::Full(full) => (
                full.rank_of_member(|member| min.is_after(member)),
                full.rank_of_member(|member| max.is_not_before(member)),
            ),
        };
        start..end.max(start)
    }

    /// Removes the entries at `ranks`, after `f` has seen each, and returns how many they were.
    pub fn remove_range(&mut self, ranks: Range<usize>, mut f: impl FnMut(Entry<'_>)) -> usize {
        let end = ranks.end.min(self.len());
        let start = ranks.start.min(end);
        match self.form.get_mut() {
            FormMut::Packed(packed) => {
                compact::pairs(packed).take(end).skip(start).for_each(f);
                packed.remove_range(start * 2, (end - start) * 2);
            }
            FormMut::Full(full) => {
                full.make_mut().remove_range(start..end, &mut |member, score| {
                    f(Entry { member: Element::Bytes(member), score });
                });
            }
        }
        end - start
    }

    /// Calls `f` with entries from `cursor` on, 0 at the start, until at least `count` were passed, and
    /// returns the next cursor, 0 at the end. An entry that is there from the first call to the last is
    /// passed.
    pub fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(Entry<'_>)) -> u64 {
        match self.form.get() {
            Form::Packed(packed) => {
                compact::pairs(packed).for_each(f);
                0
            }
            Form::Full(full) => full.scan(cursor, count, &mut |member, score| {
                f(Entry { member: Element::Bytes(member), score });
            }),
        }
    }

    /// Packs a set that was just built, if it is within the limits (as ZUNIONSTORE and its like do).
    pub fn pack_if_small(&mut self, limits: ZSetLimits) {
        if self.len() > limits.listpack_max_entries || matches!(self.form.get(), Form::Packed(_)) {
            return;
        }
        let mut packed = Packed::new();
        for entry in self.iter() {
            let Element::Bytes(member) = entry.member else { return };
            if !compact::has_room(&packed, limits, member) {
                return;
            }
            compact::insert_last(&mut packed, member, entry.score);
        }
        self.form = packed.into();
    }

    /// Drops up to about `budget` allocations; whether all are gone. The set is empty afterwards, or of no
    /// use but to be freed further.
    pub fn free_some(&mut self, budget: usize) -> bool {
        let done = match self.form.get_mut() {
            FormMut::Packed(_) => true,
            FormMut::Full(full) => full.get_mut().is_none_or(|full| full.free_some(budget)),
        };
        if done {
            *self = ZSet::new();
        }
        done
    }

    /// Moves to the full encoding.
    fn unpack(&mut self) -> &mut Full {
        if let Form::Packed(packed) = self.form.get() {
            let mut full = Full::new();
            let mut buffer = crate::element::IntBuffer::new();
            for entry in compact::pairs(packed) {
                let member = entry.member.as_bytes(&mut buffer);
                if let Err(hash) = full.find(member) {
                    full.insert(hash, member, entry.score);
                }
            }
            self.form = TaggedArc::new(full).into();
        }
        match self.form.get_mut() {
            FormMut::Full(full) => full.make_mut(),
            FormMut::Packed(_) => unreachable!("the set was just made full"),
        }
    }
}

/// What an addition does to a member whose score is `old`.
#[inline]
fn decide(old: f64, score: f64, options: AddOptions) -> Added {
    if options.nx {
        return Added::Skipped;
    }
    let new = if options.incr { old + score } else { score };
    if new.is_nan() {
        return Added::NotANumber;
    }
    if (options.lt && new >= old) || (options.gt && new <= old) {
        return Added::Skipped;
    }
    if new == old { Added::Unchanged(old) } else { Added::Updated(new) }
}

impl fmt::Debug for ZSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|entry| (entry.member, entry.score))).finish()
    }
}
