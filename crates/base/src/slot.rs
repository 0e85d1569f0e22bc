//! Hash slots of a cluster: CRC16 of a key, hash tags honoured.

/// Number of hash slots.
pub const SLOT_COUNT: usize = 16_384;

const TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of a key; of the part between the first `{` and the next `}` where that is not empty.
pub fn slot_of(key: &[u8]) -> u16 {
    let find = |byte: u8, bytes: &[u8]| bytes.iter().position(|other| *other == byte);
    let hashed = find(b'{', key)
        .and_then(|open| key.get(open + 1..))
        .and_then(|tail| tail.get(..find(b'}', tail)?))
        .filter(|tag| !tag.is_empty())
        .unwrap_or(key);
    crc16(hashed) % SLOT_COUNT as u16
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{foo}bar"), slot_of(b"foo"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16384);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
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
}
