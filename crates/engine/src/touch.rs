//! The record of a key's use: 24 bits in its entry, by the eviction policy.

use martlet_base::random::Random;

/// What an access writes into an entry's 24 bits of access information.
#[derive(Copy, Clone, Debug)]
pub enum Touch {
    /// Nothing (CLIENT NO-TOUCH, OBJECT, DEBUG).
    Nothing,
    /// The LRU clock, in seconds.
    Lru(u32),
    /// The same clock, which only a change of the key sets (Redis' LRM).
    Lrm(u32),
    /// Frequency: decay by minutes, count with falling probability (Redis' LFU).
    Lfu {
        /// The clock, in minutes, 16 bits.
        minutes: u16,
        /// `lfu-log-factor`.
        log_factor: u32,
        /// `lfu-decay-time`, minutes.
        decay_minutes: u32,
    },
    /// Recency and frequency as one number, by the clock of evictions: see [`Lrfu`].
    Lrfu(Lrfu),
}

/// The count that a new key starts with under LFU (Redis: `LFU_INIT_VAL`).
const LFU_INITIAL: u32 = 5;

impl Touch {
    /// The initial record of a key that is created at `now_ms`.
    pub(crate) fn initial(self, now_ms: i64) -> u32 {
        match self {
            Touch::Nothing => (now_ms / 1000) as u32 & 0xff_ffff,
            Touch::Lru(clock) | Touch::Lrm(clock) => clock & 0xff_ffff,
            Touch::Lfu { minutes, .. } => (u32::from(minutes) << 8) | LFU_INITIAL,
            Touch::Lrfu(lrfu) => lrfu.initial(),
        }
    }

    /// Whether accesses are counted, so that the count outlives the value.
    #[inline]
    pub(crate) fn counts(self) -> bool {
        matches!(self, Touch::Lfu { .. } | Touch::Lrfu(_))
    }

    /// The frequency that the 24 bits stand for now, decayed.
    pub fn frequency(old: u32, minutes: u16, decay_minutes: u32) -> u32 {
        let counter = old & 0xff;
        let elapsed = u32::from(minutes.wrapping_sub((old >> 8) as u16));
        match elapsed.checked_div(decay_minutes) {
            Some(periods) => counter.saturating_sub(periods),
            None => counter,
        }
    }

    #[inline]
    pub(crate) fn next(self, old: u32, random: &mut Random) -> u32 {
        match self {
            Touch::Nothing | Touch::Lrm(_) => old,
            Touch::Lru(clock) => clock & 0xff_ffff,
            Touch::Lfu { minutes, log_factor, decay_minutes } => {
                next_frequency(old, minutes, log_factor, decay_minutes, random)
            }
            Touch::Lrfu(lrfu) => lrfu.next(old, random),
        }
    }
}

/// Decays the count of accesses and, with falling probability, adds one.
#[inline(never)]
fn next_frequency(old: u32, minutes: u16, log_factor: u32, decay_minutes: u32, random: &mut Random) -> u32 {
    let mut counter = Touch::frequency(old, minutes, decay_minutes);
    if counter < 255 {
        let base = f64::from(counter.saturating_sub(LFU_INITIAL));
        if random.unit_f64() < 1.0 / (base * f64::from(log_factor) + 1.0) {
            counter += 1;
        }
    }
    (u32::from(minutes) << 8) | counter
}

/// The LRFU policy (Lee and others, "LRFU: a spectrum of policies that subsumes the least recently used and
/// least frequently used policies", IEEE Transactions on Computers 50(12), 2001).
///
/// Each access counts one when it happens and half as much after each half-life, so that a key's value is the
/// present sum of its accesses. The time is that of the cache: how often as many keys have been evicted as it
/// holds. So nothing ages where nothing has to be evicted.
///
/// Of the 24 bits the upper 16 are the clock at the last access, in [`Lrfu::TICKS_PER_TURNOVER`]; the lower 8
/// the binary logarithm of the value then, in sixteenths, rounded at random so that small additions count.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Lrfu {
    /// The clock; it turns over after 1,024 turnovers of the cache.
    pub tick: u16,
}

