//! The compression of the saved form: delta-of-delta timestamps and XORed doubles in one stream of bits.
//!
//! The scheme is that of "Gorilla: A Fast, Scalable, In-Memory Time Series Database" (VLDB 2015), with the
//! bucket widths, the order of bits and the rules for when a chunk is full that RedisTimeSeries has. Bits
//! fill 64-bit little-endian words from the lowest; the first sample stands beside the stream.
//!
//! Invariant: [`Meter`], [`encode`] and [`decode`] agree on every bit: the encoder writes exactly the samples
//! that a meter admits into a chunk.

use crate::sample::{CANONICAL_NAN, Sample};

/// Widths of a difference of deltas, and how many bits announce each. A wider one takes 64 bits.
const DELTA_WIDTHS: [(u32, u32); 5] = [(5, 2), (8, 3), (11, 4), (15, 5), (32, 6)];
/// Bits that announce a difference of 64 bits.
const WIDEST_PREFIX_BITS: u32 = 6;
/// Bits that tell the number of leading zeros.
const LEADING_BITS: u32 = 5;
/// Bits that tell the number of meaningful bits, less one.
const BLOCK_BITS: u32 = 6;
/// Leading and trailing zeros before the first changed value.
const UNSET_ZEROS: u32 = 32;

/// The encoder's state after a sample.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Samples so far.
    pub count: u64,
    /// Bits written so far.
    pub bits: u64,
    /// The last timestamp.
    pub timestamp: u64,
    /// The last distance between two timestamps.
    pub delta: i64,
    /// The last value's bits.
    pub value: u64,
    /// Leading zeros that the next value may reuse.
    pub leading: u32,
    /// Trailing zeros that the next value may reuse.
    pub trailing: u32,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            count: 0,
            bits: 0,
            timestamp: 0,
            delta: 0,
            value: 0,
            leading: UNSET_ZEROS,
            trailing: UNSET_ZEROS,
        }
    }
}

/// How one sample is written after another.
#[derive(Copy, Clone, Debug)]
struct Step {
    delta: i64,
    difference: i64,
    /// The width of the difference and of what announces it; the width is 0 for none.
    width: u32,
    prefix: u32,
    xor: u64,
    leading: u32,
    trailing: u32,
    /// Whether the zeros are those of the value before.
    reuses: bool,
}

impl Step {
    #[inline]
    fn new(meter: &Meter, sample: Sample) -> Step {
        let delta = sample.timestamp.wrapping_sub(meter.timestamp) as i64;
        let difference = delta.wrapping_sub(meter.delta);
        let (width, prefix) = match difference {
            0 => (0, 1),
            _ => {
                // Bits of two's complement that hold the difference.
                let needed = 65 - (difference ^ (difference >> 63)).leading_zeros();
                let found = DELTA_WIDTHS.iter().find(|(width, _)| needed <= *width);
                found.map_or((64, WIDEST_PREFIX_BITS), |(width, prefix)| (*width, *prefix))
            }
        };
        let xor = value_bits(sample.value) ^ meter.value;
        if xor == 0 {
            let (leading, trailing) = (meter.leading, meter.trailing);
            return Step { delta, difference, width, prefix, xor, leading, trailing, reuses: true };
        }
        let (leading, trailing) = (xor.leading_zeros().min(31), xor.trailing_zeros());
        let fits = leading >= meter.leading && trailing >= meter.trailing;
        let own = LEADING_BITS + BLOCK_BITS + (64 - leading - trailing);
        let reuses = fits && own > 64 - meter.leading - meter.trailing;
        let (leading, trailing) = if reuses { (meter.leading, meter.trailing) } else { (leading, trailing) };
        Step { delta, difference, width, prefix, xor, leading, trailing, reuses }
    }

    /// Meaningful bits of the value.
    #[inline]
    fn block(&self) -> u32 {
        64 - self.leading - self.trailing
    }

    /// Bits of the timestamp.
    #[inline]
    fn timestamp_bits(&self) -> u64 {
        u64::from(self.prefix + self.width)
    }

    /// Bits of the value after the one that says whether it has changed.
    #[inline]
    fn value_bits(&self) -> u64 {
        match (self.xor, self.reuses) {
            (0, _) => 0,
            (_, true) => u64::from(self.block()),
            (_, false) => u64::from(LEADING_BITS + BLOCK_BITS + self.block()),
        }
    }
}

fn value_bits(value: f64) -> u64 {
    if value.is_nan() { CANONICAL_NAN } else { value.to_bits() }
}

