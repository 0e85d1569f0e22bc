//! Evicted keys by policy, and keys that are never evicted.

use martlet_base::random::Random;
use martlet_keyspace::{ExpiryChange, Key};

use super::*;
use crate::{Engine, WatchFlag};

const NOW_MS: i64 = 1_000_000_000;

fn keys() -> Keys {
    let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).unwrap()));
    let mut keys = Keys::new(engine, 0, Random::seeded(1));
    keys.see(crate::View { now_ms: NOW_MS, ..keys.view() });
    keys.effects.recording = true;
    keys
}

fn policy(first: EvictFirst, volatile_only: bool) -> EvictionPolicy {
    EvictionPolicy { first, volatile_only, samples: 10 }
}

fn set(keys: &mut Keys, name: &str, expiry: ExpiryChange) {
    let key = Key::new(name.as_bytes());
    keys.lock_shard(key.shard());
    keys.set_str(&key, b"value", expiry);
    keys.release();
}

fn is_there(keys: &mut Keys, name: &str) -> bool {
    let key = Key::new(name.as_bytes());
    keys.lock_shard(key.shard());
    let there = keys.get(&key).is_some();
    keys.release();
    there
}

/// Evicts up to `most`; the names of those that went, in order, as the journal would get them, with the
/// number of a database other than 0.
fn evict(keys: &mut Keys, policy: EvictionPolicy, most: usize) -> Vec<String> {
    let mut evictor = Evictor::default();
    let mut gone = Vec::new();
    for _ in 0..most {
        if !keys.evict_one(&mut evictor, policy) {
            break;
        }
        let (tag, payload) = keys.effects.pending().record().unwrap();
        for effect in martlet_journal::effects(tag, payload) {
            let text = String::from_utf8_lossy(effect.command).into_owned();
            let words: Vec<&str> = text.split("\r\n").collect();
            assert_eq!((words[0], words[2]), ("*2", "DEL"));
            gone.push(match effect.db {
                0 => words[4].to_owned(),
                db => format!("{db}:{}", words[4]),
            });
        }
        keys.effects.pending().clear();
        keys.release();
    }
    gone
}

/// 400 keys, of which the higher numbers were used later.
fn aged(keys: &mut Keys) {
    for number in 0..400u32 {
        keys.see(crate::View { touch: Touch::Lru(number), ..keys.view() });
        set(keys, &format!("key:{number}"), ExpiryChange::Clear);
    }
    keys.see(crate::View { touch: Touch::Lru(1_000), ..keys.view() });
}

fn number(name: &str) -> u32 {
    name.split(':').nth(1).unwrap().parse().unwrap()
}

#[test]
fn what_was_not_used_for_long_goes_first() {
    let mut keys = keys();
    aged(&mut keys);
    let gone = evict(&mut keys, policy(EvictFirst::LeastRecentlyUsed, false), 200);
    assert_eq!(gone.len(), 200);
    assert_eq!(keys.counters().evicted_keys.get(), 200);
    // Exact LRU would evict none of the newer half, random choice 100.
    let newer = gone.iter().filter(|name| number(name) >= 200).count();
    assert!(newer < 40, "{newer} of the newer half");
    assert!(gone.iter().all(|name| !is_there(&mut keys, name)));
}

#[test]
fn random_choice_prefers_nobody() {
    let mut keys = keys();
    aged(&mut keys);
    let gone = evict(&mut keys, policy(EvictFirst::Random, false), 200);
    let newer = gone.iter().filter(|name| number(name) >= 200).count();
    assert!((60..140).contains(&newer), "{newer} of the newer half");
}

#[test]
fn what_was_used_often_stays() {
    let mut keys = keys();
    keys.see(crate::View {
        touch: Touch::Lfu { minutes: 0, log_factor: 0, decay_minutes: 1 },
        ..keys.view()
    });
    (0..400).for_each(|number| set(&mut keys, &format!("key:{number}"), ExpiryChange::Clear));
    for number in 200..400 {
        let name = format!("key:{number}");
        let key = Key::new(name.as_bytes());
        keys.lock_shard(key.shard());
        for _ in 0..20 {
            keys.lookup(&key);
        }
        keys.release();
    }
    let gone = evict(&mut keys, policy(EvictFirst::LeastFrequentlyUsed, false), 150);
    let often = gone.iter().filter(|name| number(name) >= 200).count();
    assert!(often < 10, "{often} that were used often");
}

#[test]
fn what_was_used_often_stays_until_it_is_long_ago() {
    let mut keys = keys();
    keys.see(crate::View { touch: Touch::Lrfu(Lrfu { tick: 0 }), ..keys.view() });
    (0..400).for_each(|number| set(&mut keys, &format!("key:{number}"), ExpiryChange::Clear));
    let look_up = |keys: &mut Keys, numbers: std::ops::Range<usize>, times: usize| {
        for number in numbers {
            let name = format!("key:{number}");
            let key = Key::new(name.as_bytes());
            keys.lock_shard(key.shard());
            for _ in 0..times {
                keys.lookup(&key);
            }
            keys.release();
        }
    };
    look_up(&mut keys, 200..400, 20);
    let policy = policy(EvictFirst::LeastRecentlyAndFrequentlyUsed, false);
    let gone = evict(&mut keys, policy, 100);
    assert!(gone.iter().filter(|name| number(name) >= 200).count() < 10, "{gone:?}");
    // The clock has moved on, if slowly: most shards are empty.
    assert!((1..40).contains(&keys.engine().eviction_tick()), "{}", keys.engine().eviction_tick());
    // Ten half-lives later one access counts for more than all those.
    keys.see(crate::View { touch: Touch::Lrfu(Lrfu { tick: 10 * 256 }), ..keys.view() });
    look_up(&mut keys, 0..200, 1);
    let gone = evict(&mut keys, policy, 100);
    assert!(gone.iter().filter(|name| number(name) < 200).count() < 10, "{gone:?}");
}

