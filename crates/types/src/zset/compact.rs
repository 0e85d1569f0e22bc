//! A small sorted set in one [`Packed`] block: member, score, member, score… in order of score and then
//! member.
//!
//! Invariant: the number of elements is even, and a score is an integer where it has no fraction, else the
//! text that reads back as the same double. As in Redis, minus zero becomes zero where a score is set, and
//! stays where an encoded set has it.

use super::{Entry, ZSetLimits};
use crate::element::Element;
use crate::packed::{Iter, Packed, Pos};
use martlet_base::number::{NumberBuffer, format_f64, parse_f64};
use std::cmp::Ordering;

/// Whole doubles up to here, in both directions, are stored as integers: all of them are exact.
const INTEGER_LIMIT: f64 = (i64::MAX / 2) as f64;

/// The score that an element holds.
#[inline]
pub(super) fn score_of(element: Element<'_>) -> f64 {
    match element {
        Element::Int(score) => score as f64,
        Element::Bytes(text) => parse_f64(text).unwrap_or(0.0),
    }
}

/// A score's element; `buffer` holds its text.
#[inline]
fn score_element(score: f64, buffer: &mut NumberBuffer) -> Element<'_> {
    if score.abs() <= INTEGER_LIMIT && score as i64 as f64 == score {
        return Element::Int(score as i64);
    }
    Element::Bytes(format_f64(score, buffer))
}

/// As [`score_element`], for a score that an encoded set has.
fn encoded_score(score: f64, buffer: &mut NumberBuffer) -> Element<'_> {
    if score == 0.0 && score.is_sign_negative() {
        return Element::Bytes(format_f64(score, buffer));
    }
    score_element(score, buffer)
}

/// Pairs of a packed sorted set in order.
#[derive(Clone)]
pub(super) struct Pairs<'a>(pub Iter<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let member = self.0.next()?;
        let score = score_of(self.0.next()?);
        Some(Entry { member, score })
    }
}

pub(super) fn len(packed: &Packed) -> usize {
    packed.len() / 2
}

pub(super) fn pairs(packed: &Packed) -> Pairs<'_> {
    Pairs(packed.iter())
}

/// The place of a member and its score.
#[inline]
pub(super) fn find(packed: &Packed, member: &[u8]) -> Option<(Pos, f64)> {
    let pos = packed.find_pos(member, 2)?;
    let score = packed.next(pos).map(|at| score_of(packed.at(at)))?;
    Some((pos, score))
}

/// Whether one more entry is within the limits.
pub(super) fn has_room(packed: &Packed, limits: ZSetLimits, member: &[u8]) -> bool {
    len(packed) < limits.listpack_max_entries
        && member.len() <= limits.listpack_max_value_bytes
        && packed.has_room(2, member.len() + martlet_base::number::F64_TEXT_MAX_BYTES)
}

/// Adds a member that is not there.
pub(super) fn insert(packed: &mut Packed, member: &[u8], score: f64) {
    let pos = position(packed, member, score);
    packed.insert_pair_at(pos, member, score_element(score, &mut NumberBuffer::new()));
}

/// Adds an entry that is after all others.
pub(super) fn insert_last(packed: &mut Packed, member: &[u8], score: f64) {
    let end = packed.end();
    packed.insert_pair_at(end, member, score_element(score, &mut NumberBuffer::new()));
}

/// Adds an entry of an encoded set, whose member is not there; `is_last` if it is after all others.
pub(super) fn insert_encoded(packed: &mut Packed, member: &[u8], score: f64, is_last: bool) {
    let pos = if is_last { packed.end() } else { position(packed, member, score) };
    packed.insert_pair_at(pos, member, encoded_score(score, &mut NumberBuffer::new()));
}

/// The place of the first entry after (`score`, `member`), or the end.
fn position(packed: &Packed, member: &[u8], score: f64) -> Pos {
    let Some(mut pos) = packed.first() else { return packed.end() };
    loop {
        let Some(score_pos) = packed.next(pos) else { return packed.end() };
        let order = super::leaf::compare_scores(score_of(packed.at(score_pos)), score)
            .then_with(|| packed.at(pos).cmp_bytes(member));
        if order == Ordering::Greater {
            return pos;
        }
        match packed.next(score_pos) {
            Some(next) => pos = next,
            None => return packed.end(),
        }
    }
}

/// Gives the member at `pos` another score.
pub(super) fn update(packed: &mut Packed, pos: Pos, member: &[u8], score: f64) {
    packed.remove_at(pos, 2);
    insert(packed, member, score);
}

pub(super) fn remove(packed: &mut Packed, pos: Pos) {
    packed.remove_at(pos, 2);
}

/// The rank of the member at `pos`.
pub(super) fn rank(packed: &Packed, pos: Pos) -> usize {
    packed.positions().iter().position(|&other| other == pos).unwrap_or(0) / 2
}

/// How many entries, from the first on, are such that `is_before` is true of them.
pub(super) fn partition(packed: &Packed, mut is_before: impl FnMut(&Entry<'_>) -> bool) -> usize {
    pairs(packed).take_while(|entry| is_before(entry)).count()
}
