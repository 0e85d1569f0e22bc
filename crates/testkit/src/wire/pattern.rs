//! The expectation of a reply. One pattern serves both protocols: it is written in RESP3's terms, and under
//! RESP2 it stands for RESP2's form of it (a map is a flat array, a double is a string, a boolean an
//! integer).
//!
//! ```text
//! +OK                simple string, to the end of the line at top level      +/O*/      by glob
//! -ERR some text     error, to the end of the line at top level              -/ERR */   by glob
//! :5  "a b"  word    integer, string, string                                 /a*/       string by glob
//! nil  nil-array     the missing string or array (RESP3: null)
//! [a :1]             array in this order          *[a b]    in any order
//! %{k v}             map      ~{a b}   set        >[a b]    push
//! %{k v  ... ...}    map with these, and others that may be besides
//! ,1.5  #t  (12      double, boolean, big number  =txt:"…"  verbatim string
//! <any> <int> <int 1..5> <bulk> <array> <array 3> <map> <float 1.5 0.01> <eof>
//! ```
//! `=name` directly after a pattern binds the matched value.

use super::words::{escape, glob_matches, quoted, unescape};
use martlet_client::resp::Reply;
use std::collections::HashMap;

/// The protocol that a connection has agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, how every connection starts.
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// Names bound by `=name`, to be sent as `${name}`.
pub type Bindings = HashMap<String, Vec<u8>>;

/// Text to the byte, or by glob.
#[derive(Clone, Debug, PartialEq)]
pub enum Text {
    /// These bytes.
    Exact(Vec<u8>),
    /// Bytes that this glob matches.
    Glob(Vec<u8>),
}

/// The expectation of a reply; the module's page has the notation.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Anything.
    Any,
    /// The connection is closed.
    Eof,
    /// `+text`
    Simple(Text),
    /// `-text`
    Error(Text),
    /// `:n` with n in the range.
    Int(i64, i64),
    /// A string.
    Bulk(Text),
    /// A string or double within the tolerance of the number.
    Float(f64, f64),
    /// The missing string.
    Nil,
    /// The missing array.
    NilArray,
    /// An array, of that length when one is given.
    AnyArray(Option<usize>),
    /// A map.
    AnyMap,
    /// An array in this order.
    Array(Vec<Pattern>),
    /// An array or set in any order.
    Unordered(Vec<Pattern>),
    /// A map in any order.
    Map(Vec<(Pattern, Pattern)>),
    /// A set in any order.
    Set(Vec<Pattern>),
    /// A push.
    Push(Vec<Pattern>),
    /// A double, by its text.
    Double(Vec<u8>),
    /// A boolean.
    Bool(bool),
    /// A big number, by its text.
    BigNumber(Vec<u8>),
    /// A verbatim string.
    Verbatim([u8; 3], Text),
    /// The match of the inner pattern gets a name.
    Bind(Box<Pattern>, String),
}

impl Text {
    fn matches(&self, bytes: &[u8]) -> bool {
        match self {
            Text::Exact(text) => text == bytes,
            Text::Glob(glob) => glob_matches(glob, bytes),
        }
    }
}

