//! `Debris`: the pages of large sketches that were deleted, freed a slice at a time so that no command pays
//! for all of it.

/// Pages and branches of an array of some kind.
pub(crate) trait Part: Send + Sync {
    /// Frees one page or takes one branch apart; whether there was one.
    fn free_one(&mut self) -> bool;
}

/// The pages of deleted sketches, freed in slices. Dropping it frees the rest at once.
#[derive(Default)]
pub struct Debris {
    parts: Vec<Box<dyn Part>>,
}

impl Debris {
    pub(crate) fn add(&mut self, part: Box<dyn Part>) {
        self.parts.push(part);
    }

    /// Whether nothing waits to be freed.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Frees about `pages` pages of 8 KiB; whether nothing is left.
    pub fn free_slice(&mut self, pages: usize) -> bool {
        for _ in 0..pages {
            let Some(part) = self.parts.last_mut() else { break };
            if !part.free_one() {
                self.parts.pop();
            }
        }
        self.parts.is_empty()
    }
}
