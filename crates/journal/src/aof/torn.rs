//! Tells a torn end of a file of commands from a wrong one.
//!
//! A crash cuts a write short, so the end is torn exactly if it is a prefix of a command as servers write
//! commands: decimal numbers, each line and each argument ended by CR LF. Everything else is wrong: line ends
//! that a tool has converted, foreign bytes, zeros, or a damaged length whose argument swallows the commands
//! behind it.
//!
//! Invariant: only a torn end may be cut off. A wrong one stays as it is, and its reader stops.

use martlet_protocol::request::{Parsed, Partial, RequestLimits, parse};

/// Most digits of a number.
const DIGITS_MAX: usize = 19;
/// Number of places tried for a command within an argument that reaches beyond the end.
const PLACES_TRIED: usize = 64;
/// Number of whole commands in a row that count as commands whatever follows them.
const COMMANDS_IN_A_ROW: usize = 8;

/// A line with a number.
enum Number {
    /// The number, and where the next byte is.
    Whole(usize, usize),
    /// The bytes end within the line.
    Cut,
}

/// Checks that `rest`, up to the file's end, is a beginning of a command or of an annotation.
///
/// # Errors
/// The fault, in the words of redis-check-aof where it has them.
pub(super) fn check_beginning(rest: &[u8], limits: &RequestLimits) -> Result<(), String> {
    if rest.first() == Some(&b'#') {
        let is_text = rest.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r'));
        return if is_text { Ok(()) } else { Err("an annotation that is no text".into()) };
    }
    let Number::Whole(count, mut at) = read_number(rest, 0, b'*')? else { return Ok(()) };
    for _ in 0..count {
        let Number::Whole(len_bytes, begin) = read_number(rest, at, b'$')? else { return Ok(()) };
        let end = begin.saturating_add(len_bytes);
        if rest.len() < end {
            return check_argument(&rest[begin..], limits);
        }
        match rest.get(end..end + 2) {
            Some(b"\r\n") => at = end + 2,
            None if matches!(&rest[end..], b"" | b"\r") => return Ok(()),
            _ => return Err(no_line_end(&rest[end..])),
        }
    }
    Ok(())
}

/// Reads the line at `at`: `prefix`, digits, CR LF.
fn read_number(rest: &[u8], at: usize, prefix: u8) -> Result<Number, String> {
    let line = rest.get(at..).unwrap_or_default();
    match line.first() {
        None => return Ok(Number::Cut),
        Some(&first) if first != prefix => {
            let (prefix, first) = (char::from(prefix), char::from(first).escape_default());
            return Err(format!("Expected prefix '{prefix}', got: '{first}'"));
        }
        Some(_) => {}
    }
    let digits = line[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, end) = line[1..].split_at(digits);
    let is_number =
        digits <= DIGITS_MAX && (digits <= 1 || number[0] != b'0') && !(prefix == b'*' && number == b"0");
    match end {
        _ if !is_number => Err(format!("'{}' is no number", number.escape_ascii())),
        [] | [b'\r'] if digits > 0 || end.is_empty() => Ok(Number::Cut),
        [b'\r', b'\n', ..] if digits > 0 => {
            let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
            number
                .map(|number| Number::Whole(number, at + 1 + digits + 2))
                .ok_or("a number out of range".into())
        }
        _ if digits == 0 => Err(format!("'{}' is no digit", end[..1].escape_ascii())),
        _ => Err(no_line_end(end)),
    }
}

/// The fault of bytes that stand where a line or an argument must end.
pub(super) fn no_line_end(found: &[u8]) -> String {
    let byte = |at: usize| found.get(at).copied().unwrap_or(0);
    let hint = match found {
        [b'\n', rest @ ..] if rest.first() != Some(&b'\r') => {
            "; do its lines end in LF, as a tool leaves them that converts text?"
        }
        _ => "",
    };
    format!("Expected \\r\\n, got: {:02x}{:02x}{hint}", byte(0), byte(1))
}

