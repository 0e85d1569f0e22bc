//! `--lru-test`: a cache's hit rate where 80 % of the requests are for 20 % of the keys.

use super::{lost, open};
use crate::settings::Settings;
use martlet_base::random::Random;
use martlet_client::resp::{Reply, encode_request};
use std::time::{Duration, Instant};

/// How long one line's round takes.
const ROUND: Duration = Duration::from_secs(1);
/// Requests that are sent together.
const BATCH: usize = 250;
/// The exponent of the power law that gives 80 to 20.
const ALPHA: f64 = 6.2;
const VALUE_BYTES: usize = 5;

/// A key of `1..=keys`; high numbers are drawn most.
fn draw(random: &mut Random, keys: u64) -> u64 {
    let (exponent, end) = (ALPHA + 1.0, keys as f64 + 1.0);
    let (low, high) = (1.0, end.powf(exponent));
    let drawn = ((high - low) * random.unit_f64() + low).powf(1.0 / exponent);
    keys.saturating_sub(drawn as u64).saturating_add(1).clamp(1, keys.max(1))
}

/// Writes and reads until the user ends it; a line for each second.
pub fn run(settings: &Settings, keys: u64) -> Result<i32, String> {
    let mut connection = open(settings)?;
    let mut random = Random::from_entropy();
    loop {
        let (begun, mut hits, mut misses) = (Instant::now(), 0u64, 0u64);
        while begun.elapsed() < ROUND {
            let mut requests = Vec::new();
            for _ in 0..BATCH {
                let key = format!("lru:{}", draw(&mut random, keys));
                let value: Vec<u8> =
                    (0..VALUE_BYTES).map(|_| b'A' + random.below(u64::from(b'z' - b'A')) as u8).collect();
                encode_request(&[b"SET", key.as_bytes(), &value], &mut requests);
            }
            for _ in 0..BATCH {
                let key = format!("lru:{}", draw(&mut random, keys));
                encode_request(&["GET", &key], &mut requests);
            }
            connection.send_raw(&requests).map_err(|error| lost(&error))?;
            for index in 0..2 * BATCH {
                match connection.whole_reply().map_err(|error| lost(&error))? {
                    Reply::Error(text) if index >= BATCH => eprintln!("{}", String::from_utf8_lossy(&text)),
                    _ if index < BATCH => {}
                    Reply::NullBulk | Reply::Null => misses += 1,
                    _ => hits += 1,
                }
            }
        }
        let gets = hits + misses;
        let share = |part: u64| super::walk::percent(part, gets);
        println!(
            "{gets} Gets/sec | Hits: {hits} ({:.2}%) | Misses: {misses} ({:.2}%)",
            share(hits),
            share(misses)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_keys_gets_most_of_the_requests() {
        let mut random = Random::seeded(7);
        let drawn: Vec<u64> = (0..100_000).map(|_| draw(&mut random, 1_000)).collect();
        assert!(drawn.iter().all(|key| (1..=1_000).contains(key)));
        let share = drawn.iter().filter(|key| **key <= 200).count() as f64 / drawn.len() as f64;
        assert!((0.78..0.82).contains(&share), "{share}");
        assert_eq!(draw(&mut random, 1), 1);
    }
}
