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
/// Short runs of literals are copied by this many, and copies from near by.
const WORD_BYTES: usize = 8;
/// Copies from further back are by this many.
const BLOCK_BYTES: usize = 16;
/// Room that may be written behind a text: the longest run of literals, and less than a block behind a copy.
const SLACK_BYTES: usize = LITERALS_MAX;
/// A copy's three bytes give at most [`COPY_MAX`].
const EXPANSION_MAX: usize = COPY_MAX / 3;

/// After this many places without a copy, one more is passed over at each step: text without repetition is
/// not searched for long.
const PATIENCE_BITS: u32 = 6;

/// The four bytes at a place, the first the lowest.
#[inline(always)]
fn four(text: &[u8], at: usize) -> Option<u32> {
    text.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Where the first three of four bytes stand in the table.
#[inline(always)]
fn slot(four: u32) -> usize {
    ((four << 8).wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS)) as usize
}

/// Earlier places of three bytes, by their hash. Places are counted on from text to text, so that those of an
/// earlier one are recognised and nothing has to be cleared.
struct Table {
    places: Option<Box<Places>>,
    /// The first place of the text; above all of earlier ones, and not 0.
    base: u32,
}

type Places = [u32; 1 << TABLE_BITS];

thread_local! {
    static TABLE: RefCell<Table> = const { RefCell::new(Table { places: None, base: 1 }) };
}

/// `text` compressed, if that takes at least four bytes less.
pub fn compress(text: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(text.len()).ok()?;
    TABLE.with_borrow_mut(|table| {
        let end = table.base.checked_add(len);
        if end.is_none() {
            table.places = None;
            table.base = 1;
        }
        let places = table.places.get_or_insert_with(|| Box::new([0; 1 << TABLE_BITS]));
        let packed = compress_with(text, places, table.base);
        // A text that is longer than the table can count restarts it, whatever stands here.
        table.base = table.base.saturating_add(len);
        packed
    })
}

fn compress_with(text: &[u8], table: &mut Places, base: u32) -> Option<Vec<u8>> {
    let most = text.len().checked_sub(4)?;
    let mut out = Vec::with_capacity(most);
    let (mut at, mut literals_from) = (0, 0);
    while let Some(bytes) = four(text, at) {
        let place = &mut table[slot(bytes)];
        let before = place.wrapping_sub(base) as usize;
        *place = base.wrapping_add(at as u32);
        // Places of earlier texts wrap round to beyond this one's.
        let distance = at.wrapping_sub(before);
        if distance.wrapping_sub(1) >= DISTANCE_MAX
            || four(text, before).is_none_or(|earlier| (earlier ^ bytes) << 8 != 0)
        {
            let missed = at - literals_from;
            at += 1 + (missed >> PATIENCE_BITS);
            if out.len() + missed > most {
                return None;
            }
            continue;
        }
        put_literals(&mut out, text.get(literals_from..at)?);
        let len = 3 + common_len(text.get(before + 3..)?, text.get(at + 3..)?, COPY_MAX - 3);
        put_copy(&mut out, distance - 1, len);
        at += len;
        literals_from = at;
    }
    put_literals(&mut out, text.get(literals_from..)?);
    (out.len() <= most).then_some(out)
}

/// In how many bytes the two begin alike, up to `most`.
#[inline(always)]
fn common_len(left: &[u8], right: &[u8], most: usize) -> usize {
    let most = most.min(left.len()).min(right.len());
    let (left, right) = (&left[..most], &right[..most]);
    let (left_words, _) = left.as_chunks::<8>();
    let (right_words, _) = right.as_chunks::<8>();
    let mut len = 0;
    for (left, right) in left_words.iter().zip(right_words) {
        let differing = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if differing != 0 {
            return len + (differing.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    len + left[len..].iter().zip(&right[len..]).take_while(|(left, right)| left == right).count()
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

/// Makes `out` the `len` bytes that `packed` stands for.
pub fn decompress(packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    const BAD: Error = Error::Corrupt("invalid LZF compressed string");
    if len > packed.len().saturating_mul(EXPANSION_MAX) {
        return Err(BAD);
    }
    // Room behind the end lets short pieces be copied whole words at a time. Present bytes there are
    // overwritten.
    out.resize(len + SLACK_BYTES, 0);
    let (mut input, mut at) = (packed, 0);
    let text = out.as_mut_slice();
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        if control < 32 {
            let run = usize::from(control) + 1;
            if at + run > len {
                return Err(BAD);
            }
            put_run(&mut text[at..], input, run).ok_or(BAD)?;
            input = &input[run..];
            at += run;
        } else {
            let mut next = || input.split_off_first().copied().map(usize::from).ok_or(BAD);
            let copied = match usize::from(control >> 5) {
                7 => next()? + 9,
                short => short + 2,
            };
            let distance = (usize::from(control & 31) << 8 | next()?) + 1;
            if at + copied > len || distance > at {
                return Err(BAD);
            }
            copy_back(text, at, distance, copied);
            at += copied;
        }
    }
    out.truncate(len);
    if at == len { Ok(()) } else { Err(BAD) }
}

/// Writes the first `run` bytes of `input`, up to 32, to the start of `text`; `None` if it has fewer. Bytes
/// that are read soon, as these are, should have been written in pieces no longer than need be.
#[inline(always)]
fn put_run(text: &mut [u8], input: &[u8], run: usize) -> Option<()> {
    if run <= WORD_BYTES
        && let (Some(place), Some(word)) = (text.first_chunk_mut::<WORD_BYTES>(), input.first_chunk())
    {
        *place = *word;
        return Some(());
    }
    match (text.first_chunk_mut::<SLACK_BYTES>(), input.first_chunk()) {
        (Some(place), Some(words)) => *place = *words,
        _ => text[..run].copy_from_slice(input.get(..run)?),
    }
    Some(())
}

/// Writes `len` bytes to `at`, copied from `distance` back, which may overlap with the written part.
#[inline(always)]
fn copy_back(text: &mut [u8], at: usize, distance: usize, len: usize) {
    match distance {
        BLOCK_BYTES.. => copy_pieces::<BLOCK_BYTES>(text, at, distance, len),
        WORD_BYTES.. => copy_pieces::<WORD_BYTES>(text, at, distance, len),
        _ => copy_pieces::<1>(text, at, distance, len),
    }
}

/// The same, `PIECE` bytes at a time, which are no more than `distance`: each piece lies before the place
/// that it is written to.
#[inline(always)]
fn copy_pieces<const PIECE: usize>(text: &mut [u8], at: usize, distance: usize, len: usize) {
    for to in (at..at + len).step_by(PIECE) {
        text.copy_within(to - distance..to - distance + PIECE, to);
    }
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
                let mut out = vec![1; 100];
                decompress(&packed, text.len(), &mut out).unwrap();
                prop_assert_eq!(out, text);
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
