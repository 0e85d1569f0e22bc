//! The keys, a page at a time: SCAN, so that nothing is held up however many there are.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use martlet_client::resp::Reply;
use martlet_spec::data_type::{BEGINNING_BYTES, BEGINNING_ELEMENTS, Beginning, DATA_TYPES, Form, data_type};
use serde_json::{Map, Value, json};

use crate::asked::Asked;
use crate::live::{ask_one, json_of, told};
use crate::shown::{beginning, lossy, readable, text, unquoted, word};
use crate::source::{Failure, Login, Source};

/// Keys that SCAN is asked for at once.
const SCAN_COUNT_MAX: usize = 1000;
/// Elements of a value that MEMORY USAGE looks at: enough for an estimate.
const SAMPLES: &[u8] = b"5";

/// The names of the types that may be searched for.
pub(crate) fn type_names() -> Value {
    DATA_TYPES.iter().map(|known| known.name).collect()
}

/// One step of SCAN, with what each key is.
pub(crate) fn keys(source: &Source, login: Option<&Login>, asked: &Asked) -> Result<Value, Failure> {
    let cursor = asked.parameter("cursor").unwrap_or_else(|| "0".into());
    let pattern = asked.parameter("match").filter(|pattern| !pattern.is_empty());
    let pattern = pattern.map(|pattern| unquoted(&pattern));
    let kind = asked.parameter("type").filter(|kind| !kind.is_empty());
    let count = asked.parameter("count").and_then(|count| count.parse().ok()).unwrap_or(100);
    let count = count.clamp(1, SCAN_COUNT_MAX).to_string();
    if let Some(name) = pattern.as_deref().and_then(literal) {
        // One key at most matches: it is asked for, however many others there are.
        let found = described(source, login, asked.database(), &[&name])?;
        let is_meant = |key: &Value| kind.as_deref().is_none_or(|kind| key["type"] == kind);
        return Ok(json!({ "cursor": "0", "keys": found.into_iter().filter(is_meant).collect::<Vec<_>>() }));
    }
    let mut scan: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes(), b"COUNT", count.as_bytes()];
    if let Some(pattern) = &pattern {
        scan.extend([&b"MATCH"[..], pattern]);
    }
    if let Some(kind) = &kind {
        scan.extend([&b"TYPE"[..], kind.as_bytes()]);
    }
    let reply = ask_one(source, login, asked.database(), scan)?;
    let Some([next, found]) = reply.items() else {
        return Err(Failure::Refused("SCAN answered something else than a cursor and keys".into()));
    };
    let found: Vec<&[u8]> = found.items().unwrap_or_default().iter().filter_map(Reply::text).collect();
    let keys = described(source, login, asked.database(), &found)?;
    Ok(json!({ "cursor": json_of(next), "keys": keys }))
}

/// The only key that a pattern without wildcards matches.
fn literal(pattern: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'*' | b'?' | b'[' => return None,
            b'\\' => name.push(*bytes.next().unwrap_or(byte)),
            _ => name.push(*byte),
        }
    }
    Some(name)
}

/// What each of these keys is; those that are gone are left out.
fn described(
    source: &Source,
    login: Option<&Login>,
    database: usize,
    names: &[&[u8]],
) -> Result<Vec<Value>, Failure> {
    let about = |name: &&'_ [u8]| -> [Vec<Vec<u8>>; 3] {
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
        [
            words(&[b"TYPE", name]),
            words(&[b"PTTL", name]),
            words(&[b"MEMORY", b"USAGE", name, b"SAMPLES", SAMPLES]),
        ]
    };
    let questions: Vec<Vec<Vec<u8>>> = names.iter().flat_map(about).collect();
    let questions: Vec<Vec<&[u8]>> =
        questions.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
    let replies = source.ask(login, database, &questions)?;
    let described = names.iter().zip(replies.as_chunks::<3>().0);
    let there = described.filter(|(_, [kind, _, _])| kind.text() != Some(b"none"));
    let described = there.map(|(name, [kind, ttl, bytes])| {
        json!({ "name": word(name), "id": URL_SAFE_NO_PAD.encode(name), "type": json_of(kind),
                "ttl": json_of(ttl), "bytes": json_of(bytes) })
    });
    Ok(described.collect())
}

