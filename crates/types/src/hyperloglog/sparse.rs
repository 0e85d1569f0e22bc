//! Sparse registers: runs of equal ones, in order, which together are all registers.
//!
//! ```text
//! 00LLLLLL             length - 1            zeros
//! 01LLLLLL LLLLLLLL    length - 1            zeros, more than 64
//! 1VVVVVLL             value - 1, length - 1 values of 1 to 32
//! ```
//!
//! An addition replaces one run by up to three and joins equal neighbours, exactly as Redis does, so that the
//! same additions give the same bytes.

use super::{
    Corrupt, ENCODING_AT, HEADER_BYTES, Observation, REGISTERS, dense_add, forget_count, make_dense,
};
use std::ops::Range;

const VALUE_BIT: u8 = 0x80;
const LONG_ZEROS_BIT: u8 = 0x40;
const VALUE_MAX: u8 = 32;
const VALUES_MAX_LEN: usize = 4;
const ZEROS_MAX_LEN: usize = 64;
/// Runs of one byte that are passed over together.
const GROUP: usize = 16;
/// How many runs, from the one before the changed one on, are looked at for equal neighbours.
const JOINED_RUNS: usize = 5;

/// A run of equal registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Their indexes; past those that there are if the HyperLogLog is corrupt.
    pub registers: Range<usize>,
    /// Their value.
    pub value: u8,
    /// Whether it is written as a run of more than 64 zeros can be.
    pub is_long: bool,
}

/// One run as it is written.
#[derive(Copy, Clone)]
struct Written {
    /// Its bytes.
    bytes: usize,
    /// Its registers.
    len: usize,
    /// Their value.
    value: u8,
}

/// The run at the beginning of `bytes`; `None` if there is no whole one.
#[inline(always)]
fn first_run(bytes: &[u8]) -> Option<Written> {
    let first = *bytes.first()?;
    if first & VALUE_BIT != 0 {
        Some(Written { bytes: 1, len: usize::from(first & 3) + 1, value: (first >> 2 & 31) + 1 })
    } else if first & LONG_ZEROS_BIT == 0 {
        Some(Written { bytes: 1, len: usize::from(first) + 1, value: 0 })
    } else {
        let len = usize::from(first & 63) << 8 | usize::from(*bytes.get(1)?);
        Some(Written { bytes: 2, len: len + 1, value: 0 })
    }
}

/// Writes a run of zeros.
pub(super) fn push_zeros(out: &mut Vec<u8>, len: usize) {
    let less_one = len - 1;
    if len > ZEROS_MAX_LEN {
        out.push((less_one >> 8) as u8 | LONG_ZEROS_BIT);
    }
    out.push(less_one as u8);
}

/// Writes a run of at most four values of 1 to 32.
fn values(value: u8, len: usize) -> u8 {
    debug_assert!((1..=VALUE_MAX).contains(&value) && (1..=VALUES_MAX_LEN).contains(&len));
    VALUE_BIT | (value - 1) << 2 | (len - 1) as u8
}

/// The runs written in `registers`, up to one that is not whole.
pub(super) fn runs(registers: &[u8]) -> impl Iterator<Item = Run> + Clone {
    let (mut at, mut start) = (0, 0);
    std::iter::from_fn(move || {
        let run = first_run(&registers[at..])?;
        at += run.bytes;
        start += run.len;
        Some(Run { registers: start - run.len..start, value: run.value, is_long: run.bytes == 2 })
    })
}

/// The runs of a sparse HyperLogLog.
///
/// # Errors
/// They are not those of all registers.
pub(super) fn checked_runs(bytes: &[u8]) -> Result<impl Iterator<Item = Run>, Corrupt> {
    let registers = bytes.get(HEADER_BYTES..).ok_or(Corrupt)?;
    let (mut at, mut end) = (0, 0);
    while let Some(run) = first_run(&registers[at..]) {
        at += run.bytes;
        end += run.len;
    }
    if at == registers.len() && end == REGISTERS { Ok(runs(registers)) } else { Err(Corrupt) }
}

