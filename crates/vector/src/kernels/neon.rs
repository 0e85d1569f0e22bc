//! Kernels for 64-bit ARM, where NEON is always there. Chunks are arrays of the register's size; scalar
//! code does the tail.

use super::{Cosine, Kernels, portable};
use std::arch::aarch64::*;

/// Adds the implementation, where the processor has it.
pub(super) fn add_available(kernels: &mut Vec<Kernels>) {
    if std::arch::is_aarch64_feature_detected!("neon") {
        kernels.push(Kernels {
            name: "neon",
            dot_f32,
            l2_f32,
            cosine_f32,
            dot_i8,
            hamming,
            dot_f32_rows,
            l2_f32_rows,
            dot_i8_rows,
            hamming_rows,
        });
    }
}

/// A register of four floats.
#[inline]
#[target_feature(enable = "neon")]
fn load(values: &[f32; 4]) -> float32x4_t {
    // SAFETY: the array has the register's size; the load has no alignment.
    unsafe { vld1q_f32(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<4>();
    let (others, other_tail) = b[..length].as_chunks::<4>();
    let mut sums = [vdupq_n_f32(0.0); 4];
    for (index, (left, right)) in chunks.iter().zip(others).enumerate() {
        let sum = &mut sums[index % 4];
        *sum = vfmaq_f32(*sum, load(left), load(right));
    }
    let sum = vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3]));
    vaddvq_f32(sum) + portable::dot_f32(tail, other_tail)
}

#[inline]
#[target_feature(enable = "neon")]
fn l2_f32(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<4>();
    let (others, other_tail) = b[..length].as_chunks::<4>();
    let mut sums = [vdupq_n_f32(0.0); 4];
    for (index, (left, right)) in chunks.iter().zip(others).enumerate() {
        let difference = vsubq_f32(load(left), load(right));
        let sum = &mut sums[index % 4];
        *sum = vfmaq_f32(*sum, difference, difference);
    }
    let sum = vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3]));
    vaddvq_f32(sum) + portable::l2_f32(tail, other_tail)
}

#[target_feature(enable = "neon")]
fn cosine_f32(a: &[f32], b: &[f32]) -> Cosine {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<4>();
    let (others, other_tail) = b[..length].as_chunks::<4>();
    let (mut dot, mut left_sum, mut right_sum) = (vdupq_n_f32(0.0), vdupq_n_f32(0.0), vdupq_n_f32(0.0));
    for (left, right) in chunks.iter().zip(others) {
        let (left, right) = (load(left), load(right));
        dot = vfmaq_f32(dot, left, right);
        left_sum = vfmaq_f32(left_sum, left, left);
        right_sum = vfmaq_f32(right_sum, right, right);
    }
    let rest = portable::cosine_f32(tail, other_tail);
    Cosine {
        dot: vaddvq_f32(dot) + rest.dot,
        left: vaddvq_f32(left_sum) + rest.left,
        right: vaddvq_f32(right_sum) + rest.right,
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<16>();
    let (others, other_tail) = b[..length].as_chunks::<16>();
    let mut sum = vdupq_n_s32(0);
    for (left, right) in chunks.iter().zip(others) {
        // SAFETY: both arrays have the register's size; the loads have no alignment.
        let (left, right) = unsafe { (vld1q_s8(left.as_ptr()), vld1q_s8(right.as_ptr())) };
        let low = vmull_s8(vget_low_s8(left), vget_low_s8(right));
        let high = vmull_high_s8(left, right);
        sum = vpadalq_s16(vpadalq_s16(sum, low), high);
    }
    vaddvq_s32(sum) + portable::dot_i8(tail, other_tail)
}

#[inline]
#[target_feature(enable = "neon")]
fn hamming(a: &[u64], b: &[u64]) -> u32 {
    let length = a.len().min(b.len());
    let (chunks, tail) = a[..length].as_chunks::<2>();
    let (others, other_tail) = b[..length].as_chunks::<2>();
    let mut count = 0;
    for (left, right) in chunks.iter().zip(others) {
        // SAFETY: both arrays have the register's size; the loads have no alignment.
        let (left, right) = unsafe { (vld1q_u64(left.as_ptr()), vld1q_u64(right.as_ptr())) };
        let bits = vcntq_u8(vreinterpretq_u8_u64(veorq_u64(left, right)));
        count += u32::from(vaddlvq_u8(bits));
    }
    count + portable::hamming(tail, other_tail)
}

rows!(dot_f32_rows, dot_f32, f32, f32, "neon");
rows!(l2_f32_rows, l2_f32, f32, f32, "neon");
rows!(dot_i8_rows, dot_i8, i8, i32, "neon");
rows!(hamming_rows, hamming, u64, u32, "neon");
