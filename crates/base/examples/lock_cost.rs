//! What an uncontended lock and unlock of a shard costs, and passing in and out of the gate: nanoseconds a
//! pair, the least of several rounds.
//! `cargo run --release -p martlet-base --example lock_cost`

use std::hint::black_box;

use martlet_base::clock::monotonic;
use martlet_base::sync::{Gate, RawLock};

const ROUNDS: u32 = 30;
const PAIRS: u32 = 2_000_000;

/// Nanoseconds for one `pair`.
fn cost(pair: impl Fn()) -> f64 {
    let round = || {
        let began = monotonic();
        (0..PAIRS).for_each(|_| pair());
        began.elapsed().as_nanos() as f64 / f64::from(PAIRS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let (lock, gate) = (RawLock::new(), Gate::new(2));
    let locked = cost(|| {
        black_box(&lock).lock();
        black_box(&lock).unlock();
    });
    let passed = cost(|| {
        black_box(&gate).enter(1);
        black_box(&gate).leave(1);
    });
    println!("{locked:.2} ns for a lock and an unlock, {passed:.2} ns for passing in and out of the gate");
}
