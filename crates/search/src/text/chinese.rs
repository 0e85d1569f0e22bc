//! Words of Chinese text, which has no separators.
//!
//! Each ideograph is a word of its own, and so is each run of other characters. A query seeks a token of
//! several words as a phrase, which needs no dictionary.

/// The words of a token, in order, each with its place in it. A byte that is not UTF-8 is no ideograph.
pub fn words(token: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = token.get(at..).filter(|rest| !rest.is_empty())?;
        let len = match ideograph_len(rest) {
            0 => (1..rest.len()).find(|&len| ideograph_len(&rest[len..]) > 0).unwrap_or(rest.len()),
            len => len,
        };
        at += len;
        Some((at - len, &rest[..len]))
    })
}

/// Bytes of the ideograph at the beginning of a text, or zero.
fn ideograph_len(text: &[u8]) -> usize {
    let len = match text.first() {
        Some(0xe3..=0xef) => 3,
        Some(0xf0) => 4,
        _ => return 0,
    };
    let character = text.get(..len).and_then(|bytes| std::str::from_utf8(bytes).ok()?.chars().next());
    match character {
        // The blocks of CJK ideographs, their compatibility forms, and planes 2 and 3 (Unicode 16).
        Some('\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}') => len,
        Some('\u{20000}'..='\u{3ffff}') => len,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideographs_are_words() {
        let found = |text: &str| {
            let show = |(at, word): (usize, &[u8])| format!("{at} {}", String::from_utf8_lossy(word));
            words(text.as_bytes()).map(show).collect::<Vec<_>>()
        };
        assert_eq!(found("中华abc人"), ["0 中", "3 华", "6 abc", "9 人"]);
        assert_eq!(found("hello"), ["0 hello"]);
        assert_eq!(found("カ𠀀"), ["0 カ", "3 𠀀"]);
        assert_eq!(found(""), [""; 0]);
        let odd: Vec<_> = words(b"\xe4\xb8\xff\xe4\xb8\xad").collect();
        assert_eq!(odd, [(0, &b"\xe4\xb8\xff"[..]), (3, "中".as_bytes())]);
    }
}