/// Checks an argument that reaches beyond the end of the file: no commands may be in it that a damaged length
/// has swallowed.
fn check_argument(argument: &[u8], limits: &RequestLimits) -> Result<(), String> {
    let places = memchr::memmem::find_iter(argument, b"\r\n*").map(|at| at + 2);
    match places.take(PLACES_TRIED).find(|&at| are_commands(argument, at, limits)) {
        None => Ok(()),
        Some(at) => {
            Err(format!("a length that reaches beyond the file's end, over commands {at} bytes behind it,"))
        }
    }
}

/// Whether commands stand at `at`: up to the end, or many in a row. One that is cut short may be the last.
fn are_commands(bytes: &[u8], mut at: usize, limits: &RequestLimits) -> bool {
    let mut spans = Vec::new();
    for _ in 0..COMMANDS_IN_A_ROW {
        spans.clear();
        match parse(bytes, at, limits, &mut Partial::default(), &mut spans) {
            Ok(Parsed::Complete(end)) if !spans.is_empty() => at = end,
            _ => return false,
        }
        if at == bytes.len() {
            return true;
        }
        if bytes[at] != b'*' {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;
    use proptest::prelude::*;

    fn check(rest: &[u8]) -> Result<(), String> {
        check_beginning(rest, &RequestLimits::default())
    }

    #[test]
    fn what_no_crash_leaves_is_wrong() {
        for (rest, reason) in [
            ("*3\n$3\nset\n$1\nx\n$1\ny\n", "Expected \\r\\n, got: 0a24; do its lines"),
            ("*3\r\n$3\nset\n", "Expected \\r\\n, got: 0a73"),
            ("*3\r\n$3\r\nset\n$1", "Expected \\r\\n, got: 0a24"),
            ("*3\r\r\n$3", "Expected \\r\\n, got: 0d0d"),
            ("*x", "'x' is no digit"),
            ("*-1", "'-' is no digit"),
            ("*\r", "'\\r' is no digit"),
            ("*0", "'0' is no number"),
            ("*03", "'03' is no number"),
            ("*3x", "Expected \\r\\n, got: 7800"),
            ("*1\r\n:3", "Expected prefix '$', got: ':'"),
            ("*1\r\n\0\0", "Expected prefix '$', got: '\\u{0}'"),
            ("*1\r\n$\0", "'\\x00' is no digit"),
            ("*2\r\n$1\r\nabc", "Expected \\r\\n, got: 6263"),
            ("*99999999999999999999", "is no number"),
            ("#TS:12\0\0", "an annotation that is no text"),
            ("*2\r\n$1\r\nx\r\n$900\r\nab\r\n*1\r\n$1\r\ny\r\n", "over commands 4 bytes behind it"),
        ] {
            let error = check(rest.as_bytes()).expect_err(rest);
            assert!(error.contains(reason), "{rest:?}: {error}");
        }
    }

    #[test]
    fn an_argument_that_only_looks_like_commands_is_torn() {
        for rest in [
            "*2\r\n$1\r\nx\r\n$900\r\nab\r\n*1\r\n$1\r\ny\r\nand on",
            "*2\r\n$1\r\nx\r\n$900\r\nab\r\n*1\r\n$1\r\n",
            "*2\r\n$1\r\nx\r\n$900\r\nab\r\n*0\r\n",
        ] {
            assert_eq!(check(rest.as_bytes()), Ok(()), "{rest:?}");
        }
    }

    proptest! {
        #[test]
        fn every_beginning_of_a_command_is_torn(
            command in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            encode(&mut bytes, command.iter().map(Vec::as_slice));
            let cut = 1 + cut.index(bytes.len() - 1);
            prop_assert_eq!(check(&bytes[..cut]), Ok(()));
        }

        #[test]
        fn a_line_end_that_was_converted_is_found_in_every_command(
            command in proptest::collection::vec("[a-z]{0,9}", 1..5),
        ) {
            let mut bytes = Vec::new();
            encode(&mut bytes, command.iter().map(String::as_bytes));
            let converted = String::from_utf8(bytes).unwrap().replace("\r\n", "\n");
            prop_assert!(check(converted.as_bytes()).is_err());
        }
    }
}
