//! The compression of memory: blocks of up to [`BLOCK_SAMPLES`] samples whose fields have one width each, so
//! that a block is decoded without a branch per sample.
//!
//! A block's timestamps are its first one and the distances from each to the next, less the smallest
//! distance. Its values are one of:
//!
//! - *decimal*: doubles that are integers divided by one power of ten (a gauge of one decimal: 21.5 is 215
//!   of 10), kept as the integers less the smallest, or as the differences of neighbours less the smallest,
//!   whichever is narrower. A division of two exact numbers restores each double to the bit.
//! - *ordered*: the doubles' bits, which integers in the doubles' order stand for, less the smallest and
//!   without the zeros at the end that all have; for values that are no short decimals.
//! - *XOR*: each double XORed with the one before, as in the saved form, where that is smaller by a fifth;
//!   it is decoded bit by bit.
//!
//! Invariant: the head lies outside the bytes; only this module writes the bytes that it reads.
//! Behind a chunk's last block stand [`PADDING_BYTES`] zeros, so that whole words can be loaded anywhere.

use crate::sample::Sample;

/// Most samples of a block.
pub const BLOCK_SAMPLES: usize = 128;
/// Zeros behind the last block of a chunk.
pub const PADDING_BYTES: usize = 8;

/// Integers beyond do not all exist as doubles.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Wider fields do not fit a word that begins at any bit of a byte; they are given whole words.
const WIDTH_MAX: u32 = 57;
/// Zeros at the end that an ordered form leaves out, as far as its head can tell.
const SHIFT_MAX: u32 = 31;
/// How much smaller XORed doubles are than ordered ones where they are taken: so many parts of so many.
const XOR_GAIN: (usize, usize) = (4, 5);
/// Powers of ten that a double has exactly, as far as decimals are tried.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// How the values of a block are kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum ValueForm {
    /// `(base + field) / 10^scale`.
    Offsets,
    /// As `Offsets`, but each integer is the one before plus a smallest difference plus a field.
    Differences,
    /// XORed doubles.
    Xor,
    /// The bits of [`ordered`] integers: `base + (field << shift)`.
    Ordered,
}

/// The head of a block, beside its bytes: 32 bytes.
#[derive(Copy, Clone, Debug)]
pub struct Block {
    /// The first timestamp.
    pub first: u64,
    /// The last timestamp.
    pub last: u64,
    /// The integer or the bits that the values start from.
    base: u64,
    /// Where its bytes begin.
    offset: u32,
    /// Samples less one.
    last_index: u8,
    timestamp_width: u8,
    value_width: u8,
    /// The form in the upper three bits, the scale or the shift below.
    code: u8,
}

const _: () = assert!(size_of::<Block>() == 32);

