//! Many shards are locked at once, beside others, and nothing is kept while another shard is waited for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use martlet_base::random::Random;
use martlet_keyspace::{ExpiryChange, Key};

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
