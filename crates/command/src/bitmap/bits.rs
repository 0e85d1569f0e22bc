//! Counting and finding bits in byte strings. Bit 0 is the most significant one of byte 0.

/// Number of bits set.
pub(super) fn count(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Number of bits set in `begin..end`, both within the string.
pub(super) fn count_range(bytes: &[u8], begin: u64, end: u64) -> u64 {
    let (first, last) = ((begin / 8) as usize, end.div_ceil(8) as usize);
    let Some(covered) = bytes.get(first..last) else { return 0 };
    let before = covered.first().map_or(0, |byte| (byte & !(0xff >> (begin % 8))).count_ones());
    let past = end.wrapping_neg() % 8;
    let after = covered.last().map_or(0, |byte| (byte & !(0xffu8 << past)).count_ones());
    count(covered) - u64::from(before) - u64::from(after)
}

/// The first bit in `begin..end`, both within the string, that is set if `wanted`, else clear.
pub(super) fn find(bytes: &[u8], wanted: bool, begin: u64, end: u64) -> Option<u64> {
    // With `flip`, the wanted bit is always a set one.
    let flip = if wanted { 0u8 } else { 0xff };
    let first = (begin / 8) as usize;
    let covered = bytes.get(first..end.div_ceil(8) as usize)?;
    let head = (covered.first()? ^ flip) & (0xff >> (begin % 8));
    let in_byte = |at: usize, byte: u8| ((first + at) as u64 * 8) + u64::from(byte.leading_zeros());
    let found = if head != 0 {
        in_byte(0, head)
    } else {
        let at = 1 + skip(&covered[1..], !flip == 0xff);
        in_byte(at, covered.get(at)? ^ flip)
    };
    (found < end).then_some(found)
}

/// How many bytes at the beginning hold no set bit or, with `set` false, no clear one.
fn skip(bytes: &[u8], set: bool) -> usize {
    let dull = if set { 0u8 } else { 0xff };
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.iter().take_while(|word| **word == [dull; 8]).count() * 8;
    words + bytes[words..].iter().take_while(|byte| **byte == dull).count()
}
