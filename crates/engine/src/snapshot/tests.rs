//! A snapshot shows its cut exactly, whatever happens while it is walked.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use martlet_base::alloc::Accounting;
use martlet_base::limits::SHARD_COUNT;
use martlet_base::random::Random;
use martlet_keyspace::{ExpiryChange, Key};
use martlet_types::element::Element;
use martlet_types::set::{Set, SetLimits};
use proptest::prelude::*;

use super::*;
use crate::{Engine, Keys, Walk};

#[cfg(not(miri))]
#[global_allocator]
static ALLOCATOR: Accounting = Accounting;

fn engine(threads: usize) -> &'static Engine {
    Box::leak(Box::new(Engine::new(threads).unwrap()))
}

type Content = BTreeMap<(usize, Vec<u8>), String>;

fn shown(value: &SavedValue<'_>, expiry_ms: Option<i64>) -> String {
    let value = match value {
        SavedValue::Str(text) => String::from_utf8(text.to_vec()).unwrap(),
        SavedValue::Shared(Value::Str { bytes, .. }) => String::from_utf8(bytes.to_vec()).unwrap(),
        SavedValue::Shared(Value::Set(set)) => members(set),
        SavedValue::Shared(other) => panic!("{other:?} was never stored"),
    };
    format!("{value} {expiry_ms:?}")
}

fn members(set: &Set) -> String {
    let mut members: Vec<Vec<u8>> = set.iter().map(|member| member.element.to_vec()).collect();
    members.sort();
    format!("{members:?}")
}

/// Everything that is there now; the gate is closed.
fn content(keys: &Keys) -> Content {
    let mut content = Content::new();
    let mut all = SavedKeys::default();
    for shard in 0..SHARD_COUNT {
        let shard = &keys.shard(shard).keys;
        for db in shard.used() {
            shard.db(db).iter().for_each(|entry| all.push(db, &entry, None));
        }
    }
    collect(&mut all, &mut content);
    content
}

fn collect(taken: &mut SavedKeys, content: &mut Content) {
    taken.drain(|saved| {
        let name = (saved.db, saved.key.to_vec());
        let before = content.insert(name, shown(&saved.value, saved.expiry_ms));
        assert_eq!(before, None, "taken twice");
    });
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, u16, usize),
    Append(usize, u16),
    Overwrite(usize, u16, usize),
    Copy(usize, u16, u16),
    Add(usize, u16, u16),
    Expire(usize, u16, Option<i64>),
    Delete(usize, u16),
    Rename(usize, u16, u16),
    Fill(usize, u16),
    Flush(Option<usize>),
    Swap(usize, usize),
    Walk,
}

fn step() -> impl Strategy<Value = Step> {
    let db = 0..3usize;
    let key = 0..60u16;
    prop_oneof![
        4 => (db.clone(), key.clone(), prop_oneof![3 => 0..30usize, 3 => 900..1100usize, 1 => Just(90_000)]).prop_map(|(d, k, n)| Step::Set(d, k, n)),
        2 => (db.clone(), key.clone()).prop_map(|(d, k)| Step::Append(d, k)),
        8 => (db.clone(), key.clone(), 0..90_000usize).prop_map(|(d, k, at)| Step::Overwrite(d, k, at)),
        1 => (db.clone(), key.clone(), key.clone()).prop_map(|(d, k, l)| Step::Copy(d, k, l)),
        3 => (db.clone(), key.clone(), 0..500u16).prop_map(|(d, k, m)| Step::Add(d, k, m)),
        2 => (db.clone(), key.clone(), prop::option::of(1000..2000i64)).prop_map(|(d, k, t)| Step::Expire(d, k, t)),
        3 => (db.clone(), key.clone()).prop_map(|(d, k)| Step::Delete(d, k)),
        2 => (db.clone(), key.clone(), key.clone()).prop_map(|(d, k, l)| Step::Rename(d, k, l)),
        1 => (db.clone(), 0..600u16).prop_map(|(d, n)| Step::Fill(d, n)),
        1 => prop::option::of(db.clone()).prop_map(Step::Flush),
        1 => (db.clone(), db).prop_map(|(a, b)| Step::Swap(a, b)),
        20 => Just(Step::Walk),
    ]
}

