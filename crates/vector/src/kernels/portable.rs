//! The kernels in plain Rust: the reference for the others, and what runs where no others do. Each reads
//! the common length of its arguments.

use super::Cosine;

/// Independent sums that the compiler keeps in vector registers.
const LANES: usize = 8;

fn sum_pairs(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let mut sums = [0.0f32; LANES];
    let (chunks, tail) = a.as_chunks::<LANES>();
    let (others, other_tail) = b.as_chunks::<LANES>();
    for (left, right) in chunks.iter().zip(others) {
        for lane in 0..LANES {
            sums[lane] += term(left[lane], right[lane]);
        }
    }
    let rest: f32 = tail.iter().zip(other_tail).map(|(x, y)| term(*x, *y)).sum();
    sums.iter().sum::<f32>() + rest
}

pub(super) fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    sum_pairs(a, b, |x, y| x * y)
}

pub(super) fn l2_f32(a: &[f32], b: &[f32]) -> f32 {
    sum_pairs(a, b, |x, y| (x - y) * (x - y))
}

pub(super) fn cosine_f32(a: &[f32], b: &[f32]) -> Cosine {
    Cosine { dot: dot_f32(a, b), left: sum_pairs(a, b, |x, _| x * x), right: sum_pairs(a, b, |_, y| y * y) }
}

pub(super) fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(x, y)| i32::from(*x) * i32::from(*y)).sum()
}

pub(super) fn hamming(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(x, y)| (x ^ y).count_ones()).sum()
}

rows!(dot_f32_rows, dot_f32, f32, f32);
rows!(l2_f32_rows, l2_f32, f32, f32);
rows!(dot_i8_rows, dot_i8, i8, i32);
rows!(hamming_rows, hamming, u64, u32);