#[test]
fn the_clock_of_evictions_counts_turnovers() {
    let mut evictor = Evictor::default();
    let ticks: u64 = (0..10_000).map(|_| evictor.pass(1_000)).sum();
    assert!((639..=640).contains(&ticks), "{ticks}");
}

#[test]
fn what_was_changed_lately_stays() {
    let mut keys = keys();
    keys.see(crate::View { touch: Touch::Lrm(1), ..keys.view() });
    (0..400).for_each(|number| set(&mut keys, &format!("key:{number}"), ExpiryChange::Clear));
    keys.see(crate::View { touch: Touch::Lrm(100), ..keys.view() });
    for number in 0..400 {
        let name = format!("key:{number}");
        let key = Key::new(name.as_bytes());
        keys.lock_shard(key.shard());
        if number < 200 {
            keys.lookup(&key);
        } else {
            keys.changed(&key, EventClass::GENERIC, "touched");
        }
        keys.release();
    }
    let gone = evict(&mut keys, policy(EvictFirst::LeastRecentlyModified, false), 150);
    let changed = gone.iter().filter(|name| number(name) >= 200).count();
    assert!(changed < 10, "{changed} that were changed lately");
}

#[test]
fn volatile_policies_leave_keys_without_expiry_alone() {
    for first in [EvictFirst::LeastRecentlyUsed, EvictFirst::Random, EvictFirst::SoonestExpiry] {
        let mut keys = keys();
        keys.see(crate::View { touch: Touch::Lru(1), ..keys.view() });
        for number in 0..100 {
            set(&mut keys, &format!("stays:{number}"), ExpiryChange::Clear);
        }
        for number in 0..20 {
            set(&mut keys, &format!("goes:{number}"), ExpiryChange::At(NOW_MS + 1_000 * (1 + number)));
        }
        let gone = evict(&mut keys, policy(first, true), 1_000);
        assert_eq!(gone.len(), 20, "{first:?}");
        assert!(gone.iter().all(|name| name.starts_with("goes")), "{first:?}");
    }
}

#[test]
fn what_expires_soonest_goes_first() {
    let mut keys = keys();
    for number in 0..3_000 {
        set(&mut keys, &format!("key:{number}"), ExpiryChange::At(NOW_MS + 1_000 * (1 + number)));
    }
    let gone = evict(&mut keys, policy(EvictFirst::SoonestExpiry, true), 300);
    let late = gone.iter().filter(|name| number(name) >= 1_500).count();
    assert_eq!((gone.len(), late), (300, 0));
}

#[test]
fn who_watches_the_key_is_told_and_databases_are_told_apart() {
    let mut keys = keys();
    let flag = std::sync::Arc::new(WatchFlag::default());
    keys.see(crate::View { db: 3, ..keys.view() });
    set(&mut keys, "k", ExpiryChange::Clear);
    let key = Key::new(b"k");
    keys.lock_shard(key.shard());
    keys.hooks_mut(&key).watch(3, b"k", &flag, false);
    keys.release();
    keys.see(crate::View { db: 0, ..keys.view() });
    assert_eq!(evict(&mut keys, policy(EvictFirst::Random, false), 2), ["3:k"]);
    assert!(flag.is_raised());
}

#[test]
fn a_candidate_that_was_used_since_stays() {
    let mut keys = keys();
    keys.see(crate::View { touch: Touch::Lru(0), ..keys.view() });
    set(&mut keys, "old", ExpiryChange::Clear);
    set(&mut keys, "older", ExpiryChange::Clear);
    keys.see(crate::View { touch: Touch::Lru(100), ..keys.view() });
    let policy = policy(EvictFirst::LeastRecentlyUsed, false);
    let mut evictor = Evictor { policy: Some(policy), ..Evictor::default() };
    evictor.offer(100, 0, b"old");
    // It is used after it became a candidate.
    set(&mut keys, "old", ExpiryChange::Clear);
    assert!(keys.evict_one(&mut evictor, policy));
    keys.release();
    assert!(is_there(&mut keys, "old"));
    assert!(!is_there(&mut keys, "older"));
}

#[test]
fn the_pool_keeps_the_best() {
    let mut evictor = Evictor::default();
    let scores = [5, 1, 9, 7, 3, 8, 2, 6, 4, 0];
    for round in 0..3u64 {
        for score in scores {
            evictor.offer(score * 10 + round, 0, format!("{score}:{round}").as_bytes());
        }
    }
    let kept: Vec<u64> = evictor.pool.iter().map(|candidate| candidate.score).collect();
    assert_eq!(kept.len(), POOL_MAX);
    assert!(kept.is_sorted());
    assert_eq!((kept[0], kept[POOL_MAX - 1]), (42, 92));
}