impl Pattern {
    /// Whether `reply` is what this pattern says under `protocol`; names bound on the way are added to
    /// `bindings`.
    pub fn matches(&self, reply: &Reply, protocol: Protocol, bindings: &mut Bindings) -> bool {
        let resp2 = protocol == Protocol::Resp2;
        match (self, reply) {
            (Pattern::Bind(inner, name), _) => {
                let matched = inner.matches(reply, protocol, bindings);
                let text = reply.integer().map(|n| n.to_string().into_bytes());
                let text = text.or_else(|| reply.text().map(<[u8]>::to_vec));
                bindings.insert(name.clone(), text.unwrap_or_default());
                matched
            }
            (Pattern::Any, _) => true,
            (Pattern::Simple(text), Reply::Simple(bytes)) => text.matches(bytes),
            (Pattern::Error(text), Reply::Error(bytes)) => text.matches(bytes),
            (Pattern::Int(low, high), Reply::Int(number)) => (low..=high).contains(&number),
            (Pattern::Bulk(text), Reply::Bulk(bytes)) => text.matches(bytes),
            (Pattern::Float(number, within), Reply::Bulk(bytes) | Reply::Double(bytes)) => {
                let parsed = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok());
                parsed.is_some_and(|parsed| (parsed - number).abs() <= *within)
            }
            (Pattern::Nil, Reply::NullBulk) | (Pattern::NilArray, Reply::NullArray) => resp2,
            (Pattern::Nil | Pattern::NilArray, Reply::Null) => !resp2,
            (Pattern::AnyArray(length), Reply::Array(items)) => {
                length.is_none_or(|length| length == items.len())
            }
            (Pattern::AnyMap, Reply::Map(_)) => !resp2,
            (Pattern::AnyMap, Reply::Array(items)) => resp2 && items.len() % 2 == 0,
            (Pattern::Array(patterns), Reply::Array(items)) => in_order(patterns, items, protocol, bindings),
            (Pattern::Push(patterns), Reply::Array(items)) if resp2 => {
                in_order(patterns, items, protocol, bindings)
            }
            (Pattern::Push(patterns), Reply::Push(items)) if !resp2 => {
                in_order(patterns, items, protocol, bindings)
            }
            (Pattern::Unordered(patterns), Reply::Array(items)) => {
                any_order(patterns, items, protocol, bindings)
            }
            (Pattern::Set(patterns), Reply::Array(items)) if resp2 => {
                any_order(patterns, items, protocol, bindings)
            }
            (Pattern::Set(patterns), Reply::Set(items)) if !resp2 => {
                any_order(patterns, items, protocol, bindings)
            }
            (Pattern::Map(patterns), Reply::Map(pairs)) if !resp2 => {
                let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key, value)).collect();
                pairs_match(patterns, &pairs, protocol, bindings)
            }
            (Pattern::Map(patterns), Reply::Array(items)) if resp2 && items.len() % 2 == 0 => {
                let pairs: Vec<_> = items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
                pairs_match(patterns, &pairs, protocol, bindings)
            }
            (Pattern::Double(text), Reply::Double(bytes)) if !resp2 => text == bytes,
            (Pattern::Double(text), Reply::Bulk(bytes)) if resp2 => text == bytes,
            (Pattern::Bool(value), Reply::Bool(got)) if !resp2 => value == got,
            (Pattern::Bool(value), Reply::Int(got)) if resp2 => i64::from(*value) == *got,
            (Pattern::BigNumber(text), Reply::BigNumber(bytes)) if !resp2 => text == bytes,
            (Pattern::BigNumber(text), Reply::Bulk(bytes)) if resp2 => text == bytes,
            (Pattern::Verbatim(format, text), Reply::Verbatim(got, bytes)) if !resp2 => {
                format == got && text.matches(bytes)
            }
            (Pattern::Verbatim(_, text), Reply::Bulk(bytes)) if resp2 => text.matches(bytes),
            _ => false,
        }
    }

    /// Reads the pattern of one whole line.
    pub fn parse(line: &str) -> Result<Pattern, String> {
        let line = line.trim();
        let (kind, text) = (line.chars().next(), line.get(1..).unwrap_or_default());
        let whole_line = !text.starts_with('/') && !text.starts_with('"');
        match kind {
            Some('+') if whole_line => return Ok(Pattern::Simple(Text::Exact(unescape(text)?))),
            Some('-') if whole_line => return Ok(Pattern::Error(Text::Exact(unescape(text)?))),
            _ => {}
        }
        let (pattern, rest) = value(line)?;
        if rest.trim().is_empty() { Ok(pattern) } else { Err(format!("left over after the pattern: {rest}")) }
    }
}

