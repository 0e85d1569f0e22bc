//! Sets of shards, and which of them a thread has locked.

use martlet_base::limits::SHARD_COUNT;

/// The shards that a thread has locked. No other thread has them then, which makes access sound.
#[derive(Debug, Default)]
pub enum LockedShards {
    /// None.
    #[default]
    None,
    /// The lock of one shard.
    One(usize),
    /// The locks of several shards.
    Many(Box<ShardSet>),
    /// The locks of all shards, beside the other threads.
    Every,
    /// All of them: the gate is closed and this thread is the one inside.
    All,
}

/// Shards, a bit for each: whether one is among a thousand is asked for each of their keys several times.
#[derive(Debug, Default)]
pub struct ShardSet([u64; SHARD_COUNT / 64]);

impl ShardSet {
    #[inline]
    pub(crate) fn contains(&self, shard: usize) -> bool {
        self.0[shard / 64] >> (shard % 64) & 1 == 1
    }

    fn add(&mut self, shard: usize) {
        self.0[shard / 64] |= 1 << (shard % 64);
    }

    /// The shards, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                (left != 0).then(|| {
                    left &= left - 1;
                    at * 64 + bit
                })
            })
        })
    }
}

impl FromIterator<usize> for ShardSet {
    fn from_iter<I: IntoIterator<Item = usize>>(shards: I) -> ShardSet {
        let mut set = ShardSet::default();
        shards.into_iter().for_each(|shard| set.add(shard));
        set
    }
}

impl LockedShards {
    #[inline]
    pub(crate) fn covers(&self, shard: usize) -> bool {
        match self {
            LockedShards::None => false,
            LockedShards::One(locked) => *locked == shard,
            LockedShards::Many(locked) => locked.contains(shard),
            LockedShards::Every | LockedShards::All => true,
        }
    }

    /// One more has been locked, above the others.
    pub(crate) fn add(&mut self, shard: usize) {
        match self {
            LockedShards::None => *self = LockedShards::One(shard),
            LockedShards::One(first) => {
                debug_assert!(*first < shard, "shards are locked in ascending order");
                *self = LockedShards::Many(Box::new([*first, shard].into_iter().collect()));
            }
            LockedShards::Many(shards) => shards.add(shard),
            LockedShards::Every | LockedShards::All => {}
        }
    }
}
