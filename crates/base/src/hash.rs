//! The hash of user data: SipHash-1-3 with a key drawn once per process, so that clients cannot build
//! colliding keys.
//!
//! Clients do see hashes: cursors are prefixes of them, and collections are listed in their order. So the
//! function has to stay unpredictable to a client that knows many of its results. SipHash is a pseudorandom
//! function (Aumasson and Bernstein, 2012; the rounds are those of Rust's standard library), which
//! multiply-mix hashes are not: some results give their seed away.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::SHARD_BITS;
use crate::slot::slot_of;

/// The keyed hash function: SipHash's state after the key has been taken in.
#[derive(Clone)]
pub struct KeyHasher([u64; 4]);

impl std::fmt::Debug for KeyHasher {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHasher(..)")
    }
}

static PROCESS: OnceLock<KeyHasher> = OnceLock::new();
/// The hasher of keys, unless their hashes have slots in them: then it stays empty, so that all keys come to
/// [`hash_of_other_key`], and other servers do not pay for the question.
static KEYS: OnceLock<KeyHasher> = OnceLock::new();
static KEYS_HAVE_SLOTS: AtomicBool = AtomicBool::new(false);

/// Bits of a slot that choose the shard; the others come first in the shard's directory.
const SLOT_LOW_BITS: u32 = 14 - SHARD_BITS;
/// Where the lower bits of the slot stand in a key's hash: the highest of those that choose the segment.
const SLOT_LOW_SHIFT: u32 = 48 - SLOT_LOW_BITS;
const SLOT_LOW_MASK: u64 = (1 << SLOT_LOW_BITS) - 1;
const SHARD_MASK: u64 = (1 << SHARD_BITS) - 1;

/// SipHash's constants, "somepseudorandomlygeneratedbytes".
const CONSTANTS: [u64; 4] =
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];

/// A SipRound.
#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

/// Takes a word in.
#[inline(always)]
fn absorb(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    v[0] ^= word;
}

/// Up to seven bytes as a little-endian number. Bytes that are read twice come to lie on themselves.
#[inline(always)]
fn tail_word(tail: &[u8]) -> u64 {
    let len = tail.len();
    if let (Some(first), Some(last)) = (tail.first_chunk::<4>(), tail.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first))
            | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4));
    }
    let (Some(first), Some(last)) = (tail.first(), tail.last()) else { return 0 };
    let middle = u64::from(tail[len / 2]) << (8 * (len / 2));
    u64::from(*first) | middle | u64::from(*last) << (8 * (len - 1))
}

impl KeyHasher {
    /// The process' hasher; its key is drawn at the first call.
    pub fn process() -> KeyHasher {
        PROCESS.get_or_init(KeyHasher::random).clone()
    }

    /// A hasher of a key from the operating system's randomness, which the standard library's hasher of the
    /// same kind carries here: it needs no system call that could be refused.
    fn random() -> KeyHasher {
        let [low, high] = [0_u8, 1].map(|half| std::hash::RandomState::new().hash_one(half));
        KeyHasher::keyed(low, high)
    }

    /// The hasher of a key of 128 bits.
    fn keyed(low: u64, high: u64) -> KeyHasher {
        let keys = [low, high, low, high];
        KeyHasher(std::array::from_fn(|i| CONSTANTS[i] ^ keys[i]))
    }

    /// SipHash-1-3 of `bytes`.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut v = self.0;
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            absorb(&mut v, u64::from_le_bytes(*word));
        }
        absorb(&mut v, (bytes.len() as u64) << 56 | tail_word(tail));
        v[2] ^= 0xff;
        (0..3).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

/// [`KeyHasher::hash`] with the process' key.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    match PROCESS.get() {
        Some(hasher) => hasher.hash(bytes),
        None => KeyHasher::process().hash(bytes),
    }
}

/// The hash of a key, from which its shard and its place in the shard's table follow: [`hash_bytes`] or, in a
/// node of a cluster, that with the key's slot in it ([`use_slots`]).
#[inline]
pub fn hash_key(name: &[u8]) -> u64 {
    match KEYS.get() {
        Some(hasher) => hasher.hash(name),
        None => hash_of_other_key(name),
    }
}

#[cold]
#[inline(never)]
fn hash_of_other_key(name: &[u8]) -> u64 {
    if !has_slots() {
        return KEYS.get_or_init(KeyHasher::process).hash(name);
    }
    let slot = u64::from(slot_of(name));
    let places = (slot >> SLOT_LOW_BITS) | ((slot & SLOT_LOW_MASK) << SLOT_LOW_SHIFT);
    (hash_bytes(name) & !(SHARD_MASK | (SLOT_LOW_MASK << SLOT_LOW_SHIFT))) | places
}

/// Has keys' hashes carry their slots, from the first key on. To be called before there is one.
///
/// # Panics
/// When a key has been hashed without.
pub fn use_slots() {
    KEYS_HAVE_SLOTS.store(true, Ordering::SeqCst);
    assert!(KEYS.get().is_none(), "keys have been hashed before it was known that this is a cluster's node");
}

/// Whether keys' hashes carry their slots.
#[inline]
pub fn has_slots() -> bool {
    KEYS_HAVE_SLOTS.load(Ordering::Relaxed)
}

/// The slot in a key's hash; meaningless unless [`has_slots`].
#[inline]
pub fn slot_in(hash: u64) -> u16 {
    (((hash & SHARD_MASK) << SLOT_LOW_BITS) | ((hash >> SLOT_LOW_SHIFT) & SLOT_LOW_MASK)) as u16
}

/// The shard of a slot's keys.
#[inline]
pub fn shard_of_slot(slot: u16) -> usize {
    usize::from(slot >> SLOT_LOW_BITS)
}

/// The lowest hash that a key of this slot can have as far as its segment goes, the tag left out, and the
/// highest.
pub fn slot_bounds(slot: u16) -> (u64, u64) {
    let low = (u64::from(slot) & SLOT_LOW_MASK) << SLOT_LOW_SHIFT;
    (low, low | ((1 << SLOT_LOW_SHIFT) - 1))
}

/// Maps even hashes to uneven ones, keeping their order: x + x (1 - x) / 3 of a fraction x, close to log2(1 +
/// x).
///
/// Where a hash's upper bits choose a block that grows, splits and frees its old memory, the prefixes at the
/// upper end get twice the entries of those at the lower end. Were all alike, all blocks would fill, grow and
/// split at about the same time, and the freed memory would lie idle until the table has doubled; so, blocks
/// of every size exist at any time, and one takes the memory that another leaves.
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
    fn hashes_are_those_of_the_standard_librarys_sip_hash() {
        use std::hash::Hasher;
        let bytes: Vec<u8> = (0..100_u8).map(|i| i.wrapping_mul(151).wrapping_add(200)).collect();
        for len in 0..=bytes.len() {
            // The standard library's `DefaultHasher` is SipHash-1-3 with a key of zeros.
            let mut expected = std::hash::DefaultHasher::new();
            expected.write(&bytes[..len]);
            assert_eq!(KeyHasher::keyed(0, 0).hash(&bytes[..len]), expected.finish(), "{len} bytes");
        }
    }

    #[test]
    fn each_draw_of_a_key_gives_another_hasher() {
        let drawn: std::collections::HashSet<u64> =
            (0..100).map(|_| KeyHasher::random().hash(b"key")).collect();
        assert_eq!(drawn.len(), 100);
        assert_ne!(KeyHasher::keyed(1, 0).hash(b"key"), KeyHasher::keyed(0, 1).hash(b"key"));
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
