//! Values and replies as the debugger shows them.
//!
//! Invariant: a text ends at its limit, and so does the work for it, whatever a script has made.

use crate::stack::{Kind, Stack};

/// Values nest so deep at most (half of Lua's `LUA_MINSTACK`).
const VALUES_NESTED_MAX: usize = 10;
/// Replies nest so deep at most.
const REPLIES_NESTED_MAX: usize = 128;

/// A text that ends at its limit.
pub struct Text {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl Text {
    /// One that begins so, and ends about there.
    pub fn new(begin: &[u8], max_bytes: usize) -> Text {
        Text { bytes: begin.to_vec(), max_bytes }
    }

    /// Appends bytes, as far as there is room.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.max_bytes.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.max_bytes
    }

    /// The text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends bytes in quotes, those that cannot be printed as escapes.
    fn push_quoted(&mut self, bytes: &[u8]) {
        self.push(b"\"");
        for &byte in bytes {
            if self.is_full() {
                return;
            }
            match byte {
                b'\\' | b'"' => self.push(&[b'\\', byte]),
                b'\n' => self.push(b"\\n"),
                b'\r' => self.push(b"\\r"),
                b'\t' => self.push(b"\\t"),
                0x07 => self.push(b"\\a"),
                0x08 => self.push(b"\\b"),
                0x20..=0x7e => self.push(&[byte]),
                _ => self.push(format!("\\x{byte:02x}").as_bytes()),
            }
        }
        self.push(b"\"");
    }
}

/// A number as C's `%g` writes it: six digits, without zeros at the end.
pub fn number_text(number: f64) -> String {
    const DIGITS: i32 = 6;
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let scientific = format!("{number:.*e}", (DIGITS - 1) as usize);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..DIGITS).contains(&exponent) {
        return trimmed(&format!("{number:.*}", (DIGITS - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Appends a value of the stack.
pub fn value_text(stack: &mut Stack<'_>, index: i32, text: &mut Text) {
    let index = stack.absolute(index);
    nested_value_text(stack, index, text, 0);
}

fn nested_value_text(stack: &mut Stack<'_>, index: i32, text: &mut Text, depth: usize) {
    if depth == VALUES_NESTED_MAX {
        return text.push(b"<max recursion level reached! Nested table?>");
    }
    match stack.kind(index) {
        Kind::String => text.push_quoted(stack.bytes(index).unwrap_or_default()),
        Kind::Boolean => text.push(if stack.truth(index) { b"true" } else { b"false" }),
        Kind::Number => text.push(number_text(stack.number(index)).as_bytes()),
        Kind::Nil | Kind::None => text.push(b"nil"),
        Kind::Table => table_text(stack, index, text, depth + 1),
        Kind::Light | Kind::Function | Kind::Other => {
            let name =
                if stack.kind(index) == Kind::Light { "light-userdata" } else { stack.type_name(index) };
            let address = stack.identity(index);
            let address = if address.is_null() { "(nil)".into() } else { format!("{address:p}") };
            text.push(format!("\"{name}@{address}\"").as_bytes());
        }
    }
}

/// Appends a table: its elements alone if the walk through it finds 1, 2, 3 and so on, else with their keys.
fn table_text(stack: &mut Stack<'_>, index: i32, text: &mut Text, depth: usize) {
    let is_array = is_array(stack, index);
    let before = stack.top();
    text.push(b"{");
    stack.push_nil();
    let mut is_first = true;
    while stack.next(index) {
        if text.is_full() {
            stack.set_top(before);
            return;
        }
        if !std::mem::take(&mut is_first) {
            text.push(b"; ");
        }
        let value = stack.top();
        if !is_array {
            text.push(b"[");
            nested_value_text(stack, value - 1, text, depth);
            text.push(b"]=");
        }
        nested_value_text(stack, value, text, depth);
        stack.pop(1);
    }
    text.push(b"}");
}

fn is_array(stack: &mut Stack<'_>, index: i32) -> bool {
    let before = stack.top();
    let mut expected = 1.0;
    stack.push_nil();
    while stack.next(index) {
        if stack.kind(-2) != Kind::Number || stack.number(-2) != expected {
            stack.set_top(before);
            return false;
        }
        expected += 1.0;
        stack.pop(1);
    }
    true
}

/// Appends a reply in its protocol's form.
pub fn human_reply(reply: &[u8], text: &mut Text) {
    next_reply(reply, text, 0);
}

/// Appends the reply at the beginning of `input`; what follows it, or `None` if it cannot be read.
fn next_reply<'r>(input: &'r [u8], text: &mut Text, depth: usize) -> Option<&'r [u8]> {
    let end = input.windows(2).position(|pair| pair == b"\r\n").filter(|_| depth < REPLIES_NESTED_MAX)?;
    let (line, rest) = (&input[..end], &input[end + 2..]);
    let (kind, head) = line.split_first()?;
    let len = || martlet_base::number::parse_i64(head);
    match kind {
        b':' => text.push(head),
        b'+' | b'-' => text.push_quoted(line),
        b'$' | b'=' => {
            let Ok(len) = usize::try_from(len()?) else {
                text.push(b"NULL");
                return Some(rest);
            };
            text.push_quoted(rest.get(..len)?);
            return rest.get(len + 2..);
        }
        b'*' if len()? < 0 => text.push(b"NULL"),
        b'*' => return several(rest, text, depth, len()?, [b"[", b",", b"]"]),
        b'~' => return several(rest, text, depth, len()?, [b"~(", b",", b")"]),
        b'%' => return pairs(rest, text, depth, len()?),
        b'_' => text.push(b"(null)"),
        b'#' => text.push(if head == b"t" { b"#true" } else { b"#false" }),
        b',' => {
            text.push(b"(double) ");
            text.push(head);
        }
        _ => text.push(head),
    }
    Some(rest)
}

/// Appends several replies between these words.
fn several<'r>(
    mut rest: &'r [u8],
    text: &mut Text,
    depth: usize,
    count: i64,
    [open, between, close]: [&[u8]; 3],
) -> Option<&'r [u8]> {
    text.push(open);
    for at in 0..count {
        if at > 0 {
            text.push(between);
        }
        if text.is_full() {
            return None;
        }
        rest = next_reply(rest, text, depth + 1)?;
    }
    text.push(close);
    Some(rest)
}

