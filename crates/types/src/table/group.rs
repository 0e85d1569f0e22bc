//! One cache line of a leaf's index: twenty slots, each an eight-bit tag of the member's hash and its entry's
//! offset.
//!
//! A probe compares all tags of a line at once. Invariant: tag 0 marks an empty slot, and `overflow`
//! is the number of entries that probed this line, found it full and live in a later one, so a search may
//! stop at a line whose count is zero.

/// Slots of a group.
pub(super) const GROUP_SLOTS: usize = 20;
/// Bytes of a group: one cache line.
pub(super) const GROUP_BYTES: usize = 64;

/// See the module's description.
#[repr(C)]
pub(super) struct Group {
    tags: [u8; GROUP_SLOTS],
    pub overflow: u8,
    spare: [u8; 3],
    offsets: [u16; GROUP_SLOTS],
}

const _: () = assert!(size_of::<Group>() == GROUP_BYTES);
const ALL: u32 = (1 << GROUP_SLOTS) - 1;

/// The tag of a hash: never 0.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u8 {
    let tag = hash as u8;
    tag + u8::from(tag == 0)
}

impl Group {
    /// One bit for each slot with this tag.
    #[inline(always)]
    pub fn matching(&self, tag: u8) -> u32 {
        #[cfg(target_arch = "x86_64")]
        return self.matching_sse2(tag);
        #[cfg(not(target_arch = "x86_64"))]
        self.matching_portable(tag)
    }

    /// One bit for each slot in use.
    #[inline(always)]
    pub fn live(&self) -> u32 {
        !self.matching(0) & ALL
    }

    /// The first empty slot.
    #[inline(always)]
    pub fn vacancy(&self) -> Option<usize> {
        let empty = self.matching(0);
        (empty != 0).then(|| empty.trailing_zeros() as usize)
    }

    /// Offset in the leaf of the entry in `slot`.
    #[inline(always)]
    pub fn offset(&self, slot: usize) -> usize {
        usize::from(self.offsets[slot])
    }

    /// Fills a slot.
    #[inline(always)]
    pub fn set(&mut self, slot: usize, tag: u8, offset: usize) {
        self.tags[slot] = tag;
        self.offsets[slot] = offset as u16;
    }

    /// Points a slot in use to another place.
    #[inline(always)]
    pub fn set_offset(&mut self, slot: usize, offset: usize) {
        self.offsets[slot] = offset as u16;
    }

    /// Empties a slot.
    #[inline(always)]
    pub fn clear(&mut self, slot: usize) {
        self.tags[slot] = 0;
    }

    /// The twin of the vector code: its required answer, and the code of other processors.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code))]
    fn matching_portable(&self, tag: u8) -> u32 {
        self.tags.iter().enumerate().fold(0, |mask, (slot, t)| mask | u32::from(*t == tag) << slot)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn matching_sse2(&self, tag: u8) -> u32 {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
        // The second load overlaps the first so that both stay inside the tags.
        const SECOND: usize = GROUP_SLOTS - 16;
        // SAFETY: SSE2 is part of x86-64; both loads read 16 of the 20 tags.
        unsafe {
            let wanted = _mm_set1_epi8(tag as i8);
            let tags = self.tags.as_ptr();
            let first = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(tags.cast()), wanted));
            let second = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(tags.add(SECOND).cast()), wanted));
            first as u32 | (second as u32) << SECOND
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_code_agrees_with_its_twin(tags in prop::array::uniform20(0u8..4), tag in 0u8..5) {
            let group = Group { tags, overflow: 255, spare: [1; 3], offsets: [0x0101; GROUP_SLOTS] };
            prop_assert_eq!(group.matching(tag), group.matching_portable(tag));
            prop_assert_eq!(group.live(), !group.matching_portable(0) & ALL);
        }
    }
}