impl Meter {
    /// Admits a sample into a chunk of `capacity_bits`; false leaves the meter as it was. The chunk counts as
    /// full one bit earlier than the bits alone demand, since space is asked for with a bit of reserve.
    #[inline]
    pub fn push(&mut self, sample: Sample, capacity_bits: u64) -> bool {
        if self.count == 0 {
            self.timestamp = sample.timestamp;
            self.value = value_bits(sample.value);
            self.delta = 0;
            self.count = 1;
            return true;
        }
        let step = Step::new(self, sample);
        let free = capacity_bits.saturating_sub(self.bits);
        let timestamp_bits = step.timestamp_bits();
        if timestamp_bits + 1 > free {
            return false;
        }
        let mut bits = timestamp_bits + 1;
        if step.xor != 0 {
            if step.value_bits() + 1 > free - bits {
                return false;
            }
            bits += 1 + step.value_bits();
        }
        self.bits += bits;
        self.step(&step, sample);
        true
    }

    #[inline]
    fn step(&mut self, step: &Step, sample: Sample) {
        self.count += 1;
        self.timestamp = sample.timestamp;
        self.delta = step.delta;
        self.value ^= step.xor;
        self.leading = step.leading;
        self.trailing = step.trailing;
    }
}

/// Appends bits to words.
#[derive(Default)]
struct BitWriter {
    words: Vec<u64>,
    /// Used bits of the last word; 0 without a word or if it is full.
    used: u32,
}

impl BitWriter {
    fn push(&mut self, data: u64, width: u32) {
        if width == 0 {
            return;
        }
        let data = if width == 64 { data } else { data & ((1 << width) - 1) };
        match self.words.last_mut() {
            Some(last) if self.used > 0 => {
                *last |= data << self.used;
                let free = 64 - self.used;
                if width >= free {
                    self.used = width - free;
                    if self.used > 0 {
                        self.words.push(data >> free);
                    }
                } else {
                    self.used += width;
                }
            }
            _ => {
                self.words.push(data);
                self.used = width % 64;
            }
        }
    }
}

/// The stream of samples after the first, `size_bytes` long with zeros at its end, and the encoder's state.
/// The caller has measured that they fit.
pub fn encode(samples: impl Iterator<Item = Sample>, size_bytes: usize) -> (Vec<u8>, Meter) {
    let mut writer = BitWriter::default();
    let mut meter = Meter::default();
    for sample in samples {
        if meter.count == 0 {
            meter.push(sample, 0);
            continue;
        }
        let step = Step::new(&meter, sample);
        // The bits that announce the width are ones, ended by a zero but for the widest.
        let announced = match step.width {
            0 => 0,
            64 => (1 << WIDEST_PREFIX_BITS) - 1,
            _ => (1 << (step.prefix - 1)) - 1,
        };
        writer.push(announced, step.prefix);
        writer.push(step.difference as u64, step.width);
        writer.push(u64::from(step.xor != 0), 1);
        if step.xor != 0 {
            writer.push(u64::from(!step.reuses), 1);
            if !step.reuses {
                writer.push(u64::from(step.leading), LEADING_BITS);
                writer.push(u64::from(step.block() - 1), BLOCK_BITS);
            }
            writer.push(step.xor >> step.trailing, step.block());
            meter.bits += 1 + step.value_bits();
        }
        meter.bits += step.timestamp_bits() + 1;
        meter.step(&step, sample);
    }
    let mut bytes: Vec<u8> = writer.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(size_bytes, 0);
    (bytes, meter)
}

/// Reads bits from bytes; `None` past their end.
struct BitReader<'a> {
    bytes: &'a [u8],
    bit: u64,
    end: u64,
}

impl BitReader<'_> {
    fn take(&mut self, width: u32) -> Option<u64> {
        if width == 0 {
            return Some(0);
        }
        let next = self.bit.checked_add(u64::from(width)).filter(|next| *next <= self.end)?;
        let start = usize::try_from(self.bit / 8).ok()?;
        let shift = (self.bit % 8) as u32;
        let mut window = [0; 16];
        let rest = self.bytes.get(start..)?;
        let length = rest.len().min(16);
        window[..length].copy_from_slice(&rest[..length]);
        self.bit = next;
        let value = u128::from_le_bytes(window) >> shift;
        Some(if width == 64 { value as u64 } else { value as u64 & ((1 << width) - 1) })
    }

    fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|bit| bit == 1)
    }
}

