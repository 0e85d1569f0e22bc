//! Bracket expressions: `[a-z_]`, `[^[:digit:]]`.

use super::{Bytes, Invalid};

type IsIn = fn(&u8) -> bool;

/// Redis runs in the locale C, in which no byte above 127 is in any class.
const CLASSES: [(&[u8], IsIn); 12] = [
    (b"alnum", u8::is_ascii_alphanumeric),
    (b"alpha", u8::is_ascii_alphabetic),
    (b"blank", |byte| matches!(byte, b' ' | b'\t')),
    (b"cntrl", u8::is_ascii_control),
    (b"digit", u8::is_ascii_digit),
    (b"graph", u8::is_ascii_graphic),
    (b"lower", u8::is_ascii_lowercase),
    (b"print", |byte| matches!(byte, b' '..=b'~')),
    (b"punct", u8::is_ascii_punctuation),
    (b"space", |byte| matches!(byte, b' ' | b'\t'..=b'\r')),
    (b"upper", u8::is_ascii_uppercase),
    (b"xdigit", u8::is_ascii_hexdigit),
];

/// The bytes of a class such as `alpha`.
pub(super) fn class(name: &[u8]) -> Option<Bytes> {
    let (_, is_in) = CLASSES.iter().find(|(known, _)| *known == name)?;
    let mut bytes = Bytes::default();
    (0..=u8::MAX).filter(is_in).for_each(|byte| bytes.insert(byte));
    Some(bytes)
}

/// Adds the other case of each letter.
pub(super) fn fold(bytes: &mut Bytes) {
    for byte in (0..=u8::MAX).filter(u8::is_ascii_alphabetic) {
        if bytes.has(byte) {
            bytes.insert(byte ^ 0x20);
        }
    }
}

/// Reads the part behind an opening bracket: the bytes that it stands for, and its length in the pattern.
pub(super) fn parse(pattern: &[u8], nocase: bool) -> Result<(Bytes, usize), Invalid> {
    let is_negated = pattern.first() == Some(&b'^');
    let begin = usize::from(is_negated);
    let (mut at, mut bytes) = (begin, Bytes::default());
    loop {
        match pattern.get(at..).unwrap_or(&[]) {
            [] => return Err(Invalid::Bracket),
            [b']', ..] if at > begin => break,
            [low, b'-', high, ..] if *high != b']' => {
                if low > high {
                    return Err(Invalid::Range);
                }
                (*low..=*high).for_each(|byte| bytes.insert(byte));
                at += 3;
            }
            [b'[', b'.' | b'=', ..] => return Err(Invalid::Collation),
            [b'[', b':', rest @ ..] => {
                let len = rest.iter().position(|byte| *byte == b':').ok_or(Invalid::Class)?;
                bytes.union(&class(&rest[..len]).ok_or(Invalid::Class)?);
                at += len + 4;
            }
            // Two ranges cannot share an end.
            [b'-', next, ..] if *next != b']' && at > begin => return Err(Invalid::Range),
            [byte, ..] => {
                bytes.insert(*byte);
                at += 1;
            }
        }
    }
    if nocase {
        fold(&mut bytes);
    }
    Ok((if is_negated { bytes.complement() } else { bytes }, at + 1))
}
