//! What an uncontended lock and unlock of a shard costs: nanoseconds a pair, the least of several rounds.
//! `cargo run --release -p martlet-base --example lock_cost`

use std::hint::black_box;

use martlet_base::clock::monotonic;
use martlet_base::sync::RawLock;

const ROUNDS: u32 = 30;
const PAIRS: u32 = 2_000_000;

fn main() {
    let lock = RawLock::new();
    let round = || {
        let began = monotonic();
        for _ in 0..PAIRS {
            black_box(&lock).lock();
            black_box(&lock).unlock();
        }
        began.elapsed().as_nanos() as f64 / f64::from(PAIRS)
    };
    let least = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
    println!("{least:.2} ns for a lock and an unlock");
}