fn in_order(patterns: &[Pattern], items: &[Reply], protocol: Protocol, bindings: &mut Bindings) -> bool {
    patterns.len() == items.len()
        && patterns.iter().zip(items).all(|(pattern, item)| pattern.matches(item, protocol, bindings))
}

fn any_order(patterns: &[Pattern], items: &[Reply], protocol: Protocol, bindings: &mut Bindings) -> bool {
    let mut left: Vec<&Reply> = items.iter().collect();
    patterns.len() == items.len()
        && patterns.iter().all(|pattern| {
            let found = left.iter().position(|item| pattern.matches(item, protocol, bindings));
            found.map(|at| left.swap_remove(at)).is_some()
        })
}

fn pairs_match(
    patterns: &[(Pattern, Pattern)],
    pairs: &[(&Reply, &Reply)],
    protocol: Protocol,
    bindings: &mut Bindings,
) -> bool {
    let is_rest =
        |(key, _): &(Pattern, Pattern)| matches!(key, Pattern::Bulk(Text::Exact(dots)) if dots == b"...");
    let (patterns, is_open) = match patterns.split_last() {
        Some((last, patterns)) if is_rest(last) => (patterns, true),
        _ => (patterns, false),
    };
    let mut left = pairs.to_vec();
    (is_open || patterns.len() == pairs.len())
        && patterns.iter().all(|(key, value)| {
            let found = left.iter().position(|(got_key, got_value)| {
                key.matches(got_key, protocol, bindings) && value.matches(got_value, protocol, bindings)
            });
            found.map(|at| left.swap_remove(at)).is_some()
        })
}

/// The pattern that opens `text`, and the rest.
fn value(text: &str) -> Result<(Pattern, &str), String> {
    let text = text.trim_start();
    let (pattern, rest) = unbound(text)?;
    if let Some(name) = rest.strip_prefix('=') {
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        let bound = Pattern::Bind(Box::new(pattern), name[..end].to_string());
        return Ok((bound, &name[end..]));
    }
    Ok((pattern, rest))
}

fn unbound(text: &str) -> Result<(Pattern, &str), String> {
    for (open, close) in [("[", ']'), ("*[", ']'), (">[", ']'), ("%{", '}'), ("~{", '}')] {
        if let Some(inner) = text.strip_prefix(open) {
            let (items, rest) = values_until(inner, close)?;
            let pattern = match open {
                "[" => Pattern::Array(items),
                "*[" => Pattern::Unordered(items),
                ">[" => Pattern::Push(items),
                "~{" => Pattern::Set(items),
                _ if items.len() % 2 == 1 => return Err("a map with a key that has no value".into()),
                _ => Pattern::Map(into_pairs(items)),
            };
            return Ok((pattern, rest));
        }
    }
    if text.starts_with('<') {
        let end = text.find('>').ok_or("< without its >")?;
        return Ok((placeholder(&text[1..end])?, &text[end + 1..]));
    }
    scalar(text)
}

fn into_pairs(items: Vec<Pattern>) -> Vec<(Pattern, Pattern)> {
    let mut pairs = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn values_until(mut text: &str, close: char) -> Result<(Vec<Pattern>, &str), String> {
    let mut items = Vec::new();
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix(close) {
            return Ok((items, rest));
        }
        if text.is_empty() {
            return Err(format!("missing {close}"));
        }
        let (item, rest) = value(text)?;
        items.push(item);
        text = rest;
    }
}

