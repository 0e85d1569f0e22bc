//! Kernels for x86-64: AVX2 with FMA, and AVX-512 with VNNI and VPOPCNTDQ. Loads never pass the common
//! length of the arguments: AVX-512 masks the last one, AVX2 leaves the tail to scalar code.
//!
//! No closure here handles registers: a function without the kernel's instructions, such as `array::map`,
//! cannot have one inlined, and would pass every register through memory.

use super::{Cosine, Kernels, portable};
use std::arch::x86_64::*;

/// Adds the implementations that this processor runs.
pub(super) fn add_available(kernels: &mut Vec<Kernels>) {
    let has_avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("popcnt");
    if !has_avx2 {
        return;
    }
    let avx2 = Kernels {
        name: "avx2",
        dot_f32: dot_f32_avx2,
        l2_f32: l2_f32_avx2,
        cosine_f32: cosine_f32_avx2,
        dot_i8: dot_i8_avx2,
        hamming: hamming_popcnt,
        dot_f32_rows: dot_f32_rows_avx2,
        l2_f32_rows: l2_f32_rows_avx2,
        dot_i8_rows: dot_i8_rows_avx2,
        hamming_rows: hamming_rows_popcnt,
    };
    kernels.push(avx2);
    let has_avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni");
    if has_avx512 {
        let has_popcount = is_x86_feature_detected!("avx512vpopcntdq");
        kernels.push(Kernels {
            name: "avx512",
            dot_f32: dot_f32_avx512,
            l2_f32: l2_f32_avx512,
            cosine_f32: cosine_f32_avx512,
            dot_i8: dot_i8_avx512,
            hamming: if has_popcount { hamming_avx512 } else { avx2.hamming },
            dot_f32_rows: dot_f32_rows_avx512,
            l2_f32_rows: l2_f32_rows_avx512,
            dot_i8_rows: dot_i8_rows_avx512,
            hamming_rows: if has_popcount { hamming_rows_avx512 } else { avx2.hamming_rows },
        });
    }
}

/// The sum of a register's lanes.
#[target_feature(enable = "avx2")]
fn sum_avx2(sums: __m256) -> f32 {
    let half = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
    let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
    _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
}