fn pairs<'r>(mut rest: &'r [u8], text: &mut Text, depth: usize, count: i64) -> Option<&'r [u8]> {
    text.push(b"{");
    for at in 0..count {
        if at > 0 {
            text.push(b",");
        }
        if text.is_full() {
            return None;
        }
        rest = next_reply(rest, text, depth + 1)?;
        text.push(b" => ");
        rest = next_reply(rest, text, depth + 1)?;
    }
    text.push(b"}");
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_c_writes_them() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (123456.0, "123456"),
            (1234567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (999999.5, "1e+06"),
            (1e100, "1e+100"),
            (2.123_456_7, "2.12346"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(number_text(number), expected);
        }
    }

    #[test]
    fn replies_are_as_redis_shows_them() {
        let shown = |reply: &[u8], max| {
            let mut text = Text::new(b"", max);
            human_reply(reply, &mut text);
            String::from_utf8(text.into_bytes()).unwrap()
        };
        for (reply, expected) in [
            (b"+OK\r\n".as_slice(), "\"+OK\""),
            (b"-ERR no\r\n", "\"-ERR no\""),
            (b":12\r\n", "12"),
            (b"$-1\r\n", "NULL"),
            (b"$3\r\na\xff\n\r\n", "\"a\\xff\\n\""),
            (b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "[\"a\",[1]]"),
            (b"*-1\r\n", "NULL"),
            (b"%1\r\n+a\r\n#t\r\n", "{\"+a\" => #true}"),
            (b"~2\r\n,1.5\r\n_\r\n", "~((double) 1.5,(null))"),
            (b"$9\r\nshort\r\n", ""),
            (b"*3\r\n:1\r\n", "[1,"),
            (b"", ""),
        ] {
            assert_eq!(shown(reply, 1000), expected, "{}", reply.escape_ascii());
        }
        let nested = [b"*1\r\n".repeat(10_000).as_slice(), b":1\r\n"].concat();
        assert_eq!(shown(&nested, 10_000), "[".repeat(REPLIES_NESTED_MAX));
        assert_eq!(shown(b"*9999999\r\n:1\r\n:2\r\n:3\r\n", 4), "[1,2");
    }
}