impl Block {
    /// Samples in the block, at least one.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "no block is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.last_index) + 1
    }

    /// Appends the samples, ascending and 1 to [`BLOCK_SAMPLES`] of them, to the bytes before their padding.
    /// `None` if the bytes have grown beyond what an offset reaches, or there are no samples.
    pub fn encode(samples: &[Sample], bytes: &mut Vec<u8>) -> Option<Block> {
        let (first, last) = (samples.first()?, samples.last()?);
        let last_index =
            u8::try_from(samples.len() - 1).ok().filter(|index| usize::from(*index) < BLOCK_SAMPLES)?;
        bytes.truncate(bytes.len().saturating_sub(PADDING_BYTES));
        let offset = u32::try_from(bytes.len()).ok()?;
        let distances = || samples.windows(2).map(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp));
        let smallest = distances().min().unwrap_or(0);
        let widest = distances().max().unwrap_or(0) - smallest;
        let timestamp_width = field_width(widest);
        push_varint(bytes, smallest);
        pack(distances().map(|distance| distance - smallest), timestamp_width, bytes);
        let mut block = Block {
            first: first.timestamp,
            last: last.timestamp,
            base: 0,
            offset,
            last_index,
            timestamp_width: timestamp_width as u8,
            value_width: 0,
            code: 0,
        };
        match Decimals::of(samples) {
            Some(decimals) => block.push_decimals(&decimals, bytes),
            None => block.push_doubles(samples, bytes),
        }
        bytes.extend([0; PADDING_BYTES]);
        Some(block)
    }

    fn push_decimals(&mut self, decimals: &Decimals, bytes: &mut Vec<u8>) {
        let integers = &decimals.integers[..self.len()];
        let bounds = |numbers: &mut dyn Iterator<Item = i64>| {
            numbers.fold((i64::MAX, i64::MIN), |(low, high), number| (low.min(number), high.max(number)))
        };
        let (low, high) = bounds(&mut integers.iter().copied());
        let differences = || integers.windows(2).map(|pair| pair[1] - pair[0]);
        let offsets_width = field_width(high.wrapping_sub(low) as u64);
        if integers.len() > 1 {
            let (smallest, greatest) = bounds(&mut differences());
            let width = field_width(greatest.wrapping_sub(smallest) as u64);
            let mut start = Vec::with_capacity(10);
            push_varint(&mut start, zigzag(smallest));
            let differences_bits = (integers.len() - 1) * width as usize + start.len() * 8;
            if differences_bits < integers.len() * offsets_width as usize {
                self.set_values(ValueForm::Differences, decimals.scale, integers[0] as u64, width);
                bytes.extend(start);
                pack(differences().map(|difference| (difference - smallest) as u64), width, bytes);
                return;
            }
        }
        self.set_values(ValueForm::Offsets, decimals.scale, low as u64, offsets_width);
        pack(integers.iter().map(|integer| (integer - low) as u64), offsets_width, bytes);
    }

    /// Of the two forms for any doubles the one that is decoded faster, unless the other is much smaller.
    fn push_doubles(&mut self, samples: &[Sample], bytes: &mut Vec<u8>) {
        let integers = || samples.iter().map(|sample| ordered(sample.value.to_bits()));
        let (low, high) = integers().fold((u64::MAX, 0), |(low, high), bits| (low.min(bits), high.max(bits)));
        let shift = integers().fold(0, |all, bits| all | (bits - low)).trailing_zeros().min(SHIFT_MAX);
        let width = field_width((high - low) >> shift);
        let start = bytes.len();
        self.push_xors(samples, bytes);
        let xor_bytes = bytes.len() - start;
        if packed_bytes(samples.len(), width) * XOR_GAIN.0 <= xor_bytes * XOR_GAIN.1 {
            bytes.truncate(start);
            self.set_values(ValueForm::Ordered, shift as u8, low, width);
            pack(integers().map(|bits| (bits - low) >> shift), width, bytes);
        }
    }

    /// A bit for a value that is the one before; else a bit for zeros that are the last ones or follow, the
    /// zeros, and what is between them.
    fn push_xors(&mut self, samples: &[Sample], bytes: &mut Vec<u8>) {
        let bits = |sample: &Sample| sample.value.to_bits();
        self.set_values(ValueForm::Xor, 0, samples.first().map_or(0, bits), 0);
        let mut packer = Packer { bytes, word: 0, used: 0 };
        let (mut leading, mut trailing) = (64, 0);
        for pair in samples.windows(2) {
            let xor = bits(&pair[0]) ^ bits(&pair[1]);
            packer.push(u64::from(xor != 0), 1);
            if xor == 0 {
                continue;
            }
            let (zeros, ends) = (xor.leading_zeros(), xor.trailing_zeros());
            let reuses = zeros >= leading && ends >= trailing && zeros + ends < leading + trailing + 12;
            packer.push(u64::from(!reuses), 1);
            if !reuses {
                (leading, trailing) = (zeros, ends);
                packer.push(u64::from(leading), 6);
                packer.push(u64::from(63 - leading - trailing), 6);
            }
            packer.push(xor >> trailing, 64 - leading - trailing);
        }
        packer.finish();
    }

    fn set_values(&mut self, form: ValueForm, scale: u8, base: u64, width: u32) {
        (self.base, self.value_width, self.code) = (base, width as u8, (form as u8) << 5 | scale);
    }

    /// Writes the timestamps into the start of `into`.
    pub fn timestamps(&self, bytes: &[u8], into: &mut [u64; BLOCK_SAMPLES]) {
        let (smallest, fields) = self.smallest_distance(bytes);
        let length = self.len();
        into[0] = self.first;
        if self.timestamp_width == 0 {
            let mut next = self.first;
            for timestamp in &mut into[..length] {
                *timestamp = next;
                next = next.wrapping_add(smallest);
            }
            return;
        }
        let mut distances = [0; BLOCK_SAMPLES];
        unpack(fields, length - 1, u32::from(self.timestamp_width), &mut distances);
        let mut timestamp = self.first;
        for (slot, distance) in into[1..length].iter_mut().zip(&distances) {
            timestamp = timestamp.wrapping_add(smallest).wrapping_add(*distance);
            *slot = timestamp;
        }
    }

    /// Writes the values into the start of `into`.
    pub fn values(&self, bytes: &[u8], into: &mut [f64; BLOCK_SAMPLES]) {
        let (_, fields) = self.smallest_distance(bytes);
        let skipped = packed_bytes(self.len() - 1, u32::from(self.timestamp_width));
        let fields = fields.get(skipped..).unwrap_or_default();
        let width = u32::from(self.value_width);
        let divisor = POWERS[usize::from(self.code & 15)];
        let into = &mut into[..self.len()];
        match self.code >> 5 {
            0 => {
                let mut offsets = [0; BLOCK_SAMPLES];
                unpack(fields, into.len(), width, &mut offsets);
                for (value, offset) in into.iter_mut().zip(&offsets) {
                    *value = self.base.wrapping_add(*offset) as i64 as f64;
                }
                divide(into, divisor);
            }
            1 => {
                let (smallest, start) = read_varint(fields);
                let smallest = unzigzag(smallest);
                let mut differences = [0; BLOCK_SAMPLES];
                let fields = fields.get(start..).unwrap_or_default();
                unpack(fields, into.len() - 1, width, &mut differences);
                let mut integer = self.base as i64;
                into[0] = integer as f64;
                for (value, difference) in into[1..].iter_mut().zip(&differences) {
                    integer = integer.wrapping_add(smallest).wrapping_add(*difference as i64);
                    *value = integer as f64;
                }
                divide(into, divisor);
            }
            2 => self.xored_values(fields, into),
            _ => {
                let mut offsets = [0; BLOCK_SAMPLES];
                unpack(fields, into.len(), width, &mut offsets);
                let shift = u32::from(self.code & 31);
                for (value, offset) in into.iter_mut().zip(&offsets) {
                    *value = f64::from_bits(unordered(self.base.wrapping_add(offset << shift)));
                }
            }
        }
    }

    fn xored_values(&self, fields: &[u8], into: &mut [f64]) {
        let mut bit = 0usize;
        let mut take = |width: u32| {
            let taken = load_bits(fields, bit, width);
            bit += width as usize;
            taken
        };
        let (mut value, mut length, mut trailing) = (self.base, 0, 0);
        for (index, slot) in into.iter_mut().enumerate() {
            if index > 0 && take(1) == 1 {
                if take(1) == 1 {
                    let leading = take(6) as u32;
                    length = take(6) as u32 + 1;
                    trailing = 64u32.saturating_sub(leading + length);
                }
                value ^= take(length) << trailing;
            }
            *slot = f64::from_bits(value);
        }
    }

    /// The smallest distance of two timestamps, and the bytes after it.
    #[inline]
    fn smallest_distance<'a>(&self, bytes: &'a [u8]) -> (u64, &'a [u8]) {
        let bytes = bytes.get(self.offset as usize..).unwrap_or_default();
        let (smallest, start) = read_varint(bytes);
        (smallest, bytes.get(start..).unwrap_or_default())
    }
}

