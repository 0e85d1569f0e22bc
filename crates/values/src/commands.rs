//! Values as the commands that make them: what an append-only base without `aof-use-rdb-preamble` is made
//! of.

use martlet_types::element::{Element, IntBuffer};

/// Elements of a collection that one command adds (Redis: `AOF_REWRITE_ITEMS_PER_CMD`).
const ELEMENTS: usize = 64;

/// Takes commands, each as its arguments.
pub struct Commands<'a> {
    take: &'a mut dyn FnMut(&[&[u8]]),
}

impl<'a> Commands<'a> {
    /// Commands that `take` gets.
    pub fn new(take: &'a mut dyn FnMut(&[&[u8]])) -> Commands<'a> {
        Commands { take }
    }

    /// A command.
    pub fn put(&mut self, arguments: &[&[u8]]) {
        (self.take)(arguments);
    }

    /// The command `name` with the key and some elements of `N` arguments each, as often as it takes.
    pub fn elements<const N: usize>(
        &mut self,
        name: &[u8],
        key: &[u8],
        all: impl Iterator<Item = [Vec<u8>; N]>,
    ) {
        let mut all = all.peekable();
        while all.peek().is_some() {
            let some: Vec<_> = all.by_ref().take(ELEMENTS).flatten().collect();
            let arguments: Vec<&[u8]> =
                [name, key].into_iter().chain(some.iter().map(Vec::as_slice)).collect();
            self.put(&arguments);
        }
    }
}

/// An element as an argument.
pub(crate) fn text(element: Element<'_>) -> Vec<u8> {
    element.as_bytes(&mut IntBuffer::new()).to_vec()
}

/// A number as an argument.
pub(crate) fn number(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}