fn scalar(text: &str) -> Result<(Pattern, &str), String> {
    let (kind, after) = (text.chars().next().unwrap_or(' '), text.get(1..).unwrap_or_default());
    match kind {
        '"' | '/' => text_of(text).map(|(text, rest)| (Pattern::Bulk(text), rest)),
        '+' => text_of(after).map(|(text, rest)| (Pattern::Simple(text), rest)),
        '-' => text_of(after).map(|(text, rest)| (Pattern::Error(text), rest)),
        '=' => {
            let (format, text) = after.split_once(':').ok_or("a verbatim string needs its format")?;
            let format = format.as_bytes().try_into().map_err(|_| "a verbatim format has three letters")?;
            text_of(text).map(|(text, rest)| (Pattern::Verbatim(format, text), rest))
        }
        ':' => {
            let (word, rest) = word(after);
            let number = word.parse().map_err(|_| format!("not an integer: {word}"))?;
            Ok((Pattern::Int(number, number), rest))
        }
        ',' => {
            let (word, rest) = word(after);
            Ok((Pattern::Double(word.as_bytes().to_vec()), rest))
        }
        '(' => {
            let (word, rest) = word(after);
            Ok((Pattern::BigNumber(word.as_bytes().to_vec()), rest))
        }
        '#' => match word(after) {
            ("t", rest) => Ok((Pattern::Bool(true), rest)),
            ("f", rest) => Ok((Pattern::Bool(false), rest)),
            (other, _) => Err(format!("not a boolean: {other}")),
        },
        _ => match word(text) {
            ("nil", rest) => Ok((Pattern::Nil, rest)),
            ("nil-array", rest) => Ok((Pattern::NilArray, rest)),
            ("", _) => Err(format!("cannot read the pattern {text}")),
            (word, rest) => Ok((Pattern::Bulk(Text::Exact(word.as_bytes().to_vec())), rest)),
        },
    }
}

/// `"…"`, `/…/` or a bare word.
fn text_of(text: &str) -> Result<(Text, &str), String> {
    if text.starts_with('"') {
        return quoted(text).map(|(bytes, rest)| (Text::Exact(bytes), rest));
    }
    if let Some(glob) = text.strip_prefix('/') {
        let end = glob.find('/').ok_or("/ without its end")?;
        return Ok((Text::Glob(glob.as_bytes()[..end].to_vec()), &glob[end + 1..]));
    }
    let (word, rest) = word(text);
    Ok((Text::Exact(word.as_bytes().to_vec()), rest))
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find([' ', '\t', ']', '}', '=']).unwrap_or(text.len());
    text.split_at(end)
}

fn placeholder(text: &str) -> Result<Pattern, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: &str| word.parse::<f64>().map_err(|_| format!("not a number: {word}"));
    Ok(match words.as_slice() {
        ["any"] => Pattern::Any,
        ["eof"] => Pattern::Eof,
        ["int"] => Pattern::Int(i64::MIN, i64::MAX),
        ["int", range] => {
            let (low, high) = range.split_once("..").ok_or("a range is LOW..HIGH")?;
            let bound = |word: &str| word.parse::<i64>().map_err(|_| format!("not an integer: {word}"));
            Pattern::Int(bound(low)?, bound(high)?)
        }
        ["bulk"] => Pattern::Bulk(Text::Glob(b"*".to_vec())),
        ["array"] => Pattern::AnyArray(None),
        ["array", length] => Pattern::AnyArray(Some(length.parse().map_err(|_| "not a length")?)),
        ["map"] => Pattern::AnyMap,
        ["float", near, within] => Pattern::Float(number(near)?, number(within)?),
        _ => return Err(format!("no such placeholder: <{text}>")),
    })
}

/// The reply in the notation of patterns, at top level of a line.
pub fn render(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) if !text.starts_with(b"/") && !text.starts_with(b"\"") => {
            format!("+{}", escape(text).replace("\\\"", "\""))
        }
        Reply::Error(text) if !text.starts_with(b"/") && !text.starts_with(b"\"") => {
            format!("-{}", escape(text).replace("\\\"", "\""))
        }
        _ => render_nested(reply),
    }
}

