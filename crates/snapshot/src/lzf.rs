//! LZF, the compression of strings in RDB.
//!
//! ```text
//! 000LLLLL                      L + 1 literal bytes follow
//! LLLooooo oooooooo             copy L + 2 bytes from o + 1 back, L from 1 to 6
//! 111ooooo LLLLLLLL oooooooo    copy L + 9 bytes from o + 1 back
//! ```

use std::cell::RefCell;

use crate::Error;

/// Entries of the table of earlier places, a power of two.
const TABLE_BITS: u32 = 14;
/// Furthest distance of a copy.
const DISTANCE_MAX: usize = 1 << 13;
/// Longest copy.
const COPY_MAX: usize = 264;
/// Longest run of literals.
const LITERALS_MAX: usize = 32;
/// A copy's three bytes give at most [`COPY_MAX`].
const EXPANSION_MAX: usize = COPY_MAX / 3;

fn slot(bytes: [u8; 3]) -> usize {
    let [a, b, c] = bytes.map(u32::from);
    ((a << 16 | b << 8 | c).wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS)) as usize
}

fn three(text: &[u8], at: usize) -> Option<[u8; 3]> {
    text.get(at..)?.first_chunk::<3>().copied()
}

/// Earlier places of three bytes, by their hash. Places are counted on from text to text, so that those of an earlier one are
/// recognised and nothing has to be cleared.
struct Table {
    places: Vec<u32>,
    /// The first place of the text; above all of earlier ones, and not 0.
    base: u32,
}

thread_local! {
    static TABLE: RefCell<Table> = const { RefCell::new(Table { places: Vec::new(), base: 1 }) };
}

/// `text` compressed, if that takes at least four bytes less.
pub(crate) fn compress(text: &[u8]) -> Option<Vec<u8>> {
    TABLE.with_borrow_mut(|table| {
        let end = u32::try_from(text.len()).ok().and_then(|len| table.base.checked_add(len));
        if end.is_none() || table.places.is_empty() {
            table.places = vec![0; 1 << TABLE_BITS];
            table.base = 1;
        }
        let packed = compress_with(text, &mut table.places, table.base);
        // One that is longer than can be counted begins anew, whatever stands here.
        table.base = table.base.saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
        packed
    })
}

fn compress_with(text: &[u8], table: &mut [u32], base: u32) -> Option<Vec<u8>> {
    let most = text.len().checked_sub(4)?;
    let mut out = Vec::with_capacity(most);
    let (mut at, mut literals_from) = (0, 0);
    while let Some(bytes) = three(text, at) {
        let place = table.get_mut(slot(bytes))?;
        let before = place.checked_sub(base).map(|before| before as usize);
        *place = u32::try_from(at).ok()?.checked_add(base)?;
        match before.filter(|&before| at - before <= DISTANCE_MAX && three(text, before) == Some(bytes)) {
            None => at += 1,
            Some(before) => {
                put_literals(&mut out, text.get(literals_from..at)?);
                let ahead = text.get(at..)?.iter().zip(text.get(before..)?);
                let len = ahead.take(COPY_MAX).take_while(|(new, old)| new == old).count();
                put_copy(&mut out, at - before - 1, len);
                at += len;
                literals_from = at;
            }
        }
        if out.len() > most {
            return None;
        }
    }
    put_literals(&mut out, text.get(literals_from..)?);
    (out.len() <= most).then_some(out)
}

fn put_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

/// `distance` is one less than how far back, `len` at least 3.
fn put_copy(out: &mut Vec<u8>, distance: usize, len: usize) {
    let high = (distance >> 8) as u8;
    match len - 2 {
        short @ ..7 => out.push((short as u8) << 5 | high),
        long => out.extend([7 << 5 | high, (long - 7) as u8]),
    }
    out.push(distance as u8);
}

/// Appends the `len` bytes that `packed` stands for to `out`.
pub(crate) fn decompress(packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    const BAD: Error = Error::Corrupt("invalid LZF compressed string");
    if len > packed.len().saturating_mul(EXPANSION_MAX) {
        return Err(BAD);
    }
    out.reserve(len);
    let start = out.len();
    let mut input = packed.iter();
    while let Some(&control) = input.next() {
        let mut next = || input.next().copied().map(usize::from).ok_or(BAD);
        if control < 32 {
            let run = usize::from(control) + 1;
            let literals = input.as_slice().get(..run).ok_or(BAD)?;
            out.extend_from_slice(literals);
            input = input.as_slice().get(run..).ok_or(BAD)?.iter();
        } else {
            let copied = match usize::from(control >> 5) {
                7 => next()? + 9,
                short => short + 2,
            };
            let distance = (usize::from(control & 31) << 8 | next()?) + 1;
            copy_back(out, start, distance, copied).ok_or(BAD)?;
        }
        if out.len() - start > len {
            return Err(BAD);
        }
    }
    if out.len() - start == len { Ok(()) } else { Err(BAD) }
}

/// Appends `len` bytes from `distance` back, which may overlap with what is appended.
fn copy_back(out: &mut Vec<u8>, start: usize, distance: usize, len: usize) -> Option<()> {
    let from = out.len().checked_sub(distance).filter(|&from| from >= start)?;
    if distance >= len {
        out.extend_from_within(from..from + len);
    } else {
        for at in from..from + len {
            let byte = *out.get(at)?;
            out.push(byte);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..20),
                (any::<u8>(), 0usize..600).prop_map(|(byte, len)| vec![byte; len]),
                (0usize..3).prop_map(|n| b"a phrase that comes again".repeat(n)),
            ],
            0..12,
        );
        pieces.prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn round_trip(text in text()) {
            if let Some(packed) = compress(&text) {
                prop_assert!(packed.len() + 4 <= text.len());
                let mut out = vec![1, 2];
                decompress(&packed, text.len(), &mut out).unwrap();
                prop_assert_eq!(&out[2..], &text[..]);
            }
        }

        #[test]
        fn nonsense_is_refused_or_has_the_length(bytes in prop::collection::vec(any::<u8>(), 0..60), len in 0usize..400) {
            let mut out = Vec::new();
            if decompress(&bytes, len, &mut out).is_ok() {
                prop_assert_eq!(out.len(), len);
            }
        }
    }

    #[test]
    fn repetition_is_found() {
        assert!(compress(&[b'x'; 100]).is_some_and(|packed| packed.len() < 10));
        assert_eq!(compress(b"abcdefghijklmnopqrstuvwxyz"), None);
        assert_eq!(compress(b""), None);
        let far = [&b"needle"[..], &[0; DISTANCE_MAX - 6], &b"needle"[..]].concat();
        let mut out = Vec::new();
        decompress(&compress(&far).unwrap(), far.len(), &mut out).unwrap();
        assert_eq!(out, far);
    }
}
