//! Distance kernels, chosen once per process by the processor's features: AVX-512 with VNNI, AVX2, NEON, or
//! the portable twin that each of them is tested against. A kernel reads exactly the common length of its
//! arguments.

/// Defines a kernel of one vector with many rows from the kernel of two vectors, which is inlined: no call
/// per row.
macro_rules! rows {
    ($name:ident, $one:ident, $component:ty, $result:ty $(, $features:literal)?) => {
        /// # Safety
        /// Each row has as many components as the vector.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn $name(vector: &[$component], rows: &[*const $component], out: &mut [$result]) {
            for (row, result) in rows.iter().zip(out) {
                // SAFETY: the row is as long as the vector, says the caller.
                *result = $one(vector, unsafe { std::slice::from_raw_parts(*row, vector.len()) });
            }
        }
    };
}

mod portable;

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

type DotF32 = unsafe fn(&[f32], &[f32]) -> f32;
type CosineF32 = unsafe fn(&[f32], &[f32]) -> Cosine;
type DotI8 = unsafe fn(&[i8], &[i8]) -> i32;
type Hamming = unsafe fn(&[u64], &[u64]) -> u32;
/// One vector, rows of the same length, and a result for each row.
type Rows<C, R> = unsafe fn(&[C], &[*const C], &mut [R]);

/// The three sums from which the cosine of two vectors is made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cosine {
    /// The dot product.
    pub dot: f32,
    /// The squared length of the first vector.
    pub left: f32,
    /// The squared length of the second vector.
    pub right: f32,
}

impl Cosine {
    /// `1 - cosine`, in `[0, 2]`; 1 when either vector is all zeros.
    pub fn distance(self) -> f32 {
        let lengths = (self.left * self.right).sqrt();
        if lengths == 0.0 { 1.0 } else { 1.0 - self.dot / lengths }
    }
}

/// One implementation of every kernel.
#[derive(Clone, Copy)]
pub struct Kernels {
    name: &'static str,
    dot_f32: DotF32,
    l2_f32: DotF32,
    cosine_f32: CosineF32,
    dot_i8: DotI8,
    hamming: Hamming,
    dot_f32_rows: Rows<f32, f32>,
    l2_f32_rows: Rows<f32, f32>,
    dot_i8_rows: Rows<i8, i32>,
    hamming_rows: Rows<u64, u32>,
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kernels").field(&self.name).finish()
    }
}

impl Kernels {
    /// The fastest kernels that this processor runs.
    pub fn best() -> Kernels {
        static BEST: OnceLock<Kernels> = OnceLock::new();
        *BEST.get_or_init(|| Kernels::available().pop().unwrap_or_else(Kernels::portable))
    }

    /// The kernels without instructions of one architecture.
    pub fn portable() -> Kernels {
        Kernels {
            name: "portable",
            dot_f32: portable::dot_f32,
            l2_f32: portable::l2_f32,
            cosine_f32: portable::cosine_f32,
            dot_i8: portable::dot_i8,
            hamming: portable::hamming,
            dot_f32_rows: portable::dot_f32_rows,
            l2_f32_rows: portable::l2_f32_rows,
            dot_i8_rows: portable::dot_i8_rows,
            hamming_rows: portable::hamming_rows,
        }
    }

    /// Every implementation that this processor runs, the slowest first.
    pub fn available() -> Vec<Kernels> {
        let mut kernels = vec![Kernels::portable()];
        #[cfg(target_arch = "x86_64")]
        x86::add_available(&mut kernels);
        #[cfg(target_arch = "aarch64")]
        neon::add_available(&mut kernels);
        kernels
    }

    /// The implementation's name, for logs and benches.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The dot product of two vectors.
    #[inline]
    pub fn dot_f32(&self, a: &[f32], b: &[f32]) -> f32 {
        // SAFETY: a set of kernels is made only where the processor has its instructions.
        unsafe { (self.dot_f32)(a, b) }
    }

    /// The squared Euclidean distance.
    #[inline]
    pub fn l2_f32(&self, a: &[f32], b: &[f32]) -> f32 {
        // SAFETY: a set of kernels is made only where the processor has its instructions.
        unsafe { (self.l2_f32)(a, b) }
    }

