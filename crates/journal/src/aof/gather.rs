//! When the next group goes to disk, where replies wait for it.
//!
//! Clients that wait for the disk answer a reply with their next request, each a little later than the one
//! before. A writer that begins with the first of them has the others wait for two synchronisations instead
//! of one. Invariant: no client waits longer than half the time of forcing a group to disk, and only while
//! waiting pays: after a wait in vain, it is left out for twice as many groups.

use std::time::Duration;

/// Below this a synchronisation costs less than the sleep.
const LEAST: Duration = Duration::from_micros(150);
/// Longest wait, however slow the disk is.
const MOST: Duration = Duration::from_millis(5);
/// The longest sleep between two looks: the time that the last client waits in vain.
const LONGEST_SLICE: Duration = Duration::from_micros(200);
/// Groups for which waiting is left out at most.
const MOST_SKIPPED: u32 = 256;

/// See the [module docs](self). Sizes are in bytes of records, which stand for requests.
#[derive(Debug, Default)]
pub struct Gather {
    /// Bytes that the present writers are about to have recorded.
    expected: u64,
    /// Smoothed time of a synchronisation.
    takes: Duration,
    /// Groups that still begin at once.
    skipped: u32,
    backoff: u32,
    /// Waiting was begun for the group at hand.
    has_waited: bool,
}

impl Gather {
    /// Whether `pending` bytes should wait for more for another [`Gather::slice`], after having waited for
    /// `waited`.
    pub fn waits(&mut self, pending: u64, waited: Duration) -> bool {
        let is_enough = pending >= self.expected - self.expected / 8;
        let is_late = waited >= (self.takes / 2).min(MOST);
        if pending == 0 || is_enough || self.skipped > 0 || self.takes < LEAST {
            return false;
        }
        self.has_waited = true;
        !is_late
    }

    /// How long to sleep between two looks.
    pub fn slice(&self) -> Duration {
        (self.takes / 16).min(LONGEST_SLICE)
    }

    /// A group of `group` bytes is on disk after `took`; `arrived` bytes have come in that time.
    pub fn synced(&mut self, group: u64, arrived: u64, took: Duration) {
        if group == 0 {
            return;
        }
        let is_short = group < self.expected - self.expected / 8;
        self.skipped = self.skipped.saturating_sub(1);
        if self.has_waited && is_short {
            self.backoff = (self.backoff * 2).clamp(1, MOST_SKIPPED);
            self.skipped = self.backoff;
        } else if self.has_waited {
            self.backoff = 0;
        }
        self.has_waited = false;
        self.expected = group + arrived;
        self.takes = (self.takes * 7 + took) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(1);

    /// Clients that send again when they are answered, `each` apart; groups that it takes for `rounds` of all
    /// of them.
    fn groups(gather: &mut Gather, clients: u64, each: Duration, rounds: u64) -> u64 {
        let (mut waiting, mut returning, mut groups, mut done) = (0, clients, 0, 0);
        while done < rounds * clients {
            // The first client that comes back wakes the writer.
            if waiting == 0 {
                (waiting, returning) = (1, returning - 1);
            }
            let (mut waited, mut next) = (Duration::ZERO, each);
            while gather.waits(waiting * 100, waited) {
                waited += gather.slice();
                while next <= waited && returning > 0 {
                    (waiting, returning, next) = (waiting + 1, returning - 1, next + each);
                }
            }
            let group = waiting;
            (waiting, returning) = (returning, group);
            gather.synced(group * 100, waiting * 100, TOOK);
            (groups, done) = (groups + 1, done + group);
        }
        groups
    }

    #[test]
    fn those_who_come_back_share_a_group() {
        let mut gather = Gather::default();
        // Without waiting it would be two groups for each round.
        let count = groups(&mut gather, 50, Duration::from_micros(5), 1000);
        assert!(count < 1100, "{count}");
    }

    #[test]
    fn those_who_do_not_come_back_are_not_waited_for() {
        let mut gather = Gather::default();
        let mut waits = 0;
        for _ in 0..10_000 {
            let mut waited = Duration::ZERO;
            while gather.waits(100, waited) {
                waited += gather.slice();
            }
            assert!(waited <= TOOK * 9 / 16);
            waits += u32::from(waited > Duration::ZERO);
            gather.synced(100, 900, TOOK);
        }
        assert!((1..100).contains(&waits), "{waits}");
        // They do now.
        let count = groups(&mut gather, 50, Duration::from_micros(5), 1000);
        assert!(count < 1400, "{count}");
    }

    #[test]
    fn a_lone_client_and_a_fast_disk_are_not_waited_for() {
        let mut gather = Gather::default();
        for _ in 0..100 {
            assert!(!gather.waits(100, Duration::ZERO));
            gather.synced(100, 0, TOOK);
        }
        let mut gather = Gather::default();
        for _ in 0..100 {
            assert!(!gather.waits(1, Duration::ZERO));
            gather.synced(1, 99, Duration::from_micros(100));
        }
    }
}
