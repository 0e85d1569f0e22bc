//! Hash slots of a cluster: CRC16 of a key, hash tags honoured; and the tag that stands for a slot.

use std::sync::LazyLock;

/// Number of hash slots.
pub const SLOT_COUNT: usize = 16_384;

/// Bytes that one step of [`crc16`] takes.
const STEP: usize = 8;

/// CRC16 of a byte that is followed by this many bytes of zero.
static TABLES: [[u16; 256]; STEP] = {
    let mut tables = [[0u16; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut zeros) = ((byte as u16) << 8, 0);
        while zeros < STEP {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
                bit += 1;
            }
            tables[zeros][byte] = crc;
            zeros += 1;
        }
        byte += 1;
    }
    tables
};

/// CRC-16 with the polynomial 0x1021 (XMODEM), as clusters have it.
pub fn crc16(bytes: &[u8]) -> u16 {
    let of = |zeros: usize, byte: u8| TABLES[zeros][usize::from(byte)];
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let crc = steps.iter().fold(0u16, |crc, [a, b, c, d, e, f, g, h]| {
        let [high, low] = crc.to_be_bytes();
        let independent = of(5, *c) ^ of(4, *d) ^ of(3, *e) ^ of(2, *f) ^ of(1, *g) ^ of(0, *h);
        of(7, a ^ high) ^ of(6, b ^ low) ^ independent
    });
    rest.iter().fold(crc, |crc, byte| (crc << 8) ^ of(0, (crc >> 8) as u8 ^ byte))
}

/// Whether no byte is a `{`, looked at by words: most keys have none.
#[inline]
fn has_no_tag(key: &[u8]) -> bool {
    const LOW: u64 = u64::MAX / 255;
    let has_none = |word: [u8; 8]| {
        let zero_where_open = u64::from_ne_bytes(word) ^ (LOW * b'{' as u64);
        zero_where_open.wrapping_sub(LOW) & !zero_where_open & (LOW << 7) == 0
    };
    match (key.as_chunks::<8>().0, key.last_chunk::<8>()) {
        (words, Some(last)) => words.iter().all(|word| has_none(*word)) && has_none(*last),
        (_, None) => !key.contains(&b'{'),
    }
}

/// The slot of a key; of the part between the first `{` and the next `}` where that is not empty.
pub fn slot_of(key: &[u8]) -> u16 {
    let hashed = if has_no_tag(key) { key } else { tag_in(key) };
    crc16(hashed) % SLOT_COUNT as u16
}

fn tag_in(key: &[u8]) -> &[u8] {
    let find = |byte: u8, bytes: &[u8]| bytes.iter().position(|other| *other == byte);
    find(b'{', key)
        .and_then(|open| key.get(open + 1..))
        .and_then(|tail| tail.get(..find(b'}', tail)?))
        .filter(|tag| !tag.is_empty())
        .unwrap_or(key)
}

/// The slot of all keys that a glob pattern matches; `None` if they may be of several.
pub fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let is_plain = |part: &[u8]| !part.iter().any(|byte| b"*?[\\".contains(byte));
    let tag_end = pattern.iter().position(|byte| *byte == b'{').and_then(|open| {
        let len = pattern[open + 1..].iter().position(|byte| *byte == b'}')?;
        (len > 0).then_some(open + 1 + len)
    });
    is_plain(tag_end.map_or(pattern, |end| &pattern[..end])).then(|| slot_of(pattern))
}

/// Characters of slots' tags, in the order in which Redis' table of them tries them.
const TAG_CHARACTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); SLOT_COUNT];
    let count = TAG_CHARACTERS.len();
    let character = |number: usize| char::from(TAG_CHARACTERS[number % count]);
    for len in 1..=3 {
        for number in 0..count.pow(len) {
            let text = (0..len).rev().map(|place| character(number / count.pow(place))).collect::<String>();
            let tag = &mut tags[usize::from(slot_of(text.as_bytes()))];
            if tag.is_empty() {
                *tag = text;
            }
        }
    }
    tags
});

/// The shortest hash tag of letters and digits whose keys are in a slot, the first of these in the order of
/// Redis' table; empty for an invalid slot.
pub fn tag_of_slot(slot: u16) -> &'static str {
    TAGS.get(usize::from(slot)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        let by_bits = |bytes: &[u8]| {
            let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
            bits.fold(0u16, |crc, bit| (crc << 1) ^ if (crc >> 15 == 1) != bit { 0x1021 } else { 0 })
        };
        let text: Vec<u8> = (0..=255).rev().collect();
        assert!((0..=256).all(|len| crc16(&text[..len]) == by_bits(&text[..len])));
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{foo}bar"), slot_of(b"foo"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16384);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
    }

    #[test]
    fn a_tag_is_found_wherever_it_is() {
        for (before, after) in (0..20).flat_map(|before| (0..20).map(move |after| (before, after))) {
            // Bytes that differ from the searched ones by one bit, or in sign.
            let around = [b'z', b'|', 0xFB, b'y', 0, 0xFF, b'}'];
            let around = |len: usize| (0..len).map(|at| around[at % around.len()]).collect::<Vec<u8>>();
            let plain = [around(before), around(after)].concat();
            assert!(has_no_tag(&plain));
            let tagged = [around(before), b"{tag}".to_vec(), around(after)].concat();
            assert_eq!(slot_of(&tagged), crc16(b"tag") % 16384);
        }
    }

    #[test]
    fn a_pattern_has_a_slot_when_its_tag_is_plain() {
        for (pattern, key) in [("{foo}*", "foo"), ("a{foo}b[c]", "foo"), ("foo", "foo"), ("{}x", "{}x")] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), Some(slot_of(key.as_bytes())), "{pattern}");
        }
        for pattern in ["*", "*{foo}", "{f?o}", "{}*", "foo*{bar", "a\\b"] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), None, "{pattern}");
        }
    }

    #[test]
    fn every_slot_has_a_tag() {
        for slot in 0..SLOT_COUNT as u16 {
            assert_eq!(slot_of(tag_of_slot(slot).as_bytes()), slot);
        }
        // Those of Redis' table.
        let known = [(0, "06S"), (1, "Qi"), (100, "0or"), (8192, "8YG"), (12182, "9Le"), (16383, "6ZJ")];
        known.into_iter().for_each(|(slot, tag)| assert_eq!(tag_of_slot(slot), tag));
        assert_eq!(tag_of_slot(SLOT_COUNT as u16), "");
    }
}
