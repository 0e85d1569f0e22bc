//! The commands that this thread was asked for lately, by their names as they were written: most clients write a few, always alike.

use martlet_protocol::request::Span;

use crate::registry::Entry;

/// Names remembered at most, each in a place of its own.
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

/// See the module's page.
#[derive(Default)]
pub(super) struct Names([(Written, Option<&'static Entry>); PLACES]);

impl Names {
    /// What the name stands for; `resolve` tells it if the name is not remembered.
    #[inline(always)]
    pub(super) fn entry(
        &mut self,
        input: &[u8],
        name: Span,
        resolve: impl FnOnce() -> Option<&'static Entry>,
    ) -> Option<&'static Entry> {
        let Some(written) = Written::new(input, name) else { return resolve() };
        let known = &mut self.0[written.place()];
        if known.0 == written {
            return known.1;
        }
        let entry = resolve();
        // A container's name does not tell which of its subcommands is called.
        if entry.is_some_and(|entry| entry.parent.is_none() && !entry.is_container()) {
            *known = (written, entry);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use martlet_protocol::request::Args;
    use proptest::prelude::*;

    use super::*;
    use crate::registry::Registry;

    proptest! {
        /// What is remembered is what the registry says, whatever was asked for before.
        #[test]
        fn names_stand_for_what_the_registry_says(
            calls in prop::collection::vec(
                (prop_oneof!["[a-cA-C]{0,20}", "(?i)(get|set|sismember|zrangebyscore|georadiusbymember_ro|object|debug)"], 0usize..12),
                1..200,
            ),
        ) {
            let registry: &'static Registry = Box::leak(Box::new(Registry::new(&[]).unwrap()));
            let mut names = Names::default();
            for (name, following) in calls {
                let input = [&name.clone().into_bytes()[..], &[b'x'; 12][..following]].concat();
                let span = Span { start: 0, end: name.len() as u32 };
                let spans = [span];
                let resolve = || registry.resolve(&Args::new(&input, &spans));
                let expected = resolve().map(|entry| entry.id);
                prop_assert_eq!(names.entry(&input, span, resolve).map(|entry| entry.id), expected, "{}", name);
            }
        }
    }
}