/// An integer for a double's bits: the greater the double, the greater it is.
#[inline]
fn ordered(bits: u64) -> u64 {
    bits ^ (((bits as i64 >> 63) as u64) | 1 << 63)
}

/// The bits of an [`ordered`] integer.
#[inline]
fn unordered(integer: u64) -> u64 {
    integer ^ (((!integer as i64 >> 63) as u64) | 1 << 63)
}

/// Values that are integers divided by one power of ten.
struct Decimals {
    scale: u8,
    integers: [i64; BLOCK_SAMPLES],
}

impl Decimals {
    fn of(samples: &[Sample]) -> Option<Decimals> {
        let mut scale = 0;
        for sample in samples {
            while !is_decimal(sample.value, *POWERS.get(scale)?) {
                scale += 1;
            }
        }
        let power = *POWERS.get(scale)?;
        let mut integers = [0; BLOCK_SAMPLES];
        for (integer, sample) in integers.iter_mut().zip(samples) {
            // A value of fewer decimals also has this many, unless its integer becomes too large.
            if !is_decimal(sample.value, power) {
                return None;
            }
            *integer = nearest(sample.value * power) as i64;
        }
        Some(Decimals { scale: scale as u8, integers })
    }
}

/// The nearest integer of a number below 2^51; no call, where `round` is one on most targets.
#[inline]
fn nearest(number: f64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    (number + SHIFT) - SHIFT
}