/// A register of eight floats.
#[inline]
#[target_feature(enable = "avx2")]
fn load_avx2(values: &[f32; 8]) -> __m256 {
    // SAFETY: the array has the register's size; the load has no alignment.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn dot_f32_avx2(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<8>();
    let (others, other_tail) = b[..length].as_chunks::<8>();
    let mut sums = [_mm256_setzero_ps(); 4];
    for (index, (left, right)) in chunks.iter().zip(others).enumerate() {
        let sum = &mut sums[index % 4];
        *sum = _mm256_fmadd_ps(load_avx2(left), load_avx2(right), *sum);
    }
    let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    sum_avx2(sum) + portable::dot_f32(tail, other_tail)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn l2_f32_avx2(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<8>();
    let (others, other_tail) = b[..length].as_chunks::<8>();
    let mut sums = [_mm256_setzero_ps(); 4];
    for (index, (left, right)) in chunks.iter().zip(others).enumerate() {
        let difference = _mm256_sub_ps(load_avx2(left), load_avx2(right));
        let sum = &mut sums[index % 4];
        *sum = _mm256_fmadd_ps(difference, difference, *sum);
    }
    let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    sum_avx2(sum) + portable::l2_f32(tail, other_tail)
}

#[target_feature(enable = "avx2,fma")]
fn cosine_f32_avx2(a: &[f32], b: &[f32]) -> Cosine {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<8>();
    let (others, other_tail) = b[..length].as_chunks::<8>();
    let (mut dot, mut left_sum, mut right_sum) =
        (_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps());
    for (left, right) in chunks.iter().zip(others) {
        let (left, right) = (load_avx2(left), load_avx2(right));
        dot = _mm256_fmadd_ps(left, right, dot);
        left_sum = _mm256_fmadd_ps(left, left, left_sum);
        right_sum = _mm256_fmadd_ps(right, right, right_sum);
    }
    let rest = portable::cosine_f32(tail, other_tail);
    Cosine {
        dot: sum_avx2(dot) + rest.dot,
        left: sum_avx2(left_sum) + rest.left,
        right: sum_avx2(right_sum) + rest.right,
    }
}

/// Sixteen components widened to 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn widen_avx2(values: &[i8; 16]) -> __m256i {
    // SAFETY: the array has the register's size; the load has no alignment.
    _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn dot_i8_avx2(a: &[i8], b: &[i8]) -> i32 {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<16>();
    let (others, other_tail) = b[..length].as_chunks::<16>();
    let mut sums = [_mm256_setzero_si256(); 2];
    for (index, (left, right)) in chunks.iter().zip(others).enumerate() {
        let products = _mm256_madd_epi16(widen_avx2(left), widen_avx2(right));
        let sum = &mut sums[index % 2];
        *sum = _mm256_add_epi32(*sum, products);
    }
    let sum = _mm256_add_epi32(sums[0], sums[1]);
    let half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let pair = _mm_add_epi32(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
    let one = _mm_add_epi32(pair, _mm_shuffle_epi32::<0b10_11_00_01>(pair));
    _mm_cvtsi128_si32(one) + portable::dot_i8(tail, other_tail)
}

#[inline]
#[target_feature(enable = "popcnt")]
fn hamming_popcnt(a: &[u64], b: &[u64]) -> u32 {
    portable::hamming(a, b)
}

/// Lanes `0..count` of 16.
#[inline]
fn mask16(count: usize) -> __mmask16 {
    if count >= 16 { !0 } else { (1 << count) - 1 }
}

/// The first `count` floats of `values`, zeros in the other lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_avx512(values: &[f32], count: usize) -> __m512 {
    // SAFETY: masked lanes are not read, and the others lie within the slice, as `count` is at most its
    // length.
    unsafe { _mm512_maskz_loadu_ps(mask16(count.min(values.len())), values.as_ptr()) }
}

/// The sum of a register's lanes, in the order in which [`sums_avx512`] adds them.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum_avx512(sums: __m512) -> f32 {
    let quarter = quarter_avx512(sums);
    let pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
}

/// The four quarters of a register added up.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarter_avx512(sums: __m512) -> __m128 {
    let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(sums)));
    let half = _mm256_add_ps(_mm512_castps512_ps256(sums), upper);
    _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half))
}

/// The sums of four registers' lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn sums_avx512(sums: [__m512; ROWS]) -> [f32; ROWS] {
    let [a, b, c, d] = sums;
    let (a, b, c, d) = (quarter_avx512(a), quarter_avx512(b), quarter_avx512(c), quarter_avx512(d));
    let left = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
    let right = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
    let sums = _mm_add_ps(_mm_movelh_ps(left, right), _mm_movehl_ps(right, left));
    let mut four = [0.0; ROWS];
    // SAFETY: the array has the register's size; the store has no alignment.
    unsafe { _mm_storeu_ps(four.as_mut_ptr(), sums) };
    four
}

/// Products, or squared differences, of a vector and rows, summed in 16 lanes by two registers for each row.
///
/// # Safety
/// Each row has as many components as the vector.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lanes_f32_avx512<const N: usize, const IS_L2: bool>(
    vector: &[f32],
    rows: [*const f32; N],
) -> [__m512; N] {
    let mut sums = [[_mm512_setzero_ps(); 2]; N];
    for start in (0..vector.len()).step_by(32) {
        for part in 0..2 {
            let start = (start + part * 16).min(vector.len());
            let left = load_avx512(&vector[start..], 16);
            for (sums, row) in sums.iter_mut().zip(rows) {
                // SAFETY: the row is as long as the vector, says the caller.
                let row = unsafe { std::slice::from_raw_parts(row.add(start), vector.len() - start) };
                let right = load_avx512(row, 16);
                let (left, right) = if IS_L2 {
                    let difference = _mm512_sub_ps(left, right);
                    (difference, difference)
                } else {
                    (left, right)
                };
                sums[part] = _mm512_fmadd_ps(left, right, sums[part]);
            }
        }
    }
    let mut totals = [_mm512_setzero_ps(); N];
    for (total, [even, odd]) in totals.iter_mut().zip(&sums) {
        *total = _mm512_add_ps(*even, *odd);
    }
    totals
}

