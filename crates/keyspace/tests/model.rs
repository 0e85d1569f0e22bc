//! The keyspace against a naive model: a map from key to value and expiry.

use std::collections::{BTreeSet, HashMap, HashSet};

use martlet_keyspace::{Db, ExpiryChange, Key, Kind, Shard, Sizes, StrValue, Value};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Set(u16, Vec<u8>, Option<i64>),
    SetKeep(u16, Vec<u8>),
    Append(u16, Vec<u8>),
    Delete(u16),
    Take(u16),
    Expire(u16, Option<i64>),
    Tick(i64),
}

fn op(keys: u16) -> impl Strategy<Value = Op> {
    let bytes = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..40),
        2 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 200..3000),
    ];
    let key = 0..keys;
    let at = proptest::option::of(1i64..5000);
    prop_oneof![
        6 => (key.clone(), bytes.clone(), at.clone()).prop_map(|(k, b, t)| Op::Set(k, b, t)),
        2 => (key.clone(), bytes.clone()).prop_map(|(k, b)| Op::SetKeep(k, b)),
        2 => (key.clone(), bytes).prop_map(|(k, b)| Op::Append(k, b)),
        3 => key.clone().prop_map(Op::Delete),
        1 => key.clone().prop_map(Op::Take),
        2 => (key, at).prop_map(|(k, t)| Op::Expire(k, t)),
        1 => (1i64..5000).prop_map(Op::Tick),
    ]
}

fn name(key: u16) -> Vec<u8> {
    // Some keys are longer than 255 bytes, which entries store differently.
    let mut name = format!("key:{key}").into_bytes();
    if key.is_multiple_of(7) {
        name.resize(300 + usize::from(key), b'x');
    }
    name
}

fn apply(db: &mut Db, model: &mut HashMap<Vec<u8>, (Vec<u8>, Option<i64>)>, op: Op) {
    match op {
        Op::Set(k, bytes, at) => {
            let k = name(k);
            let change = at.map_or(ExpiryChange::Clear, ExpiryChange::At);
            db.set_str(&Key::new(&k), &bytes, change, 5);
            model.insert(k, (bytes, at));
        }
        Op::SetKeep(k, bytes) => {
            let k = name(k);
            db.set_str(&Key::new(&k), &bytes, ExpiryChange::Keep, 5);
            model.entry(k).or_default().0 = bytes;
        }
        Op::Append(k, bytes) => {
            let k = name(k);
            let len = db.update_str(&Key::new(&k), 5, 0, |v| {
                v.extend_from_slice(&bytes);
                v.len()
            });
            let entry = model.entry(k).or_default();
            entry.0.extend(bytes);
            assert_eq!(entry.0.len(), len);
        }
        Op::Delete(k) => {
            let k = name(k);
            assert_eq!(db.delete(&Key::new(&k), 64).is_some(), model.remove(&k).is_some());
        }
        Op::Take(k) => {
            let k = name(k);
            let got = db.remove(&Key::new(&k)).map(|v| match v {
                Value::Int(n) => n.to_string().into_bytes(),
                Value::Str { bytes, .. } => bytes.to_vec(),
                other => panic!("{other:?} was never stored"),
            });
            assert_eq!(got, model.remove(&k).map(|(b, _)| b));
        }
        Op::Expire(k, at) => {
            let k = name(k);
            let found = db.set_expiry(&Key::new(&k), at);
            assert_eq!(found, model.contains_key(&k));
            if let Some(entry) = model.get_mut(&k) {
                entry.1 = at;
            }
        }
        Op::Tick(now) => {
            let mut gone = BTreeSet::new();
            while db
                .expire_next(now, 64, |entry, at| {
                    assert!(at <= now);
                    gone.insert(entry.key().to_vec());
                })
                .is_some()
            {}
            let expected: BTreeSet<_> = model
                .iter()
                .filter(|(_, (_, at))| at.is_some_and(|at| at <= now))
                .map(|(k, _)| k.clone())
                .collect();
            assert_eq!(gone, expected);
            model.retain(|k, _| !expected.contains(k));
        }
    }
}

