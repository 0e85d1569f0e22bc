//! Replies become Lua values and Lua values replies, as Redis converts them.

use martlet_base::number::parse_i64;
use martlet_protocol::reply::Reply;

use crate::stack::{Kind, Raise, Stack, to_integer};

/// Values on Lua's stack above which nothing is nested deeper in a reply that is written: Rust's stack has an
/// end, too.
const NESTED_MAX: i32 = 2000;
/// Nor in a reply that is read; no command nests a tenth of it.
const READ_NESTED_MAX: usize = 200;

/// A reply that is read from its front.
struct Unread<'r>(&'r [u8]);

impl<'r> Unread<'r> {
    /// The next line: its first byte and the rest.
    fn line(&mut self) -> Option<(u8, &'r [u8])> {
        let end = self.0.iter().position(|&byte| byte == b'\r')?;
        let (line, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.get(2..)?;
        line.split_first().map(|(kind, text)| (*kind, text))
    }

    /// The next `len` bytes, which a line's end follows.
    fn bytes(&mut self, len: usize) -> Option<&'r [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest.get(2..)?;
        Some(bytes)
    }
}

/// Why a reply cannot be read.
enum Unreadable {
    /// The bytes are malformed.
    Malformed,
    /// Memory does not suffice.
    Raised(Raise),
}

impl From<Raise> for Unreadable {
    fn from(raise: Raise) -> Unreadable {
        Unreadable::Raised(raise)
    }
}

type Read = Result<(), Unreadable>;

/// Pushes a command's reply; `nil` for malformed bytes.
///
/// # Errors
/// [`Raise::Memory`]
pub fn push_reply(stack: &mut Stack<'_>, reply: &[u8]) -> Result<(), Raise> {
    let before = stack.top();
    match push_next(stack, &mut Unread(reply), 0) {
        Ok(()) => {}
        Err(Unreadable::Raised(raise)) => return Err(raise),
        Err(Unreadable::Malformed) => {
            stack.set_top(before);
            stack.push_nil();
        }
    }
    Ok(())
}

/// Whether a reply is an error.
pub fn is_error(reply: &[u8]) -> bool {
    reply.first() == Some(&b'-')
}

fn push_next(stack: &mut Stack<'_>, unread: &mut Unread<'_>, depth: usize) -> Read {
    if depth > READ_NESTED_MAX || !stack.reserve(6) {
        return Err(Unreadable::Malformed);
    }
    let (kind, text) = unread.line().ok_or(Unreadable::Malformed)?;
    let number = || parse_i64(text).ok_or(Unreadable::Malformed);
    match kind {
        b':' => stack.push_number(number()? as f64),
        b'+' => push_field(stack, "ok", text),
        b'-' => push_error(stack, text, true),
        b'$' => match usize::try_from(number()?) {
            Ok(len) => stack.try_push_bytes(unread.bytes(len).ok_or(Unreadable::Malformed)?)?,
            Err(_) => stack.push_bool(false),
        },
        b'*' | b'>' => match usize::try_from(number()?) {
            Ok(len) => push_array(stack, unread, len, depth)?,
            Err(_) => stack.push_bool(false),
        },
        b'%' => push_pairs(stack, unread, number()?, depth)?,
        b'~' => push_set(stack, unread, number()?, depth)?,
        b'|' => {
            let before = stack.top();
            for _ in 0..number()? {
                push_next(stack, unread, depth + 1)?;
                push_next(stack, unread, depth + 1)?;
                stack.set_top(before);
            }
            push_next(stack, unread, depth + 1)?;
        }
        b'_' => stack.push_nil(),
        b'#' => stack.push_bool(text == b"t"),
        b',' => {
            stack.push_table(0, 1);
            stack.push_number(martlet_base::number::parse_f64(text).unwrap_or(f64::NAN));
            stack.set_field(-2, "double");
        }
        b'(' => push_field(stack, "big_number", text),
        b'=' => {
            let len = usize::try_from(number()?).ok();
            push_verbatim(stack, len.and_then(|len| unread.bytes(len)).ok_or(Unreadable::Malformed)?)?;
        }
        _ => return Err(Unreadable::Malformed),
    }
    Ok(())
}

