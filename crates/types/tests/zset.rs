//! Sorted sets of real leaf and chunk sizes against the naive model, which unit tests do in small ones.

use martlet_base::random::Random;
use martlet_types::zset::*;

#[path = "../src/zset/model.rs"]
mod model;
use model::{Model, check, list};

fn member(number: u64) -> Vec<u8> {
    match number % 5 {
        0 => number.to_string().into_bytes(),
        1 if number % 50 == 1 => format!("{number:0>90}").into_bytes(),
        _ => format!("member:{number}").into_bytes(),
    }
}

/// Adds, changes and removes at random in phases of growth and of shrinking, with clones that must not
/// change.
fn run(seed: u64, scores: u64, members: u64) {
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let limits = ZSetLimits::default();
    let (mut set, mut model) = (ZSet::new(), Model::default());
    let mut pins = Vec::new();
    for phase in 0..6 {
        let add_of_ten = if phase % 2 == 0 { 9 } else { 2 };
        for _ in 0..members {
            let member = member(random.below(members));
            if random.below(10) < add_of_ten {
                let score = random.below(scores) as f64;
                let added = set.insert(&member, score, limits);
                assert_eq!(added, model.add(&member, score, AddOptions::default()));
            } else {
                assert_eq!(set.remove(&member), model.remove(&member));
            }
        }
        check(&set, &model, &member(7), scores as f64 / 4.0, scores as f64 / 2.0);
        pins.push((set.clone(), model.list()));
    }
    while !set.free_some(100) {}
    for (mut set, expected) in pins {
        assert_eq!(list(set.iter()), expected);
        let removed = set.remove_range(0..usize::MAX, |_| ());
        assert_eq!((removed, set.len()), (expected.len(), 0));
    }
}

#[test]
fn random_changes_with_many_scores() {
    run(1, 1 << 40, 10_000);
}

#[test]
fn random_changes_with_few_scores() {
    run(2, 3, 6_000);
}

#[test]
fn ascending_and_descending_scores() {
    let limits = ZSetLimits::default();
    let (mut up, mut down) = (ZSet::new(), ZSet::new());
    for number in 0..20_000u32 {
        up.insert(&member(u64::from(number)), f64::from(number), limits);
        down.insert(&member(u64::from(number)), -f64::from(number), limits);
    }
    assert!(up.iter().enumerate().all(|(rank, entry)| entry.score == rank as f64));
    assert!(down.range(0..usize::MAX, true).enumerate().all(|(rank, entry)| entry.score == -(rank as f64)));
    assert!(up.heap_bytes() < 20_000 * 60, "{} bytes", up.heap_bytes());
    assert!(down.heap_bytes() < 20_000 * 60, "{} bytes", down.heap_bytes());
}

#[test]
fn members_cost_less_than_sixty_bytes() {
    let mut random = Random::seeded(3);
    let mut set = ZSet::new();
    for number in 0..50_000 {
        let member = format!("key_{number:010}");
        set.insert(member.as_bytes(), random.below(70_000) as f64, ZSetLimits::default());
    }
    assert!(set.heap_bytes() < 50_000 * 60, "{} bytes", set.heap_bytes());
    set.remove_range(100..usize::MAX, |_| ());
    assert!(set.heap_bytes() < 30_000, "{} bytes are left of a large set", set.heap_bytes());
}
