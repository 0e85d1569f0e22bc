//! A cut of names shows its instant exactly, whatever happens while it is walked.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use martlet_base::random::Random;
use martlet_keyspace::{ExpiryChange, Key};

use super::*;
use crate::View;

/// Names with their expiries.
type Names = BTreeMap<Vec<u8>, Option<i64>>;

fn engine(threads: usize) -> &'static Engine {
    Box::leak(Box::new(Engine::new(threads).unwrap()))
}

fn keys(engine: &'static Engine, thread: usize, seed: u64) -> Keys {
    let mut keys = Keys::new(engine, thread, Random::seeded(seed));
    keys.see(View { now_ms: 1000, ..keys.view() });
    keys
}

/// Runs `work` on a key with its shard locked.
fn with_key<R>(keys: &mut Keys, name: &[u8], work: impl FnOnce(&mut Keys, &Key<'_>) -> R) -> R {
    let key = Key::new(name);
    keys.lock_shard(key.shard());
    let result = work(keys, &key);
    keys.release();
    result
}

/// All names of a database now.
fn now(keys: &mut Keys, db: usize) -> Names {
    let all = keys.at_one_moment(|keys| {
        let dbs = (0..SHARD_COUNT).map(|shard| keys.shard(shard).keys.db(db));
        dbs.flat_map(|db| db.iter()).map(|entry| (entry.key().to_vec(), entry.expiry_ms())).collect()
    });
    all.expect("no script is busy")
}

fn add(names: &mut Names, key: NamedKey<'_>) {
    let before = names.insert(key.name.to_vec(), key.expiry_ms);
    assert_eq!(before, None, "{:?} was visited twice", String::from_utf8_lossy(key.name));
}

/// One change of a random key, of each way in which keys come, go and get expiries.
fn change(keys: &mut Keys, random: &mut Random, names: u64) {
    let name = |n: u64| format!("key:{n}").into_bytes();
    let (one, other) = (name(random.below(names)), name(random.below(names)));
    keys.see(View { db: random.below(2) as usize, ..keys.view() });
    match random.below(7) {
        0 | 1 => with_key(keys, &one, |keys, key| {
            keys.set_str(key, b"v", ExpiryChange::Clear);
        }),
        2 => with_key(keys, &one, |keys, key| {
            keys.delete(key);
        }),
        3 => with_key(keys, &one, |keys, key| {
            keys.set_str(key, b"v", ExpiryChange::At(1001 + random.below(200) as i64));
        }),
        4 => with_key(keys, &one, |keys, key| {
            keys.set_expiry(key, None);
        }),
        // RENAME: two shards, or one.
        5 => {
            let (from, to) = (Key::new(&one), Key::new(&other));
            keys.lock_shards(vec![from.shard(), to.shard()]);
            if let Some((value, expiry_ms)) = keys.take(&from) {
                keys.set_value(&to, value, expiry_ms);
            }
            keys.release();
        }
        // Time passes: due keys are deleted by active expiry, or by the command that meets them.
        _ => {
            let now_ms = keys.now_ms() + random.below(3) as i64;
            keys.see(View { now_ms, ..keys.view() });
            let shard = Key::new(&one).shard();
            keys.lock_shard(shard);
            keys.expire_due(shard, 64, |_| {});
            keys.release();
            with_key(keys, &other, |keys, key| keys.lookup(key).is_some());
        }
    }
}

#[test]
fn names_are_those_of_the_cut_whatever_changes_between_the_slices() {
    for seed in 0..9 {
        let mut random = Random::seeded(seed);
        let engine = engine(2);
        let (mut walker, mut writer) = (keys(engine, 0, seed), keys(engine, 1, seed));
        let names = [50, 3_000, 30_000][seed as usize % 3];
        (0..names).for_each(|_| change(&mut writer, &mut random, names));
        let db = random.below(2) as usize;
        walker.see(View { db, ..walker.view() });
        for _ in 0..3 {
            let first = if random.below(3) == 0 { random.below(SHARD_COUNT as u64) as usize } else { 0 };
            let mut expected = now(&mut walker, db);
            expected.retain(|name, _| Key::new(name).shard() >= first);
            let cut = walker.cut_names(first).unwrap();
            let mut found = Names::new();
            for shard in first..SHARD_COUNT {
                let mut order = 0;
                while order < ORDERS {
                    (0..random.below(20)).for_each(|_| change(&mut writer, &mut random, names));
                    order = walker.visit_names(&cut, (shard, order), |key| add(&mut found, key)).unwrap();
                }
            }
            assert!(found == expected, "seed {seed}: {} names, {} expected", found.len(), expected.len());
            drop(cut);
            assert!(!engine.snapshot.is_observed());
        }
    }
}

#[test]
fn a_walk_that_ends_early_has_all_before_its_end_and_leaves_nothing() {
    let engine = engine(2);
    let (mut walker, mut writer) = (keys(engine, 0, 1), keys(engine, 1, 1));
    let mut random = Random::seeded(1);
    // Several slices of the first two shards, however hashes are seeded, and some keys of the others.
    let names = (0..u32::MAX).map(u32::to_le_bytes);
    let first = names.clone().filter(|name| Key::new(name).shard() < 2).take(8 * SLICE_KEYS);
    first.chain(names.take(10_000)).for_each(|name| {
        with_key(&mut writer, &name, |keys, key| keys.set_str(key, b"", ExpiryChange::Clear));
    });
    let before = now(&mut walker, 0);
    let cut = walker.cut_names(0).unwrap();
    let mut found = Names::new();
    let order = walker.visit_names(&cut, (0, 0), |key| add(&mut found, key)).unwrap();
    assert!(order < ORDERS, "the shard has more than one slice");
    for name in before.keys().filter(|name| Key::new(name).shard() < 2) {
        with_key(&mut writer, name, |keys, key| keys.delete(key));
    }
    (0..1000).for_each(|_| change(&mut writer, &mut random, 1000));
    walker.visit_changed_names(&cut, 0, |key| add(&mut found, key));
    drop(cut);
    assert!(found.keys().all(|name| before.contains_key(name)), "no key is found that was not there");
    let of_shard = before.keys().filter(|name| Key::new(name).shard() == 0);
    assert!(of_shard.into_iter().all(|name| found.contains_key(name)), "all have been visited or changed");
    for shard in 0..SHARD_COUNT {
        walker.lock_shard(shard);
        let (_, part) = engine.state_and_part(walker.locked_mut(), shard);
        assert!(part.names.changed.is_empty());
        walker.release();
    }
}

#[test]
fn a_panic_of_its_owner_ends_a_cut() {
    let engine = engine(1);
    let mut walker = keys(engine, 0, 1);
    with_key(&mut walker, b"a", |keys, key| keys.set_str(key, b"", ExpiryChange::Clear));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let cut = walker.cut_names(0).unwrap();
        walker.visit_names(&cut, (Key::new(b"a").shard(), 0), |_| panic!("on purpose"));
    }));
    assert!(outcome.is_err());
    walker.abandon();
    assert!(!engine.snapshot.is_observed());
    assert!(walker.cut_names(0).is_some(), "the next one has its turn");
}

