//! Keys whose hashes carry their slots, against a naive model: a set of names by slot. A separate process, as
//! all keys of one are hashed alike.

use std::collections::{BTreeMap, BTreeSet};

use martlet_base::hash::{shard_of_slot, slot_in, use_slots};
use martlet_base::random::Random;
use martlet_base::slot::slot_of;
use martlet_keyspace::{ExpiryChange, Key, Shard};

type Model = BTreeMap<u16, BTreeSet<Vec<u8>>>;

/// The keys that a walk of the slot meets, and their count.
fn walked(shard: &Shard, slot: u16) -> BTreeSet<Vec<u8>> {
    let (mut seen, mut from, mut steps) = (Vec::new(), None, 0);
    loop {
        from = shard.db(0).walk_slot(slot, from, |entry| seen.push(entry.key().to_vec()));
        steps += 1;
        if from.is_none() || steps > 1_000_000 {
            break;
        }
    }
    let set: BTreeSet<Vec<u8>> = seen.iter().cloned().collect();
    assert_eq!(set.len(), seen.len(), "a key was met twice");
    assert_eq!(shard.db(0).count_slot(slot), set.len());
    set
}

/// Deletes a slot's keys as the walk meets them, so that segments are joined under it; which they were.
fn emptied(shard: &mut Shard, slot: u16) -> BTreeSet<Vec<u8>> {
    let (mut gone, mut from) = (BTreeSet::new(), None);
    loop {
        let mut names = Vec::new();
        from = shard.db(0).walk_slot(slot, from, |entry| names.push(entry.key().to_vec()));
        for name in names {
            assert!(shard.db_mut(0).delete(&Key::new(&name), 64).is_some());
            assert!(gone.insert(name), "a key was met twice");
        }
        if from.is_none() {
            return gone;
        }
    }
}

fn insert(shard: &mut Shard, model: &mut Model, name: Vec<u8>) {
    let key = Key::new(&name);
    let slot = slot_of(&name);
    assert_eq!((slot_in(key.hash), key.shard()), (slot, shard_of_slot(slot)));
    shard.db_mut(0).set_str(&key, b"value", ExpiryChange::Clear, 0);
    model.entry(slot).or_default().insert(name);
}

fn check(shard: &Shard, model: &Model, slots: std::ops::Range<u16>) {
    for slot in slots {
        assert_eq!(walked(shard, slot), model.get(&slot).cloned().unwrap_or_default(), "slot {slot}");
    }
    assert_eq!(shard.db(0).len(), model.values().map(BTreeSet::len).sum::<usize>());
}

/// A tag of each of a shard's slots.
fn tags_of(shard: usize) -> Vec<Vec<u8>> {
    let mut tags = BTreeMap::new();
    let names = (0..).map(|number: u32| number.to_string().into_bytes());
    for name in names.filter(|name| shard_of_slot(slot_of(name)) == shard) {
        tags.entry(slot_of(&name)).or_insert(name);
        if tags.len() == 16 {
            break;
        }
    }
    tags.into_values().collect()
}

#[test]
fn a_slots_keys_are_one_range_of_its_shard() {
    use_slots();
    let mut random = Random::seeded(10);
    for shard_number in [0, 700, 1023] {
        let (mut shard, mut model) = (Shard::default(), Model::new());
        let tags = tags_of(shard_number);
        let slots = slot_of(&tags[0])..slot_of(&tags[0]) + 16;
        for step in 0..40_000u32 {
            // Some slots get much more than others.
            let tag = &tags[(random.below(4) * random.below(6)) as usize];
            let number = random.below(6_000);
            let name = [b"{", &tag[..], b"}", number.to_string().as_bytes()].concat();
            if random.below(3) == 0 {
                let is_gone = shard.db_mut(0).delete(&Key::new(&name), 64).is_some();
                let was_there = model.entry(slot_of(&name)).or_default().remove(&name);
                assert_eq!(is_gone, was_there);
            } else {
                insert(&mut shard, &mut model, name);
            }
            if step.is_multiple_of(8_000) {
                check(&shard, &model, slots.clone());
            }
        }
        check(&shard, &model, slots.clone());
        assert_eq!(emptied(&mut shard, slots.start), model.remove(&slots.start).unwrap());
        check(&shard, &model, slots);
    }
}