/// Where a register is written.
struct Place {
    /// Offset of its run.
    at: usize,
    /// Offset of the run before, or of this one if it is the first.
    before: usize,
    /// Index of its run's first register.
    start: usize,
    run: Written,
}

/// Finds the run of a register.
fn find(registers: &[u8], index: usize) -> Option<Place> {
    let (mut at, mut before, mut start) = (0, 0, 0);
    loop {
        // Registers of a whole group of runs of one byte are counted without looking at each.
        while let Some(group) = registers.get(at..).and_then(|rest| rest.first_chunk::<GROUP>()) {
            let (len, has_long) = group_len(group);
            if has_long || start + len > index {
                break;
            }
            (at, before, start) = (at + GROUP, at + GROUP - 1, start + len);
        }
        for _ in 0..GROUP {
            let run = first_run(&registers[at..])?;
            if index < start + run.len {
                return Some(Place { at, before, start, run });
            }
            (at, before, start) = (at + run.bytes, at, start + run.len);
        }
    }
}

/// How many registers are in runs of one byte each, and whether one of the runs has two bytes.
#[inline(always)]
fn group_len(group: &[u8; GROUP]) -> (usize, bool) {
    let (mut len, mut has_long) = (0_u16, false);
    for &byte in group {
        let mask = if byte & VALUE_BIT != 0 { 3 } else { 63 };
        len += u16::from(byte & mask) + 1;
        has_long |= byte & (VALUE_BIT | LONG_ZEROS_BIT) == LONG_ZEROS_BIT;
    }
    (usize::from(len), has_long)
}

/// See [`super::add`].
pub(super) fn add(bytes: &mut Vec<u8>, seen: Observation, max_bytes: usize) -> Result<bool, Corrupt> {
    if seen.value > VALUE_MAX {
        return promote(bytes, seen);
    }
    let Place { at, before, start, run } = find(&bytes[HEADER_BYTES..], seen.index).ok_or(Corrupt)?;
    if run.value >= seen.value {
        return Ok(false);
    }
    let at = HEADER_BYTES + at;
    if run.len == 1 && run.bytes == 1 {
        bytes[at] = values(seen.value, 1);
    } else {
        let mut split = Vec::with_capacity(5);
        let part = |split: &mut Vec<u8>, len: usize| match (len, run.value) {
            (0, _) => {}
            (_, 0) => push_zeros(split, len),
            (_, value) => split.push(values(value, len)),
        };
        part(&mut split, seen.index - start);
        split.push(values(seen.value, 1));
        part(&mut split, start + run.len - 1 - seen.index);
        if split.len() > run.bytes && bytes.len() - run.bytes + split.len() > max_bytes {
            return promote(bytes, seen);
        }
        bytes.splice(at..at + run.bytes, split);
    }
    join_equal(bytes, HEADER_BYTES + before);
    forget_count(bytes);
    Ok(true)
}

/// Joins runs of the same value from offset `at` on, where they fit one run.
fn join_equal(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_RUNS {
        let Some(run) = bytes.get(at..).and_then(first_run) else { return };
        let next = bytes.get(at + run.bytes..).and_then(first_run);
        match next.filter(|next| run.value > 0 && next.value == run.value) {
            Some(next) if run.len + next.len <= VALUES_MAX_LEN => {
                bytes[at] = values(run.value, run.len + next.len);
                bytes.remove(at + 1);
            }
            _ => at += run.bytes,
        }
    }
}

fn promote(bytes: &mut Vec<u8>, seen: Observation) -> Result<bool, Corrupt> {
    make_dense(bytes)?;
    debug_assert_eq!(bytes[ENCODING_AT], 0);
    Ok(dense_add(&mut bytes[HEADER_BYTES..], seen))
}