fn render_nested(reply: &Reply) -> String {
    let list = |items: &[Reply]| items.iter().map(render_nested).collect::<Vec<_>>().join(" ");
    let string = |bytes: &[u8]| format!("\"{}\"", escape(bytes));
    match reply {
        Reply::Simple(text) => format!("+{}", string(text)),
        Reply::Error(text) => format!("-{}", string(text)),
        Reply::Int(number) => format!(":{number}"),
        Reply::Bulk(text) => {
            let plain = text.first().is_some_and(|byte| byte.is_ascii_alphanumeric())
                && text.len() < 32
                && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
                && text != b"nil"
                && text != b"nil-array";
            if plain { String::from_utf8_lossy(text).into_owned() } else { string(text) }
        }
        Reply::NullBulk | Reply::Null => "nil".into(),
        Reply::NullArray => "nil-array".into(),
        Reply::Array(items) => format!("[{}]", list(items)),
        Reply::Set(items) => format!("~{{{}}}", list(items)),
        Reply::Push(items) => format!(">[{}]", list(items)),
        Reply::Map(pairs) => {
            let pairs =
                pairs.iter().map(|(key, value)| format!("{} {}", render_nested(key), render_nested(value)));
            format!("%{{{}}}", pairs.collect::<Vec<_>>().join("  "))
        }
        Reply::Double(text) => format!(",{}", String::from_utf8_lossy(text)),
        Reply::Bool(value) => if *value { "#t" } else { "#f" }.into(),
        Reply::BigNumber(text) => format!("({}", String::from_utf8_lossy(text)),
        Reply::Verbatim(format, text) => format!("={}:{}", String::from_utf8_lossy(format), string(text)),
        Reply::Attributed(_, reply) => render_nested(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_client::resp::decode;

    fn check(pattern: &str, wire: &[u8], protocol: Protocol) -> bool {
        let (reply, _) = decode(wire).unwrap().unwrap();
        Pattern::parse(pattern).unwrap().matches(&reply, protocol, &mut Bindings::new())
    }

    #[test]
    fn one_pattern_serves_both_protocols() {
        use Protocol::{Resp2, Resp3};
        assert!(check("%{a :1 b :2}", b"*4\r\n$1\r\nb\r\n:2\r\n$1\r\na\r\n:1\r\n", Resp2));
        assert!(check("%{a :1 b :2}", b"%2\r\n$1\r\nb\r\n:2\r\n$1\r\na\r\n:1\r\n", Resp3));
        assert!(!check("%{a :1}", b"*2\r\n$1\r\na\r\n:1\r\n", Resp3));
        assert!(check("nil", b"$-1\r\n", Resp2) && check("nil", b"_\r\n", Resp3));
        assert!(!check("nil", b"*-1\r\n", Resp2) && check("nil-array", b"*-1\r\n", Resp2));
        assert!(check(",1.5", b"$3\r\n1.5\r\n", Resp2) && check(",1.5", b",1.5\r\n", Resp3));
        assert!(!check("1.5", b",1.5\r\n", Resp3));
    }

    #[test]
    fn placeholders_and_names() {
        let mut names = Bindings::new();
        let pattern = Pattern::parse("[<int 1..5>=id /a*c/ *[x y] <float 2 0.1>]").unwrap();
        let (reply, _) =
            decode(b"*4\r\n:3\r\n$3\r\nabc\r\n*2\r\n$1\r\ny\r\n$1\r\nx\r\n$4\r\n2.05\r\n").unwrap().unwrap();
        assert!(pattern.matches(&reply, Protocol::Resp2, &mut names));
        assert_eq!(names["id"], b"3");
    }

    #[test]
    fn what_is_rendered_matches_itself() {
        let wire: &[u8] = b"*5\r\n$3\r\na b\r\n:-1\r\n+O K\r\n-ERR \"x\"\r\n$0\r\n\r\n";
        let (reply, _) = decode(wire).unwrap().unwrap();
        assert!(check(&render(&reply), wire, Protocol::Resp3), "{}", render(&reply));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["[a", "%{a}", "<what>", ":x", "a b", "\"open", ""] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
