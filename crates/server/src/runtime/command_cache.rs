//! The commands that this thread was asked for lately, by their names as they were written: most clients
//! write a few, always alike.

use martlet_protocol::request::{Args, Span};

use crate::registry::{Entry, Registry};

/// Most remembered names, each in its own place.
const PLACES: usize = 16;

/// A name of up to 16 bytes: how long it is, and its first and last 8 bytes, which overlap if it is shorter.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Written {
    len: u32,
    first: u64,
    last: u64,
}

impl Written {
    /// `None` for a longer name, an empty one, and a short one right at the end of the input.
    #[inline(always)]
    fn new(input: &[u8], name: Span) -> Option<Written> {
        let word = |at: usize| Some(u64::from_le_bytes(*input.get(at..)?.first_chunk()?));
        let len = name.end.wrapping_sub(name.start);
        let first = word(name.start as usize)?;
        match len {
            1..8 => Some(Written { len, first: first << (64 - 8 * len), last: 0 }),
            8..=16 => Some(Written { len, first, last: word(name.end as usize - 8)? }),
            _ => None,
        }
    }

    #[inline(always)]
    fn place(&self) -> usize {
        let mixed = (self.first ^ self.last).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> (64 - PLACES.ilog2())) as usize
    }
}

/// See the [module docs](self).
#[derive(Default)]
pub(super) struct CommandCache([(Written, Option<&'static Entry>); PLACES]);

impl CommandCache {
    /// As [`Registry::resolve`] of the arguments that `spans` mark in `input`; always to be called with the
    /// same registry.
    #[inline(always)]
    pub(super) fn resolve(
        &mut self,
        registry: &'static Registry,
        input: &[u8],
        spans: &[Span],
    ) -> Option<&'static Entry> {
        let args = Args::new(input, spans);
        let written = spans.first().and_then(|name| Written::new(input, *name));
        let Some(written) = written else { return registry.resolve(&args) };
        let known = &mut self.0[written.place()];
        if known.0 == written {
            return known.1;
        }
        let entry = registry.resolve(&args);
        // A container's name does not tell which of its subcommands is called.
        if entry.is_some_and(|entry| entry.parent.is_none() && !entry.is_container()) {
            *known = (written, entry);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| crate::commands::registry(&[]).unwrap());

    proptest! {
        /// A remembered entry is the registry's, whatever was asked for before.
        #[test]
        fn names_stand_for_what_the_registry_says(
            calls in prop::collection::vec(
                (prop_oneof!["[a-cA-C]{0,20}", "(?i)(get|set|sismember|zrangebyscore|georadiusbymember_ro|object|debug)"], 0usize..12),
                1..200,
            ),
        ) {
            let mut names = CommandCache::default();
            for (name, following) in calls {
                let input = [&name.clone().into_bytes()[..], &[b'x'; 12][..following]].concat();
                let spans = [Span { start: 0, end: name.len() as u32 }];
                let expected = REGISTRY.resolve(&Args::new(&input, &spans)).map(|entry| entry.id);
                let found = names.resolve(&REGISTRY, &input, &spans).map(|entry| entry.id);
                prop_assert_eq!(found, expected, "{}", name);
            }
        }
    }
}
