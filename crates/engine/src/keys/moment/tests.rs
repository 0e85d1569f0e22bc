//! Many shards are locked at once, beside others, and nothing is kept while another shard is waited for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use martlet_base::random::Random;
use martlet_keyspace::{ExpiryChange, Key};
use martlet_types::list::{End, List};

use super::*;
use crate::engine::Engine;

fn engine(threads: usize) -> &'static Engine {
    Box::leak(Box::new(Engine::new(threads).unwrap()))
}

fn keys(engine: &'static Engine, thread: usize) -> Keys {
    Keys::new(engine, thread, Random::seeded(thread as u64))
}

#[test]
fn every_shard_is_locked_and_unlocked_again() {
    let engine = engine(2);
    let (mut one, mut other) = (keys(engine, 0), keys(engine, 1));
    let locked = one.at_one_moment(|keys| {
        let inner = keys.at_one_moment(|keys| keys.locked_shards().len());
        assert!((0..SHARD_COUNT).all(|shard| !engine.try_lock(shard)));
        (inner, keys.covers(SHARD_COUNT - 1))
    });
    assert_eq!(locked, Some((Some(SHARD_COUNT), true)));
    assert!(one.has_no_shards());
    assert_eq!(other.at_one_moment(|keys| keys.locked_shards().len()), Some(SHARD_COUNT));
}

#[test]
fn shards_are_added_in_ascending_order() {
    let mut keys = keys(engine(1), 0);
    for steps in [&[3][..], &[3, 3, 9], &[0, 5, 64, 1023]] {
        let held = keys.holding(|keys| {
            steps.iter().try_for_each(|shard| keys.lock_also(*shard))?;
            Ok(keys.locked_shards())
        });
        let mut expected = steps.to_vec();
        expected.dedup();
        assert_eq!(held, Some(expected));
        assert!(keys.has_no_shards());
    }
}

/// A thread keeps a high shard locked: threads that want a low one are not held up by another that wants all.
#[test]
fn a_thread_that_wants_all_waits_with_nothing_locked() {
    let engine = engine(2);
    let (mut long, mut all) = (keys(engine, 0), keys(engine, 1));
    long.lock_shard(SHARD_COUNT - 1);
    let (attempts, has_all) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            all.holding(|keys| {
                attempts.fetch_add(1, Ordering::SeqCst);
                keys.lock_every_shard(|_| ())
            });
            has_all.store(true, Ordering::SeqCst);
        });
        while attempts.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let mut few = keys(engine, 0);
        for shard in 0..SHARD_COUNT - 1 {
            // It ends, though the other shard stays locked.
            few.lock_shard(shard);
            few.release();
        }
        assert!(!has_all.load(Ordering::SeqCst));
        long.release();
    });
    assert!(has_all.load(Ordering::SeqCst));
}

#[test]
fn a_thread_gives_up_while_a_script_is_busy() {
    let engine = engine(2);
    let (mut script, mut all) = (keys(engine, 0), keys(engine, 1));
    script.lock_shard(7);
    engine.busy_scripts.store(1, Ordering::Relaxed);
    assert_eq!(all.at_one_moment(|_| ()), None);
    assert!(std::mem::take(&mut all.gave_up) && all.has_no_shards());
    assert!(all.cut_names(0).is_none() && std::mem::take(&mut all.gave_up));
    script.release();
    engine.busy_scripts.store(0, Ordering::Relaxed);
    assert!(all.cut_names(0).is_some() && !all.gave_up);
}

#[test]
fn counts_leave_out_no_database_and_no_shard() {
    let mut keys = keys(engine(1), 0);
    assert!(keys.is_empty());
    for n in 0..5_000u32 {
        let name = n.to_le_bytes();
        let key = Key::new(&name);
        keys.lock_shard(key.shard());
        keys.in_db(n as usize % 3, |keys| keys.set_str(&key, b"", ExpiryChange::Clear));
        keys.release();
    }
    assert_eq!([0, 1, 2, 3].map(|db| keys.count(db)), [1667, 1667, 1666, 0]);
    assert!(!keys.is_empty());
}

