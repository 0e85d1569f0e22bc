//! Lists of random entries in every layout.

use martlet_base::random::Random;

use super::*;
use crate::index::bits::WINDOW;

/// An entry with its positions spelt out.
type Plain = (DocId, u32, u128, Vec<u32>);

fn layouts() -> Vec<Layout> {
    (0..8)
        .map(|bits| Layout { frequencies: bits & 1 > 0, fields: bits & 2 > 0, positions: bits & 4 > 0 })
        .collect()
}

/// An entry as a layout keeps it.
fn cut(layout: Layout, entry: &Plain) -> Plain {
    (
        entry.0,
        if layout.frequencies { entry.1 } else { 1 },
        if layout.fields { entry.2 } else { u128::MAX },
        if layout.positions { entry.3.clone() } else { Vec::new() },
    )
}

fn plain(entry: Entry<'_>) -> Plain {
    (entry.doc, entry.frequency, entry.mask, positions(entry.positions).collect())
}

fn random_entries(random: &mut Random) -> Vec<Plain> {
    let count = random.below(700);
    let step = [1, 3, 50, WINDOW as u64, 1 << 33][random.below(5) as usize];
    let fields = [1, 2, 128][random.below(3) as usize];
    let mut doc = random.below(1 << 20);
    (0..count)
        .map(|_| {
            doc += 1 + random.below(step);
            let most = if random.below(10) == 0 { 1 << 31 } else { 4 };
            let frequency = 1 + random.below(most) as u32;
            let mut place = 0u32;
            let places = (0..random.below(5))
                .map(|_| {
                    place += 1 + random.below(300) as u32;
                    place
                })
                .collect();
            (doc, frequency, 1u128 << random.below(fields), places)
        })
        .collect()
}

fn built(layout: Layout, entries: &[Plain]) -> Postings {
    let mut postings = Postings::default();
    for (doc, frequency, mask, places) in entries {
        let mut bytes = Vec::new();
        encode_positions(&mut bytes, places);
        postings.push(layout, Entry { doc: *doc, frequency: *frequency, mask: *mask, positions: &bytes });
    }
    postings
}

#[test]
fn entries_come_back_as_they_were_added() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    for round in 0..60 {
        let entries = random_entries(&mut random);
        for layout in layouts() {
            let postings = built(layout, &entries);
            let wanted: Vec<Plain> = entries.iter().map(|entry| cut(layout, entry)).collect();
            let mut all = Vec::new();
            postings.all(layout, |entry| all.push(plain(entry)));
            assert_eq!(all, wanted, "seed {seed}, round {round}");
            assert_eq!(postings.len(), entries.len());
            assert_eq!(postings.last(), entries.last().map(|entry| entry.0));
            windows(&mut random, layout, &postings, &wanted, seed);
        }
    }
}

/// Windows around random entries have the entries that they should have.
fn windows(random: &mut Random, layout: Layout, postings: &Postings, entries: &[Plain], seed: u64) {
    if entries.is_empty() {
        return;
    }
    for _ in 0..4 {
        let near = entries[random.below(entries.len() as u64) as usize].0;
        let base = near / WINDOW as u64 * WINDOW as u64;
        let mask = if random.below(2) == 0 { u128::MAX } else { 1 << random.below(3) };
        let mut bits = Bits::empty(base);
        postings.fill(layout, mask, None, &mut bits);
        let inside: Vec<DocId> =
            entries.iter().filter(|e| bits.covers(e.0) && e.2 & mask != 0).map(|e| e.0).collect();
        assert_eq!(bits.iter().collect::<Vec<_>>(), inside, "seed {seed}");

        let mut some = bits.clone();
        some.retain(|id| id % 200 == 0);
        let mut partly = Bits::empty(base);
        postings.fill(layout, mask, Some(&some), &mut partly);
        partly.and(&some);
        assert!(partly.iter().eq(some.iter()), "seed {seed}");

        bits.retain(|id| id % 3 != 0);
        let mut found = Vec::new();
        postings.entries(layout, &bits, |entry| found.push(plain(entry)));
        let wanted: Vec<Plain> = entries.iter().filter(|e| bits.contains(e.0)).cloned().collect();
        assert_eq!(found, wanted, "seed {seed}");
    }
}

#[test]
fn dead_entries_go() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    for _ in 0..40 {
        let entries = random_entries(&mut random);
        let layout = layouts()[random.below(8) as usize];
        let mut postings = built(layout, &entries);
        let modulus = 1 + random.below(4);
        postings.retain(layout, |id| id % modulus == 0);
        let wanted: Vec<Plain> =
            entries.iter().filter(|e| e.0 % modulus == 0).map(|e| cut(layout, e)).collect();
        let mut all = Vec::new();
        postings.all(layout, |entry| all.push(plain(entry)));
        assert_eq!(all, wanted, "seed {seed}");
        assert_eq!(postings.len(), wanted.len());
    }
}

#[test]
fn a_common_term_takes_few_bytes() {
    let mut postings = Postings::default();
    for doc in 0..12_800 {
        let layout = Layout { frequencies: true, fields: true, positions: false };
        postings.push(layout, Entry { doc: doc * 2, frequency: 1, mask: 1, positions: &[] });
    }
    assert!(postings.heap_bytes() < 12_800, "{}", postings.heap_bytes());
}