/// Reads `count` samples, of which the first is given, from a stream of `bits` bits. `None` if the stream
/// ends early, or announces more meaningful bits than a double has. Each sample takes two bits at least, so
/// the result is never longer than the bytes allow.
pub fn decode(first: Sample, count: u64, bytes: &[u8], bits: u64) -> Option<Vec<Sample>> {
    if bits > (bytes.len() as u64).saturating_mul(8) || count.saturating_sub(1) > bits / 2 {
        return None;
    }
    let mut samples = Vec::with_capacity(usize::try_from(count).ok()?);
    if count == 0 {
        return Some(samples);
    }
    samples.push(Sample::new(first.timestamp, first.value));
    let mut reader = BitReader { bytes, bit: 0, end: bits };
    let (mut timestamp, mut delta) = (first.timestamp, 0i64);
    let (mut value, mut leading, mut block) = (first.value.to_bits(), UNSET_ZEROS, 0u32);
    for _ in 1..count {
        delta = delta.wrapping_add(difference(&mut reader)?);
        timestamp = timestamp.wrapping_add(delta as u64);
        if reader.flag()? {
            if reader.flag()? {
                leading = reader.take(LEADING_BITS)? as u32;
                block = reader.take(BLOCK_BITS)? as u32 + 1;
                if leading + block > 64 {
                    return None;
                }
            }
            let meaningful = reader.take(block)?;
            // Before any block was announced it is empty, and nothing changes.
            let trailing = 64 - leading - block;
            value ^= if block == 0 { 0 } else { meaningful << trailing };
        }
        samples.push(Sample::new(timestamp, f64::from_bits(value)));
    }
    Some(samples)
}

fn difference(reader: &mut BitReader<'_>) -> Option<i64> {
    if !reader.flag()? {
        return Some(0);
    }
    for (width, _) in DELTA_WIDTHS {
        if !reader.flag()? {
            let shift = 64 - width;
            return Some(((reader.take(width)? << shift) as i64) >> shift);
        }
    }
    reader.take(64).map(|bits| bits as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;

    fn random_samples(random: &mut Random, count: usize) -> Vec<Sample> {
        let mut timestamp = random.below(1 << 40);
        let kind = random.below(4);
        (0..count)
            .map(|_| {
                let is_wide = random.below(20) == 0;
                let reach = 1u64 << random.below(if is_wide { 50 } else { 12 });
                timestamp += 1 + random.below(reach);
                let value = match kind {
                    0 => f64::from_bits(random.next_u64()),
                    1 => random.below(100) as f64,
                    2 => random.below(1000) as f64 / 10.0,
                    _ => 7.0,
                };
                Sample::new(timestamp, value)
            })
            .collect()
    }

    #[test]
    fn what_is_encoded_is_decoded_and_measured() {
        let seed = 0x7365_7269_6573;
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for _ in 0..if cfg!(miri) { 5 } else { 500 } {
            let count = 1 + random.below(200) as usize;
            let samples = random_samples(&mut random, count);
            let mut meter = Meter::default();
            assert!(samples.iter().all(|sample| meter.push(*sample, u64::MAX)));
            let size = (meter.bits.div_ceil(64) * 8) as usize;
            let (bytes, encoded) = encode(samples.iter().copied(), size);
            assert_eq!((bytes.len(), encoded), (size, meter));
            let decoded = decode(samples[0], meter.count, &bytes, meter.bits).unwrap();
            assert_eq!(decoded, samples);
            if meter.bits > 0 {
                assert_eq!(decode(samples[0], meter.count, &bytes, meter.bits - 1), None);
            }
        }
    }

    #[test]
    fn a_count_that_the_bits_cannot_hold_allocates_nothing() {
        assert_eq!(decode(Sample::default(), u64::MAX, &[0; 16], 128), None);
        assert_eq!(decode(Sample::default(), 66, &[0; 16], 128), None);
        assert_eq!(decode(Sample::default(), 65, &[0; 16], 128).map(|samples| samples.len()), Some(65));
        assert_eq!(decode(Sample::default(), 2, &[0; 16], 129), None);
    }

    #[test]
    fn a_full_chunk_admits_nothing() {
        let mut meter = Meter::default();
        let sample = |second: u64| Sample::new(second * 1000, second as f64);
        let admitted = (0..1000).take_while(|second| meter.push(sample(*second), 48 * 8)).count();
        assert!((5..100).contains(&admitted), "{admitted}");
        let before = meter;
        assert!(!meter.push(sample(admitted as u64), 48 * 8));
        assert_eq!(meter, before);
    }
}
