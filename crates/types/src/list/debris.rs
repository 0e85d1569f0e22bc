//! `Debris`: the removed part of a long list, freed a slice at a time so that no command pays for all of it.

use super::tree::Part;

/// Up to this many chunks are freed where they were cut off.
const SMALL: usize = 16;

/// Parts of a list, to be freed in slices.
pub struct Debris {
    parts: Vec<Part>,
}

impl Debris {
    /// The parts as debris; a few chunks are freed at once instead.
    pub(super) fn unless_small(parts: Vec<Part>) -> Option<Debris> {
        let small = parts.len() <= SMALL && parts.iter().all(|part| matches!(part, Part::Chunk(_)));
        (!small).then_some(Debris { parts })
    }

    /// Two heaps of debris as one.
    pub fn join(left: Option<Debris>, right: Option<Debris>) -> Option<Debris> {
        match (left, right) {
            (Some(mut left), Some(right)) => {
                left.parts.extend(right.parts);
                Some(left)
            }
            (left, right) => left.or(right),
        }
    }

    /// Frees about `chunks` chunks of at most some kilobytes each (a large element alone may be more);
    /// whether nothing is left.
    pub fn free_slice(&mut self, chunks: usize) -> bool {
        for _ in 0..chunks {
            let Some(part) = self.parts.pop() else { break };
            part.dismantle(&mut self.parts);
        }
        self.parts.is_empty()
    }
}
