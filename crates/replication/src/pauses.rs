//! How long to wait before a full sync that could not go is tried again.
//!
//! Invariant: the pauses grow to [`MOST`] and no further, and begin small again once one went.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
pub const MOST: Duration = Duration::from_secs(60);

/// Pauses, each twice as long as the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    last: Option<Duration>,
}

impl Pauses {
    /// The next pause.
    pub fn grow(&mut self) -> Duration {
        let next = self.last.map_or(FIRST, |last| (last * 2).min(MOST));
        self.last = Some(next);
        next
    }

    /// The next pause is the first again.
    pub fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_begin_again() {
        let mut pauses = Pauses::default();
        let seconds: Vec<u64> = (0..8).map(|_| pauses.grow().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        pauses.reset();
        assert_eq!(pauses.grow(), FIRST);
    }
}