    /// Dot product and squared lengths in one pass, for vectors that are not normalised.
    #[inline]
    pub fn cosine_f32(&self, a: &[f32], b: &[f32]) -> Cosine {
        // SAFETY: a set of kernels is made only where the processor has its instructions.
        unsafe { (self.cosine_f32)(a, b) }
    }

    /// The dot product of quantised vectors; exact up to 131,071 components.
    #[inline]
    pub fn dot_i8(&self, a: &[i8], b: &[i8]) -> i32 {
        // SAFETY: a set of kernels is made only where the processor has its instructions.
        unsafe { (self.dot_i8)(a, b) }
    }

    /// The number of bits that differ.
    #[inline]
    pub fn hamming(&self, a: &[u64], b: &[u64]) -> u32 {
        // SAFETY: a set of kernels is made only where the processor has its instructions.
        unsafe { (self.hamming)(a, b) }
    }

    /// The dot product with each row.
    ///
    /// # Safety
    /// Each row has as many components as the vector.
    #[inline]
    pub(crate) unsafe fn dot_f32_rows(&self, vector: &[f32], rows: &[*const f32], out: &mut [f32]) {
        // SAFETY: the processor has the instructions, and the rows are long enough, says the caller.
        unsafe { (self.dot_f32_rows)(vector, rows, out) }
    }

    /// The squared Euclidean distance with each row.
    ///
    /// # Safety
    /// Each row has as many components as the vector.
    #[inline]
    pub(crate) unsafe fn l2_f32_rows(&self, vector: &[f32], rows: &[*const f32], out: &mut [f32]) {
        // SAFETY: the processor has the instructions, and the rows are long enough, says the caller.
        unsafe { (self.l2_f32_rows)(vector, rows, out) }
    }

    /// The dot product with each row.
    ///
    /// # Safety
    /// Each row has as many components as the vector.
    #[inline]
    pub(crate) unsafe fn dot_i8_rows(&self, vector: &[i8], rows: &[*const i8], out: &mut [i32]) {
        // SAFETY: the processor has the instructions, and the rows are long enough, says the caller.
        unsafe { (self.dot_i8_rows)(vector, rows, out) }
    }

