//! Splits a configuration line into words.
//!
//! Invariant: for any bytes `x`, splitting [`quote`](super::value::quote)`(x)` gives the one word
//! `x`. The rules are Redis': double quotes with escapes, single quotes with `\'` only, no comment after a
//! directive, and a closing quote must end its word.

/// What C's `isspace` takes for a blank.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// `line` without the blanks around it.
pub(super) fn trim(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let Some(start) = line.iter().position(|byte| !blank(byte)) else { return &[] };
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// The words of a line; none when a quote is open or followed by something other than a blank.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|&byte| !is_blank(byte));
        let Some(start) = start else { return Some(words) };
        let (word, after) = word(&rest[start..])?;
        words.push(word);
        rest = after;
    }
}

/// The first word of a text that begins with it, and the rest.
fn word(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut rest = text;
    loop {
        // A vertical tab or form feed separates words but does not end a bare one: so it is in Redis.
        match rest {
            [] => return Some((word, rest)),
            [b' ' | b'\n' | b'\r' | b'\t' | 0, after @ ..] => return Some((word, after)),
            [b'"', after @ ..] => {
                return ends_with_quote(double_quoted(after, &mut word)?).map(|rest| (word, rest));
            }
            [b'\'', after @ ..] => {
                return ends_with_quote(single_quoted(after, &mut word)?).map(|rest| (word, rest));
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// The rest behind a closing quote, if the word may end there.
fn ends_with_quote(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(|&byte| is_blank(byte)).then_some(rest)
}

/// Adds the text up to the closing quote to `word`; returns the rest behind the quote.
fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or(0) as u8;
                (digit(high) << 4 | digit(low), after)
            }
            [b'\\', escaped, after @ ..] => (unescape(*escaped), after),
            [byte, after @ ..] => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

/// The byte that a backslash and `letter` stand for.
fn unescape(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// Adds the text up to the closing quote to `word`; returns the rest behind the quote.
fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::quote;
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let words = split(line.as_bytes())?;
        Some(words.into_iter().map(|word| word.iter().copied().map(char::from).collect()).collect())
    }

    #[test]
    fn splits_as_redis_does() {
        let cases: &[(&str, Option<&[&str]>)] = &[
            ("", Some(&[])),
            ("   ", Some(&[])),
            ("port 6379", Some(&["port", "6379"])),
            ("\tport \x0b 6379 \r\n", Some(&["port", "6379"])),
            (r#"a "b c" 'd e'"#, Some(&["a", "b c", "d e"])),
            (r#""\x41\n\r\t\b\a\q\\""#, Some(&["A\n\r\t\x08\x07q\\"])),
            (r#""\xzz\x4""#, Some(&["xzzx4"])),
            (r"'it\'s \n'", Some(&[r"it's \n"])),
            (r#""" ''"#, Some(&["", ""])),
            (r#"ab"cd""#, Some(&["abcd"])),
            ("a\x0bb c", Some(&["a\x0bb", "c"])),
            (r#""a"b"#, None),
            (r#"'a'b"#, None),
            (r#""a"#, None),
            (r#"'a"#, None),
            (r#""a\"#, None),
            (r#"a # b"#, Some(&["a", "#", "b"])),
        ];
        for (line, expected) in cases {
            let expected =
                expected.map(|words| words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
            assert_eq!(words(line), expected, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn split_undoes_quote(text: Vec<u8>, more: Vec<u8>) {
            let line = [quote(&text), b" ".into(), quote(&more)].concat();
            prop_assert_eq!(split(&line), Some(vec![text, more]));
        }

        #[test]
        fn any_line_splits_or_is_refused(line: Vec<u8>) {
            if let Some(words) = split(&line) {
                let quoted: Vec<_> = words.iter().map(|word| quote(word)).collect();
                prop_assert_eq!(split(&quoted.join(&b' ')), Some(words));
            }
        }
    }
}
