//! `Suggestions`: texts with a score and a payload each, found by the beginning of the text, as RediSearch's
//! dictionaries of suggestions (FT.SUGADD).
//!
//! ```text
//! root ─"he"─▶ (best 4) ─"llo"─▶ score 4
//!                       └"r"──▶ score 1 ─"o"─▶ score 3
//! ```
//!
//! A radix tree over characters. A node has the characters that lead to it, the suggestion that ends there,
//! its children in order of their first characters, and the highest score of its subtree, by which a search
//! leaves subtrees out. Nodes and payloads are shared by reference count: a clone raises one count, and a
//! write copies the nodes on its path.
//!
//! Invariant: no node but the root is without characters; one without a suggestion has at least two children,
//! unless it is the root; no score is NaN. A text has fewer than [`TEXT_MAX_CHARACTERS`] characters, which
//! bounds the depth of the tree, so walks may recurse. A dictionary may be empty: it stays then.

mod character;
mod node;
mod search;
#[cfg(test)]
mod tests;

use std::fmt;

use triomphe::Arc;

use character::Characters;
use node::{Entry, Node};
pub use search::{Found, Query};

/// A text has fewer characters than this (RediSearch: `TRIE_INITIAL_STRING_LEN`).
pub const TEXT_MAX_CHARACTERS: usize = 256;
/// The longest text, in bytes.
pub const TEXT_MAX_BYTES: usize = 2 * TEXT_MAX_CHARACTERS;
/// A prefix has fewer characters than this (RediSearch: `TRIE_MAX_PREFIX`).
pub const PREFIX_MAX_CHARACTERS: usize = 100;

/// How an addition treats the score of a text that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreChange {
    /// Replaces it.
    Replace,
    /// Adds to it.
    Increment,
}

/// The increment and the score are infinities of opposite signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

/// The outcome of [`Suggestions::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The text was not there before.
    New,
    /// Its score, and its payload if one was given, are changed.
    Updated,
    /// The text is empty or too long, or the score is 0: nothing was changed.
    Ignored,
}

/// See the [module docs](self).
#[derive(Clone)]
pub struct Suggestions {
    root: Arc<Node>,
    len: usize,
    /// Allocated bytes of all nodes and payloads.
    bytes: usize,
}

/// A suggestion as a walk visits it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suggestion<'a> {
    /// The text.
    pub text: &'a [u8],
    /// Its score.
    pub score: f32,
    /// Its payload; never empty.
    pub payload: Option<&'a [u8]>,
}

impl Suggestions {
    /// A dictionary without suggestions.
    pub fn new() -> Suggestions {
        let root = Node::new(&[], None);
        Suggestions { bytes: root.own_bytes(), root: Arc::new(root), len: 0 }
    }

    /// Number of suggestions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no suggestion.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that were asked of the allocator, about.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a text, or changes its score and payload. An empty payload leaves the present one. The score is
    /// kept with 32 bits, as in RediSearch.
    ///
    /// # Errors
    /// [`NotANumber`]; nothing was changed then.
    pub fn add(
        &mut self,
        text: &[u8],
        score: f64,
        change: ScoreChange,
        payload: &[u8],
    ) -> Result<Added, NotANumber> {
        let score = score as f32;
        if score == 0.0 || !fits(text) {
            return Ok(Added::Ignored);
        }
        self.put(text, score, change, payload)
    }

    /// As [`Suggestions::add`] for a suggestion of a file: increments can have made its score 0.
    ///
    /// # Errors
    /// As [`Suggestions::add`].
    pub fn load(&mut self, text: &[u8], score: f64, payload: &[u8]) -> Result<Added, NotANumber> {
        if !fits(text) {
            return Ok(Added::Ignored);
        }
        self.put(text, score as f32, ScoreChange::Replace, payload)
    }

    fn put(
        &mut self,
        text: &[u8],
        score: f32,
        change: ScoreChange,
        payload: &[u8],
    ) -> Result<Added, NotANumber> {
        let known = match change {
            ScoreChange::Increment => self.find(text).map_or(0.0, Entry::score),
            ScoreChange::Replace => 0.0,
        };
        let entry = Entry::new(known + score, payload).ok_or(NotANumber)?;
        let is_new = Arc::make_mut(&mut self.root).put(text, entry, &mut self.bytes);
        self.len += usize::from(is_new);
        Ok(if is_new { Added::New } else { Added::Updated })
    }

    /// Takes a text out; whether it was there.
    pub fn remove(&mut self, text: &[u8]) -> bool {
        let is_there = self.find(text).is_some();
        if is_there {
            Arc::make_mut(&mut self.root).remove(text, &mut self.bytes);
            self.len -= 1;
        }
        is_there
    }

    /// The suggestion of exactly this text.
    pub fn get<'a>(&'a self, text: &'a [u8]) -> Option<Suggestion<'a>> {
        self.find(text).map(|entry| entry.with_text(text))
    }

    fn find(&self, text: &[u8]) -> Option<&Entry> {
        let (mut node, mut rest) = (&*self.root, text);
        while let Some(first) = Characters(rest).next() {
            node = node.child(first)?;
            rest = rest.strip_prefix(node.label())?;
        }
        node.entry()
    }

    /// Visits all suggestions, a text before those that it begins.
    pub fn each(&self, mut visit: impl FnMut(Suggestion<'_>)) {
        self.root.each(&mut Vec::new(), &mut visit);
    }

    /// The best suggestions for the beginning of a text, the best first; those of equal scores in order of
    /// their bytes. `None` if the prefix has [`PREFIX_MAX_CHARACTERS`] characters or more.
    pub fn search(&self, query: Query<'_>) -> Option<Vec<Found<'_>>> {
        search::search(&self.root, query)
    }
}

/// Whether a dictionary can have this text.
fn fits(text: &[u8]) -> bool {
    !text.is_empty() && text.len() <= TEXT_MAX_BYTES && Characters(text).count() < TEXT_MAX_CHARACTERS
}

impl Default for Suggestions {
    fn default() -> Suggestions {
        Suggestions::new()
    }
}

impl fmt::Debug for Suggestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Suggestions of {} texts", self.len)
    }
}