/// Pushes a table with one string.
pub fn push_field(stack: &mut Stack<'_>, name: &str, text: &[u8]) {
    stack.push_table(0, 1);
    stack.push_bytes(text);
    stack.set_field(-2, name);
}

/// Pushes an error as scripts see it, its code included; `is_counted` if it counts as an error already.
pub fn push_error(stack: &mut Stack<'_>, text: &[u8], is_counted: bool) {
    push_field(stack, "err", text);
    if is_counted {
        stack.push_bool(true);
        stack.set_field(-2, "ignore_error_stats_update");
    }
}

fn push_array(stack: &mut Stack<'_>, unread: &mut Unread<'_>, len: usize, depth: usize) -> Read {
    stack.try_push_table(len, 0)?;
    for element in 1..=len {
        push_next(stack, unread, depth + 1)?;
        stack.try_set_element(-2, i32::try_from(element).map_err(|_| Raise::Memory)?)?;
    }
    Ok(())
}

fn push_pairs(stack: &mut Stack<'_>, unread: &mut Unread<'_>, pairs: i64, depth: usize) -> Read {
    stack.try_push_table(0, 1)?;
    stack.try_push_table(0, usize::try_from(pairs).map_err(|_| Unreadable::Malformed)?)?;
    for _ in 0..pairs {
        push_next(stack, unread, depth + 1)?;
        push_next(stack, unread, depth + 1)?;
        stack.try_set(-3)?;
    }
    stack.set_field(-2, "map");
    Ok(())
}

fn push_set(stack: &mut Stack<'_>, unread: &mut Unread<'_>, members: i64, depth: usize) -> Read {
    stack.try_push_table(0, 1)?;
    stack.try_push_table(0, usize::try_from(members).map_err(|_| Unreadable::Malformed)?)?;
    for _ in 0..members {
        push_next(stack, unread, depth + 1)?;
        stack.push_bool(true);
        stack.try_set(-3)?;
    }
    stack.set_field(-2, "set");
    Ok(())
}

fn push_verbatim(stack: &mut Stack<'_>, bytes: &[u8]) -> Result<(), Raise> {
    let (format, text) = bytes.split_at(bytes.len().min(3));
    stack.push_table(0, 1);
    stack.push_table(0, 2);
    stack.try_push_bytes(text.get(1..).unwrap_or_default())?;
    stack.set_field(-2, "string");
    stack.push_bytes(format);
    stack.set_field(-2, "format");
    stack.set_field(-2, "verbatim_string");
    Ok(())
}

/// How values are written.
#[derive(Copy, Clone)]
struct Form {
    /// The script's protocol, which decides about booleans only; the rest is up to the reply's own version.
    resp3: bool,
    /// Bytes of the reply at which writing ends.
    max_bytes: usize,
}

/// Writes the value on top as a reply and drops it; it is known to be no error.
///
/// # Errors
/// [`Raise::Memory`] if the reply would take more than scripts can have; nothing is written then. (A few
/// tables that refer to each other are a reply of any length.)
pub fn write_returned(stack: &mut Stack<'_>, reply: &mut Reply, resp3: bool) -> Result<(), Raise> {
    let begin = reply.len();
    // Buffers double.
    let max_bytes = reply.total_bytes() + stack.memory().left_bytes() / 2;
    write(stack, reply, Form { resp3, max_bytes }, write_plain_table);
    if reply.total_bytes() <= max_bytes {
        return Ok(());
    }
    reply.truncate(begin);
    Err(Raise::Memory)
}

fn write_value(stack: &mut Stack<'_>, reply: &mut Reply, form: Form) {
    write(stack, reply, form, write_table);
}