fn check(db: &Db, model: &HashMap<Vec<u8>, (Vec<u8>, Option<i64>)>) {
    assert_eq!(db.len(), model.len());
    assert_eq!(db.expiring_len(), model.values().filter(|(_, at)| at.is_some()).count());
    assert_eq!(db.next_expiry_ms(), model.values().filter_map(|(_, at)| *at).min());
    for (key, (bytes, at)) in model {
        let entry =
            db.get(&Key::new(key)).unwrap_or_else(|| panic!("{} is lost", String::from_utf8_lossy(key)));
        assert_eq!(entry.key(), key);
        assert_eq!(entry.str().map(|s| s.to_vec()).as_ref(), Some(bytes));
        assert_eq!(entry.expiry_ms(), *at);
    }
    assert_eq!(db.iter().count(), model.len());
    let counted = |size: usize| model.values().filter(|(bytes, _)| bytes.len() == size).count() as u32;
    if let Some(sizes) = db.sizes() {
        let bins = sizes.of(Kind::String).expect("strings");
        assert_eq!([bins[0], bins[1], bins[2]], [counted(0), counted(1), counted(2) + counted(3)]);
        assert_eq!(bins.iter().sum::<u32>() as usize, model.len());
        assert_eq!(*sizes, db.iter().collect::<Sizes>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 }))]
    #[test]
    fn behaves_as_a_map(ops in proptest::collection::vec(op(200), 1..if cfg!(miri) { 60 } else { 400 })) {
        let mut db = Db::default();
        let mut model = HashMap::new();
        for op in ops {
            apply(&mut db, &mut model, op);
        }
        check(&db, &model);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn a_scan_returns_all_that_is_present_throughout(
        initial in 0u32..2000, want in 1usize..50, churn in proptest::collection::vec((any::<bool>(), 0u32..5000), 0..3000),
    ) {
        let mut shard = Shard::default();
        let key = |i: u32| format!("k{i}").into_bytes();
        for i in 0..initial {
            shard.db_mut(3).set_str(&Key::new(&key(i)), b"v", ExpiryChange::Clear, 0);
        }
        let mut always: HashSet<u32> = (0..initial).collect();
        let mut seen = HashSet::new();
        let mut position = Some(0);
        let mut churn = churn.into_iter();
        while let Some(at) = position {
            position = shard.scan(3, at, want, |entry| {
                seen.insert(entry.key().to_vec());
            });
            for (add, i) in churn.by_ref().take(60) {
                let k = key(i);
                if add {
                    shard.db_mut(3).set_str(&Key::new(&k), b"v", ExpiryChange::Clear, 0);
                } else {
                    shard.db_mut(3).delete(&Key::new(&k), 0);
                    always.remove(&i);
                }
            }
        }
        for i in always {
            prop_assert!(seen.contains(&key(i)), "k{} was present throughout and is missing", i);
        }
    }

    /// Between the calls nearly all keys go, so that segments are joined under the cursor, and come back.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn a_scan_returns_what_stays_while_the_table_shrinks_and_grows(
        keys in 300u32..2500, stays_in in 2u32..40, want in 10usize..150, steps in proptest::collection::vec(0usize..300, 1..20),
    ) {
        let mut shard = Shard::default();
        let key = |i: u32| format!("k{i}").into_bytes();
        let set = |shard: &mut Shard, i| {
            shard.db_mut(0).set_str(&Key::new(&key(i)), b"v", ExpiryChange::Clear, 0);
        };
        (0..keys).for_each(|i| set(&mut shard, i));
        let going: Vec<u32> = (0..keys).filter(|i| !i.is_multiple_of(stays_in)).collect();
        // Down to the keys that stay, up again, and so on.
        let mut turns = (0..).flat_map(|turn| going.iter().map(move |&i| (turn % 2 == 1, i)));
        let mut steps = steps.iter().cycle();
        let mut seen = HashSet::new();
        let (mut position, mut calls) = (Some(0), 0);
        while let Some(at) = position {
            position = shard.scan(0, at, want, |entry| {
                seen.insert(entry.key().to_vec());
            });
            calls += 1;
            prop_assert!(calls < 3_000, "the scan does not end");
            for (add, i) in turns.by_ref().take(*steps.next().unwrap()) {
                if add {
                    set(&mut shard, i);
                } else {
                    shard.db_mut(0).delete(&Key::new(&key(i)), 0);
                }
            }
        }
        for i in (0..keys).filter(|i| i.is_multiple_of(stays_in)) {
            prop_assert!(seen.contains(&key(i)), "k{} was present throughout and is missing", i);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn many_keys_come_and_go() {
    let mut db = Db::default();
    for i in 0..50_000u32 {
        db.set_str(&Key::new(format!("{i}").as_bytes()), b"value", ExpiryChange::Clear, 0);
    }
    assert_eq!(db.len(), 50_000);
    let per_key = db.table_heap_bytes() as f64 / 50_000.0;
    assert!(per_key < 11.5, "{per_key} bytes of table per key");
    let mut picked = HashSet::new();
    let mut random = martlet_base::random::Random::seeded(1);
    for _ in 0..10_000 {
        let entry = db.random(|bound| random.below(bound as u64) as usize).unwrap();
        picked.insert(entry.key().to_vec());
    }
    assert!(picked.len() > 8_500, "random picks repeat too often: {}", picked.len());
    for i in 0..50_000u32 {
        assert!(db.delete(&Key::new(format!("{i}").as_bytes()), 0).is_some());
    }
    assert!(db.is_empty());
    assert!(db.random(|_| 0).is_none());
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn every_key_is_as_likely_to_be_picked() {
    const KEYS: usize = 700;
    const PICKS: usize = 140_000;
    let mut db = Db::default();
    for i in 0..KEYS {
        db.set_str(&Key::new(format!("{i}").as_bytes()), b"value", ExpiryChange::Clear, 0);
    }
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut random = martlet_base::random::Random::seeded(7);
    for _ in 0..PICKS {
        let entry = db.random(|bound| random.below(bound as u64) as usize).unwrap();
        *counts.entry(entry.key().to_vec()).or_default() += 1;
    }
    let expected = PICKS as f64 / KEYS as f64;
    let missed = (KEYS - counts.len()) as f64 * expected;
    let chi_square = counts.values().map(|&n| (n as f64 - expected).powi(2) / expected).sum::<f64>() + missed;
    // 699 degrees of freedom: a standard deviation of 37. Segments of different depth chosen alike give
    // thousands.
    assert!(chi_square < 699.0 + 8.0 * 37.0, "{chi_square}");
}

/// A long value is the given bytes, and a change copies them as long as they are shared.
#[test]
fn a_long_string_is_shared_until_it_is_changed() {
    let (mut shard, key) = (Shard::default(), Key::new(b"k"));
    let db = shard.db_mut(0);
    let bytes = triomphe::Arc::new(vec![b'x'; 200_000]);
    let old = db.set_shared(&key, &bytes, ExpiryChange::Clear, 0);
    assert!(old.is_none() && triomphe::Arc::count(&bytes) == 2);
    assert_eq!(db.get(&key).unwrap().str().unwrap(), StrValue::Bytes(&bytes));
    db.update_str(&key, 0, 200_001, |text| text.push(b'y'));
    assert_eq!(triomphe::Arc::count(&bytes), 1);
    assert_eq!(db.get(&key).unwrap().str().unwrap().len(), 200_001);
    // What fits into an entry lies there.
    let short = triomphe::Arc::new(b"12".to_vec());
    db.set_shared(&key, &short, ExpiryChange::Clear, 0);
    assert!(triomphe::Arc::count(&short) == 1 && db.get(&key).unwrap().str() == Some(StrValue::Int(12)));
}

#[test]
fn databases_swap() {
    let mut shard = Shard::default();
    shard.db_mut(0).set_str(&Key::new(b"a"), b"0", ExpiryChange::Clear, 0);
    shard.db_mut(5).set_str(&Key::new(b"a"), b"5", ExpiryChange::Clear, 0);
    shard.swap(0, 5);
    assert_eq!(shard.db(0).get(&Key::new(b"a")).unwrap().str().unwrap().to_vec(), b"5");
    assert_eq!(shard.used().collect::<Vec<_>>(), [0, 5]);
    assert!(shard.db(9).is_empty());
}
