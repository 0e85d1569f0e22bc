//! Per-server state of subsystems whose types the runtime does not know: a slot for each, found by its place.
//!
//! Invariant: a place belongs to one type.

use std::any::Any;
use std::sync::OnceLock;

/// The places. A subsystem takes one for each type that it keeps here.
#[derive(Copy, Clone, Debug)]
pub enum Place {
    /// The primary's stream as it is applied.
    AppliedStream,
    /// The call to all threads to apply together.
    ParallelApply,
    /// Engines for scripts that are debugged.
    DebugCopies,
}

const COUNT: usize = Place::DebugCopies as usize + 1;

/// A type that a slot keeps.
pub trait Kept: Default + Send + Sync + 'static {
    /// Its place, which no other type has.
    const PLACE: Place;
}

/// See the [module docs](self).
#[derive(Default)]
pub struct Slots([OnceLock<Box<dyn Any + Send + Sync>>; COUNT]);

impl Slots {
    /// The subsystem's state here; its default at the first call.
    ///
    /// # Panics
    /// If another type has the same place, which is a defect.
    pub fn of<T: Kept>(&self) -> &T {
        let kept = self.0[T::PLACE as usize].get_or_init(|| Box::<T>::default());
        kept.downcast_ref().unwrap_or_else(|| panic!("two types are kept in the slot {:?}", T::PLACE))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicU64);

    impl Kept for Counted {
        const PLACE: Place = Place::AppliedStream;
    }

    #[derive(Default)]
    struct Other;

    impl Kept for Other {
        const PLACE: Place = Place::AppliedStream;
    }

    #[test]
    fn a_slot_keeps_what_was_done_to_it() {
        let slots = Slots::default();
        slots.of::<Counted>().0.store(7, Ordering::Relaxed);
        assert_eq!(slots.of::<Counted>().0.load(Ordering::Relaxed), 7);
    }

    #[test]
    #[should_panic(expected = "two types are kept in the slot AppliedStream")]
    fn a_place_is_one_types() {
        let slots = Slots::default();
        slots.of::<Counted>();
        slots.of::<Other>();
    }
}