/// Whether a double is the quotient of an integer and the power of ten, to the bit.
#[inline]
fn is_decimal(value: f64, power: f64) -> bool {
    let scaled = value * power;
    let integer = nearest(scaled);
    scaled.abs() < EXACT_MAX / 4.0 && (integer / power).to_bits() == value.to_bits()
}

#[inline]
fn divide(values: &mut [f64], divisor: f64) {
    if divisor != 1.0 {
        values.iter_mut().for_each(|value| *value /= divisor);
    }
}

/// Bits of a field that holds numbers up to `greatest`.
fn field_width(greatest: u64) -> u32 {
    let width = 64 - greatest.leading_zeros();
    if width > WIDTH_MAX { 64 } else { width }
}

/// Bytes of `count` fields of one width.
fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends fields to bytes, from the lowest bit.
struct Packer<'a> {
    bytes: &'a mut Vec<u8>,
    word: u64,
    used: u32,
}

impl Packer<'_> {
    fn push(&mut self, field: u64, width: u32) {
        self.word |= field << self.used;
        let filled = self.used + width;
        if filled >= 64 {
            self.bytes.extend(self.word.to_le_bytes());
            self.word = if self.used == 0 { 0 } else { field >> (64 - self.used) };
            self.used = filled - 64;
        } else {
            self.used = filled;
        }
    }

    fn finish(self) {
        let bytes = self.word.to_le_bytes();
        self.bytes.extend(&bytes[..self.used.div_ceil(8) as usize]);
    }
}

fn pack(fields: impl Iterator<Item = u64>, width: u32, bytes: &mut Vec<u8>) {
    if width > 0 {
        let mut packer = Packer { bytes, word: 0, used: 0 };
        fields.for_each(|field| packer.push(field, width));
        packer.finish();
    }
}

/// Up to 64 bits from any bit on; zeros past the end.
#[inline]
fn load_bits(bytes: &[u8], bit: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let (at, shift) = (bit / 8, (bit % 8) as u32);
    let mut value = word(bytes, at) >> shift;
    if shift + width > 64 {
        value |= u64::from(bytes.get(at + 8).copied().unwrap_or(0)) << (64 - shift);
    }
    if width == 64 { value } else { value & ((1 << width) - 1) }
}

/// Unpacks `count` fields of a width up to [`WIDTH_MAX`], or 64; the fields are followed by padding.
fn unpack(bytes: &[u8], count: usize, width: u32, into: &mut [u64; BLOCK_SAMPLES]) {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                0 => into[..count].fill(0),
                $($width => unpack_groups::<$width>(bytes, count, into),)*
                _ => unpack_wide(bytes, count, width as usize, into),
            }
        };
    }
    // Those of decimals, and those of doubles.
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 50 51 52 53 54 55 56 57)
}

/// Eight fields of `WIDTH` bits fill `WIDTH` bytes: each group begins at a byte, at offsets known when this
/// is compiled.
#[inline(always)]
fn unpack_groups<const WIDTH: usize>(bytes: &[u8], count: usize, into: &mut [u64; BLOCK_SAMPLES]) {
    let mask = (1u64 << WIDTH) - 1;
    for (group, slots) in into.chunks_exact_mut(8).take(count.div_ceil(8)).enumerate() {
        let start = group * WIDTH;
        let Some(source) = bytes.get(start..start + WIDTH + 8) else {
            // The last group may end beyond the padding.
            for (index, slot) in slots.iter_mut().enumerate() {
                *slot = load_bits(bytes, start * 8 + index * WIDTH, WIDTH as u32);
            }
            continue;
        };
        for (index, slot) in slots.iter_mut().enumerate() {
            let bit = index * WIDTH;
            *slot = word(source, bit / 8) >> (bit % 8) & mask;
        }
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word(rest),
    }
}