#[test]
fn a_tag_with_many_keys_fills_segments_of_the_usual_size() {
    use_slots();
    let (mut shard, mut model) = (Shard::default(), Model::new());
    for number in 0..200_000u32 {
        insert(&mut shard, &mut model, format!("{{hot}}{number}").into_bytes());
    }
    let slot = slot_of(b"hot");
    let (mut from, mut most) = (None, 0);
    loop {
        let mut here = 0;
        from = shard.db(0).walk_slot(slot, from, |_| here += 1);
        most = most.max(here);
        if from.is_none() {
            break;
        }
    }
    assert!(most <= 128, "a segment of {most} keys");
    assert_eq!(walked(&shard, slot).len(), 200_000);
}

/// A scan of a slot from its begin, while keys of the shard come and go between the calls: the keys that it
/// met.
fn scanned(
    shard: &mut Shard,
    slot: u16,
    want: usize,
    mut churn: impl FnMut(&mut Shard),
) -> (BTreeSet<Vec<u8>>, usize) {
    let (mut seen, mut position, mut calls) = (BTreeSet::new(), Some(0), 0);
    while let Some(from) = position {
        let mut here = 0;
        position = shard.scan_slot((0, slot), from, want, |entry| {
            assert_eq!(slot_of(entry.key()), slot);
            seen.insert(entry.key().to_vec());
            here += 1;
        });
        assert!(position.is_none() || here >= want, "a call of {here} keys that wanted {want}");
        calls += 1;
        assert!(calls < 10_000, "the scan does not end");
        churn(shard);
    }
    (seen, calls)
}

#[test]
fn a_scan_of_a_slot_meets_its_keys_and_no_others() {
    use_slots();
    let mut random = Random::seeded(11);
    let tags = tags_of(5);
    for keys in [0, 3, 90, 900, 20_000] {
        let (mut shard, mut model) = (Shard::default(), Model::new());
        for number in 0..keys {
            let tag = &tags[(random.below(4) * random.below(6)) as usize];
            insert(&mut shard, &mut model, [b"{", &tag[..], b"}", number.to_string().as_bytes()].concat());
        }
        for slot in slot_of(&tags[0])..slot_of(&tags[0]) + 16 {
            let expected = model.get(&slot).cloned().unwrap_or_default();
            for want in [1, 7, 100, 100_000] {
                let (seen, calls) = scanned(&mut shard, slot, want, |_| {});
                assert_eq!(seen, expected, "slot {slot}, {want} at a time");
                assert!(calls <= expected.len() / want + 1);
            }
        }
    }
}

/// Of two neighbours one keeps its keys, both get and lose others, up to where segments split and are joined.
#[test]
fn a_scan_of_a_slot_meets_what_stays_while_segments_split_and_are_joined() {
    use_slots();
    let tags = tags_of(9);
    for seed in 0..60 {
        let mut random = Random::seeded(seed);
        let (mut shard, mut model) = (Shard::default(), Model::new());
        let name =
            |tag: usize, number: u64| [b"{", &tags[tag][..], b"}", number.to_string().as_bytes()].concat();
        let slot = slot_of(&tags[7]);
        let stays = random.below(600);
        (0..stays).for_each(|number| insert(&mut shard, &mut model, name(7, number)));
        let most = 1 + random.below(3_000);
        let mut turn = 0;
        let want = 1 + random.below(40) as usize;
        let (seen, _) = scanned(&mut shard, slot, want, |shard| {
            turn += 1;
            for number in (0..most).filter(|_| random.below(4) > 0) {
                let name = name(6 + (number % 3) as usize, 10_000 + number);
                if turn % 2 == 0 {
                    shard.db_mut(0).delete(&Key::new(&name), 64);
                } else {
                    shard.db_mut(0).set_str(&Key::new(&name), b"v", ExpiryChange::Clear, 0);
                }
            }
        });
        let missing = (0..stays).filter(|number| !seen.contains(&name(7, *number))).count();
        assert_eq!(missing, 0, "of {stays} keys, seed {seed}");
    }
}
