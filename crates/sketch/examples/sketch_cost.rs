//! The cost of a command in the sketches alone, without a server: nanoseconds of CPU time for each item.
//!
//! `cargo run --release -p martlet-sketch --example sketch_cost`; the lines are what `results/sketch.txt`
//! keeps.

use martlet_base::random::Random;
use martlet_sketch::{Bloom, CountMin, TDigest, TopK, bloom, topk};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

/// Items of a round.
const ITEMS: usize = 200_000;
/// Rounds, of which the fastest counts.
const ROUNDS: usize = 7;

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The least time of an item over some rounds of `run`, after one that does not count.
fn least(name: &str, mut run: impl FnMut(&[Vec<u8>])) {
    let mut random = Random::seeded(1);
    let mut fastest = f64::MAX;
    for round in 0..=ROUNDS {
        let items: Vec<Vec<u8>> =
            (0..ITEMS).map(|_| format!("user:{:012}", random.below(10_000_000)).into_bytes()).collect();
        let start = cpu_ns();
        run(&items);
        let each = (cpu_ns() - start) / ITEMS as f64;
        if round > 0 {
            fastest = fastest.min(each);
        }
    }
    println!("{name:<48} {fastest:8.1} ns");
}

fn bloom_of(capacity: u64) -> Bloom {
    Bloom::new(bloom::Options { capacity, ..Default::default() }).expect("a filter")
}

fn blooms() {
    for (name, capacity) in [("1 M items (1.4 MB)", 1 << 20), ("100 M items (138 MB)", 100_000_000)] {
        let mut bloom = bloom_of(capacity);
        least(&format!("Bloom::add, {name}"), |items| {
            items.iter().for_each(|item| assert!(black_box(bloom.add(item)).is_ok()));
        });
        least(&format!("Bloom::add_all of 16, {name}"), |items| {
            each_batch(items, |batch| drop(black_box(bloom.add_all(batch))));
        });
        least(&format!("Bloom::contains, {name}"), |items| {
            items.iter().for_each(|item| {
                black_box(bloom.contains(item));
            });
        });
        least(&format!("Bloom::contains_all of 16, {name}"), |items| {
            each_batch(items, |batch| drop(black_box(bloom.contains_all(batch))));
        });
    }
}

fn each_batch(items: &[Vec<u8>], mut run: impl FnMut(&[&[u8]])) {
    for batch in items.chunks(16) {
        let mut borrowed = [&[][..]; 16];
        borrowed.iter_mut().zip(batch).for_each(|(slot, item)| *slot = item);
        run(&borrowed[..batch.len()]);
    }
}

fn main() {
    blooms();
    for (width, depth) in [(2000, 7), (2_000_000, 10)] {
        let mut cms = CountMin::by_dimensions(width, depth).expect("a sketch");
        least(&format!("CountMin::incr_by, {width} x {depth}"), |items| {
            items.iter().for_each(|item| assert!(black_box(cms.incr_by(item, 1)).is_ok()));
        });
        least(&format!("CountMin::incr_all of 16, {width} x {depth}"), |items| {
            each_batch(items, |batch| {
                let pairs: Vec<(&[u8], u64)> = batch.iter().map(|item| (*item, 1)).collect();
                drop(black_box(cms.incr_all(&pairs)));
            });
        });
    }
    for (k, width) in [(50, 2000), (1000, 20_000)] {
        let options = topk::Options { k, width, depth: 7, decay: 0.9 };
        let mut topk = TopK::new(options).expect("a sketch");
        least(&format!("TopK::add, k {k}, {width} x 7"), |items| {
            items.iter().for_each(|item| drop(black_box(topk.add(item, 1))));
        });
    }
    for (name, modulus) in [("values that differ", u64::MAX), ("1000 distinct values", 1000)] {
        let mut random = Random::seeded(3);
        let values: Vec<f64> = (0..ITEMS).map(|_| (random.next_u64() % modulus) as f64).collect();
        let mut digest = TDigest::new(100).expect("a digest");
        least(&format!("TDigest::add_all of 1, {name}"), |_| {
            values.iter().for_each(|value| assert!(black_box(digest.add_all(&[*value])).is_ok()));
        });
    }
}
