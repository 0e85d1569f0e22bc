//! A small mutator for the stable toolchain: not guided by coverage, but it never stops at the seeds either.

/// A generator of mutations; the same seed gives the same ones.
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Mutator {
        Mutator { state: seed | 1 }
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % bound.max(1) as u64) as usize
    }

    /// One to eight changes of `seed`: bytes flipped, removed, doubled, replaced; pieces of `other` spliced
    /// in.
    pub fn mutate(&mut self, seed: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(8) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => {
                    bytes.remove(at);
                }
                2 => bytes.insert(at, self.below(256) as u8),
                3 => bytes.truncate(at),
                4 if !other.is_empty() => {
                    let from = self.below(other.len());
                    let to = from + self.below(other.len() - from + 1);
                    bytes.splice(at..at, other[from..to].iter().copied());
                }
                _ if at < bytes.len() => {
                    let to = at + self.below((bytes.len() - at).min(32) + 1);
                    let piece = bytes[at..to].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => {}
            }
        }
        bytes
    }
}
