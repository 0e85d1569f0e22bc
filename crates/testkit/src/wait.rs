//! Waiting for a condition in another process: looks again until it holds, or fails the test.
//!
//! Invariant: nothing here takes time for a fact. A condition that holds is found within [`LONGEST_PAUSE`],
//! and one that never does ends the test, whatever the machine does beside it.

use std::time::{Duration, Instant};

/// Longest time until a condition must hold: the disk and the processors may be busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// Longest pause between two looks; the first ones are shorter.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Looks until a condition holds.
///
/// # Panics
/// It did not within [`PATIENCE`]; the message has `what`.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_the_condition_holds() {
        let mut looks = 0;
        until("four looks", || {
            looks += 1;
            looks == 4
        });
        assert_eq!(looks, 4);
    }
}