fn apply(keys: &mut Keys, step: &Step) {
    let name = |k: u16| format!("k{k}").into_bytes();
    match *step {
        Step::Set(db, k, len) => {
            keys.see(crate::View { db, ..keys.view() });
            keys.set_str(&Key::new(&name(k)), "x".repeat(len).as_bytes(), ExpiryChange::Clear);
        }
        Step::Append(db, k) => {
            keys.see(crate::View { db, ..keys.view() });
            if !matches!(keys.read_str(&Key::new(&name(k))), Err(crate::WrongType)) {
                keys.update_str(&Key::new(&name(k)), 0..0, |text| text.extend(b"appended"));
            }
        }
        Step::Overwrite(db, k, at) => {
            keys.see(crate::View { db, ..keys.view() });
            let name = name(k);
            let key = Key::new(&name);
            let len = keys.read_str(&key).ok().flatten().map_or(0, |text| text.len());
            let touched = at.min(len)..(at + 40_000).min(len);
            keys.change_bytes(&key, touched.clone(), |bytes| bytes[touched].fill(b'y'));
        }
        Step::Copy(db, from, to) => {
            keys.see(crate::View { db, ..keys.view() });
            let value = keys.get(&Key::new(&name(from))).map(|entry| entry.value());
            value.into_iter().for_each(|value| keys.set_value(&Key::new(&name(to)), value, None));
        }
        Step::Add(db, k, member) => {
            keys.see(crate::View { db, ..keys.view() });
            if let Ok(mut set) = keys.create::<Set>(&Key::new(&name(k))) {
                set.add(Element::Int(i64::from(member)), SetLimits::default(), 0);
            }
        }
        Step::Expire(db, k, at_ms) => {
            keys.see(crate::View { db, ..keys.view() });
            keys.set_expiry(&Key::new(&name(k)), at_ms);
        }
        Step::Delete(db, k) => {
            keys.see(crate::View { db, ..keys.view() });
            keys.delete(&Key::new(&name(k)));
        }
        Step::Rename(db, from, to) => {
            keys.see(crate::View { db, ..keys.view() });
            if let Some((value, expiry_ms)) = keys.take(&Key::new(&name(from))) {
                keys.set_value(&Key::new(&name(to)), value, expiry_ms);
            }
        }
        Step::Fill(db, count) => {
            keys.see(crate::View { db, ..keys.view() });
            for i in 0..count {
                keys.set_int(&Key::new(&name(1000 + i)), i64::from(i), ExpiryChange::Clear);
            }
        }
        Step::Flush(db) => {
            keys.flush(db, true);
        }
        Step::Swap(a, b) => keys.swap_databases(a, b),
        Step::Walk => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_walk_hands_out_the_cut(
        before in prop::collection::vec(step(), 0..200),
        during in prop::collection::vec(step(), 0..300),
        again in any::<bool>(),
    ) {
        let engine = engine(2);
        let mut keys = Keys::new(engine, 0, Random::seeded(1));
        for step in &before {
            keys.alone(|keys| apply(keys, step));
        }
        // The second time, the remains of the first must not disturb.
        for _ in 0..=usize::from(again) {
            let cut = keys.alone(|keys| {
                keys.cut_snapshot();
                content(keys)
            });
            let (mut walk, mut taken, mut found) = (Walk::new(engine, 1), SavedKeys::default(), Content::new());
            for step in &during {
                keys.alone(|keys| apply(keys, step));
                if matches!(step, Step::Walk) {
                    // The taken keys are written out while more are changed.
                    collect(&mut taken, &mut found);
                    walk.take(&mut taken);
                }
            }
            collect(&mut taken, &mut found);
            while walk.take(&mut taken) {
                collect(&mut taken, &mut found);
            }
            walk.end(&mut taken);
            collect(&mut taken, &mut found);
            prop_assert!(cut == found, "{} keys at the cut, {} found", cut.len(), found.len());
            drop(taken);
            engine.lazy_free.wait();
            prop_assert_eq!(engine.snapshot.held_bytes(), 0);
        }
    }

    #[test]
    fn an_abandoned_walk_leaves_nothing(steps in prop::collection::vec(step(), 0..100), taken in 0..50usize) {
        let engine = engine(2);
        let mut keys = Keys::new(engine, 0, Random::seeded(1));
        keys.alone(|keys| {
            apply(keys, &Step::Fill(0, 500));
            keys.cut_snapshot();
        });
        let (mut walk, mut out) = (Walk::new(engine, 1), SavedKeys::default());
        for _ in 0..taken {
            walk.take(&mut out);
        }
        for step in &steps {
            keys.alone(|keys| apply(keys, step));
        }
        walk.end(&mut out);
        prop_assert!(!engine.snapshot.is_on());
        drop(out);
        engine.lazy_free.wait();
        prop_assert_eq!(engine.snapshot.held_bytes(), 0);
        for shard in 0..SHARD_COUNT {
            keys.lock_shard(shard);
            keys.release();
            Walk::new(engine, 1).with_shard(shard, |_, part| assert!(part.pending.is_empty()));
        }
    }
}

/// Amounts move between accounts while snapshots are taken: the sum in each is the same.
#[test]
fn snapshots_are_consistent_under_writers() {
    const ACCOUNTS: u64 = 4000;
    const WRITERS: usize = 3;
    let engine = engine(WRITERS + 2);
    let stop = AtomicBool::new(false);
    let name = |i: u64| format!("account:{i}").into_bytes();
    let mut keys = Keys::new(engine, 0, Random::seeded(1));
    keys.alone(|keys| {
        for i in 0..ACCOUNTS {
            keys.set_int(&Key::new(&name(i)), 100, ExpiryChange::Clear);
        }
    });
    std::thread::scope(|scope| {
        for writer in 1..=WRITERS {
            let stop = &stop;
            scope.spawn(move || {
                let mut random = Random::seeded(writer as u64);
                let mut keys = Keys::new(engine, writer, Random::seeded(writer as u64));
                while !stop.load(Ordering::Relaxed) {
                    engine.gate.enter(writer);
                    let (from, to) = (name(random.below(ACCOUNTS)), name(random.below(ACCOUNTS)));
                    let (from, to) = (Key::new(&from), Key::new(&to));
                    keys.lock_shards(vec![from.shard(), to.shard()]);
                    for (key, change) in [(from, -1), (to, 1)] {
                        let amount = balance(&mut keys, &key);
                        // An account may be away for a moment, and comes back under the same lock.
                        if change > 0 && amount % 7 == 0 {
                            keys.delete(&key);
                        }
                        keys.set_int(&key, amount + change, ExpiryChange::Clear);
                    }
                    keys.release();
                    engine.gate.leave(writer);
                }
            });
        }
        for _ in 0..30 {
            keys.alone(|keys| keys.cut_snapshot());
            let (mut walk, mut taken) = (Walk::new(engine, WRITERS + 1), SavedKeys::default());
            let mut found = BTreeMap::new();
            let mut add = |taken: &mut SavedKeys| {
                taken.drain(|saved| {
                    let SavedValue::Str(StrValue::Int(amount)) = saved.value else { panic!("{saved:?}") };
                    assert_eq!(found.insert(saved.key.to_vec(), amount), None, "taken twice");
                });
            };
            while walk.take(&mut taken) {
                add(&mut taken);
            }
            walk.end(&mut taken);
            add(&mut taken);
            assert_eq!((found.len() as u64, found.values().sum::<i64>()), (ACCOUNTS, 100 * ACCOUNTS as i64));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn writers_save_each_into_a_part_of_its_own() {
    const WRITERS: usize = 3;
    let engine = engine(WRITERS + 1);
    let names: Vec<Vec<u8>> = (0..WRITERS).map(|writer| format!("key:{writer}").into_bytes()).collect();
    let mut keys = Keys::new(engine, WRITERS, Random::seeded(1));
    keys.alone(|keys| {
        names.iter().for_each(|name| keys.set_int(&Key::new(name), 1, ExpiryChange::Clear));
        keys.cut_snapshot();
    });
    for (writer, name) in names.iter().enumerate() {
        // A writer that met another's part would wait for ever.
        let others: Vec<_> = (0..=WRITERS)
            .filter(|other| *other != writer)
            .map(|other| engine.snapshot.saved_by(other))
            .collect();
        let mut keys = Keys::new(engine, writer, Random::seeded(1));
        keys.lock_shard(Key::new(name).shard());
        keys.set_int(&Key::new(name), 2, ExpiryChange::Clear);
        keys.release();
        drop(others);
        let mut own = engine.snapshot.saved_by(writer);
        own.drain(|saved| assert_eq!(saved.key, name));
        assert!(own.is_empty());
    }
}

/// All that writers saved is there at the end, whether the walk has come by or not.
#[test]
fn what_several_writers_saved_is_taken_once() {
    const WRITERS: usize = 3;
    for slices in [0, 1, usize::MAX] {
        let engine = engine(WRITERS + 1);
        let name = |i: i64| format!("key:{i}").into_bytes();
        let mut keys = Keys::new(engine, WRITERS, Random::seeded(1));
        keys.alone(|keys| {
            (0..90).for_each(|i| keys.set_int(&Key::new(&name(i)), i, ExpiryChange::Clear));
            keys.cut_snapshot();
        });
        for i in 0..90 {
            let mut keys = Keys::new(engine, i as usize % WRITERS, Random::seeded(1));
            keys.lock_shard(Key::new(&name(i)).shard());
            keys.set_str(&Key::new(&name(i)), b"changed", ExpiryChange::Clear);
            keys.release();
        }
        let (mut walk, mut taken, mut found) = (Walk::new(engine, WRITERS), SavedKeys::default(), Vec::new());
        let mut add = |taken: &mut SavedKeys| {
            taken.drain(|saved| {
                let SavedValue::Str(StrValue::Int(number)) = saved.value else { panic!("{saved:?}") };
                assert_eq!(saved.key, name(number));
                found.push(number);
            });
        };
        for _ in 0..slices {
            if !walk.take(&mut taken) {
                break;
            }
            add(&mut taken);
        }
        walk.end(&mut taken);
        add(&mut taken);
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..90), "after {slices} slices: {found:?}");
    }
}

/// A database that is emptied while it is walked.
#[test]
#[cfg_attr(miri, ignore = "has no counting allocator")]
fn what_was_flushed_is_the_snapshots_until_it_is_written() {
    let engine = engine(2);
    let mut keys = Keys::new(engine, 0, Random::seeded(1));
    keys.alone(|keys| {
        for number in 0..20_000 {
            let name = format!("key:{number}");
            keys.set_str(&Key::new(name.as_bytes()), &[b'x'; 500], ExpiryChange::Clear);
        }
        keys.cut_snapshot();
        keys.flush(None, false);
    });
    let held = engine.snapshot.held_bytes();
    assert!((10_000_000..14_000_000).contains(&held), "{held}");
    let (mut walk, mut out) = (Walk::new(engine, 1), SavedKeys::default());
    let mut least = held;
    while walk.take(&mut out) {
        out.drain(|_| ());
        engine.lazy_free.wait();
        assert!(engine.snapshot.held_bytes() <= least + 200_000, "it falls with the walk");
        least = least.min(engine.snapshot.held_bytes());
    }
    walk.end(&mut out);
    drop(out);
    engine.lazy_free.wait();
    assert_eq!(engine.snapshot.held_bytes(), 0);
}

fn balance(keys: &mut Keys, key: &Key<'_>) -> i64 {
    match keys.read_str(key) {
        Ok(Some(StrValue::Int(amount))) => amount,
        other => panic!("{other:?}"),
    }
}
