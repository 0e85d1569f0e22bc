//! Values by which results are sorted: each field has a column of cells in the pages of documents. A cell has
//! a number, or the code of a text, which its partition holds once however many documents have it.

use std::sync::Arc;

use hashbrown::HashTable;
use martlet_base::hash::hash_bytes;

/// A value by which results are sorted.
#[derive(Clone, Debug, PartialEq)]
pub enum Sortable {
    /// The document does not have the field.
    Missing,
    /// A number.
    Number(f64),
    /// A text or tag; normalised unless the field is UNF.
    Text(Box<[u8]>),
}

/// A [`Sortable`] where it is kept.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum SortableRef<'a> {
    /// The document does not have the field.
    Missing,
    /// A number.
    Number(f64),
    /// A text or tag.
    Text(&'a [u8]),
}

impl Sortable {
    /// The value without its bytes.
    pub fn as_ref(&self) -> SortableRef<'_> {
        match self {
            Sortable::Missing => SortableRef::Missing,
            Sortable::Number(number) => SortableRef::Number(*number),
            Sortable::Text(text) => SortableRef::Text(text),
        }
    }
}

impl From<SortableRef<'_>> for Sortable {
    fn from(value: SortableRef<'_>) -> Sortable {
        match value {
            SortableRef::Missing => Sortable::Missing,
            SortableRef::Number(number) => Sortable::Number(number),
            SortableRef::Text(text) => Sortable::Text(text.into()),
        }
    }
}

/// The code of a text, for as long as a document has it.
pub type Code = u32;

/// A value in a column.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Cell {
    /// The document does not have the field.
    Missing,
    /// A number.
    Number(f64),
    /// A text or tag.
    Text(Code),
}

/// A cell in eight bytes: a number as it is, everything else as a NaN that no number has.
#[derive(Copy, Clone, Debug)]
pub(super) struct Packed(u64);

impl Packed {
    pub(super) const MISSING: Packed = Packed(0xfffa << 48);
    const TEXT: u64 = 0xfff9;
    const NAN: u64 = 0x7ff8 << 48;

    fn pack(cell: Cell) -> Packed {
        match cell {
            Cell::Missing => Packed::MISSING,
            Cell::Number(number) if number.is_nan() => Packed(Packed::NAN),
            Cell::Number(number) => Packed(number.to_bits()),
            Cell::Text(code) => Packed(Packed::TEXT << 48 | u64::from(code)),
        }
    }

    #[inline]
    pub(super) fn cell(self) -> Cell {
        match self.0 >> 48 {
            Packed::TEXT => Cell::Text(self.0 as Code),
            0xfffa => Cell::Missing,
            _ => Cell::Number(f64::from_bits(self.0)),
        }
    }
}

#[derive(Debug)]
struct Held {
    /// Empty once no document has it.
    text: Arc<[u8]>,
    documents: u32,
}

/// The texts of a field in a partition, each with its code.
#[derive(Debug, Default)]
pub struct Texts {
    table: HashTable<Code>,
    held: Vec<Held>,
    free: Vec<Code>,
    bytes: usize,
}

impl Texts {
    /// All codes are below.
    pub fn codes(&self) -> usize {
        self.held.len()
    }

    /// The text of a code.
    #[inline]
    pub fn get(&self, code: Code) -> Option<&Arc<[u8]>> {
        self.held.get(code as usize).map(|held| &held.text)
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes
            + self.held.capacity() * size_of::<Held>()
            + self.free.capacity() * size_of::<Code>()
            + self.table.capacity() * (size_of::<Code>() + 1)
    }

    /// The cell of a value that one more document has.
    pub(super) fn add(&mut self, value: &Sortable) -> Packed {
        Packed::pack(match value {
            Sortable::Missing => Cell::Missing,
            Sortable::Number(number) => Cell::Number(*number),
            Sortable::Text(text) => self.hold(text).map_or(Cell::Missing, Cell::Text),
        })
    }

    /// The code of a text; none if there are too many.
    fn hold(&mut self, text: &[u8]) -> Option<Code> {
        let Texts { table, held, free, bytes } = self;
        let hash = hash_bytes(text);
        let is_it = |code: &Code| held.get(*code as usize).is_some_and(|held| *held.text == *text);
        if let Some(code) = table.find(hash, is_it).copied() {
            held.get_mut(code as usize)?.documents += 1;
            return Some(code);
        }
        let one = Held { text: text.into(), documents: 1 };
        let code = match free.pop() {
            Some(code) => {
                *held.get_mut(code as usize)? = one;
                code
            }
            None => {
                let code = Code::try_from(held.len()).ok()?;
                held.push(one);
                code
            }
        };
        *bytes += text_bytes(text);
        table.insert_unique(hash, code, |code| {
            held.get(*code as usize).map_or(0, |held| hash_bytes(&held.text))
        });
        Some(code)
    }

    /// Gives up a cell of a document that goes.
    pub(super) fn release(&mut self, cell: Packed) {
        let Cell::Text(code) = cell.cell() else { return };
        let Some(held) = self.held.get_mut(code as usize) else { return };
        held.documents = held.documents.saturating_sub(1);
        if held.documents == 0 {
            let text = std::mem::take(&mut held.text);
            if let Ok(entry) = self.table.find_entry(hash_bytes(&text), |other| *other == code) {
                entry.remove();
            }
            self.bytes -= text_bytes(&text);
            self.free.push(code);
        }
    }
}

/// Bytes of a text with its counts of references.
fn text_bytes(text: &[u8]) -> usize {
    2 * size_of::<usize>() + text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_what_they_were() {
        let numbers = [0.0, -0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, -f64::MAX];
        for cell in
            numbers.map(Cell::Number).into_iter().chain([Cell::Missing, Cell::Text(0), Cell::Text(Code::MAX)])
        {
            assert_eq!(Packed::pack(cell).cell(), cell);
        }
        for bits in [f64::NAN.to_bits(), Packed::MISSING.0, Packed::TEXT << 48 | 7] {
            let cell = Packed::pack(Cell::Number(f64::from_bits(bits))).cell();
            assert!(matches!(cell, Cell::Number(number) if number.is_nan()));
        }
    }

    #[test]
    fn a_text_is_held_until_its_last_document_goes() {
        let mut texts = Texts::default();
        let text = |text: &str| Sortable::Text(text.as_bytes().into());
        let (one, again, two) = (texts.add(&text("one")), texts.add(&text("one")), texts.add(&text("two")));
        assert_eq!((one.cell(), again.cell(), two.cell()), (Cell::Text(0), Cell::Text(0), Cell::Text(1)));
        texts.release(one);
        assert_eq!(texts.get(0).map(|text| &**text), Some(b"one".as_slice()));
        let before = texts.heap_bytes();
        texts.release(again);
        assert_eq!(texts.get(0).map(|text| text.len()), Some(0));
        assert!(texts.heap_bytes() < before + size_of::<Code>() * 4);
        assert_eq!(texts.add(&text("three")).cell(), Cell::Text(0));
        assert_eq!(texts.codes(), 2);
        assert_eq!(texts.add(&Sortable::Number(2.0)).cell(), Cell::Number(2.0));
        assert_eq!(texts.add(&Sortable::Missing).cell(), Cell::Missing);
    }
}
