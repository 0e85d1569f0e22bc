//! How components become stored bytes and come back, as Redis' vector sets do it (facts from their
//! documentation and from dumps): normalisation with the length kept, int8 by one range per vector, one bit
//! per component, and REDUCE's projection. Every function here gives the bits that Redis 8.2.3 and 8.6.2
//! give.

/// The number of components that a vector may have, Redis' limit.
pub const DIMENSION_MAX: usize = 32_768;
/// Entries of a projection's matrix, at most: 256 MB.
pub const PROJECTION_MAX: usize = 1 << 26;

/// How a graph stores its vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// 32-bit floats (NOQUANT).
    F32,
    /// One signed byte per component, scaled by the vector's largest one (Q8).
    Q8,
    /// One bit per component: whether it is positive (BIN).
    Bin,
}

impl Encoding {
    /// Bytes of a stored vector of `dimension` components, as in the saved form.
    pub const fn stored_bytes(self, dimension: usize) -> usize {
        match self {
            Encoding::F32 => dimension * 4,
            Encoding::Q8 => dimension,
            Encoding::Bin => dimension.div_ceil(64) * 8,
        }
    }

    /// The name that VINFO gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::F32 => "f32",
            Encoding::Q8 => "int8",
            Encoding::Bin => "bin",
        }
    }
}

/// Scales a vector to length 1 and returns its former length; a vector of zeros stays, and its length is
/// given as 1.
///
/// The sum is made in the order of Redis (four squares at a time, in f32), so that the length has the same
/// bits.
pub fn normalise(values: &mut [f32]) -> f32 {
    let mut sum = 0.0f32;
    let (fours, rest) = values.as_chunks::<4>();
    for [a, b, c, d] in fours {
        sum += a * a + b * b + c * c + d * d;
    }
    for value in rest {
        sum += value * value;
    }
    if sum == 0.0 {
        return 1.0;
    }
    let length = sum.sqrt();
    values.iter_mut().for_each(|value| *value /= length);
    length
}

/// Quantises to bytes in `[-127, 127]`, and returns the range: the largest absolute component, which 127
/// stands for.
pub fn quantise_q8(values: &[f32], out: &mut [i8]) -> f32 {
    let range = values.iter().fold(0.0f32, |range, value| range.max(value.abs()));
    if range == 0.0 {
        out.fill(0);
        return 0.0;
    }
    let scale = 127.0 / range;
    for (byte, value) in out.iter_mut().zip(values) {
        *byte = (value * scale).round() as i8;
    }
    range
}

/// Sets the bit of each positive component, 64 components in a word, lowest bit first.
pub fn quantise_bin(values: &[f32], out: &mut [u64]) {
    for (word, chunk) in out.iter_mut().zip(values.chunks(64)) {
        *word = chunk.iter().rev().fold(0, |word, value| (word << 1) | u64::from(*value > 0.0));
    }
}

/// Encodes a vector that is normalised already into its stored bytes; returns the range (0 but for Q8).
pub fn encode(encoding: Encoding, values: &[f32], out: &mut Vec<u8>) -> f32 {
    out.clear();
    match encoding {
        Encoding::F32 => {
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            0.0
        }
        Encoding::Q8 => {
            let mut bytes = vec![0i8; values.len()];
            let range = quantise_q8(values, &mut bytes);
            out.extend(bytes.iter().map(|byte| *byte as u8));
            range
        }
        Encoding::Bin => {
            let mut words = vec![0u64; values.len().div_ceil(64)];
            quantise_bin(values, &mut words);
            out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            0.0
        }
    }
}

/// The components that VEMB replies: the stored ones scaled back to the vector's former length; 1 and -1
/// for BIN.
pub fn reconstruct(encoding: Encoding, stored: &[u8], dimension: usize, range: f32, length: f32) -> Vec<f32> {
    let mut values: Vec<f32> = match encoding {
        Encoding::F32 => stored.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Encoding::Q8 => stored.iter().map(|byte| (f32::from(*byte as i8) * range) / 127.0).collect(),
        Encoding::Bin => (0..dimension)
            .map(|index| {
                let is_set = stored.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
                if is_set { 1.0 } else { -1.0 }
            })
            .collect(),
    };
    values.truncate(dimension);
    if encoding != Encoding::Bin {
        values.iter_mut().for_each(|value| *value *= length);
    }
    values
}

/// REDUCE's matrix, from `input` components to `output`.
///
/// Entry (i, j) is `1/sqrt(input)`, negative when i and j have an odd number of one-bits in common (a
/// Hadamard pattern). Loaded sets keep the matrix that they were saved with.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    input: usize,
    output: usize,
    matrix: Box<[f32]>,
}

impl Projection {
    /// The matrix for these dimensions; `None` if one of them is 0 or above [`DIMENSION_MAX`], or the matrix
    /// would have more than [`PROJECTION_MAX`] entries.
    pub fn new(input: usize, output: usize) -> Option<Projection> {
        if !Self::is_possible(input, output) {
            return None;
        }
        let scale = (1.0 / (input as f64).sqrt()) as f32;
        let entry = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { scale } else { -scale };
        let matrix = (0..output).flat_map(|i| (0..input).map(move |j| entry(i, j))).collect();
        Some(Projection { input, output, matrix })
    }