/// A random change of a few keys in some databases, by one of the ways in which a request may change them.
fn change_randomly(keys: &mut Keys, random: &mut Random) {
    let names = [&b"a"[..], b"b", b"c", b"d"].map(Key::new);
    let key = names[random.below(4) as usize];
    let db = [0, 1, 15, 16, 70][random.below(5) as usize];
    let now_ms = keys.view().now_ms;
    let at_ms = now_ms + random.below(4) as i64 - 1;
    keys.in_db(db, |keys| match random.below(12) {
        0 => keys.set_str(&key, b"value", ExpiryChange::Clear),
        1 => keys.set_str(&key, &[b'x'; 100], ExpiryChange::At(at_ms)),
        2 => keys.set_int(&key, 7, ExpiryChange::Keep),
        3 => keys.set_bytes(&key, b"1", true, ExpiryChange::Clear),
        4 | 5 => drop(keys.delete(&key)),
        6 => drop(keys.take(&key)),
        7 => {
            if let Ok(mut list) = keys.create::<List>(&key) {
                list.push(End::Tail, b"element");
            }
        }
        8 if keys.lookup_write(&key).is_none_or(|entry| entry.str().is_some()) => {
            keys.update_str(&key, 0..1, |bytes| bytes.push(b'x'));
        }
        9 => drop(keys.lookup(&key)),
        10 => drop(keys.expire_due(key.shard(), 2, |_| ())),
        _ => {
            keys.begin_undo();
            keys.set_str(&key, b"new", ExpiryChange::Clear);
            keys.delete(&names[0]);
            keys.undo();
        }
    });
}

#[test]
fn counts_are_those_of_the_shards() {
    for seed in 0..20 {
        let mut random = Random::seeded(seed);
        let engine = engine(2);
        let mut both = [keys(engine, 0), keys(engine, 1)];
        for step in 0..400 {
            let keys = &mut both[random.below(2) as usize];
            keys.see(crate::View { now_ms: step, ..keys.view() });
            engine.gate.closed(|alone| {
                keys.lock_all_shards(alone);
                for _ in 0..random.below(3) {
                    change_randomly(keys, &mut random);
                }
                match random.below(20) {
                    0 => drop(keys.flush(Some(random.below(3) as usize), true)),
                    1 => drop(keys.flush(None, false)),
                    2..5 => {
                        keys.swap_databases(random.below(2) as usize, [1, 15, 16][random.below(3) as usize])
                    }
                    _ => {}
                }
                for db in [0, 1, 2, 15, 16, 70] {
                    let is = (0..SHARD_COUNT).map(|shard| keys.shard(shard).keys.db(db).len()).sum::<usize>();
                    assert_eq!(
                        keys.count(db),
                        is,
                        "seed {seed}, step {step}: database {db}, before the release"
                    );
                }
                keys.release();
            });
            let other = &mut both[random.below(2) as usize];
            for db in [0, 1, 2, 15, 16, 70] {
                let shards = other.count_shards(db);
                assert_eq!(other.count(db), shards, "seed {seed}, step {step}: database {db}");
            }
        }
    }
}

#[test]
fn replaced_keys_are_counted_in_their_engine() {
    let (ours, theirs) = (engine(1), engine(1));
    let (mut here, mut there) = (keys(ours, 0), keys(theirs, 0));
    let fill = |keys: &mut Keys, names: std::ops::Range<u8>| {
        for name in names {
            let name = [name];
            let key = Key::new(&name);
            keys.with_shard(key.shard(), |keys| keys.set_str(&key, b"v", ExpiryChange::Clear));
        }
    };
    fill(&mut here, 0..30);
    fill(&mut there, 10..60);
    there.engine().gate.closed(|alone| {
        there.lock_all_shards(alone);
        here.alone(|here| here.replace_all(&mut there, false));
        there.release();
    });
    assert_eq!((here.count(0), here.count_shards(0)), (50, 50));
    assert_eq!((there.count(0), there.count_shards(0)), (0, 0));
}

/// Two keys come and go together: no count has one without the other.
#[test]
fn a_count_has_all_of_a_request_or_nothing() {
    let engine = engine(3);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let ends = &ends;
            scope.spawn(move || {
                let mut keys = keys(engine, thread);
                let names = [[thread as u8, 0], [thread as u8, 1]];
                let pair = names.each_ref().map(|name| Key::new(name));
                while !ends.load(Ordering::Relaxed) {
                    keys.lock_shards(pair.iter().map(Key::shard).collect());
                    pair.iter().for_each(|key| keys.set_str(key, b"v", ExpiryChange::Clear));
                    keys.release();
                    keys.lock_shards(pair.iter().map(Key::shard).collect());
                    assert!(pair.iter().all(|key| keys.delete(key)));
                    keys.release();
                }
            });
        }
        let mut reader = keys(engine, 2);
        for _ in 0..20_000 {
            let count = reader.count(0);
            assert!(count.is_multiple_of(2) && count <= 4, "{count}");
        }
        ends.store(true, Ordering::Relaxed);
    });
}