impl Lrfu {
    /// Ticks in which as many keys are evicted as there are.
    pub const TICKS_PER_TURNOVER: u64 = 64;
    /// Turnovers after which an access counts half. Of 1 to 64, 4 and 8 had the best hit rates over four
    /// synthetic loads; shorter ones follow changes sooner, longer ones bear more passing keys.
    const HALF_LIFE_TURNOVERS: u64 = 4;
    /// Parts of a binary logarithm that a tick is: 256.
    const PARTS: i32 = (Self::TICKS_PER_TURNOVER * Self::HALF_LIFE_TURNOVERS) as i32;
    /// Those of one step of the lower 8 bits.
    const STEP: i32 = Self::PARTS / 16;

    /// A key with one access now.
    fn initial(self) -> u32 {
        u32::from(self.tick) << 8
    }

    /// The logarithm of the 24 bits' present value, in parts of [`Lrfu::PARTS`].
    fn aged(self, old: u32) -> i32 {
        let elapsed = i32::from(self.tick.wrapping_sub((old >> 8) as u16));
        (old & 0xff) as i32 * Self::STEP - elapsed
    }

    /// The 24 bits after one more access.
    #[inline(never)]
    fn next(self, old: u32, random: &mut Random) -> u32 {
        let logarithm = f64::from(self.aged(old)) / f64::from(Self::PARTS);
        let steps = (logarithm.exp2() + 1.0).log2() * 16.0;
        let level = (steps + random.unit_f64()) as u32;
        (u32::from(self.tick) << 8) | level.min(0xff)
    }

    /// What accesses still count together, rounded (OBJECT FREQ).
    pub fn value(self, old: u32) -> u64 {
        (f64::from(self.aged(old)) / f64::from(Self::PARTS)).exp2().round() as u64
    }

    /// The 24 bits of a key that is worth `value` now.
    pub fn with_value(self, value: u32) -> u32 {
        let level = f64::from(value.max(1)).log2() * 16.0;
        (u32::from(self.tick) << 8) | (level as u32).min(0xff)
    }

    /// How soon a key goes: the higher, the sooner.
    pub(crate) fn score(self, old: u32) -> u64 {
        let highest = 0xff * Self::STEP;
        (highest - self.aged(old)).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_count_half_after_each_half_life() {
        let mut random = Random::seeded(3);
        let now = Lrfu { tick: 65_500 };
        let mut bits = now.initial();
        assert_eq!(now.value(bits), 1);
        for _ in 1..64 {
            bits = now.next(bits, &mut random);
        }
        assert!((58..=70).contains(&now.value(bits)), "{}", now.value(bits));
        // The clock turns over in this time.
        let after = |half_lives: u16| Lrfu { tick: now.tick.wrapping_add(half_lives * 256) };
        assert!((14..=18).contains(&after(2).value(bits)));
        assert_eq!(after(20).value(bits), 0);
        let scores = [now, after(1), after(8), after(100)].map(|later| later.score(bits));
        assert!(scores.is_sorted() && scores[0] < scores[1]);
    }

    #[test]
    fn the_level_ends_at_the_top_and_values_read_back() {
        let mut random = Random::seeded(3);
        let now = Lrfu { tick: 5 };
        let mut bits = now.initial() | 0xff;
        bits = now.next(bits, &mut random);
        assert_eq!(bits, (5 << 8) | 0xff);
        for value in [1, 2, 16, 255] {
            let read = now.value(now.with_value(value));
            assert!(read.abs_diff(u64::from(value)) <= u64::from(value) / 20, "{value} {read}");
        }
        assert_eq!(now.with_value(0), now.initial());
    }
}
