//! A follower that mirrors the reports equals the keys.

use std::collections::BTreeMap;
use std::sync::Mutex;

use martlet_base::random::Random;
use martlet_keyspace::{Entry, ExpiryChange, Key, Value};
use martlet_types::element::Element;
use martlet_types::hash::{FieldExpiry, Hash, HashLimits};

use super::super::Keys;
use crate::engine::Engine;
use crate::{Follower, View};

/// Keys that begin with `f`, with the bytes of their strings or the fields of their hashes.
type Mirror = BTreeMap<(usize, Vec<u8>), Vec<Vec<u8>>>;

#[derive(Default)]
struct Model(Mutex<Mirror>);

fn content(entry: &Entry<'_>) -> Vec<Vec<u8>> {
    match entry.object::<Hash>() {
        Some(hash) => hash.iter().map(|field| field.name.to_vec()).collect(),
        None => entry.str().into_iter().map(|text| text.to_vec()).collect(),
    }
}

impl Follower for Model {
    fn wants(&self, _: usize, name: &[u8]) -> bool {
        name.starts_with(b"f")
    }

    fn changed(&self, db: usize, key: &Key<'_>, entry: Option<Entry<'_>>, _: i64) {
        let place = (db, key.bytes.to_vec());
        let mut mirror = self.0.lock().unwrap();
        match entry {
            Some(entry) => mirror.insert(place, content(&entry)),
            None => mirror.remove(&place),
        };
    }

    fn emptied(&self, db: Option<usize>) {
        self.0.lock().unwrap().retain(|(of, _), _| db.is_some_and(|db| db != *of));
    }

    fn swapped(&self, a: usize, b: usize) {
        let mut mirror = self.0.lock().unwrap();
        let moved = |db: usize| {
            if db == a {
                b
            } else if db == b {
                a
            } else {
                db
            }
        };
        *mirror =
            std::mem::take(&mut *mirror).into_iter().map(|((db, key), v)| ((moved(db), key), v)).collect();
    }

    fn replaced(&self) {
        self.0.lock().unwrap().insert((99, Vec::new()), Vec::new());
    }
}

const FOLLOWED: [&[u8]; 1] = [b"f"];

fn followed() -> (&'static Engine, &'static Model) {
    let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).unwrap()));
    let model: &'static Model = Box::leak(Box::default());
    engine.follow(true, FOLLOWED.into_iter());
    assert!(!engine.snapshot.is_observed(), "no follower is set");
    assert!(engine.set_follower(model) && !engine.set_follower(model));
    engine.follow(true, FOLLOWED.into_iter());
    (engine, model)
}

/// What the keys are, from the keys.
fn actual(keys: &mut Keys) -> Mirror {
    let mut all = Mirror::new();
    keys.alone(|keys| {
        for shard in 0..martlet_base::limits::SHARD_COUNT {
            let state = &keys.shard(shard).keys;
            for db in state.used() {
                for entry in state.db(db).iter().filter(|entry| entry.key().starts_with(b"f")) {
                    all.insert((db, entry.key().to_vec()), content(&entry));
                }
            }
        }
    });
    all
}

