//! `Timed`: a small collection with expiry times in one packed block (Redis' `listpackex`).
//!
//! Each of its items takes `STEP` elements: the name first, the time last. The time is 0 for an item without
//! one. Invariant: the number of elements is a multiple of `STEP`, `timed` items have a time, and
//! `earliest_ms` is no later than any of these.

use crate::element::Element;
use crate::packed::{Packed, Pos};
use crate::table::NO_EXPIRY;

/// Most bytes of a time.
const TIME_BYTES: usize = 8;

/// See the module's description.
#[derive(Clone)]
pub(crate) struct Timed<const STEP: usize> {
    packed: Packed,
    earliest_ms: i64,
    timed: usize,
    /// The time under which the collection's owner has it in its index; [`NO_EXPIRY`] if it has not.
    pub indexed_ms: i64,
}

impl<const STEP: usize> Timed<STEP> {
    /// The items of these elements, `STEP - 1` each, without expiry times, if there is room. `bytes` is what
    /// they take encoded, at most.
    pub fn from_elements<'a>(
        elements: impl ExactSizeIterator<Item = Element<'a>>,
        bytes: usize,
    ) -> Option<Timed<STEP>> {
        let items = elements.len() / (STEP - 1);
        if !Packed::new().has_room((items + 1).checked_mul(STEP)?, bytes.checked_add(items * TIME_BYTES)?) {
            return None;
        }
        let mut packed = Packed::with_capacity(bytes + items);
        for (index, element) in elements.enumerate() {
            packed.push_back(element);
            if (index + 1).is_multiple_of(STEP - 1) {
                packed.push_back(time_element(NO_EXPIRY));
            }
        }
        Some(Timed { packed, earliest_ms: NO_EXPIRY, timed: 0, indexed_ms: NO_EXPIRY })
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.packed.len() / STEP
    }

    pub fn heap_bytes(&self) -> usize {
        self.packed.heap_bytes()
    }

    /// Whether an item whose elements have so many bytes of text fits.
    pub fn has_room(&self, text_bytes: usize) -> bool {
        self.packed.has_room(STEP, text_bytes + TIME_BYTES)
    }

    /// The elements, times included.
    pub fn elements(&self) -> &Packed {
        &self.packed
    }

    /// The item of this name, expired or not.
    pub fn find(&self, name: Element<'_>) -> Option<Pos> {
        self.packed.find_pos(name, STEP)
    }

    /// When the item at `pos` expires; [`NO_EXPIRY`] if it does not.
    pub fn expiry_at(&self, pos: Pos) -> i64 {
        self.time_pos(pos).map_or(NO_EXPIRY, |time| time_of(self.packed.at(time)))
    }

    fn time_pos(&self, pos: Pos) -> Option<Pos> {
        (1..STEP).try_fold(pos, |pos, _| self.packed.next(pos))
    }

    /// Adds an item of these elements, `STEP - 1`; none has its name.
    pub fn push<'a>(&mut self, elements: impl IntoIterator<Item = Element<'a>>, expire_at_ms: i64) {
        elements.into_iter().for_each(|element| self.packed.push_back(element));
        self.packed.push_back(time_element(expire_at_ms));
        self.add_time(expire_at_ms);
    }

    /// Replaces an element that is neither a name nor a time.
    pub fn replace(&mut self, pos: Pos, element: Element<'_>) {
        self.packed.replace_at(pos, element);
    }

    /// Changes the time of the item at `pos`.
    pub fn set_time(&mut self, pos: Pos, expire_at_ms: i64) {
        let Some(time) = self.time_pos(pos) else { return };
        let old_ms = time_of(self.packed.at(time));
        if old_ms == expire_at_ms {
            return;
        }
        self.packed.replace_at(time, time_element(expire_at_ms));
        self.forget_time(old_ms);
        self.add_time(expire_at_ms);
    }

    /// Notes that an item has got a time.
    fn add_time(&mut self, expire_at_ms: i64) {
        if expire_at_ms != NO_EXPIRY {
            self.timed += 1;
            self.earliest_ms = self.earliest_ms.min(expire_at_ms);
        }
    }

    /// Notes that an item has lost its time.
    fn forget_time(&mut self, old_ms: i64) {
        self.timed -= usize::from(old_ms != NO_EXPIRY);
        if self.timed == 0 {
            self.earliest_ms = NO_EXPIRY;
        }
    }

    /// Changes the time of an item, expired or not; whether there is one.
    pub fn set_expiry(&mut self, name: Element<'_>, expire_at_ms: i64) -> bool {
        let Some(pos) = self.find(name) else { return false };
        self.set_time(pos, expire_at_ms);
        true
    }

    /// Removes an item that has not expired by `now_ms`; whether there was one.
    pub fn remove(&mut self, name: Element<'_>, now_ms: i64) -> bool {
        let Some(pos) = self.find(name) else { return false };
        let expire_at_ms = self.expiry_at(pos);
        if expire_at_ms <= now_ms {
            return false;
        }
        self.packed.remove_at(pos, STEP);
        self.forget_time(expire_at_ms);
        true
    }

    /// A time before which no item expires; [`NO_EXPIRY`] if no item has an expiry time.
    pub fn next_expiry_ms(&self) -> i64 {
        self.earliest_ms
    }

    /// Removes items that have expired by `now_ms`, at most `limit`, and hands the elements, the place of the
    /// item's name and its time to `f` before. Returns how many.
    pub fn collect_expired(
        &mut self,
        now_ms: i64,
        limit: usize,
        mut f: impl FnMut(&Packed, Pos, i64),
    ) -> usize {
        if self.earliest_ms > now_ms {
            return 0;
        }
        let mut collected = 0;
        let mut earliest_ms = NO_EXPIRY;
        let mut next = self.packed.first();
        while let Some(pos) = next {
            let expire_at_ms = self.expiry_at(pos);
            if expire_at_ms > now_ms || collected == limit {
                earliest_ms = earliest_ms.min(expire_at_ms);
                next = (0..STEP).try_fold(pos, |pos, _| self.packed.next(pos));
                continue;
            }
            f(&self.packed, pos, expire_at_ms);
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

/// The time that the last element of an item means.
pub(crate) fn time_of(element: Element<'_>) -> i64 {
    match element {
        Element::Int(0) | Element::Bytes(_) => NO_EXPIRY,
        Element::Int(expire_at_ms) => expire_at_ms,
    }
}
