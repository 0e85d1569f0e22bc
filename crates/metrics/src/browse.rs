//! The keys, a page at a time: SCAN, so that nothing is held up however many there are.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use martlet_client::resp::Reply;
use serde_json::{Value, json};

use crate::asked::Asked;
use crate::live::{ask_one, json_of, told};
use crate::source::{Failure, Login, Source, shown};

/// Keys that SCAN is asked for at once.
const SCAN_COUNT_MAX: usize = 1000;
/// Elements of a value that are shown, and bytes of a string.
const ELEMENTS_SHOWN: &[u8] = b"100";
const LAST_SHOWN: &[u8] = b"99";
const LAST_BYTE_SHOWN: &[u8] = b"8191";
/// The last index of an array.
const LAST_INDEX: &[u8] = b"9223372036854775806";
/// Elements of a value that MEMORY USAGE looks at: enough for an estimate.
const SAMPLES: &[u8] = b"5";

/// One step of SCAN, with what each key is.
pub(crate) fn keys(source: &Source, login: Option<&Login>, asked: &Asked) -> Result<Value, Failure> {
    let cursor = asked.parameter("cursor").unwrap_or_else(|| "0".into());
    let pattern = asked.parameter("match").filter(|pattern| !pattern.is_empty());
    let kind = asked.parameter("type").filter(|kind| !kind.is_empty());
    let count = asked.parameter("count").and_then(|count| count.parse().ok()).unwrap_or(100);
    let count = count.clamp(1, SCAN_COUNT_MAX).to_string();
    let mut scan: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes(), b"COUNT", count.as_bytes()];
    if let Some(pattern) = &pattern {
        scan.extend([&b"MATCH"[..], pattern.as_bytes()]);
    }
    if let Some(kind) = &kind {
        scan.extend([&b"TYPE"[..], kind.as_bytes()]);
    }
    let reply = ask_one(source, login, asked.database(), scan)?;
    let Some([next, found]) = reply.items() else {
        return Err(Failure::Refused("SCAN answered something else than a cursor and keys".into()));
    };
    let found: Vec<&[u8]> = found.items().unwrap_or_default().iter().filter_map(Reply::text).collect();
    let about = |name: &&'_ [u8]| -> [Vec<Vec<u8>>; 3] {
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
        [
            words(&[b"TYPE", name]),
            words(&[b"PTTL", name]),
            words(&[b"MEMORY", b"USAGE", name, b"SAMPLES", SAMPLES]),
        ]
    };
    let questions: Vec<Vec<Vec<u8>>> = found.iter().flat_map(about).collect();
    let questions: Vec<Vec<&[u8]>> =
        questions.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
    let replies = source.ask(login, asked.database(), &questions)?;
    let keys = found.iter().zip(replies.as_chunks().0).map(|(name, [kind, ttl, bytes])| {
        json!({ "name": shown(name), "id": URL_SAFE_NO_PAD.encode(name), "type": json_of(kind), "ttl": json_of(ttl),
                "bytes": json_of(bytes) })
    });
    Ok(json!({ "cursor": json_of(next), "keys": keys.collect::<Vec<_>>() }))
}

/// A key and the beginning of its value.
pub(crate) fn key(source: &Source, login: Option<&Login>, asked: &Asked) -> Result<Value, Failure> {
    let id = asked.parameter("id").unwrap_or_default();
    let Ok(name) = URL_SAFE_NO_PAD.decode(id) else {
        return Err(Failure::Refused("the id of a key is its name in base64".into()));
    };
    let name = name.as_slice();
    let kind = ask_one(source, login, asked.database(), vec![b"TYPE", name])?;
    let kind = shown(kind.text().unwrap_or_default());
    let value: Vec<&[u8]> = match kind.as_str() {
        "string" => vec![b"GETRANGE", name, b"0", LAST_BYTE_SHOWN],
        "list" => vec![b"LRANGE", name, b"0", LAST_SHOWN],
        "set" => vec![b"SSCAN", name, b"0", b"COUNT", ELEMENTS_SHOWN],
        "hash" => vec![b"HSCAN", name, b"0", b"COUNT", ELEMENTS_SHOWN],
        "zset" => vec![b"ZRANGE", name, b"0", LAST_SHOWN, b"WITHSCORES"],
        "stream" => vec![b"XREVRANGE", name, b"+", b"-", b"COUNT", ELEMENTS_SHOWN],
        "array" => vec![b"ARSCAN", name, b"0", LAST_INDEX, b"LIMIT", ELEMENTS_SHOWN],
        // It is gone, or of a type that a module brought.
        _ => return Ok(json!({ "name": shown(name), "type": kind })),
    };
    let length: &[u8] = match kind.as_str() {
        "string" => b"STRLEN",
        "list" => b"LLEN",
        "set" => b"SCARD",
        "hash" => b"HLEN",
        "zset" => b"ZCARD",
        "stream" => b"XLEN",
        _ => b"ARCOUNT",
    };
    let questions: [Vec<&[u8]>; 5] = [
        value,
        vec![length, name],
        vec![b"OBJECT", b"ENCODING", name],
        vec![b"PTTL", name],
        vec![b"MEMORY", b"USAGE", name],
    ];
    let replies = source.ask(login, asked.database(), &questions)?;
    let [value, length, encoding, ttl, bytes] = replies.as_slice() else { return Ok(Value::Null) };
    // A SCAN reply has the cursor first, then the elements.
    let value = match value.items() {
        Some([_, found]) if matches!(kind.as_str(), "set" | "hash") => json_of(found),
        _ => json_of(value),
    };
    Ok(json!({ "name": shown(name), "type": kind, "value": value, "length": json_of(length),
               "encoding": json_of(encoding), "ttl": json_of(ttl), "bytes": json_of(bytes) }))
}

/// Runs a command: `{"db": 0, "command": ["DEL", …]}`, where a word may be `{"id": …}`, a key's.
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
