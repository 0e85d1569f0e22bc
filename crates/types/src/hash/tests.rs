//! The hash against a sorted map with expiry times, its encoding against Redis' rules, clones that must not
//! change.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SMALL: HashLimits = HashLimits { listpack_max_entries: 8, listpack_max_value_bytes: 10 };

type Model = BTreeMap<Vec<u8>, (Vec<u8>, i64)>;

#[derive(Clone, Debug)]
enum Op {
    Set(Vec<u8>, Vec<u8>, FieldExpiry),
    SetMany(u16, u16),
    Remove(Vec<u8>),
    SetExpiry(Vec<u8>, Option<u8>),
    Collect(usize),
    Wait(u8),
    Clone,
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (-30i64..30).prop_map(|int| int.to_string().into_bytes()),
        4 => "[a-e]{0,2}".prop_map(String::into_bytes),
        1 => any::<i64>().prop_map(|int| int.to_string().into_bytes()),
        1 => "0[0-9]{1,2}".prop_map(String::into_bytes),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![10 => text(), 1 => prop::collection::vec(any::<u8>(), 0..900)]
}

fn expiry() -> impl Strategy<Value = FieldExpiry> {
    prop_oneof![
        4 => Just(FieldExpiry::Clear),
        2 => Just(FieldExpiry::Keep),
        1 => (1i64..400).prop_map(FieldExpiry::At),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (text(), value(), expiry()).prop_map(|(name, value, expiry)| Op::Set(name, value, expiry)),
        1 => (any::<u16>(), 0u16..300).prop_map(|(first, len)| Op::SetMany(first, len)),
        4 => text().prop_map(Op::Remove),
        4 => (text(), prop::option::weighted(0.8, any::<u8>())).prop_map(|(name, t)| Op::SetExpiry(name, t)),
        1 => (1usize..20).prop_map(Op::Collect),
        1 => (0u8..30).prop_map(Op::Wait),
        1 => Just(Op::Clone),
    ]
}

fn live(model: &Model, now_ms: i64) -> BTreeSet<Vec<u8>> {
    model.iter().filter(|(_, (_, at_ms))| *at_ms > now_ms).map(|(name, _)| name.clone()).collect()
}

/// The facts that a hash must have about `model` at a time, whatever the encoding.
fn check(hash: &Hash, model: &Model, now_ms: i64, random: &mut Random) {
    let all = hash.iter().map(|f| (f.name.to_vec(), (f.value.to_vec(), f.expire_at_ms))).collect::<Model>();
    assert_eq!((hash.len(), &all), (model.len(), model));
    let live = live(model, now_ms);
    assert_eq!(hash.live_len(now_ms), live.len());
    for (name, (value, at_ms)) in model {
        let field = hash.get(name, now_ms);
        assert_eq!(field.is_some(), *at_ms > now_ms);
        assert!(
            field
                .is_none_or(|f| f.name.eq_bytes(name) && f.value.eq_bytes(value) && f.expire_at_ms == *at_ms)
        );
    }
    let mut scanned = BTreeSet::new();
    let mut cursor = 0;
    loop {
        cursor = hash.scan(cursor, 10, now_ms, |field| assert!(scanned.insert(field.name.to_vec())));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned, live);
    for count in [0, 1, live.len() / 4, live.len() / 2, live.len() + 1] {
        let mut sample = BTreeSet::new();
        hash.sample(count, now_ms, random, |field| assert!(sample.insert(field.name.to_vec())));
        assert_eq!(sample.len(), count.min(live.len()));
        assert!(sample.is_subset(&live));
    }
    let one = hash.random(now_ms, random);
    assert_eq!(one.is_some(), !live.is_empty());
    assert!(one.is_none_or(|field| live.contains(&field.name.to_vec())));
}

/// As [`Hash::set`], for the model.
fn set(model: &mut Model, name: &[u8], value: &[u8], expiry: FieldExpiry, now_ms: i64) -> bool {
    let old = model.get(name).map(|entry| entry.1);
    let was_live = old.is_some_and(|at_ms| at_ms > now_ms);
    let at_ms = match expiry {
        FieldExpiry::At(at_ms) => at_ms,
        FieldExpiry::Keep if was_live => old.unwrap_or(NO_EXPIRY),
        _ => NO_EXPIRY,
    };
    model.insert(name.to_vec(), (value.to_vec(), at_ms));
    !was_live
}

fn run(ops: Vec<Op>, limits: HashLimits) {
    let mut random = Random::seeded(1);
    let (mut hash, mut model, mut now_ms) = (Hash::new(), Model::new(), 1);
    let mut pinned = Vec::new();
    for op in ops {
        match op {
            Op::Set(name, value, expiry) => {
                let is_new = hash.set(&name, Element::Bytes(&value), expiry, limits, now_ms);
                assert_eq!(is_new, set(&mut model, &name, &value, expiry, now_ms));
            }
            Op::SetMany(first, len) => {
                for i in 0..len {
                    let name = first.wrapping_add(i).to_string().into_bytes();
                    let value = Element::Int(i64::from(i));
                    let is_new = hash.set(&name, value, FieldExpiry::Clear, limits, now_ms);
                    assert_eq!(is_new, set(&mut model, &name, &value.to_vec(), FieldExpiry::Clear, now_ms));
                }
            }
            Op::Remove(name) => {
                let is_live = model.get(&name).is_some_and(|entry| entry.1 > now_ms);
                assert_eq!(hash.remove(&name, now_ms), is_live);
                if is_live {
                    model.remove(&name);
                }
            }
            Op::SetExpiry(name, delay) => {
                let at_ms = delay.map_or(NO_EXPIRY, |delay| now_ms + i64::from(delay));
                let known = model.get_mut(&name).map(|entry| entry.1 = at_ms).is_some();
                assert_eq!(hash.set_expiry(&name, at_ms), known);
            }
            Op::Collect(limit) => {
                let due = model.len() - live(&model, now_ms).len();
                let collected = hash.collect_expired(now_ms, limit, |field| {
                    let (value, at_ms) = model.remove(&field.name.to_vec()).expect("a field of the model");
                    assert!(field.value.eq_bytes(&value) && field.expire_at_ms == at_ms && at_ms <= now_ms);
                });
                assert_eq!(collected, due.min(limit));
                assert!(collected == limit || hash.next_expiry_ms() > now_ms);
            }
            Op::Wait(ms) => now_ms += i64::from(ms),
            Op::Clone => pinned.push((hash.clone(), model.clone())),
        }
        let earliest = model.values().map(|entry| entry.1).min().unwrap_or(NO_EXPIRY);
        assert!(hash.next_expiry_ms() <= earliest);
        assert!(hash.encoding() == "hashtable" || hash.len() <= limits.listpack_max_entries);
    }
    pinned.push((hash, model));
    pinned.iter().for_each(|(hash, model)| check(hash, model, now_ms, &mut random));
}

