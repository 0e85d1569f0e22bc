//! Parts of a reply that wait until their printed form is known.
//!
//! Invariant: the owner of such parts prints them once they are [full](Held::is_full).

use martlet_client::parts::{Aggregate, Part};

/// Most bytes that are held back.
const HELD_MAX_BYTES: usize = 1 << 20;

/// Parts of a reply, in order.
#[derive(Default)]
pub struct Held {
    parts: Vec<HeldPart>,
    bytes: Vec<u8>,
}

/// A part, with the place of its bytes.
enum HeldPart {
    Simple(usize),
    Error(usize),
    Double(usize),
    BigNumber(usize),
    Bytes(usize),
    Other(Part<'static>),
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a part.
    pub fn push(&mut self, part: Part) {
        let mut keep = |bytes: &[u8]| {
            self.bytes.extend_from_slice(bytes);
            bytes.len()
        };
        let part = match part {
            Part::Simple(text) => HeldPart::Simple(keep(text)),
            Part::Error(text) => HeldPart::Error(keep(text)),
            Part::Double(text) => HeldPart::Double(keep(text)),
            Part::BigNumber(text) => HeldPart::BigNumber(keep(text)),
            Part::Bytes(text) => HeldPart::Bytes(keep(text)),
            Part::Int(number) => HeldPart::Other(Part::Int(number)),
            Part::Bool(value) => HeldPart::Other(Part::Bool(value)),
            Part::Null(kind) => HeldPart::Other(Part::Null(kind)),
            Part::Text(kind, length) => HeldPart::Other(Part::Text(kind, length)),
            Part::EndText => HeldPart::Other(Part::EndText),
            Part::Open(kind, count) => HeldPart::Other(Part::Open(kind, count)),
            Part::Close(kind) => HeldPart::Other(Part::Close(kind)),
        };
        self.parts.push(part);
    }

    /// Gives the parts again.
    pub fn replay(&self, mut sink: impl FnMut(Part)) {
        let mut bytes = self.bytes.as_slice();
        let mut take = |length: usize| {
            let (taken, rest) = bytes.split_at(length);
            bytes = rest;
            taken
        };
        for part in &self.parts {
            sink(match part {
                HeldPart::Simple(length) => Part::Simple(take(*length)),
                HeldPart::Error(length) => Part::Error(take(*length)),
                HeldPart::Double(length) => Part::Double(take(*length)),
                HeldPart::BigNumber(length) => Part::BigNumber(take(*length)),
                HeldPart::Bytes(length) => Part::Bytes(take(*length)),
                HeldPart::Other(part) => *part,
            });
        }
    }

    /// Whether more is held than anything may wait for.
    pub fn is_full(&self) -> bool {
        self.bytes.len() + self.parts.len() > HELD_MAX_BYTES
    }

    /// Whether the value that these parts begin takes several lines, once that is known; true if it is too
    /// long to decide.
    pub fn is_multiline(&self) -> Option<bool> {
        if self.is_full() {
            return Some(true);
        }
        let mut parts = self.parts.iter();
        loop {
            match parts.next()? {
                HeldPart::Other(Part::Open(_, 0)) => return Some(false),
                HeldPart::Other(Part::Open(Aggregate::Map, 2)) => skip_element(&mut parts)?,
                HeldPart::Other(Part::Open(Aggregate::Map, _)) => return Some(true),
                HeldPart::Other(Part::Open(_, 1)) => {}
                HeldPart::Other(Part::Open(..)) => return Some(true),
                _ => return Some(false),
            }
        }
    }
}

/// Goes past a whole element; `None` when not all of it is there.
fn skip_element<'a>(parts: &mut impl Iterator<Item = &'a HeldPart>) -> Option<()> {
    let mut depth = 0;
    loop {
        match parts.next()? {
            HeldPart::Other(Part::Open(..) | Part::Text(..)) => depth += 1,
            HeldPart::Other(Part::Close(_) | Part::EndText) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(());
        }
    }
}
