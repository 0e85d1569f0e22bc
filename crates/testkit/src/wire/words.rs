//! Words and escapes of case files: bytes to text that a person can read and back, without loss.

/// Splits a request line into its arguments as redis-cli does: bare words, `"…"` with escapes, `'…'` without.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.as_bytes().first() {
            Some(b'"') => quoted(rest)?,
            Some(b'\'') => {
                let inner = &rest[1..];
                let end = inner.find('\'').ok_or("a quote that is not closed")?;
                (inner.as_bytes()[..end].to_vec(), &inner[end + 1..])
            }
            _ => {
                let end = rest.find([' ', '\t']).unwrap_or(rest.len());
                (rest.as_bytes()[..end].to_vec(), &rest[end..])
            }
        };
        if !after.is_empty() && !after.starts_with([' ', '\t']) {
            return Err("a closing quote must be followed by a space".into());
        }
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// The string that opens `text` with a double quote, and the text behind its end.
pub fn quoted(text: &str) -> Result<(Vec<u8>, &str), String> {
    let inner = text.strip_prefix('"').ok_or("expected a quote")?;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Ok((unescape(&inner[..at])?, &inner[at + 1..])),
            _ => {}
        }
    }
    Err("a quote that is not closed".into())
}

/// `\r \n \t \0 \a \b \\ \" \xHH` and `\{text*count}`; everything else stands for itself.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = rest[at + 1..].chars().next().ok_or("a backslash at the end")?;
        rest = &rest[at + 1 + escape.len_utf8()..];
        match escape {
            'r' => out.push(b'\r'),
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            '0' => out.push(0),
            'a' => out.push(7),
            'b' => out.push(8),
            'x' => {
                let digits = rest.get(..2).ok_or("\\x without two digits")?;
                out.push(u8::from_str_radix(digits, 16).map_err(|_| "\\x without two digits")?);
                rest = &rest[2..];
            }
            '{' => {
                let end = rest.find('}').ok_or("\\{ without its }")?;
                let (unit, count) = rest[..end].rsplit_once('*').ok_or("\\{ without its *")?;
                let count = count.parse().map_err(|_| "\\{ without a count")?;
                out.extend_from_slice(&unescape(unit)?.repeat(count));
                rest = &rest[end + 1..];
            }
            other => out.extend_from_slice(other.to_string().as_bytes()),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// The bytes with everything unprintable, quotes and backslashes escaped; long runs of one byte are folded.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let run = bytes[at..].iter().take_while(|&&other| other == byte).count();
        if run >= 32 && byte.is_ascii_alphanumeric() {
            out.push_str(&format!("\\{{{}*{run}}}", byte as char));
            at += run;
            continue;
        }
        match byte {
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b' ' if at + 1 == bytes.len() => out.push_str("\\x20"),
            0x20..=0x7e => out.push(byte as char),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
        at += 1;
    }
    out
}

/// Whether `text` matches `glob`, in which `*` is any run of bytes, `?` any byte and `\` takes the next
/// literally.
pub fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    match (glob.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', after)), _) => (0..=text.len()).any(|skip| glob_matches(after, &text[skip..])),
        (Some((b'?', after)), Some((_, text))) => glob_matches(after, text),
        (Some((b'\\', after)), Some((byte, text))) => match after.split_first() {
            Some((literal, after)) => literal == byte && glob_matches(after, text),
            None => false,
        },
        (Some((literal, after)), Some((byte, text))) => literal == byte && glob_matches(after, text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_as_redis_cli_does() {
        let words = split(r#"SET  "a b\r\n\x00" 'c "d' \{x "\{xy*3}""#).unwrap();
        assert_eq!(words, [&b"SET"[..], b"a b\r\n\0", b"c \"d", b"\\{x", b"xyxyxy"]);
        assert!(split("\"open").is_err());
        assert!(split("\"a\"b").is_err());
    }

    #[test]
    fn escapes_come_back() {
        let bytes: Vec<u8> = (0..=255).chain(std::iter::repeat_n(b'z', 100)).collect();
        assert_eq!(unescape(&escape(&bytes)).unwrap(), bytes);
    }

    #[test]
    fn globs() {
        assert!(glob_matches(b"ERR * at ?", b"ERR something at 3"));
        assert!(glob_matches(b"a\\*b", b"a*b"));
        assert!(!glob_matches(b"a\\*b", b"axb"));
        assert!(!glob_matches(b"a?", b"a"));
    }
}
