//! A value that many threads read and one replaces now and then.
//!
//! Invariant: a published value never changes; the generation rises by one with each publication, after the
//! new value is in place, so that a reader of a generation sees at least that generation's value. Reading is
//! a plain pointer access, following a change costs a lock for an instant, and asking whether there is one an
//! atomic load.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The place where the current value is.
#[derive(Debug)]
pub struct Published<T> {
    generation: AtomicU64,
    current: RwLock<Arc<T>>,
}

impl<T> Published<T> {
    /// A place whose first value is `value`, of generation 0.
    pub fn new(value: T) -> Self {
        Self { generation: AtomicU64::new(0), current: RwLock::new(Arc::new(value)) }
    }

    /// How often a value was published.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The current value. Takes a lock for an instant: hot paths keep a [`Follower`].
    pub fn snapshot(&self) -> Arc<T> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes `value` the current one.
    pub fn publish(&self, value: T) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(value);
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// One thread's view of a published value.
#[derive(Debug)]
pub struct Follower<T> {
    generation: u64,
    value: Arc<T>,
}

impl<T> Clone for Follower<T> {
    fn clone(&self) -> Self {
        Self { generation: self.generation, value: Arc::clone(&self.value) }
    }
}

impl<T> Follower<T> {
    /// A view of the current value.
    pub fn new(published: &Published<T>) -> Self {
        // The generation is read first: should a value come between, the next refresh takes it up once more.
        let generation = published.generation();
        Self { generation, value: published.snapshot() }
    }

    /// Takes up the newest value of the place that this view was made of; true when there was one.
    #[inline]
    pub fn refresh(&mut self, published: &Published<T>) -> bool {
        if published.generation() == self.generation {
            return false;
        }
        *self = Self::new(published);
        true
    }

    /// The generation of the last refresh.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The value of the last refresh, to be kept beyond the next one.
    pub fn value(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T> Deref for Follower<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_sees_what_was_published_when_it_refreshes() {
        let place = Published::new(1);
        let mut follower = Follower::new(&place);
        let kept = Arc::clone(follower.value());
        assert!(!follower.refresh(&place));
        place.publish(2);
        place.publish(3);
        assert_eq!((*follower, place.generation(), *place.snapshot()), (1, 2, 3));
        assert!(follower.refresh(&place) && !follower.refresh(&place));
        assert_eq!((*follower, *kept), (3, 1));
    }

    #[test]
    fn values_never_go_back() {
        let place = Published::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut follower = Follower::new(&place);
                    let mut last = *follower;
                    while last < 2000 {
                        follower.refresh(&place);
                        assert!(*follower >= last);
                        last = *follower;
                    }
                });
            }
            (1..=2000).for_each(|value| place.publish(value));
        });
        assert_eq!(place.generation(), 2000);
    }
}
