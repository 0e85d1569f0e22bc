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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
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
}