/// A key and the beginning of its value: a text, or rows with named columns. A value of a type that this
/// program does not know has neither.
pub(crate) fn key(source: &Source, login: Option<&Login>, asked: &Asked) -> Result<Value, Failure> {
    let id = asked.parameter("id").unwrap_or_default();
    let Ok(name) = URL_SAFE_NO_PAD.decode(id) else {
        return Err(Failure::Refused("the id of a key is its name in base64".into()));
    };
    let name = name.as_slice();
    let kind = ask_one(source, login, asked.database(), vec![b"TYPE", name])?;
    let kind = lossy(kind.text().unwrap_or_default());
    let mut key = Map::from_iter([("name".into(), json!(word(name))), ("type".into(), json!(kind))]);
    if kind == "none" {
        return Ok(Value::Object(key));
    }
    let view = data_type(&kind);
    let length = view.and_then(|view| view.length.as_ref());
    let shown = view.and_then(|view| view.beginning.as_ref());
    let mut questions: Vec<Vec<&[u8]>> =
        vec![vec![b"OBJECT", b"ENCODING", name], vec![b"PTTL", name], vec![b"MEMORY", b"USAGE", name]];
    questions.extend(length.map(|length| vec![length.command.as_bytes(), name]));
    questions.extend(shown.map(|shown| {
        let arguments = shown.arguments.iter().map(|argument| argument.as_bytes());
        [shown.command.as_bytes(), name].into_iter().chain(arguments).collect()
    }));
    let mut replies = source.ask(login, asked.database(), &questions)?.into_iter();
    for field in ["encoding", "ttl", "bytes"] {
        key.insert(field.into(), replies.next().as_ref().map_or(Value::Null, json_of));
    }
    if let Some((length, reply)) = length.zip(if length.is_some() { replies.next() } else { None }) {
        key.insert("length".into(), json_of(&reply));
        key.insert("unit".into(), json!(length.unit));
    }
    if let Some((shown, reply)) = shown.zip(replies.next()) {
        value_of(&mut key, shown, &reply);
    }
    Ok(Value::Object(key))
}

/// Adds the fields of a value's beginning: `text`, or `columns` and `rows`.
fn value_of(key: &mut Map<String, Value>, shown: &Beginning, reply: &Reply) {
    if let Reply::Error(why) = reply {
        key.insert("error".into(), json!(lossy(why)));
        return;
    }
    let items = reply.items().unwrap_or_default();
    let (columns, rows) = match shown.form {
        Form::Text => {
            let whole = reply.text().unwrap_or_default();
            let bytes = beginning(whole, BEGINNING_BYTES);
            if whole.len() > BEGINNING_BYTES {
                key.insert("cut".into(), json!(true));
            }
            key.insert("quoted".into(), json!(readable(bytes).is_none()));
            key.insert("text".into(), json!(text(bytes)));
            return;
        }
        Form::Flat(columns) => (columns, rows_of(items, columns.len())),
        Form::Scan(columns) => {
            let found = items.get(1).and_then(Reply::items).unwrap_or_default();
            (columns, rows_of(found, columns.len()))
        }
        Form::Nested(columns) => {
            let rows = items.iter().take(BEGINNING_ELEMENTS);
            let cells = |row: &Reply| row.items().unwrap_or_default().iter().map(element).collect::<Value>();
            (columns, rows.map(cells).collect())
        }
    };
    key.insert("columns".into(), json!(columns));
    key.insert("rows".into(), rows);
}

fn rows_of(items: &[Reply], columns: usize) -> Value {
    let rows = items.chunks_exact(columns.max(1)).take(BEGINNING_ELEMENTS);
    rows.map(|row| row.iter().map(element).collect::<Value>()).collect()
}

fn element(reply: &Reply) -> Value {
    cell(reply, BEGINNING_BYTES)
}

/// A part of an element, with at most as many bytes of a text; a list of words where it has several.
pub(crate) fn cell(reply: &Reply, max_bytes: usize) -> Value {
    match (reply.items(), reply.text()) {
        (Some(items), _) => items.iter().map(|item| cell(item, max_bytes)).collect(),
        (None, Some(bytes)) => {
            let cut = beginning(bytes, max_bytes);
            json!(word(cut) + if cut.len() < bytes.len() { " …" } else { "" })
        }
        (None, None) => json_of(reply),
    }
}

