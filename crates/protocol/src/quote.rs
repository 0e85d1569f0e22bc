//! Redis' quoting of words on a line, as in inline requests, redis.conf and redis-cli.

/// Whether C's `isspace` says so in the C locale.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Whether it ends a word outside of quotes: of C's spaces the vertical tab and the form feed only separate
/// words, they do not end one.
pub fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)
}

/// Splits a line into words: plain, `"…"` with `\n \r \t \b \a \xHH` escapes, `'…'` with `\'`.
/// `None` when quotes do not close or a closing quote is followed by anything but a space.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while at < line.len() && is_space(line[at]) {
            at += 1;
        }
        if at >= line.len() || line[at] == 0 {
            return Some(words);
        }
        let mut word = Vec::new();
        at = read_word(line, at, &mut word)?;
        words.push(word);
    }
}

/// Reads one word from `at`; the offset after it.
fn read_word(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    while at < line.len() && !ends_word(line[at]) {
        match line[at] {
            b'"' => return read_double_quoted(line, at + 1, word),
            b'\'' => return read_single_quoted(line, at + 1, word),
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
    Some(at)
}

fn closing_is_followed_by_space(line: &[u8], after: usize) -> bool {
    line.get(after).is_none_or(|&b| is_space(b) || b == 0)
}

fn read_double_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'"' => return closing_is_followed_by_space(line, at + 1).then_some(at + 1),
            b'\\' if at + 1 < line.len() => {
                let hex = |i: usize| line.get(i).and_then(|&b| char::from(b).to_digit(16));
                if line[at + 1] == b'x'
                    && let (Some(high), Some(low)) = (hex(at + 2), hex(at + 3))
                {
                    word.push((high * 16 + low) as u8);
                    at += 4;
                    continue;
                }
                word.push(match line[at + 1] {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => other,
                });
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn read_single_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'\'' => return closing_is_followed_by_space(line, at + 1).then_some(at + 1),
            b'\\' if line.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

/// Appends `bytes` in double quotes with escapes such that [`split`] gives them back (MONITOR, logs, CONFIG
/// REWRITE).
pub fn append_quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    append_escaped(out, bytes);
    out.push(b'"');
}

/// What [`append_quoted`] appends, without the quotes: for text that comes in pieces.
pub fn append_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            7 => out.extend(b"\\a"),
            8 => out.extend(b"\\b"),
            0x20..=0x7e => out.push(byte),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend([b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words() {
        let split = |s: &str| {
            split(s.as_bytes())
                .map(|w| w.into_iter().map(|b| String::from_utf8_lossy(&b).into_owned()).collect::<Vec<_>>())
        };
        assert_eq!(split("set  a\t\"b c\" 'd\\'e'").unwrap(), ["set", "a", "b c", "d'e"]);
        assert_eq!(split(r#""\x41\n\q""#).unwrap(), ["A\nq"]);
        assert_eq!(split("").unwrap(), Vec::<String>::new());
        assert_eq!(split("\"\"").unwrap(), [""]);
        assert_eq!(split("\"a"), None);
        assert_eq!(split("'a'b"), None);
        assert_eq!(split("\"a\"b"), None);
        assert_eq!(split("\x0ba\x0bb \x0c\"c\"\x0bd\x0c").unwrap(), ["a\x0bb", "c", "d\x0c"]);
    }

    proptest! {
        #[test]
        fn quoting_round_trips(words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..5)) {
            let mut line = Vec::new();
            for word in &words {
                append_quoted(&mut line, word);
                line.push(b' ');
            }
            prop_assert_eq!(split(&line), Some(words));
        }
    }
}