/// Defines the kernels of two vectors and of one vector with rows.
macro_rules! f32_avx512 {
    ($one:ident, $rows:ident, $is_l2:literal) => {
        #[target_feature(enable = "avx512f")]
        fn $one(a: &[f32], b: &[f32]) -> f32 {
            let length = a.len().min(b.len());
            // SAFETY: the row has at least as many components as the vector.
            let [sums] = unsafe { lanes_f32_avx512::<1, $is_l2>(&a[..length], [b.as_ptr()]) };
            sum_avx512(sums)
        }

        /// # Safety
        /// Each row has as many components as the vector.
        #[target_feature(enable = "avx512f")]
        pub(super) unsafe fn $rows(vector: &[f32], rows: &[*const f32], out: &mut [f32]) {
            for (rows, out) in rows.chunks(ROWS).zip(out.chunks_mut(ROWS)) {
                // SAFETY: the rows are as long as the vector, says the caller; a chunk is not empty.
                let sums = sums_avx512(unsafe { lanes_f32_avx512::<ROWS, $is_l2>(vector, four(rows)) });
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum);
            }
        }
    };
}

f32_avx512!(dot_f32_avx512, dot_f32_rows_avx512, false);
f32_avx512!(l2_f32_avx512, l2_f32_rows_avx512, true);

#[target_feature(enable = "avx512f")]
fn cosine_f32_avx512(a: &[f32], b: &[f32]) -> Cosine {
    let length = a.len().min(b.len());
    let (mut dot, mut left_sum, mut right_sum) =
        (_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps());
    for start in (0..length).step_by(16) {
        let count = length - start;
        let (left, right) = (load_avx512(&a[start..], count), load_avx512(&b[start..], count));
        dot = _mm512_fmadd_ps(left, right, dot);
        left_sum = _mm512_fmadd_ps(left, left, left_sum);
        right_sum = _mm512_fmadd_ps(right, right, right_sum);
    }
    Cosine {
        dot: _mm512_reduce_add_ps(dot),
        left: _mm512_reduce_add_ps(left_sum),
        right: _mm512_reduce_add_ps(right_sum),
    }
}

/// The first `count` components of `values`, zeros in the other lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_i8_avx512(values: &[i8], count: usize) -> __m512i {
    let count = count.min(values.len());
    let mask = if count >= 64 { !0 } else { (1u64 << count) - 1 };
    // SAFETY: masked lanes are not read, and the others lie within the slice.
    unsafe { _mm512_maskz_loadu_epi8(mask, values.as_ptr()) }
}

/// VNNI multiplies unsigned by signed bytes. The rows are shifted up by 128 (an exclusive or of the sign
/// bit), and 128 times the vector's sum is taken off again; lanes beyond the end are zero in the vector.
///
/// # Safety
/// Each row has as many components as the vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dots_i8_avx512<const N: usize>(vector: &[i8], rows: [*const i8; N]) -> [__m512i; N] {
    let shift = _mm512_set1_epi8(-128);
    let mut sums = [_mm512_setzero_si512(); N];
    for start in (0..vector.len()).step_by(64) {
        let left = load_i8_avx512(&vector[start..], 64);
        for (sum, row) in sums.iter_mut().zip(rows) {
            // SAFETY: the row is as long as the vector, says the caller.
            let row = unsafe { std::slice::from_raw_parts(row.add(start), vector.len() - start) };
            *sum = _mm512_dpbusd_epi32(*sum, _mm512_xor_si512(load_i8_avx512(row, 64), shift), left);
        }
    }
    sums
}

