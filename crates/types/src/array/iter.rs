//! Walking over elements, in either direction.

use triomphe::Arc;

use super::page::{Page, Place, SLOT_BITS, slots};
use crate::element::Element;
use crate::ordered;

/// The slots of the page `id` that are between two indexes.
pub(super) fn slots_between(id: u64, low: u64, high: u64) -> u32 {
    let first = id << SLOT_BITS;
    let last = first + ((1 << SLOT_BITS) - 1);
    if low > last || high < first {
        return 0;
    }
    slots((low.max(first) - first) as u32, (high.min(last) - first) as u32)
}

/// Elements with their indexes, in order.
pub struct Range<'a> {
    pub(super) pages: ordered::Iter<'a, u64, Arc<Page>>,
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) page: Option<Rest<'a>>,
}

/// The rest of a page.
pub(super) struct Rest<'a> {
    page: &'a Page,
    base: u64,
    slots: u32,
    place: Place,
}

impl<'a> Iterator for Range<'a> {
    type Item = (u64, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(rest) = &mut self.page
                && rest.slots != 0
            {
                let slot = rest.slots.trailing_zeros();
                rest.slots &= rest.slots - 1;
                let (element, place) = rest.page.element_at(rest.place);
                rest.place = place;
                return Some((rest.base + u64::from(slot), element));
            }
            let (&id, page) = self.pages.next()?;
            if id > self.high >> SLOT_BITS {
                return None;
            }
            let slots = page.present() & slots_between(id, self.low, self.high);
            let place = page.place_of(slots.trailing_zeros().min((1 << SLOT_BITS) - 1));
            self.page = Some(Rest { page, base: id << SLOT_BITS, slots, place });
        }
    }
}

/// Elements with their indexes, from the highest on.
pub struct RangeBack<'a> {
    pub(super) pages: ordered::IterBack<'a, u64, Arc<Page>>,
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) page: Option<(&'a Page, u64)>,
    /// Slots and places of the page's elements that are left.
    pub(super) places: Vec<(u32, Place)>,
}

impl<'a> RangeBack<'a> {
    /// Proceeds to the page before.
    fn enter_page(&mut self) -> Option<()> {
        let (&id, page) = self.pages.next()?;
        if id < self.low >> SLOT_BITS {
            return None;
        }
        let mut slots = page.present() & slots_between(id, self.low, self.high);
        let mut place = page.place_of(slots.trailing_zeros().min((1 << SLOT_BITS) - 1));
        while slots != 0 {
            self.places.push((slots.trailing_zeros(), place));
            place = page.element_at(place).1;
            slots &= slots - 1;
        }
        self.page = Some((page, id << SLOT_BITS));
        Some(())
    }
}

impl<'a> Iterator for RangeBack<'a> {
    type Item = (u64, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        while self.places.is_empty() {
            self.enter_page()?;
        }
        let (slot, place) = self.places.pop()?;
        let (page, base) = self.page?;
        Some((base + u64::from(slot), page.element_at(place).0))
    }
}
