//! A page: the elements of 32 neighbouring indexes, without the empty ones, in one block.
//!
//! Elements are in the form of [`crate::packed`], in order of their slots and without anything for slots that
//! are empty; one over [`LONG_MIN`] bytes is a mark, and a separate allocation that copies of the page share.
//! To find an element the ones before it in the page are passed over, which are 31 at most.
//!
//! Invariant: there are as many elements as bits in `present`, and as many marks as long texts.

use triomphe::Arc;

use crate::element::Element;
use crate::packed::encoding::{Encoded, decode_at, size_at};
use crate::size_class::{allocated_bytes, class_bytes, class_of};

/// Indexes of a page; a power of two.
pub(super) const SLOTS: u32 = 32;
/// Binary logarithm of [`SLOTS`].
pub(super) const SLOT_BITS: u32 = SLOTS.trailing_zeros();

/// Texts from this length on are held apart.
const LONG_MIN: usize = if cfg!(test) { 12 } else { 256 };
/// Stands for a long text; no element begins with it.
const LONG: u8 = 0xF8;

/// See the [module docs](self).
#[derive(Clone, Default)]
pub(super) struct Page {
    /// A bit for each slot that holds an element.
    present: u32,
    bytes: Vec<u8>,
    /// The long texts, in order of their slots.
    long: Vec<Arc<Vec<u8>>>,
}

/// Where an element is in a page.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    at: u32,
    /// Long texts before it.
    long: u32,
}

/// The slots from `first` to `last`, as bits.
pub(super) fn slots(first: u32, last: u32) -> u32 {
    (u32::MAX << first) & (u32::MAX >> (SLOTS - 1 - last))
}

impl Page {
    /// A bit for each slot that holds an element.
    #[inline]
    pub fn present(&self) -> u32 {
        self.present
    }

    /// Bytes that are allocated, those that other pages share included.
    pub fn heap_bytes(&self) -> usize {
        let long: usize = self.long.iter().map(|text| 32 + allocated_bytes(text.capacity())).sum();
        size_of::<usize>() + size_of::<Page>() + self.bytes.capacity() + self.long.capacity() * 8 + long
    }

    #[inline]
    fn after(&self, place: Place) -> Place {
        match self.bytes[place.at as usize] {
            LONG => Place { at: place.at + 1, long: place.long + 1 },
            _ => Place { at: place.at + size_at(&self.bytes, place.at as usize) as u32, ..place },
        }
    }

    /// Where the element of a slot is, or would be.
    #[inline]
    pub fn place_of(&self, slot: u32) -> Place {
        let before = self.present & !(u32::MAX << slot);
        (0..before.count_ones()).fold(Place::default(), |place, _| self.after(place))
    }

    /// The element at a place, and the place behind it.
    #[inline]
    pub fn element_at(&self, place: Place) -> (Element<'_>, Place) {
        match self.bytes[place.at as usize] {
            LONG => (Element::Bytes(&self.long[place.long as usize]), self.after(place)),
            _ => {
                let (element, size) = decode_at(&self.bytes, place.at as usize);
                (element, Place { at: place.at + size as u32, ..place })
            }
        }
    }

    /// The element of a slot.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<Element<'_>> {
        if self.present >> slot & 1 == 0 {
            return None;
        }
        Some(self.element_at(self.place_of(slot)).0)
    }

    /// Puts an element into a slot, whatever was in it.
    pub fn put(&mut self, slot: u32, element: Element<'_>) {
        let place = self.place_of(slot);
        let code = Encoded::new(element);
        let old_bytes = self.take(slot, place);
        if code.body.len() >= LONG_MIN {
            self.long.insert(place.long as usize, Arc::new(code.body.to_vec()));
            self.splice(place.at as usize, old_bytes, &[LONG], &[]);
        } else {
            self.splice(place.at as usize, old_bytes, code.head(), code.body);
        }
        self.present |= 1 << slot;
    }

    /// Removes a slot's element but for its bytes; returns their number.
    fn take(&mut self, slot: u32, place: Place) -> usize {
        if self.present >> slot & 1 == 0 {
            return 0;
        }
        self.present &= !(1 << slot);
        let at = place.at as usize;
        if self.bytes[at] == LONG {
            self.long.remove(place.long as usize);
            return 1;
        }
        size_at(&self.bytes, at)
    }

    /// Empties these slots.
    pub fn remove(&mut self, slots: u32) {
        let mut gone = self.present & slots;
        while gone != 0 {
            let slot = gone.trailing_zeros();
            let place = self.place_of(slot);
            let bytes = self.take(slot, place);
            self.splice(place.at as usize, bytes, &[], &[]);
            gone &= gone - 1;
        }
    }

    /// Replaces `old` bytes. The block is as large as a size class; it is shrunk when that halves it.
    fn splice(&mut self, at: usize, old: usize, head: &[u8], body: &[u8]) {
        let (len, new) = (self.bytes.len(), head.len() + body.len());
        let wanted = len - old + new;
        if wanted > self.bytes.capacity() {
            self.bytes.reserve_exact(class_bytes(class_of(wanted)) - len);
        }
        if new > old {
            self.bytes.resize(wanted, 0);
        }
        self.bytes.copy_within(at + old..len, at + new);
        self.bytes.truncate(wanted);
        self.bytes[at..at + head.len()].copy_from_slice(head);
        self.bytes[at + head.len()..at + new].copy_from_slice(body);
        if wanted * 2 < self.bytes.capacity() && wanted > 0 {
            self.bytes.shrink_to(class_bytes(class_of(wanted)));
        }
    }

    /// Panics unless the page is as its module says.
    #[cfg(test)]
    pub fn check(&self) {
        let end = (0..self.present.count_ones()).fold(Place::default(), |place, _| self.after(place));
        assert_eq!((end.at as usize, end.long as usize), (self.bytes.len(), self.long.len()));
        assert!(self.present != 0);
    }
}
