//! A naive sorted set, which tests compare [`ZSet`] with; shared by unit and integration tests.

use super::*;
use std::collections::{BTreeSet, HashMap};

/// A score with a total order that makes zero equal to minus zero.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Score(pub f64);

impl Eq for Score {}

#[allow(clippy::derive_ord_xor_partial_ord)]
impl Ord for Score {
    fn cmp(&self, other: &Score) -> std::cmp::Ordering {
        self.partial_cmp(other).expect("no score is NaN")
    }
}

/// A score by member, and members in order.
#[derive(Clone, Default)]
pub struct Model {
    pub scores: HashMap<Vec<u8>, f64>,
    pub order: BTreeSet<(Score, Vec<u8>)>,
}

impl Model {
    pub fn set(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        self.scores.insert(member.to_vec(), score);
        self.order.insert((Score(score), member.to_vec()));
    }

    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        self.order.remove(&(Score(score), member.to_vec()));
        Some(score)
    }

    pub fn list(&self) -> Vec<(Vec<u8>, f64)> {
        self.order.iter().map(|(score, member)| (member.clone(), score.0)).collect()
    }

    /// What ZADD does, by its documentation.
    pub fn add(&mut self, member: &[u8], score: f64, options: AddOptions) -> Added {
        let Some(&old) = self.scores.get(member) else {
            if options.xx {
                return Added::Skipped;
            }
            self.set(member, score);
            return Added::Added;
        };
        let new = if options.incr { old + score } else { score };
        if options.nx {
            Added::Skipped
        } else if new.is_nan() {
            Added::NotANumber
        } else if (options.gt && new <= old) || (options.lt && new >= old) {
            Added::Skipped
        } else if new == old {
            Added::Unchanged(old)
        } else {
            self.set(member, new);
            Added::Updated(new)
        }
    }
}

pub fn list(entries: Entries<'_>) -> Vec<(Vec<u8>, f64)> {
    entries.map(|entry| (entry.member.to_vec(), entry.score)).collect()
}

/// Compares everything that can be asked of a set with the model; `member` and the scores are samples.
pub fn check(set: &ZSet, model: &Model, member: &[u8], low: f64, high: f64) {
    let all = model.list();
    assert_eq!(set.len(), all.len());
    assert_eq!(list(set.iter()), all);
    let mut reversed = list(set.range(0..usize::MAX, true));
    reversed.reverse();
    assert_eq!(reversed, all);
    assert_eq!(set.score(member), model.scores.get(member).copied());
    let rank = all.iter().position(|(other, _)| other == member);
    assert_eq!(set.rank(member).map(|(rank, _)| rank), rank);
    for (rank, (member, score)) in all.iter().enumerate().step_by(all.len() / 20 + 1) {
        assert_eq!(set.rank(member), Some((rank, *score)));
        let entry = set.at_rank(rank).expect("a rank below the length");
        assert_eq!((entry.member.to_vec(), entry.score), (member.clone(), *score));
    }
    for (min_out, max_out) in [(false, false), (true, false), (false, true), (true, true)] {
        let inside = |score: f64| {
            (if min_out { score > low } else { score >= low })
                && (if max_out { score < high } else { score <= high })
        };
        let min = ScoreBound { score: low, exclusive: min_out };
        let range = set.ranks_by_score(min, ScoreBound { score: high, exclusive: max_out });
        let expected: Vec<_> = all.iter().filter(|(_, score)| inside(*score)).cloned().collect();
        assert_eq!(list(set.range(range, false)), expected);
    }
    let mut scanned = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 3, |entry| scanned.push((entry.member.to_vec(), entry.score)));
        if cursor == 0 {
            break;
        }
    }
    scanned.sort_by(|a, b| a.0.cmp(&b.0));
    let mut members = all;
    members.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(scanned, members);
}
