//! A small hash with expiry times: one packed block of triples, name, value and time (Redis' `listpackex`).
//!
//! The time is 0 for a field without one. Invariant: the number of elements is a multiple of three,
//! `timed` fields have a time, and `earliest_ms` is no later than any of these.

use super::{Field, FieldExpiry, NO_EXPIRY};
use crate::element::Element;
use crate::packed::{self, Packed, Pos};

/// Elements of a field.
const STEP: usize = 3;
/// Most bytes of a time.
const TIME_BYTES: usize = 8;

/// See the module's description.
#[derive(Clone)]
pub(super) struct Timed {
    packed: Packed,
    earliest_ms: i64,
    timed: usize,
    /// See [`super::Hash::indexed_expiry_ms`].
    pub indexed_ms: i64,
}

impl Timed {
    /// The fields of a packed hash without expiry times, if there is room.
    pub fn from_pairs(pairs: &Packed) -> Option<Timed> {
        let fields = pairs.len() / 2;
        if !pairs.has_room(fields + STEP, fields * TIME_BYTES) {
            return None;
        }
        let mut packed = Packed::with_capacity(pairs.bytes_used() + fields);
        for (index, element) in pairs.iter().enumerate() {
            packed.push_back(element);
            if index % 2 == 1 {
                packed.push_back(time_element(NO_EXPIRY));
            }
        }
        Some(Timed { packed, earliest_ms: NO_EXPIRY, timed: 0, indexed_ms: NO_EXPIRY })
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.packed.len() / STEP
    }

    pub fn heap_bytes(&self) -> usize {
        self.packed.heap_bytes()
    }

    /// Whether a field of this name and value fits.
    pub fn has_room(&self, text_bytes: usize) -> bool {
        self.packed.has_room(STEP, text_bytes + TIME_BYTES)
    }

    /// The field, expired or not.
    pub fn get(&self, name: Element<'_>) -> Option<Field<'_>> {
        self.at(self.packed.find_pos(name, STEP)?)
    }

    fn at(&self, pos: Pos) -> Option<Field<'_>> {
        let value = self.packed.next(pos)?;
        let time = self.packed.next(value)?;
        let expire_at_ms = time_of(self.packed.at(time));
        Some(Field { name: self.packed.at(pos), value: self.packed.at(value), expire_at_ms })
    }

    pub fn iter(&self) -> Iter<'_> {
        Iter(self.packed.iter())
    }

    /// As [`super::Hash::set`].
    pub fn set(&mut self, name: Element<'_>, value: Element<'_>, expiry: FieldExpiry, now_ms: i64) -> bool {
        let found = self.packed.find_pos(name, STEP);
        let old_ms = found.and_then(|pos| self.at(pos)).map_or(NO_EXPIRY, |field| field.expire_at_ms);
        let was_expired = old_ms <= now_ms;
        let expire_at_ms = match expiry {
            FieldExpiry::At(at_ms) => at_ms,
            FieldExpiry::Keep if !was_expired => old_ms,
            FieldExpiry::Keep | FieldExpiry::Clear => NO_EXPIRY,
        };
        match found {
            Some(pos) => {
                if let Some(old) = self.packed.next(pos) {
                    self.packed.replace_at(old, value);
                    self.set_time(pos, expire_at_ms);
                }
            }
            None => {
                self.packed.insert_pair_at(self.packed.end(), name, value);
                self.packed.push_back(time_element(NO_EXPIRY));
                let pos = self.packed.seek(self.packed.len() - STEP);
                pos.into_iter().for_each(|pos| self.set_time(pos, expire_at_ms));
            }
        }
        found.is_none() || was_expired
    }

    /// Changes the time of the field at `pos`.
    fn set_time(&mut self, pos: Pos, expire_at_ms: i64) {
        let Some(time) = self.packed.next(pos).and_then(|value| self.packed.next(value)) else { return };
        let old_ms = time_of(self.packed.at(time));
        if old_ms == expire_at_ms {
            return;
        }
        self.packed.replace_at(time, time_element(expire_at_ms));
        self.forget_time(old_ms);
        if expire_at_ms != NO_EXPIRY {
            self.timed += 1;
            self.earliest_ms = self.earliest_ms.min(expire_at_ms);
        }
    }

    /// Notes that a field has lost its time.
    fn forget_time(&mut self, old_ms: i64) {
        self.timed -= usize::from(old_ms != NO_EXPIRY);
        if self.timed == 0 {
            self.earliest_ms = NO_EXPIRY;
        }
    }

    /// As [`super::Hash::set_expiry`].
    pub fn set_expiry(&mut self, name: Element<'_>, expire_at_ms: i64) -> bool {
        let Some(pos) = self.packed.find_pos(name, STEP) else { return false };
        self.set_time(pos, expire_at_ms);
        true
    }

    /// As [`super::Hash::remove`].
    pub fn remove(&mut self, name: Element<'_>, now_ms: i64) -> bool {
        let Some(pos) = self.packed.find_pos(name, STEP) else { return false };
        let Some(Field { expire_at_ms, .. }) = self.at(pos) else { return false };
        if expire_at_ms <= now_ms {
            return false;
        }
        self.packed.remove_at(pos, STEP);
        self.forget_time(expire_at_ms);
        true
    }

    pub fn next_expiry_ms(&self) -> i64 {
        self.earliest_ms
    }

    /// As [`super::Hash::collect_expired`].
    pub fn collect_expired(&mut self, now_ms: i64, limit: usize, mut f: impl FnMut(Field<'_>)) -> usize {
        if self.earliest_ms > now_ms {
            return 0;
        }
        let mut collected = 0;
        let mut earliest_ms = NO_EXPIRY;
        let mut next = self.packed.first();
        while let Some(pos) = next {
            let Some(field) = self.at(pos) else { break };
            if field.is_live(now_ms) || collected == limit {
                earliest_ms = earliest_ms.min(field.expire_at_ms);
                let after = (0..STEP).try_fold(pos, |pos, _| self.packed.next(pos));
                next = after;
                continue;
            }
            f(field);
            self.packed.remove_at(pos, STEP);
            self.timed -= 1;
            collected += 1;
            next = (pos < self.packed.end()).then_some(pos);
        }
        self.earliest_ms = earliest_ms;
        collected
    }
}

fn time_element(expire_at_ms: i64) -> Element<'static> {
    // 0 means none: a time of 0, long past, becomes 1.
    Element::Int(if expire_at_ms == NO_EXPIRY { 0 } else { expire_at_ms.max(1) })
}

fn time_of(element: Element<'_>) -> i64 {
    match element {
        Element::Int(0) | Element::Bytes(_) => NO_EXPIRY,
        Element::Int(expire_at_ms) => expire_at_ms,
    }
}

/// All fields, expired ones included.
pub struct Iter<'a>(packed::Iter<'a>);

impl<'a> Iterator for Iter<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let (name, value, time) = (self.0.next()?, self.0.next()?, self.0.next()?);
        Some(Field { name, value, expire_at_ms: time_of(time) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.0.len() / STEP;
        (len, Some(len))
    }
}
