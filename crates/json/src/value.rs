//! `Value`: a JSON value in one word of eight bytes, cheap to clone and copied on write.
//!
//! Null, booleans, empty containers, integers of 61 bits, doubles whose low three bits are zero and strings
//! of up to seven bytes lie in the word itself; everything else is a reference-counted block that clones
//! share. An edit first makes the blocks on its path unshared, so a clone never changes.
//!
//! Invariants: a number is finite; a `UInt` is above `i64::MAX`; an object has no two members of one name;
//! small forms hold 1 to [`SMALL_MAX`] children, [`Big`] forms more or typed elements.

mod ahead;
mod edit;
mod number;
mod table;
mod typed;
mod view;
mod word;

pub(crate) use edit::replace;
pub use number::Number;
pub use typed::{FloatKind, OutOfRange, Typed};
pub(crate) use view::are_distinct;
pub use view::{Array, Elements, Kind, Node, Object, View};
pub use word::{Member, Value};

use table::Table;

/// The largest number of children that a block of exact size holds.
pub(crate) const SMALL_MAX: usize = 32;

/// A container at or below this many children returns to the small form.
const SMALL_AGAIN: usize = 16;

/// Arrays of numbers have a typed form from this many elements on.
const TYPED_MIN: usize = 8;

/// Containers with an own growing buffer.
#[derive(Clone)]
pub(crate) enum Big {
    Array(Vec<Value>),
    Typed(Typed),
    Object(Table),
}

impl Big {
    /// Bytes of the block and the buffers that it owns, children's blocks apart.
    fn own_bytes(&self) -> usize {
        let buffer = match self {
            Big::Array(items) => word::allocated(items.capacity() * size_of::<Value>()),
            Big::Typed(typed) => typed.buffer_bytes(),
            Big::Object(table) => table.buffer_bytes(),
        };
        buffer + word::allocated(size_of::<usize>() + size_of::<Big>())
    }
}

#[cfg(test)]
mod tests;
