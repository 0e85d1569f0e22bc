//! Eviction: which key goes when memory is at its limit, by Redis' sampling.
//!
//! Redis samples some keys for each eviction, a cache miss or two a key. Here as many are sampled for a pool
//! of candidates at once, side by side in a random shard, so that the misses overlap; the best of them stay
//! in the pool and go one by one. One shard is locked at a time. Invariant: the pool ascends by score, so its
//! last candidate goes first; a candidate is only a name, and what became of it since is looked at before it
//! goes.

use martlet_base::limits::SHARD_COUNT;
use martlet_base::random::Random;
use martlet_keyspace::{Entry, Key};
use martlet_spec::EventClass;

use crate::keys::Keys;
use crate::touch::{Lrfu, Touch};

/// Candidates that are kept, and evictions that keys are sampled for at once (Redis: `EVPOOL_SIZE`).
const POOL_MAX: usize = 16;

/// What makes a key go before others.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum EvictFirst {
    /// The time since its last access.
    LeastRecentlyUsed,
    /// The time since its last change.
    LeastRecentlyModified,
    /// Few accesses.
    LeastFrequentlyUsed,
    /// Few accesses that are long ago: [`Lrfu`].
    LeastRecentlyAndFrequentlyUsed,
    /// An early expiry.
    SoonestExpiry,
    /// Nothing: any key.
    Random,
}

/// Which keys may be evicted, and in which order.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// The order.
    pub first: EvictFirst,
    /// Only keys that have an expiry.
    pub volatile_only: bool,
    /// Keys looked at in a round (`maxmemory-samples`).
    pub samples: usize,
}

#[derive(Debug, Default)]
struct Candidate {
    /// The higher, the sooner it goes.
    score: u64,
    db: usize,
    key: Vec<u8>,
}

/// One thread's candidates; reused from round to round.
#[derive(Debug, Default)]
pub struct Evictor {
    pool: Vec<Candidate>,
    /// Allocations to be used again.
    spare: Vec<Candidate>,
    /// The policy that the scores are by.
    policy: Option<EvictionPolicy>,
    /// Part of a tick of the clock of evictions that has passed.
    passed: f64,
}

impl Evictor {
    /// Keeps the candidate if it is better than one of those in the pool, or there is room.
    fn offer(&mut self, score: u64, db: usize, key: &[u8]) {
        let at = self.pool.partition_point(|candidate| candidate.score < score);
        let is_full = self.pool.len() == POOL_MAX;
        if is_full && at == 0 {
            return;
        }
        let mut candidate = if is_full { self.pool.remove(0) } else { self.spare.pop().unwrap_or_default() };
        candidate.key.clear();
        candidate.key.extend_from_slice(key);
        (candidate.score, candidate.db) = (score, db);
        self.pool.insert(at - usize::from(is_full), candidate);
    }

    /// Notes an eviction of one of about `keys` keys; whole ticks that have passed with it.
    fn pass(&mut self, keys: usize) -> u64 {
        self.passed += Lrfu::TICKS_PER_TURNOVER as f64 / keys.max(1) as f64;
        let ticks = self.passed.floor();
        self.passed -= ticks;
        ticks as u64
    }

    /// Forgets all candidates.
    fn clear(&mut self) {
        self.spare.append(&mut self.pool);
    }
}

impl Keys {
    /// Evicts one key; false if no key may be evicted. No shard may be locked. After true the key's shard is,
    /// so that the caller announces the deletion before it unlocks it.
    pub fn evict_one(&mut self, evictor: &mut Evictor, policy: EvictionPolicy) -> bool {
        if evictor.policy.replace(policy) != Some(policy) {
            evictor.clear();
        }
        // A pool whose candidates are all gone is filled again; others may take those of the first filling.
        for filling in 0..3 {
            if filling > 0 {
                self.fill(evictor, policy);
            }
            while let Some(candidate) = evictor.pool.pop() {
                let key = Key::new(&candidate.key);
                let shard = key.shard();
                let is_locked = self.lock_shard_unless_busy(shard);
                let is_evicted =
                    is_locked && self.in_db(candidate.db, |keys| keys.evict(&key, &candidate, policy));
                evictor.spare.push(candidate);
                if is_evicted {
                    if let EvictFirst::LeastRecentlyAndFrequentlyUsed = policy.first {
                        self.note_eviction(evictor, shard);
                    }
                    return true;
                }
                self.release();
            }
        }
        false
    }

