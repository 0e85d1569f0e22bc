//! The order of fields over the results of a request: a field keeps the place that its first result gave it.

use hashbrown::HashMap;

use super::Read;

/// See the [module docs](self).
#[derive(Debug)]
pub(crate) struct FieldOrder {
    places: HashMap<Box<[u8]>, usize>,
}

impl FieldOrder {
    /// The order that begins with these fields, whether results have them or not.
    pub(crate) fn new(first: impl Iterator<Item = Box<[u8]>>) -> FieldOrder {
        FieldOrder { places: first.enumerate().map(|(place, name)| (name, place)).collect() }
    }

    /// Puts the fields of the next result in order; those that are new come behind all that are known.
    pub(crate) fn arrange(&mut self, fields: &mut [Read]) {
        let mut last = 0;
        let mut is_ordered = true;
        for field in &*fields {
            let next = self.places.len();
            let place = match self.places.get(&field.name) {
                Some(place) => *place,
                None => *self.places.entry(field.name.clone()).or_insert(next),
            };
            is_ordered &= place >= last;
            last = place;
        }
        if !is_ordered {
            fields.sort_by_key(|field| self.places.get(&field.name).copied());
        }
    }
}
