//! The generator behind `math.random`: the 48-bit linear congruence of POSIX' `lrand48`, so that a seed gives
//! the same numbers as on Redis.

/// See the [module docs](self).
#[derive(Debug)]
pub struct Random(u64);

const FACTOR: u64 = 0x5_DEEC_E66D;
const SUMMAND: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;

impl Default for Random {
    fn default() -> Random {
        Random(0x1234_ABCD_330E)
    }
}

impl Random {
    /// Starts a sequence.
    pub fn seed(&mut self, seed: u32) {
        self.0 = u64::from(seed) << 16 | 0x330E;
    }

    /// The next number, between 0 and 1.
    pub fn next_unit(&mut self) -> f64 {
        const MAX: u64 = i32::MAX as u64;
        self.0 = self.0.wrapping_mul(FACTOR).wrapping_add(SUMMAND) & MASK;
        ((self.0 >> 17) % MAX) as f64 / MAX as f64
    }
}
