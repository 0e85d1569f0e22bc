//! How much room a buffer gets for an announced request.
//!
//! A request is not copied again for each part of it that arrives, and bytes that are announced and never
//! sent take no memory. Of an announced request only a small beginning is ever copied, since others wait in
//! that time.

/// Bytes reserved at once for an announced request.
const RESERVE_MAX_BYTES: usize = 1024 * 1024;
/// A longer request gets this many times the room of its received bytes: memory is not taken before it is
/// written to. So all of 512 MB, the longest argument by default, is reserved once 1 MB is there.
const RESERVED_PER_PRESENT: usize = 512;

/// Makes room for `more` bytes of a buffer that will have `wanted` bytes at least.
pub fn reserve(buffer: &mut Vec<u8>, more: usize, wanted: usize) {
    if let Some(capacity) = grown(buffer.capacity(), buffer.len() + more, wanted) {
        buffer.reserve_exact(capacity - buffer.len());
    }
}

/// The capacity that a buffer of `capacity` bytes gets for `present` ones of what will have `wanted` at
/// least, if they do not fit. It grows by half at least.
pub(crate) fn grown(capacity: usize, present: usize, wanted: usize) -> Option<usize> {
    let worth = wanted.min(present.saturating_mul(RESERVED_PER_PRESENT).max(RESERVE_MAX_BYTES));
    let least = present.max(capacity + capacity / 2);
    (present > capacity).then(|| worth.max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much of a buffer that takes `total` bytes in parts is copied each time, and its last capacity.
    fn copied(total: usize, part: usize, wanted: impl Fn(usize) -> usize) -> (Vec<usize>, usize) {
        let (mut capacity, mut copied) = (0, Vec::new());
        for present in (part..=total).step_by(part) {
            if let Some(larger) = grown(capacity, present, wanted(present)) {
                assert!(larger >= present, "{larger} for {present}");
                capacity = larger;
                copied.push(present - part);
            }
        }
        (copied, capacity)
    }

    #[test]
    fn a_long_request_is_copied_a_few_times_over_whatever_its_parts() {
        for total in [1 << 20, 200 << 20, 512 << 20] {
            // One long value; many short ones, of which only the next is announced; nothing announced.
            let announced: [&dyn Fn(usize) -> usize; 3] = [&|_| total + 40, &|present| present + 100, &|_| 0];
            for wanted in announced {
                let (copies, capacity) = copied(total, 16 << 10, wanted);
                let bytes: usize = copies.iter().sum();
                assert!(bytes <= 3 * total, "{bytes} bytes were copied for {total}");
                assert!(capacity <= 2 * total, "{capacity} for {total}");
            }
        }
    }

    #[test]
    fn nobody_waits_for_the_copy_of_a_long_argument() {
        for total in [2 << 20, 100 << 20, 512 << 20] {
            let (copies, _) = copied(total, 1000, |_| total);
            assert!(copies.iter().all(|bytes| *bytes <= RESERVE_MAX_BYTES), "{copies:?} for {total}");
        }
    }

    #[test]
    fn what_is_announced_and_not_sent_takes_no_room() {
        assert_eq!(grown(0, 1000, 512 << 20), Some(RESERVE_MAX_BYTES));
        assert_eq!(grown(0, 1000, 1 << 40), Some(RESERVE_MAX_BYTES));
        assert_eq!(grown(1 << 20, 2 << 20, 1 << 40), Some(1 << 30));
        assert_eq!(grown(1 << 20, 1 << 20, 512 << 20), None);
    }
}
