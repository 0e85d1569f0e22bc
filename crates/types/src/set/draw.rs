//! Random choice of members. All members that have not expired are equally likely.

use super::{Form, FormMut, Set, SetLimits};
use crate::element::Element;
use crate::intset::Intset;
use crate::table::NO_EXPIRY;
use martlet_base::random::Random;

/// If fewer members than this share of those to be taken would stay, those that stay are moved instead of the
/// others. Redis: `SPOP_MOVE_STRATEGY_MUL`.
const MOVE_REMAINING_FACTOR: usize = 5;

impl Set {
    /// A member chosen uniformly among those that have not expired by `now_ms`.
    pub fn random(&self, now_ms: i64, random: &mut Random) -> Option<Element<'_>> {
        let index = |random: &mut Random, len: usize| random.below(len as u64) as usize;
        if self.next_expiry_ms() <= now_ms {
            let nth = index(random, self.live_len(now_ms));
            return self.live(now_ms).nth(nth);
        }
        match self.form.get() {
            Form::Intset(ints) => ints.get(index(random, ints.len())).map(Element::Int),
            Form::Packed(packed) => packed.get(index(random, packed.len())),
            Form::Table(large) => large.table.random(random).map(|entry| Element::Bytes(entry.field)),
            Form::Timed(timed) => self.live(now_ms).nth(index(random, timed.len())),
        }
    }

    /// Hands `count` distinct members that have not expired by `now_ms`, or all if there are fewer, to `f`.
    /// Each combination is equally likely; the order is not random.
    pub fn sample<'a>(
        &'a self,
        count: usize,
        now_ms: i64,
        random: &mut Random,
        mut f: impl FnMut(Element<'a>),
    ) {
        let len = self.live_len(now_ms);
        if let Form::Table(large) = self.form.get()
            && len == large.table.len()
            && large.table.sample(count, random, |entry| f(Element::Bytes(entry.field)))
        {
            return;
        }
        let mut choice = Selection::new(count, len);
        self.live(now_ms).filter(|_| choice.next(random)).for_each(f);
    }

    /// Removes a member chosen uniformly among those that have not expired by `now_ms`, and hands it to `f`.
    pub fn pop<R>(
        &mut self,
        now_ms: i64,
        random: &mut Random,
        f: impl FnOnce(Element<'_>) -> R,
    ) -> Option<R> {
        let has_expired = self.next_expiry_ms() <= now_ms;
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
            FormMut::Table(large) if !has_expired => {
                let mut member = Vec::new();
                large.table.pop_random(random, &mut member).then(|| f(Element::Bytes(&member)))
            }
            FormMut::Table(_) | FormMut::Timed(_) => {
                let member = self.random(now_ms, random)?.to_vec();
                self.remove(Element::Bytes(&member), i64::MIN);
                Some(f(Element::Bytes(&member)))
            }
        }
    }

    /// Removes `count` members that have not expired by `now_ms`, fewer than there are, each combination
    /// equally likely, and hands them to `f`. What stays may change its encoding, as in Redis.
    pub fn pop_many(
        &mut self,
        count: usize,
        now_ms: i64,
        limits: SetLimits,
        random: &mut Random,
        mut f: impl FnMut(Element<'_>),
    ) {
        if self.next_expiry_ms() != NO_EXPIRY || self.indexed_expiry_ms() != NO_EXPIRY {
            return self.pop_many_timed(count, now_ms, random, f);
        }
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
            FormMut::Timed(_) => self.pop_many_timed(count, now_ms, random, f),
            FormMut::Table(large) if remaining.saturating_mul(MOVE_REMAINING_FACTOR) > count => {
                let mut member = Vec::new();
                for _ in 0..count {
                    if large.table.pop_random(random, &mut member) {
                        f(Element::Bytes(&member));
                    }
                }
            }
            FormMut::Table(large) => {
                let mut kept = Set::new_listpack();
                let mut member = Vec::new();
                for _ in 0..remaining {
                    if large.table.pop_random(random, &mut member) {
                        kept.add(Element::Bytes(&member), limits, now_ms);
                    }
                }
                large.table.iter().for_each(|entry| f(Element::Bytes(entry.field)));
                *self = kept;
            }
        }
    }

    /// As [`Set::pop_many`] of a set whose members may expire: those that stay keep their times.
    #[cold]
    fn pop_many_timed(
        &mut self,
        count: usize,
        now_ms: i64,
        random: &mut Random,
        mut f: impl FnMut(Element<'_>),
    ) {
        let mut popped = Vec::new();
        self.sample(count, now_ms, random, |member| popped.push(member.to_vec()));
        for member in &popped {
            f(Element::Bytes(member));
            self.remove(Element::Bytes(member), i64::MIN);
        }
    }
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
