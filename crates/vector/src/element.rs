//! The payload of a vector set's node: the element's name and its attribute.

use crate::filter::Filter;
use crate::graph::Payload;

/// An element of a vector set. Immutable: a new attribute makes a new element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The element's name.
    pub name: Box<[u8]>,
    /// The JSON text that SETATTR gave it; never empty.
    pub attribute: Option<Box<[u8]>>,
}

impl Element {
    /// An element; an empty attribute is dropped, as VSETATTR does.
    pub fn new(name: &[u8], attribute: Option<&[u8]>) -> Element {
        let attribute = attribute.filter(|text| !text.is_empty());
        Element { name: name.into(), attribute: attribute.map(Into::into) }
    }

    /// Whether the element passes a filter; one without an attribute never does.
    pub fn matches(&self, filter: &Filter) -> bool {
        self.attribute.as_deref().is_some_and(|attribute| filter.matches(attribute))
    }
}

impl Payload for Element {
    fn heap_bytes(&self) -> usize {
        self.name.len() + self.attribute.as_ref().map_or(0, |attribute| attribute.len())
    }
}