/// Fewer than eight bytes.
#[cold]
#[inline(never)]
fn last_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn unpack_wide(bytes: &[u8], count: usize, width: usize, into: &mut [u64; BLOCK_SAMPLES]) {
    let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
    for (index, slot) in into[..count].iter_mut().enumerate() {
        let bit = index * width;
        *slot = word(bytes, bit / 8) >> (bit % 8) & mask;
    }
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A number and the bytes that it takes.
fn read_varint(bytes: &[u8]) -> (u64, usize) {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return (number, index + 1);
        }
    }
    (number, bytes.len().min(10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;

    fn round_trip(samples: &[Sample], bytes: &mut Vec<u8>) -> Block {
        let block = Block::encode(samples, bytes).unwrap();
        let (mut timestamps, mut values) = ([0; BLOCK_SAMPLES], [0.0; BLOCK_SAMPLES]);
        block.timestamps(bytes, &mut timestamps);
        block.values(bytes, &mut values);
        let decoded: Vec<Sample> = (0..block.len())
            .map(|index| Sample { timestamp: timestamps[index], value: values[index] })
            .collect();
        assert_eq!(decoded, samples);
        block
    }

    fn samples(values: impl IntoIterator<Item = f64>) -> Vec<Sample> {
        values.into_iter().enumerate().map(|(index, value)| Sample::new(index as u64 * 1000, value)).collect()
    }

    #[test]
    fn every_form_goes_round_to_the_bit() {
        let seed = 0x0062_6c6f_636b;
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let mut bytes = vec![0; PADDING_BYTES];
        for _ in 0..if cfg!(miri) { 20 } else { 4000 } {
            let count = 1 + random.below(BLOCK_SAMPLES as u64) as usize;
            let kind = random.below(9);
            let is_wide = random.below(8) == 0;
            let jitter = 1 << random.below(if is_wide { 60 } else { 12 });
            let mut timestamp = random.below(1 << 40);
            let mut walk = random.below(1000) as f64;
            let samples: Vec<Sample> = (0..count)
                .map(|_| {
                    timestamp += 1 + random.below(jitter) % (1 << 55);
                    walk += random.below(21) as f64 - 10.0;
                    let value = match kind {
                        0 => f64::from_bits(random.next_u64()),
                        1 => walk,
                        2 => walk / 10.0,
                        3 => (walk * 1000.0).round() / 1000.0,
                        4 => random.unit_f64(),
                        5 => random.next_u64() as f64,
                        6 => [0.0, -0.0, f64::NAN, f64::INFINITY, 1e300, f64::MIN_POSITIVE]
                            [random.below(6) as usize],
                        7 => 1e6 * timestamp as f64,
                        _ => 0.1,
                    };
                    Sample::new(timestamp, value)
                })
                .collect();
            round_trip(&samples, &mut bytes);
            if bytes.len() > 10_000 {
                bytes = vec![0; PADDING_BYTES];
            }
        }
    }

    #[test]
    fn a_gauge_of_few_decimals_takes_few_bits() {
        let forms = [
            (samples((0..128).map(|index| f64::from(index % 10))), ValueForm::Offsets, 4),
            (samples((0..128).map(|index| 20.0 + f64::from(index % 4) / 4.0)), ValueForm::Offsets, 7),
            (samples((0..128).map(|index| f64::from(index * 1000 + index % 3))), ValueForm::Differences, 2),
            (samples((0..128).map(|index| 1.0 / f64::from(index + 3))), ValueForm::Ordered, 55),
            (samples((0..128).map(|index| 1.0 / f64::from(index / 16 + 3))), ValueForm::Xor, 0),
        ];
        for (samples, form, width) in forms {
            let block = round_trip(&samples, &mut vec![0; PADDING_BYTES]);
            assert_eq!((block.code >> 5, block.value_width), (form as u8, width), "{form:?}");
        }
    }

    #[test]
    fn what_is_no_short_decimal_is_not_taken_for_one() {
        for value in [f64::NAN, f64::INFINITY, -0.0, 1e17, 0.1 + 0.2, 1.0 / 3.0] {
            assert!(Decimals::of(&[Sample::new(0, value)]).is_none(), "{value}");
        }
        for (value, scale) in [(0.0, 0), (-7.0, 0), (0.1, 1), (21.57, 2), (-1e-6, 6)] {
            assert_eq!(
                Decimals::of(&[Sample::new(0, value)]).map(|decimals| decimals.scale),
                Some(scale),
                "{value}"
            );
        }
    }
}