    /// The number of bits that differ with each row.
    ///
    /// # Safety
    /// Each row has as many components as the vector.
    #[inline]
    pub(crate) unsafe fn hamming_rows(&self, vector: &[u64], rows: &[*const u64], out: &mut [u32]) {
        // SAFETY: the processor has the instructions, and the rows are long enough, says the caller.
        unsafe { (self.hamming_rows)(vector, rows, out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f32, b: f32, scale: f32) -> bool {
        (a - b).abs() <= 1e-5 * scale.max(1.0)
    }

    proptest! {
        #[test]
        fn floats_agree_with_the_portable_twin(
            pairs in prop::collection::vec((-10.0f32..10.0, -10.0f32..10.0), 0..300),
            offset in 0usize..8,
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let (a, b) = (&a[offset.min(a.len())..], &b[offset.min(b.len())..]);
            let twin = Kernels::portable();
            let scale = a.len() as f32 * 100.0;
            for kernels in Kernels::available() {
                prop_assert!(close(kernels.dot_f32(a, b), twin.dot_f32(a, b), scale), "{kernels:?}");
                prop_assert!(close(kernels.l2_f32(a, b), twin.l2_f32(a, b), scale), "{kernels:?}");
                let (sums, expected) = (kernels.cosine_f32(a, b), twin.cosine_f32(a, b));
                prop_assert!(close(sums.dot, expected.dot, scale), "{kernels:?}");
                prop_assert!(close(sums.left, expected.left, scale), "{kernels:?}");
                prop_assert!(close(sums.right, expected.right, scale), "{kernels:?}");
            }
        }

        #[test]
        fn integers_equal_the_portable_twin(
            pairs in prop::collection::vec((any::<i8>(), any::<i8>()), 0..500),
            offset in 0usize..64,
        ) {
            let (a, b): (Vec<i8>, Vec<i8>) = pairs.into_iter().unzip();
            let (a, b) = (&a[offset.min(a.len())..], &b[offset.min(b.len())..]);
            let expected: i32 = a.iter().zip(b).map(|(x, y)| i32::from(*x) * i32::from(*y)).sum();
            for kernels in Kernels::available() {
                prop_assert_eq!(kernels.dot_i8(a, b), expected, "{:?}", kernels);
            }
        }

        #[test]
        fn bits_equal_the_portable_twin(pairs in prop::collection::vec((any::<u64>(), any::<u64>()), 0..70)) {
            let (a, b): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
            let expected: u32 = a.iter().zip(&b).map(|(x, y)| (x ^ y).count_ones()).sum();
            for kernels in Kernels::available() {
                prop_assert_eq!(kernels.hamming(&a, &b), expected, "{:?}", kernels);
            }
        }
    }

    #[test]
    fn rows_equal_pairs() {
        let mut random = martlet_base::random::Random::seeded(3);
        for length in [1, 7, 16, 63, 64, 65, 128, 300] {
            let mut next = || (0..length).map(|_| random.next_u64()).collect::<Vec<u64>>();
            let all: Vec<Vec<u64>> = (0..6).map(|_| next()).collect();
            let bytes = |row: &Vec<u64>| row.iter().map(|word| *word as i8).collect::<Vec<i8>>();
            let floats = |row: &Vec<u64>| row.iter().map(|word| *word as i8 as f32).collect::<Vec<f32>>();
            let (bytes, floats): (Vec<_>, Vec<_>) =
                (all.iter().map(bytes).collect(), all.iter().map(floats).collect());
            for kernels in Kernels::available() {
                let (mut sums, mut counts, mut dots) = ([0i32; 5], [0u32; 5], [0f32; 5]);
                let rows: Vec<_> = bytes[1..].iter().map(|row| row.as_ptr()).collect();
                // SAFETY: all rows have the same length.
                unsafe { kernels.dot_i8_rows(&bytes[0], &rows, &mut sums) };
                let rows: Vec<_> = all[1..].iter().map(|row| row.as_ptr()).collect();
                // SAFETY: all rows have the same length.
                unsafe { kernels.hamming_rows(&all[0], &rows, &mut counts) };
                let rows: Vec<_> = floats[1..].iter().map(|row| row.as_ptr()).collect();
                for row in 0..5 {
                    assert_eq!(sums[row], kernels.dot_i8(&bytes[0], &bytes[row + 1]), "{kernels:?}");
                    assert_eq!(counts[row], kernels.hamming(&all[0], &all[row + 1]), "{kernels:?}");
                }
                // SAFETY: all rows have the same length.
                unsafe { kernels.dot_f32_rows(&floats[0], &rows, &mut dots) };
                assert_eq!(dots[4], kernels.dot_f32(&floats[0], &floats[5]), "{kernels:?}");
                // SAFETY: all rows have the same length.
                unsafe { kernels.l2_f32_rows(&floats[0], &rows, &mut dots) };
                assert_eq!(dots[4], kernels.l2_f32(&floats[0], &floats[5]), "{kernels:?}");
            }
        }
    }

    #[test]
    fn arguments_of_unequal_length_are_read_to_the_shorter_end() {
        for kernels in Kernels::available() {
            assert_eq!(kernels.dot_f32(&[1.0; 40], &[2.0; 33]), 66.0, "{kernels:?}");
            assert_eq!(kernels.l2_f32(&[1.0; 3], &[2.0; 50]), 3.0, "{kernels:?}");
            assert_eq!(kernels.dot_i8(&[-128; 100], &[-128; 99]), 99 * 16384, "{kernels:?}");
            assert_eq!(kernels.hamming(&[0; 9], &[!0; 8]), 512, "{kernels:?}");
        }
    }

    #[test]
    fn cosine_of_a_zero_vector_is_neutral() {
        assert_eq!(Kernels::best().cosine_f32(&[0.0; 4], &[1.0; 4]).distance(), 1.0);
        assert_eq!(Kernels::best().cosine_f32(&[2.0, 0.0], &[0.0, 3.0]).distance(), 1.0);
        assert_eq!(Kernels::best().cosine_f32(&[2.0, 0.0], &[3.0, 0.0]).distance(), 0.0);
    }
}