    fn is_possible(input: usize, output: usize) -> bool {
        let dimensions = 1..=DIMENSION_MAX;
        dimensions.contains(&input) && dimensions.contains(&output) && input * output <= PROJECTION_MAX
    }

    /// The matrix from its saved bytes, row by row; `None` when the dimensions or the length are wrong.
    pub fn from_bytes(input: usize, output: usize, bytes: &[u8]) -> Option<Projection> {
        if !Self::is_possible(input, output) || bytes.len() != input * output * 4 {
            return None;
        }
        let matrix = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Some(Projection { input, output, matrix })
    }

    /// The saved form of the matrix.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.matrix.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// Components of a vector before the projection.
    pub fn input(&self) -> usize {
        self.input
    }

    /// Components of a vector after the projection.
    pub fn output(&self) -> usize {
        self.output
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.matrix.len() * 4
    }

    /// Projects a vector of `input` components; `None` for any other length. Sums are in order, as in Redis.
    pub fn apply(&self, values: &[f32]) -> Option<Vec<f32>> {
        if values.len() != self.input {
            return None;
        }
        let dot = |row: &[f32]| row.iter().zip(values).fold(0.0f32, |sum, (a, b)| sum + a * b);
        Some(self.matrix.chunks_exact(self.input).map(dot).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Answers of redis 8.2.3 and 8.6.2 to VEMB k a RAW and VEMB k a after VADD k VALUES 3 1 2 3 a.
    #[test]
    fn q8_equals_the_oracles() {
        let mut values = [1.0f32, 2.0, 3.0];
        let length = normalise(&mut values);
        assert_eq!(f64::from(length), 3.7416574954986572);
        let mut stored = Vec::new();
        let range = encode(Encoding::Q8, &values, &mut stored);
        assert_eq!(stored, b"*U\x7f");
        assert_eq!(f64::from(range), 0.8017836809158325);
        let back = reconstruct(Encoding::Q8, &stored, 3, range, length);
        // VEMB's double replies carry 17 digits of the widened f32.
        assert_eq!(
            back.iter().map(|value| f64::from(*value)).collect::<Vec<_>>(),
            [0.992125928401947, 2.007874011993408, 3.0]
        );
    }

    #[test]
    fn the_projection_equals_the_oracles() {
        // The matrix in a DUMP after VADD r REDUCE 2 VALUES 3 1 2 3 a BIN.
        let projection = Projection::new(3, 2).unwrap();
        let expected = [0x3f13cd3au32, 0x3f13cd3a, 0x3f13cd3a, 0x3f13cd3a, 0xbf13cd3a, 0x3f13cd3a];
        let bits: Vec<u32> = projection.matrix.iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, expected);
        assert_eq!(Projection::from_bytes(3, 2, &projection.to_bytes()), Some(projection));
        assert!(Projection::new(2, 3).is_some_and(|wider| wider.apply(&[1.0, 2.0]).unwrap().len() == 3));
        assert!(Projection::new(DIMENSION_MAX, DIMENSION_MAX).is_none());
        assert!(Projection::new(DIMENSION_MAX + 1, 3).is_none());
        assert!(Projection::from_bytes(3, 2, &[0; 23]).is_none());
    }

    #[test]
    fn zeros_are_left_alone() {
        let mut values = [0.0f32; 5];
        assert_eq!(normalise(&mut values), 1.0);
        let mut stored = Vec::new();
        assert_eq!(encode(Encoding::Q8, &values, &mut stored), 0.0);
        assert_eq!(stored, [0; 5]);
        assert_eq!(reconstruct(Encoding::Q8, &stored, 5, 0.0, 1.0), [0.0; 5]);
    }

    proptest! {
        #[test]
        fn what_is_stored_comes_back_within_its_step(
            mut values in prop::collection::vec(-100.0f32..100.0, 1..200)
        ) {
            let original = values.clone();
            let length = normalise(&mut values);
            for encoding in [Encoding::F32, Encoding::Q8, Encoding::Bin] {
                let mut stored = Vec::new();
                let range = encode(encoding, &values, &mut stored);
                prop_assert_eq!(stored.len(), encoding.stored_bytes(values.len()));
                let back = reconstruct(encoding, &stored, values.len(), range, length);
                prop_assert_eq!(back.len(), values.len());
                for (was, is) in original.iter().zip(&back) {
                    match encoding {
                        Encoding::F32 => prop_assert!((was - is).abs() <= was.abs() * 1e-5 + 1e-5),
                        Encoding::Q8 => prop_assert!((was - is).abs() <= range * length / 127.0 * 0.51 + 1e-4),
                        Encoding::Bin => prop_assert_eq!(*is, if *was > 0.0 { 1.0 } else { -1.0 }),
                    }
                }
            }
        }
    }
}