/// Pairs of keys are moved, made and deleted together by two threads, while two others walk cuts.
#[test]
fn what_changes_together_is_seen_together() {
    const PAIRS: u64 = 2_000;
    const CUTS: usize = 10;
    let engine = engine(4);
    let is_over = AtomicBool::new(false);
    let pair = |n: u64| [format!("left:{n}").into_bytes(), format!("right:{n}").into_bytes()];
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut keys = keys(engine, thread, thread as u64);
                let mut random = Random::seeded(thread as u64);
                while !is_over.load(Ordering::Relaxed) {
                    engine.gate.enter(thread);
                    let names = pair(random.below(PAIRS));
                    let [left, right] = names.each_ref().map(|name| Key::new(name));
                    keys.lock_shards(vec![left.shard(), right.shard()]);
                    if !keys.delete(&left) {
                        keys.set_str(&left, b"", ExpiryChange::Clear);
                        keys.set_str(&right, b"", ExpiryChange::Clear);
                    } else {
                        assert!(keys.delete(&right));
                    }
                    keys.release();
                    engine.gate.leave(thread);
                }
            });
        }
        let walks: Vec<_> = (2..4)
            .map(|thread| {
                scope.spawn(move || {
                    let mut keys = keys(engine, thread, thread as u64);
                    for _ in 0..CUTS {
                        engine.gate.enter(thread);
                        let mut found = Names::new();
                        let cut = keys.cut_names(0).unwrap();
                        for shard in 0..SHARD_COUNT {
                            let mut order = 0;
                            while order < ORDERS {
                                order = keys
                                    .visit_names(&cut, (shard, order), |key| add(&mut found, key))
                                    .unwrap();
                            }
                        }
                        drop(cut);
                        for n in 0..PAIRS {
                            let there = pair(n).map(|name| found.contains_key(&name));
                            assert_eq!(there[0], there[1], "pair {n} is torn");
                        }
                        assert_eq!(keys.count(0) % 2, 0, "a count is torn");
                        engine.gate.leave(thread);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = walks.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
}
