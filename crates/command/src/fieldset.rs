//! The sets of fields that a client has prepared for HIMPORT.

use std::collections::HashMap;

/// The sets of fields that a client has prepared, by name. Without any it costs one pointer.
#[derive(Debug, Default)]
pub struct Fieldsets(Option<Box<Prepared>>);

#[derive(Debug, Default)]
struct Prepared {
    sets: HashMap<Vec<u8>, Fieldset>,
    bytes: usize,
}

/// Fields in the order in which a hash gets them, shorter names first, each with the place of its value.
#[derive(Debug)]
pub(crate) struct Fieldset {
    fields: Vec<(Box<[u8]>, usize)>,
    bytes: usize,
}

impl Fieldset {
    /// `None` if a name comes twice.
    pub(crate) fn new<'n>(name: &[u8], fields: impl Iterator<Item = &'n [u8]>) -> Option<Fieldset> {
        let mut fields: Vec<(Box<[u8]>, usize)> = fields.map(Box::from).zip(0..).collect();
        fields.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        if fields.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
            return None;
        }
        let names: usize = fields.iter().map(|(name, _)| name.len()).sum();
        let bytes = name.len() + size_of::<(Vec<u8>, Fieldset)>() + names + size_of_val(&fields[..]);
        Some(Fieldset { fields, bytes })
    }

    /// The fields, each with the place of its value.
    pub(crate) fn fields(&self) -> &[(Box<[u8]>, usize)] {
        &self.fields
    }

    /// The longest name's length.
    pub(crate) fn longest_bytes(&self) -> usize {
        self.fields.last().map_or(0, |(name, _)| name.len())
    }
}

impl Fieldsets {
    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |prepared| prepared.bytes)
    }

    /// Prepares a set, in place of one of this name.
    pub(crate) fn insert(&mut self, name: &[u8], set: Fieldset) {
        self.remove(name);
        let prepared = self.0.get_or_insert_default();
        prepared.bytes += set.bytes;
        prepared.sets.insert(name.to_vec(), set);
    }

    /// The set of this name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Fieldset> {
        self.0.as_ref()?.sets.get(name)
    }

    /// Forgets the set of this name; whether there was one.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(prepared) = &mut self.0 else { return false };
        let Some(set) = prepared.sets.remove(name) else { return false };
        prepared.bytes -= set.bytes;
        if prepared.sets.is_empty() {
            self.0 = None;
        }
        true
    }

    /// Forgets all; how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        self.0.take().map_or(0, |prepared| prepared.sets.len())
    }
}
