//! Integers of variable length: seven bits a byte, the lowest first, the highest bit saying that more follow.

/// Appends `value`.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value`.
pub(super) fn put_wide(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes an integer off the front; 0 if the bytes have ended.
#[inline(always)]
pub(super) fn take(bytes: &mut &[u8]) -> u64 {
    let Some((&first, rest)) = bytes.split_first() else { return 0 };
    if first < 0x80 {
        *bytes = rest;
        return u64::from(first);
    }
    take_wide(bytes) as u64
}

/// Takes an integer off the front; 0 if the bytes have ended.
pub(super) fn take_wide(bytes: &mut &[u8]) -> u128 {
    let mut value = 0u128;
    let mut shift = 0;
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        if shift < 128 {
            value |= u128::from(byte & 0x7f) << shift;
        }
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back() {
        let mut bytes = Vec::new();
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        for value in values {
            put(&mut bytes, value);
        }
        put_wide(&mut bytes, u128::MAX);
        let mut rest = bytes.as_slice();
        for value in values {
            assert_eq!(take(&mut rest), value);
        }
        assert_eq!(take_wide(&mut rest), u128::MAX);
        assert!(rest.is_empty());
        assert_eq!(take(&mut rest), 0);
    }
}