fn write(
    stack: &mut Stack<'_>,
    reply: &mut Reply,
    form: Form,
    write_table: fn(&mut Stack<'_>, &mut Reply, Form, i32),
) {
    let index = stack.top();
    if index > NESTED_MAX || !stack.reserve(5) {
        reply.error("ERR reached lua stack limit");
        stack.pop(1);
        return;
    }
    match stack.kind(index) {
        _ if reply.total_bytes() > form.max_bytes => {}
        Kind::String => write_bytes(reply, form, stack.bytes(index).unwrap_or_default()),
        Kind::Boolean => match (form.resp3, stack.truth(index)) {
            (false, true) => reply.int(1),
            (false, false) => reply.null(),
            (true, value) => reply.bool(value),
        },
        Kind::Number => reply.int(to_integer(stack.number(index))),
        Kind::Table => write_table(stack, reply, form, index),
        _ => reply.null(),
    }
    stack.set_top(index - 1);
}

/// A string; of one that is too long only as much as shows that the reply is.
fn write_bytes(reply: &mut Reply, form: Form, bytes: &[u8]) {
    let left = form.max_bytes.saturating_sub(reply.total_bytes());
    reply.bulk(if bytes.len() <= left { bytes } else { &bytes[..left + 1] });
}

/// Text that must fit a line.
fn on_one_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace(['\r', '\n'], " ")
}

fn write_table(stack: &mut Stack<'_>, reply: &mut Reply, form: Form, index: i32) {
    stack.get_field(index, "err");
    if let Some(text) = stack.bytes(-1) {
        return reply.error(text);
    }
    stack.pop(1);
    write_plain_table(stack, reply, form, index);
}

fn write_plain_table(stack: &mut Stack<'_>, reply: &mut Reply, form: Form, index: i32) {
    stack.get_field(index, "ok");
    if let Some(text) = stack.bytes(-1) {
        // A string of C's ends at its first zero.
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let raw = reply.raw();
        raw.push(b'+');
        raw.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        raw.extend_from_slice(b"\r\n");
        return;
    }
    stack.pop(1);
    stack.get_field(index, "double");
    if stack.kind(-1) == Kind::Number {
        return reply.double(stack.number(-1));
    }
    stack.pop(1);
    stack.get_field(index, "big_number");
    if let Some(text) = stack.bytes(-1) {
        return reply.big_number(&on_one_line(text));
    }
    stack.pop(1);
    if write_verbatim(stack, reply, index) {
        return;
    }
    stack.get_field(index, "map");
    if stack.kind(-1) == Kind::Table {
        return write_map(stack, reply, form);
    }
    stack.pop(1);
    stack.get_field(index, "set");
    if stack.kind(-1) == Kind::Table {
        return write_set(stack, reply, form);
    }
    stack.pop(1);
    write_array(stack, reply, form, index);
}

fn write_verbatim(stack: &mut Stack<'_>, reply: &mut Reply, index: i32) -> bool {
    stack.get_field(index, "verbatim_string");
    if stack.kind(-1) == Kind::Table {
        stack.get_field(-1, "format");
        stack.get_field(-2, "string");
        if let (Some(format), Some(text)) = (stack.bytes(-2), stack.bytes(-1)) {
            // Three letters, whatever was given.
            let mut letters = String::from_utf8_lossy(format).into_owned();
            letters.retain(|letter| letter.is_ascii_graphic());
            reply.verbatim(&format!("{letters:<3.3}"), text);
            return true;
        }
    }
    stack.set_top(index);
    false
}

fn write_map(stack: &mut Stack<'_>, reply: &mut Reply, form: Form) {
    let table = stack.top();
    let place = reply.defer();
    let mut pairs = 0;
    stack.push_nil();
    while stack.next(table) {
        stack.push_copy(-2);
        write_value(stack, reply, form);
        write_value(stack, reply, form);
        pairs += 1;
    }
    reply.close_map(place, pairs);
}

fn write_set(stack: &mut Stack<'_>, reply: &mut Reply, form: Form) {
    let table = stack.top();
    let place = reply.defer();
    let mut members = 0;
    stack.push_nil();
    while stack.next(table) {
        stack.pop(1);
        stack.push_copy(-1);
        write_value(stack, reply, form);
        members += 1;
    }
    reply.close_set(place, members);
}

fn write_array(stack: &mut Stack<'_>, reply: &mut Reply, form: Form, index: i32) {
    let place = reply.defer();
    let mut len = 0;
    loop {
        stack.get_element(index, len + 1);
        if stack.kind(-1) == Kind::Nil {
            break;
        }
        write_value(stack, reply, form);
        len += 1;
    }
    reply.close_array(place, len as usize);
}
