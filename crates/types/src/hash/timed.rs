//! A small hash with expiry times: items of name, value and time.

use super::{Field, FieldExpiry, NO_EXPIRY};
use crate::element::Element;
use crate::packed::{self, Packed, Pos};
use crate::timed::{Timed, time_of};

/// Elements of a field.
const STEP: usize = 3;

/// The fields of a `listpackex`.
pub(super) type TimedFields = Timed<STEP>;

impl TimedFields {
    /// The field, expired or not.
    pub(super) fn get(&self, name: Element<'_>) -> Option<Field<'_>> {
        let pos = self.find(name)?;
        field_at(self.elements(), pos, self.expiry_at(pos))
    }

    pub(super) fn iter(&self) -> Iter<'_> {
        Iter(self.elements().iter())
    }

    /// As [`super::Hash::set`].
    pub(super) fn set(
        &mut self,
        name: Element<'_>,
        value: Element<'_>,
        expiry: FieldExpiry,
        now_ms: i64,
    ) -> bool {
        let found = self.find(name);
        let old_ms = found.map_or(NO_EXPIRY, |pos| self.expiry_at(pos));
        let was_expired = old_ms <= now_ms;
        let expire_at_ms = match expiry {
            FieldExpiry::At(at_ms) => at_ms,
            FieldExpiry::Keep if !was_expired => old_ms,
            FieldExpiry::Keep | FieldExpiry::Clear => NO_EXPIRY,
        };
        match found {
            Some(pos) => {
                if let Some(old) = self.elements().next(pos) {
                    self.replace(old, value);
                    self.set_time(pos, expire_at_ms);
                }
            }
            None => self.push([name, value], expire_at_ms),
        }
        found.is_none() || was_expired
    }
}

/// The field whose name is at `pos`.
pub(super) fn field_at(elements: &Packed, pos: Pos, expire_at_ms: i64) -> Option<Field<'_>> {
    Some(Field { name: elements.at(pos), value: elements.at(elements.next(pos)?), expire_at_ms })
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
