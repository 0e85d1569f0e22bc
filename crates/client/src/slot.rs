//! Cluster slots, and a short tag for each.

pub use martlet_base::slot::{SLOT_COUNT, slot_of};

/// Bytes of a tag that `tags` gives.
pub const TAG_BYTES: usize = 3;

/// One tag of three characters for each slot, indexed by slot.
pub fn tags() -> Vec<[u8; TAG_BYTES]> {
    const ALPHABET: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut tags = vec![[0; TAG_BYTES]; SLOT_COUNT];
    for &a in ALPHABET {
        for &b in ALPHABET {
            for &c in ALPHABET {
                tags[usize::from(slot_of(&[a, b, c]))] = [a, b, c];
            }
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_its_tag() {
        for (slot, tag) in tags().iter().enumerate() {
            assert_eq!(usize::from(slot_of(tag)), slot);
        }
    }
}
