//! Key hashing with a seed drawn once per process, so that nobody outside can build colliding keys.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use foldhash::quality::RandomState;

/// The seeded hash function. Copy it into hot structures: it holds the seed itself.
#[derive(Clone, Debug)]
pub struct KeyHasher(RandomState);

static PROCESS: OnceLock<KeyHasher> = OnceLock::new();

impl KeyHasher {
    /// The process' hasher; the seed is drawn at the first call.
    pub fn process() -> KeyHasher {
        PROCESS.get_or_init(|| KeyHasher(RandomState::default())).clone()
    }

    /// 64 well-mixed bits of `bytes`.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }
}

/// [`KeyHasher::hash`] with the process' seed.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    match PROCESS.get() {
        Some(hasher) => hasher.hash(bytes),
        None => KeyHasher::process().hash(bytes),
    }
}

/// Maps even hashes to uneven ones, keeping their order: x + x (1 - x) / 3 of a fraction x, close to log2(1 +
/// x).
///
/// Where a hash's upper bits choose a block that grows, splits and frees what it had, the prefixes at the
/// upper end get twice the entries of those at the lower end. Were all alike, all blocks would fill, grow and
/// split at about the same time, and what they leave behind would lie idle until the table has doubled; so,
/// blocks of every size exist at any time, and what one leaves another takes.
#[inline(always)]
pub fn spread(hash: u64) -> u64 {
    let high = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 64) as u64;
    hash + high(high(hash, !hash), u64::MAX / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn equal_bytes_hash_alike_and_bits_spread() {
        let mut low = [0u32; 16];
        let mut high = [0u32; 16];
        for i in 0..16_000u32 {
            let key = format!("key:{i}");
            let h = hash_bytes(key.as_bytes());
            assert_eq!(h, hash_bytes(key.as_bytes()));
            low[(h & 15) as usize] += 1;
            high[(h >> 60) as usize] += 1;
        }
        for count in low.into_iter().chain(high) {
            assert!((850..1150).contains(&count), "bucket count {count} is far from 1000");
        }
    }

    #[test]
    fn spread_keeps_the_order_and_the_range() {
        let points = (0..=1000u64).map(|i| i * (u64::MAX / 1000));
        let images: Vec<u64> = points.map(spread).collect();
        assert!(images.is_sorted_by(|a, b| a < b));
        assert_eq!((spread(0), spread(u64::MAX)), (0, u64::MAX));
        // Twice the density at the upper end.
        let (low, high) = (images[1] - images[0], images[1000] - images[999]);
        assert!((1.95..2.05).contains(&(low as f64 / high as f64)));
    }
}