/// Runs a command: `{"db": 0, "command": ["DEL", …]}`, where a word may be `{"id": …}`, its bytes in base64.
pub(crate) fn command(source: &Source, login: Option<&Login>, asked: &Asked) -> Result<Value, Failure> {
    let refused = |why: &str| Failure::Refused(why.into());
    let body: Value = serde_json::from_slice(&asked.body).map_err(|why| Failure::Refused(why.to_string()))?;
    let words =
        body.get("command").and_then(Value::as_array).ok_or_else(|| refused("there is no command"))?;
    let word = |word: &Value| match (word.as_str(), word.get("id").and_then(Value::as_str)) {
        (Some(text), _) => Some(text.as_bytes().to_vec()),
        (None, Some(id)) => URL_SAFE_NO_PAD.decode(id).ok(),
        _ => None,
    };
    let words: Option<Vec<Vec<u8>>> = words.iter().map(word).collect();
    let words =
        words.filter(|words| !words.is_empty()).ok_or_else(|| refused("a command is a list of strings"))?;
    let database = body.get("db").and_then(Value::as_u64).unwrap_or(0);
    let database = usize::try_from(database).unwrap_or(usize::MAX);
    let words = words.iter().map(Vec::as_slice).collect();
    Ok(json!({ "reply": json_of(&told(source.ask_apart(login, database, words)?)?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_wildcards_is_a_name() {
        for (pattern, name) in [
            (&b"session:1"[..], Some(&b"session:1"[..])),
            (b"a\\*b", Some(b"a*b")),
            (b"a\\", Some(b"a\\")),
            (b"a*", None),
            (b"a?", None),
            (b"[a]", None),
        ] {
            assert_eq!(literal(pattern).as_deref(), name, "{}", pattern.escape_ascii());
        }
    }

    #[test]
    fn values_are_rows_with_named_columns() {
        let bulk = |text: &[u8]| Reply::Bulk(text.to_vec());
        let value = |form, reply: Reply| {
            let mut key = Map::new();
            value_of(&mut key, &Beginning { command: "", arguments: &[], form }, &reply);
            Value::Object(key)
        };
        let pairs = Reply::Array(vec![bulk(b"f"), bulk(b"v"), bulk(b"g\xff"), bulk(b"w")]);
        let rows = json!({ "columns": ["field", "value"], "rows": [["f", "v"], ["\"g\\xff\"", "w"]] });
        assert_eq!(value(Form::Flat(&["field", "value"]), pairs.clone()), rows);
        let scanned = Reply::Array(vec![bulk(b"0"), pairs.clone()]);
        assert_eq!(value(Form::Scan(&["field", "value"]), scanned), rows);
        let entries = Reply::Array(vec![Reply::Array(vec![bulk(b"1-1"), pairs])]);
        assert_eq!(
            value(Form::Nested(&["id", "fields"]), entries),
            json!({ "columns": ["id", "fields"], "rows": [["1-1", ["f", "v", "\"g\\xff\"", "w"]]] })
        );
        let text = "é".repeat(BEGINNING_BYTES);
        assert_eq!(value(Form::Text, bulk(text.as_bytes()))["cut"], json!(true));
        let shown = value(Form::Text, bulk(&text.as_bytes()[..BEGINNING_BYTES - 1]));
        assert_eq!(shown, json!({ "quoted": false, "text": "é".repeat(BEGINNING_BYTES / 2 - 1) }));
        assert_eq!(value(Form::Text, bulk(b"\xff")), json!({ "quoted": true, "text": "\"\\xff\"" }));
        let refused = value(Form::Text, Reply::Error(b"WRONGTYPE no".to_vec()));
        assert_eq!(refused, json!({ "error": "WRONGTYPE no" }));
        let long = element(&bulk(&[b'x'; BEGINNING_BYTES + 1]));
        assert_eq!(long.as_str().map(str::len), Some(BEGINNING_BYTES + " …".len()));
    }
}