    /// Moves the clock of evictions on; the shard is locked, and about as full as the others.
    fn note_eviction(&self, evictor: &mut Evictor, shard: usize) {
        let keys = &self.shard(shard).keys;
        let in_shard: usize = keys.used().map(|db| keys.db(db).len()).sum();
        match evictor.pass((in_shard + 1) * SHARD_COUNT) {
            0 => {}
            ticks => self.engine().pass_eviction_ticks(ticks),
        }
    }

    /// Deletes a candidate that is unchanged.
    fn evict(&mut self, key: &Key<'_>, candidate: &Candidate, policy: EvictionPolicy) -> bool {
        let Some(entry) = self.get(key) else {
            // A key that has expired since gives room just as well.
            return self.delete_if_expired(key);
        };
        let is_eligible = !policy.volatile_only || entry.expiry_ms().is_some();
        if !is_eligible || self.score(&entry, policy) < candidate.score {
            return false;
        }
        self.delete(key);
        self.counters().evicted_keys.add(1);
        self.effects.event(EventClass::EVICTED, "evicted", self.db(), key.bytes);
        self.effects.deleted_by_server(self.db(), key.bytes, self.effects.deletions.eviction);
        self.signal_by_server(key);
        let db = self.db();
        self.shard_mut(key.shard()).keys.db_mut(db).free_if_empty();
        true
    }

    /// Offers keys to the pool, as many as Redis samples for as many evictions: those of a random shard and,
    /// if it has too few, of the shards after it.
    fn fill(&mut self, evictor: &mut Evictor, policy: EvictionPolicy) {
        let first = self.random.below(SHARD_COUNT as u64) as usize;
        let samples = if policy.first == EvictFirst::Random { 1 } else { policy.samples };
        let mut left = POOL_MAX * samples;
        for at in 0..SHARD_COUNT {
            let shard = (first + at) % SHARD_COUNT;
            if !self.lock_shard_unless_busy(shard) {
                continue;
            }
            left -= self.sample_shard(shard, evictor, policy, left);
            // Nothing was changed.
            self.release();
            if left == 0 {
                return;
            }
        }
    }

    /// Offers up to `most` keys of a locked shard; how many.
    fn sample_shard(
        &mut self,
        shard: usize,
        evictor: &mut Evictor,
        policy: EvictionPolicy,
        most: usize,
    ) -> usize {
        let mut random = Random::seeded(self.random.next_u64());
        let mut pick = |below: usize| random.below(below as u64) as usize;
        let (keys, hidden) = (&self.shard(shard).keys, &self.engine().hidden);
        let mut offered = 0;
        for db_index in keys.used() {
            let (db, left) = (keys.db(db_index), most - offered);
            let mut offer = |entry: Entry<'_>| {
                offered += 1;
                if hidden.has_key(entry.key()) {
                    return;
                }
                evictor.offer(self.score(&entry, policy), db_index, entry.key());
            };
            match (policy.first, policy.volatile_only) {
                (EvictFirst::SoonestExpiry, _) => {
                    db.first_expiring().filter(|_| left > 0).into_iter().for_each(offer)
                }
                (_, true) => {
                    (0..db.expiring_up_to(left)).filter_map(|_| db.random_expiring(&mut pick)).for_each(offer)
                }
                (_, false) => db.sample(&mut pick, left, &mut offer),
            }
        }
        offered
    }

    /// The higher, the sooner it goes.
    fn score(&self, entry: &Entry<'_>, policy: EvictionPolicy) -> u64 {
        match (policy.first, self.touch()) {
            (EvictFirst::SoonestExpiry, _) => {
                u64::MAX - entry.expiry_ms().map_or(u64::MAX, |at_ms| at_ms.max(0) as u64)
            }
            (EvictFirst::Random, _) => 0,
            (EvictFirst::LeastFrequentlyUsed, Touch::Lfu { minutes, decay_minutes, .. }) => {
                u64::from(u8::MAX) - u64::from(Touch::frequency(entry.lru(), minutes, decay_minutes))
            }
            (_, Touch::Lru(clock) | Touch::Lrm(clock)) => {
                u64::from(clock.wrapping_sub(entry.lru()) & 0xff_ffff)
            }
            (EvictFirst::LeastRecentlyAndFrequentlyUsed, Touch::Lrfu(lrfu)) => lrfu.score(entry.lru()),
            // The clock that the policy goes by does not run yet: all are alike.
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
