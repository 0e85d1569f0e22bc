//! The selectors of a user or a role: that of the rules outside parentheses, and those in parentheses.
//!
//! Invariant: the first is always there; it is the one that rules outside parentheses change.

use martlet_protocol::request::inline_words;

use crate::error::{RuleError, SetError};
use crate::request::Rules;
use crate::selector::Selector;

/// See the [module docs](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selectors {
    root: Selector,
    others: Vec<Selector>,
}

impl Selectors {
    /// The first selector alone, with the rights of a new user.
    pub fn new(rules: &Rules<'_>) -> Selectors {
        Selectors { root: Selector::new(rules), others: Vec::new() }
    }

    pub fn root(&self) -> &Selector {
        &self.root
    }

    pub fn others(&self) -> &[Selector] {
        &self.others
    }

    pub fn iter(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.others)
    }

    /// Applies a rule about rights. On error nothing has changed.
    pub fn apply(&mut self, rules: &Rules<'_>, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector::new(rules);
                if let Some(words) = inline_words(inner) {
                    words.view().iter().try_for_each(|word| selector.apply(rules, word))?;
                }
                self.others.push(selector);
            }
            _ if rule.eq_ignore_ascii_case(b"clearselectors") => self.others.clear(),
            _ => self.root.apply(rules, rule)?,
        }
        Ok(())
    }

    /// Rules that make the selectors again.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let others = self.others.iter().map(Selector::describe_in_parentheses);
        self.root.words().into_iter().chain(others).collect()
    }
}

/// The rules, with those selectors put together that are spread over several words.
pub(crate) fn merge_selectors<'r>(
    words: impl IntoIterator<Item = &'r [u8]>,
) -> Result<Vec<Vec<u8>>, SetError> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    // The first word of a selector that has not ended, and its place.
    let mut open: Option<(&[u8], usize)> = None;
    for (place, word) in words.into_iter().enumerate() {
        match (open, rules.last_mut()) {
            (Some(_), Some(rule)) => {
                rule.push(b' ');
                rule.extend(word);
            }
            _ => {
                open = word.starts_with(b"(").then_some((word, place));
                rules.push(word.into());
            }
        }
        if word.ends_with(b")") {
            open = None;
        }
    }
    open.map_or(Ok(rules), |(word, place)| Err(SetError::Unmatched(word.into(), place)))
}