fn change(keys: &mut Keys, random: &mut Random, now_ms: i64) {
    let name = format!("{}{}", if random.below(4) == 0 { "x" } else { "f" }, random.below(12));
    let (key, other) = (Key::new(name.as_bytes()), format!("f{}", random.below(12)));
    let field = format!("field{}", random.below(5));
    match random.below(11) {
        0 => keys.set_str(&key, field.as_bytes(), ExpiryChange::Keep),
        1 => keys.set_str(&key, b"soon", ExpiryChange::At(now_ms + 3)),
        2 | 3 => {
            if let Ok(mut hash) = keys.create::<Hash>(&key) {
                let value = Element::Bytes(b"v");
                hash.set(field.as_bytes(), value, FieldExpiry::Keep, HashLimits::default(), now_ms);
            }
        }
        4 => {
            if let Ok(Some(mut hash)) = keys.write::<Hash>(&key) {
                hash.remove(field.as_bytes(), now_ms);
            }
            keys.delete_if_empty::<Hash>(&key);
        }
        5 => {
            if let Ok(Some(mut hash)) = keys.write::<Hash>(&key) {
                hash.set_expiry(field.as_bytes(), now_ms + 4);
            }
        }
        6 => {
            keys.delete(&key);
        }
        7 => {
            // A name for another.
            if let Some((value, expiry_ms)) = keys.take(&key) {
                keys.set_value(&Key::new(other.as_bytes()), value, expiry_ms);
            }
        }
        8 => {
            keys.lookup(&key);
            keys.expire_all_parts::<Hash>(&key);
        }
        9 => {
            keys.begin_undo();
            keys.set_value(&key, Value::Int(7), None);
            if random.below(2) == 0 {
                keys.report_changes();
            }
            keys.undo();
        }
        _ => {
            keys.set_expiry(&key, Some(now_ms + 2));
        }
    }
}

#[test]
fn a_follower_is_told_of_every_change_of_the_keys_that_it_wants() {
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let (engine, model) = followed();
    let mut keys = Keys::new(engine, 0, Random::seeded(seed));
    for round in 0..3000_i64 {
        keys.see(View { now_ms: 1000 + round, db: random.below(2) as usize, ..keys.view() });
        let now_ms = 1000 + round;
        match random.below(40) {
            0 => keys.alone(|keys| {
                let db = (random.below(2) == 0).then_some(0);
                keys.flush(db, false);
            }),
            1 => keys.alone(|keys| keys.swap_databases(0, 1)),
            2 => keys.alone(|keys| {
                (0..martlet_base::limits::SHARD_COUNT).for_each(|shard| {
                    keys.expire_due(shard, 10, |_| ());
                });
            }),
            _ => keys.alone(|keys| (0..1 + random.below(4)).for_each(|_| change(keys, &mut random, now_ms))),
        }
        assert_eq!(*model.0.lock().unwrap(), actual(&mut keys), "round {round}");
    }
    keys.alone(|keys| {
        keys.set_str(&Key::new(b"f"), b"early", ExpiryChange::Clear);
        assert_ne!(model.0.lock().unwrap().get(&(keys.db(), b"f".to_vec())), Some(&vec![b"early".to_vec()]));
        keys.report_changes();
        assert_eq!(model.0.lock().unwrap()[&(keys.db(), b"f".to_vec())], [b"early"]);
    });
    engine.follow(false, std::iter::empty());
    keys.alone(|keys| keys.set_str(&Key::new(b"f"), b"unseen", ExpiryChange::Clear));
    assert_eq!(model.0.lock().unwrap()[&(keys.db(), b"f".to_vec())], [b"early"]);
}

#[test]
fn a_follower_is_told_that_all_keys_are_others() {
    let (engine, model) = followed();
    let mut keys = Keys::new(engine, 0, Random::from_entropy());
    let other: &'static Engine = Box::leak(Box::new(Engine::new(1).unwrap()));
    let mut others = Keys::new(other, 0, Random::from_entropy());
    keys.alone(|keys| keys.set_str(&Key::new(b"f"), b"old", ExpiryChange::Clear));
    others.alone(|theirs| keys.alone(|keys| keys.replace_all(theirs, false)));
    assert_eq!(model.0.lock().unwrap().keys().map(|(db, _)| *db).collect::<Vec<_>>(), [99]);
}

#[test]
fn a_request_that_is_given_up_reports_nothing() {
    let (engine, model) = followed();
    let mut keys = Keys::new(engine, 0, Random::from_entropy());
    let key = Key::new(b"f");
    engine.gate.enter(0);
    keys.lock_shard(key.shard());
    keys.set_str(&key, b"v", ExpiryChange::Clear);
    keys.abandon();
    keys.lock_shard(Key::new(b"g").shard());
    keys.release();
    engine.gate.leave(0);
    assert!(model.0.lock().unwrap().is_empty());
}