/// 128 times the sum of the components, in 16 parts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn shift_avx512(vector: &[i8]) -> __m512i {
    let shift = _mm512_set1_epi8(-128);
    let mut sum = _mm512_setzero_si512();
    for chunk in vector.chunks(64) {
        sum = _mm512_dpbusd_epi32(sum, shift, load_i8_avx512(chunk, 64));
    }
    sum
}

/// The four quarters of a register added up.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarter_i32_avx512(sums: __m512i) -> __m128i {
    let half = _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
    _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_i8_avx512(a: &[i8], b: &[i8]) -> i32 {
    let length = a.len().min(b.len());
    // SAFETY: the row has at least as many components as the vector.
    let [sum] = unsafe { dots_i8_avx512(&a[..length], [b.as_ptr()]) };
    _mm512_reduce_add_epi32(_mm512_sub_epi32(sum, shift_avx512(&a[..length])))
}

/// Rows that are measured together: they share the loads of the vector and the sums of the lanes.
const ROWS: usize = 4;

/// Four rows from the beginning of `rows`, the last one repeated where there are fewer.
#[inline]
fn four<C>(rows: &[*const C]) -> [*const C; ROWS] {
    let last = rows.len().saturating_sub(1);
    std::array::from_fn(|index| rows.get(index.min(last)).copied().unwrap_or(std::ptr::null()))
}

/// # Safety
/// Each row has as many components as the vector.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn dot_i8_rows_avx512(vector: &[i8], rows: &[*const i8], out: &mut [i32]) {
    let shift = _mm512_reduce_add_epi32(shift_avx512(vector));
    for (rows, out) in rows.chunks(ROWS).zip(out.chunks_mut(ROWS)) {
        // SAFETY: the rows are as long as the vector, says the caller; a chunk is not empty.
        let [a, b, c, d] = unsafe { dots_i8_avx512(vector, four(rows)) };
        let (a, b) = (quarter_i32_avx512(a), quarter_i32_avx512(b));
        let (c, d) = (quarter_i32_avx512(c), quarter_i32_avx512(d));
        let left = _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
        let right = _mm_add_epi32(_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
        let sums = _mm_add_epi32(_mm_unpacklo_epi64(left, right), _mm_unpackhi_epi64(left, right));
        let mut four = [0i32; ROWS];
        // SAFETY: the array has the register's size; the store has no alignment.
        unsafe { _mm_storeu_si128(four.as_mut_ptr().cast(), _mm_sub_epi32(sums, _mm_set1_epi32(shift))) };
        out.iter_mut().zip(four).for_each(|(out, dot)| *out = dot);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn hamming_avx512(a: &[u64], b: &[u64]) -> u32 {
    let length = a.len().min(b.len());
    let mut sum = _mm512_setzero_si512();
    for start in (0..length).step_by(8) {
        let count = length - start;
        let mask: __mmask8 = if count >= 8 { !0 } else { (1 << count) - 1 };
        let (left, right) = (&a[start..length], &b[start..length]);
        // SAFETY: masked lanes are not read, and the others lie within both slices.
        let (left, right) = unsafe {
            (
                _mm512_maskz_loadu_epi64(mask, left.as_ptr().cast()),
                _mm512_maskz_loadu_epi64(mask, right.as_ptr().cast()),
            )
        };
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(_mm512_xor_si512(left, right)));
    }
    _mm512_reduce_add_epi64(sum) as u32
}

rows!(dot_f32_rows_avx2, dot_f32_avx2, f32, f32, "avx2,fma");
rows!(l2_f32_rows_avx2, l2_f32_avx2, f32, f32, "avx2,fma");
rows!(dot_i8_rows_avx2, dot_i8_avx2, i8, i32, "avx2");
rows!(hamming_rows_popcnt, hamming_popcnt, u64, u32, "popcnt");
rows!(hamming_rows_avx512, hamming_avx512, u64, u32, "avx512f,avx512vpopcntdq");
