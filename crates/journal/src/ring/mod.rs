//! A ring of records: many threads append, one takes them out in order.
//!
//! ```text
//!          tail                      head
//!            ▼                        ▼
//!  … zeroes │ record │ record │ (hole) │ zeroes …
//!
//!  record:  ┌ length 32 │ tag 24 │ kind 8 ┬ payload, padded to 8 bytes ┐
//! ```
//!
//! Invariant: room is reserved with one atomic addition to `head`; a record's first word is 0 until
//! the record is whole, and whatever lies between `tail` and the first such word can be read. Taken records
//! are zeroed before `tail` gives their room back. Records that are long lie outside the ring, which then has
//! their address.

mod memory;
mod queue;
#[cfg(test)]
mod tests;

/// What `queue` is built on; its tests build it on loom's instead.
mod atomic {
    pub use std::sync::atomic::{AtomicU64, Ordering};

    /// Lets other threads run before the next look: `tries` times so far.
    pub fn relax(tries: u32) {
        match tries {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            // The reader is behind, or a thread was stopped between reserving room and using it.
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
    }
}

pub use memory::Memory;
pub use queue::{Position, Reader, Ring, record_bytes};