/// Most steps of a random test.
const STEPS: usize = if cfg!(miri) { 10 } else { 80 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 }))]

    #[test]
    fn agrees_with_model(ops in prop::collection::vec(op(), 1..STEPS)) {
        run(ops, HashLimits::default());
    }

    #[test]
    fn agrees_with_model_at_small_limits(ops in prop::collection::vec(op(), 1..STEPS)) {
        run(ops, SMALL);
    }
}

fn filled(fields: usize) -> Hash {
    let mut hash = Hash::new();
    for i in 0..fields {
        let name = format!("field{i}");
        hash.set(name.as_bytes(), Element::Int(i as i64), FieldExpiry::Clear, HashLimits::default(), 0);
    }
    hash
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn encodings_are_those_of_redis() {
    assert_eq!(filled(512).encoding(), "listpack");
    assert_eq!(filled(513).encoding(), "hashtable");
    let with_value = |len: usize| {
        let mut hash = filled(1);
        let value = vec![b'x'; len];
        hash.set(b"f", Element::Bytes(&value), FieldExpiry::Clear, HashLimits::default(), 0);
        hash.encoding()
    };
    assert_eq!((with_value(64), with_value(65)), ("listpack", "hashtable"));
    let mut hash = filled(10);
    hash.before_growth(512, 64, HashLimits::default());
    assert_eq!(hash.encoding(), "listpack");
    hash.before_growth(513, 1, HashLimits::default());
    assert_eq!((hash.encoding(), hash.len()), ("hashtable", 10));
    let mut hash = filled(10);
    hash.before_growth(1, 65, HashLimits::default());
    assert_eq!(hash.encoding(), "hashtable");
}

#[test]
fn an_expiry_time_makes_a_listpackex() {
    let mut hash = filled(3);
    assert!(!hash.set_expiry(b"none", 10));
    assert!(hash.set_expiry(b"field1", NO_EXPIRY));
    assert_eq!((hash.encoding(), hash.next_expiry_ms()), ("listpack", NO_EXPIRY));
    assert!(hash.set_expiry(b"field1", 10));
    assert_eq!((hash.encoding(), hash.next_expiry_ms()), ("listpackex", 10));
    assert_eq!((hash.live_len(9), hash.live_len(10), hash.len()), (3, 2, 3));
    assert!(hash.contains(b"field1", 9) && !hash.contains(b"field1", 10));
    // Writing keeps or clears the time; a field that has expired is treated as absent.
    let limits = HashLimits::default();
    assert!(!hash.set(b"field1", Element::Int(7), FieldExpiry::Keep, limits, 9));
    assert_eq!(hash.get(b"field1", 9).map(|field| field.expire_at_ms), Some(10));
    assert!(hash.set(b"field1", Element::Int(7), FieldExpiry::Keep, limits, 10));
    assert_eq!(hash.get(b"field1", 10).map(|field| field.expire_at_ms), Some(NO_EXPIRY));
    assert_eq!(hash.collect_expired(i64::MAX - 1, 10, |_| ()), 0);
    assert_eq!((hash.next_expiry_ms(), hash.encoding()), (NO_EXPIRY, "listpackex"));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn many_fields_expire_in_slices() {
    let mut hash = filled(20_000);
    for i in 0..20_000 {
        assert!(hash.set_expiry(format!("field{i}").as_bytes(), 1 + i / 2));
    }
    assert_eq!(hash.next_expiry_ms(), 1);
    let mut left = 20_000;
    for now_ms in [0, 1, 2, 500, 9_000, 10_000] {
        loop {
            let collected = hash.collect_expired(now_ms, 64, |field| assert!(field.expire_at_ms <= now_ms));
            left -= collected;
            assert_eq!(hash.len(), left);
            if collected < 64 {
                break;
            }
        }
        assert_eq!(left as i64, 20_000 - 2 * now_ms);
        assert!(hash.next_expiry_ms() > now_ms);
    }
    assert!(hash.is_empty());
}

#[test]
fn a_hash_is_small() {
    assert!(size_of::<Hash>() == 8);
    let mut hash = Hash::new();
    for i in 0..10 {
        let (name, value) = (format!("field{i}"), format!("value{i}"));
        hash.set(
            name.as_bytes(),
            Element::Bytes(value.as_bytes()),
            FieldExpiry::Clear,
            HashLimits::default(),
            0,
        );
    }
    assert!(hash.heap_bytes() <= 160, "{}", hash.heap_bytes());
}
