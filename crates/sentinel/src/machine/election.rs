//! The leader of a failover: votes by epoch.
//!
//! Invariants: a Sentinel votes once in an epoch, for a primary, and has saved that before any other hears of
//! it; it never votes in an epoch older than the newest that it knows of. So two Sentinels cannot both have a
//! majority in one epoch, whatever crashes.

use std::collections::BTreeMap;

use super::Sentinel;
use crate::events::Level;
use crate::instance::{InstanceId, Vote};
use crate::timing::DESYNC_MAX_MS;

impl Sentinel {
    /// Votes for a candidate in an epoch, or gives the vote that was given before.
    pub(super) fn vote(&mut self, primary: InstanceId, epoch: u64, candidate: &str) -> Vote {
        self.adopt_epoch(primary, epoch);
        if self.get(primary).vote.epoch < epoch && self.current_epoch <= epoch {
            self.get_mut(primary).vote = Vote { leader: Some(candidate.into()), epoch };
            self.save();
            self.text_event(Level::Warning, "+vote-for-leader", primary, &format!("{candidate} {epoch}"));
            if !candidate.eq_ignore_ascii_case(&self.id) {
                // The candidate that got the vote has time to finish.
                self.get_mut(primary).failover.started_ms = self.desynced_ms();
            }
        }
        self.get(primary).vote.clone()
    }

    /// Now, or up to a second later: Sentinels should not all try at once.
    pub(super) fn desynced_ms(&mut self) -> i64 {
        self.now_ms + self.random.below(DESYNC_MAX_MS) as i64
    }

    /// The leader in an epoch: the candidate with the votes of a majority of all Sentinels ever seen, and of
    /// at least the quorum. This Sentinel votes for the candidate with most votes, or for itself. (Redis
    /// counts votes of the newest epoch it knows of, by which a candidate may win with votes of another epoch
    /// than its failover's.)
    pub(super) fn leader(&mut self, primary: InstanceId, epoch: u64) -> Option<String> {
        let sentinels = self.sentinels_of(primary);
        let mut votes: BTreeMap<String, usize> = BTreeMap::new();
        for sentinel in &sentinels {
            let vote = &self.get(*sentinel).vote;
            if vote.epoch == epoch
                && let Some(leader) = &vote.leader
            {
                *votes.entry(leader.clone()).or_default() += 1;
            }
        }
        let candidate = most(&votes).map_or(self.id.clone(), |(leader, _)| leader.to_owned());
        let own = self.vote(primary, epoch, &candidate);
        if own.epoch == epoch
            && let Some(leader) = own.leader
        {
            *votes.entry(leader).or_default() += 1;
        }
        let voters = sentinels.len() + 1;
        let majority = voters / 2 + 1;
        let quorum = self.get(primary).settings.quorum as usize;
        most(&votes).filter(|(_, count)| *count >= majority.max(quorum)).map(|(leader, _)| leader.to_owned())
    }
}

/// The candidate with most votes; the first of several by name.
fn most(votes: &BTreeMap<String, usize>) -> Option<(&str, usize)> {
    let mut best: Option<(&str, usize)> = None;
    for (leader, count) in votes {
        if best.is_none_or(|(_, most)| *count > most) {
            best = Some((leader, *count));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::most;
    use std::collections::BTreeMap;

    #[test]
    fn the_first_of_those_with_most_votes_wins() {
        let votes = BTreeMap::from([("a".into(), 1), ("b".into(), 2), ("c".into(), 2)]);
        assert_eq!(most(&votes), Some(("b", 2)));
        assert_eq!(most(&BTreeMap::new()), None);
    }
}
