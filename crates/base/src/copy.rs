//! Copies of bytes that may be long.
//!
//! glibc's memcpy copies more than 2,112 bytes with `rep movsb` where the processor calls it fast. On Zen 3
//! and Zen 4 that takes 15 times as long when the destination begins a few bytes behind the source, modulo
//! 4,096: just as a reply begins a few bytes behind its value, since long blocks of memory begin at pages.
//! (glibc bug 30994. Measured on an EPYC of Zen 4, glibc 2.36: 2.5 to 3.3 GB/s instead of 35 for distances of
//! 1 to 15 bytes, up to 1 MB.) There the bytes are copied in pieces, for which memcpy uses vectors; beyond,
//! `rep movsb` is the faster of the two, since it need not read the overwritten bytes.

/// The longest piece that memcpy copies by vectors.
const PIECE_BYTES: usize = 2048;
/// From this length on, no distance is slow.
const NEVER_SLOW_BYTES: usize = 1 << 20;
/// What distances are compared modulo.
const PAGE_BYTES: usize = 4096;
/// Distances from 1 up to this may be slow.
const SLOW_DISTANCES: usize = 64;

/// Copies `len` bytes.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len <= PIECE_BYTES {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { copy_long(from, to, len) }
    }
}

/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    let distance = to.addr().wrapping_sub(from.addr()) % PAGE_BYTES;
    let is_slow = (1..SLOW_DISTANCES).contains(&distance) && len < NEVER_SLOW_BYTES;
    let piece_bytes = if is_slow { PIECE_BYTES } else { len };
    let mut at = 0;
    while at < len {
        let piece = piece_bytes.min(len - at);
        // SAFETY: a part of the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), piece) };
        at += piece;
    }
}

/// Appends `bytes` to `out`.
#[inline(always)]
pub fn extend(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() <= PIECE_BYTES {
        out.extend_from_slice(bytes);
    } else {
        extend_long(out, bytes);
    }
}

#[inline(never)]
fn extend_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len());
    // SAFETY: there is room for the bytes behind those that `out` has, and they are written before they
    // count.
    unsafe {
        copy_long(bytes.as_ptr(), out.as_mut_ptr().add(out.len()), bytes.len());
        out.set_len(out.len() + bytes.len());
    }
}

/// What short pieces are copied by.
const BLOCK_BYTES: usize = 32;

/// Appends the first `len` bytes of `from`: without a call if they are few and enough others follow them
/// there.
#[inline(always)]
pub fn extend_prefix(out: &mut Vec<u8>, from: &[u8], len: usize) {
    match from.first_chunk::<BLOCK_BYTES>() {
        Some(block) if len <= BLOCK_BYTES => {
            let end = out.len() + len;
            out.extend_from_slice(block);
            out.truncate(end);
        }
        _ => extend(out, &from[..len]),
    }
}

/// A copy of `bytes`.
pub fn to_vec(bytes: &[u8]) -> Vec<u8> {
    let mut copy = Vec::with_capacity(bytes.len());
    extend(&mut copy, bytes);
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_every_length_are_appended() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (len, behind) in (0..100).flat_map(|len| [0, 1, 31, 100].map(|behind| (len, behind))) {
            let mut out = b"before".to_vec();
            extend_prefix(&mut out, &bytes[..len + behind], len);
            assert!(out.strip_prefix(b"before") == Some(&bytes[..len]), "{len} {behind}");
        }
    }

    #[test]
    fn every_length_is_copied_whole() {
        let lengths = [
            0,
            1,
            100,
            PIECE_BYTES - 1,
            PIECE_BYTES,
            PIECE_BYTES + 1,
            3 * PIECE_BYTES,
            100_001,
            NEVER_SLOW_BYTES,
        ];
        for len in lengths {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 31 / 7) as u8).collect();
            assert!(to_vec(&bytes) == bytes && to_vec(&bytes).capacity() == len, "{len}");
            let mut out = b"before".to_vec();
            extend(&mut out, &bytes);
            assert!(out.strip_prefix(b"before") == Some(&bytes), "{len}");
            for shift in [0, 1, 10, 63, 64, 4000] {
                // Source and destination in blocks of their own, each from a page's begin: the shift is their
                // distance.
                let page = |block: &[u8]| block.as_ptr().addr().wrapping_neg() % PAGE_BYTES;
                let (mut source, mut place) = (vec![0; len + PAGE_BYTES], vec![7; len + 3 * PAGE_BYTES]);
                let (from, to) = (page(&source), page(&place) + PAGE_BYTES + shift);
                source[from..from + len].copy_from_slice(&bytes);
                // SAFETY: both have `len` bytes there.
                unsafe { copy(source.as_ptr().add(from), place.as_mut_ptr().add(to), len) };
                assert!(place[to..to + len] == bytes, "{len} {shift}");
                assert!(place[..to].iter().chain(&place[to + len..]).all(|&byte| byte == 7), "{len} {shift}");
            }
        }
    }
}
