//! The indexes of the server, and the documents that a query finds: FT.INFO and FT.SEARCH, as the requesting
//! user may run them.
//!
//! Invariant: an answer has at most as many indexes, fields, documents and bytes of a value as the limits
//! here say, whatever the server holds.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use martlet_client::resp::Reply;
use serde_json::{Map, Value, json};

use crate::asked::Asked;
use crate::browse::cell;
use crate::live::{ask_one, json_of};
use crate::shown::{beginning, lossy, unquoted, word};
use crate::source::{Failure, Login, Source};

/// Indexes that are shown, in the order of their names.
const INDEXES_SHOWN: usize = 100;
/// Fields of an index, and prefixes, that are shown.
const FIELDS_SHOWN: usize = 64;
/// Documents of one answer.
const DOCUMENTS_SHOWN: &str = "50";
/// Columns of the documents' table, besides the key.
const COLUMNS_MAX: usize = 32;
/// Bytes of a value and of a name that are shown.
const VALUE_BYTES: usize = 512;
/// A megabyte, as FT.INFO counts sizes.
const MEGABYTE: f64 = (1 << 20) as f64;

/// The indexes: `{"total": 2, "indexes": [...]}`, an index with `error` where FT.INFO is refused.
pub(crate) fn indexes(source: &Source, login: Option<&Login>) -> Result<Value, Failure> {
    let reply = ask_one(source, login, 0, vec![b"FT._LIST"])?;
    let names = reply.items().unwrap_or_default().iter().filter_map(Reply::text);
    let mut names: Vec<&[u8]> = names.collect();
    names.sort_unstable();
    let total = names.len();
    names.truncate(INDEXES_SHOWN);
    let questions: Vec<Vec<&[u8]>> = names.iter().map(|name| vec![&b"FT.INFO"[..], name]).collect();
    let replies = if questions.is_empty() { Vec::new() } else { source.ask(login, 0, &questions)? };
    let indexes: Value = names.iter().zip(&replies).map(|(name, reply)| index(name, reply)).collect();
    Ok(json!({ "total": total, "indexes": indexes }))
}

/// An index, by FT.INFO's reply in RESP2.
fn index(name: &[u8], reply: &Reply) -> Value {
    let mut index = Map::from_iter([
        ("name".into(), json!(word(beginning(name, VALUE_BYTES)))),
        ("id".into(), json!(URL_SAFE_NO_PAD.encode(name))),
    ]);
    if let Reply::Error(why) = reply {
        index.insert("error".into(), json!(lossy(why)));
        return Value::Object(index);
    }
    let value = |name: &str| value_of(reply, name);
    let definition = value("index_definition");
    let prefixes = definition.and_then(|definition| value_of(definition, "prefixes"));
    let prefixes = prefixes.and_then(Reply::items).unwrap_or_default();
    let fields = value("attributes").and_then(Reply::items).unwrap_or_default();
    // Vectors are counted beside the total.
    let sizes = ["total_index_memory_sz_mb", "vector_index_sz_mb"].map(|name| value(name).and_then(number));
    let megabytes: f64 = sizes.into_iter().flatten().sum();
    let errors = value("Index Errors");
    let last_error = errors.and_then(|errors| value_of(errors, "last indexing error")).map(json_of);
    index.extend([
        ("type".into(), definition.and_then(|of| value_of(of, "key_type")).map_or(Value::Null, json_of)),
        ("prefixes".into(), prefixes.iter().take(FIELDS_SHOWN).map(|it| cell(it, VALUE_BYTES)).collect()),
        ("fields".into(), fields.iter().take(FIELDS_SHOWN).map(field).collect()),
        ("field_count".into(), json!(fields.len())),
        ("documents".into(), json!(value("num_docs").and_then(number))),
        ("bytes".into(), json!((megabytes * MEGABYTE).round())),
        ("indexed".into(), json!(value("percent_indexed").and_then(number))),
        ("failures".into(), json!(value("hash_indexing_failures").and_then(number))),
        ("last_error".into(), last_error.filter(|error| error != "N/A").unwrap_or_default()),
    ]);
    Value::Object(index)
}

/// The value behind a name in a list of names and values.
fn value_of<'r>(reply: &'r Reply, name: &str) -> Option<&'r Reply> {
    let (pairs, _) = reply.items()?.as_chunks::<2>();
    pairs.iter().find(|[found, _]| found.text() == Some(name.as_bytes())).map(|[_, value]| value)
}

/// A number, which RESP2 has as text where it has a fraction.
fn number(reply: &Reply) -> Option<f64> {
    let number = match reply {
        Reply::Int(number) => Some(*number as f64),
        reply => std::str::from_utf8(reply.text()?).ok()?.parse().ok(),
    };
    number.filter(|number| number.is_finite())
}

/// A field as it is declared: `title TEXT SORTABLE`, with the path of a document before it where that is
/// another name.
fn field(reply: &Reply) -> Value {
    let words = reply.items().unwrap_or_default();
    let shown = |reply: &Reply| reply.text().map(|text| word(beginning(text, VALUE_BYTES)));
    let of = |name: &str| value_of(reply, name).and_then(shown).unwrap_or_default();
    let (identifier, name) = (of("identifier"), of("attribute"));
    let name = if identifier == name { name } else { format!("{identifier} AS {name}") };
    let rest = words.get(4..).unwrap_or_default().iter().filter(|word| word.text() != Some(b"type"));
    let rest = rest.map(|reply| shown(reply).unwrap_or_else(|| json_of(reply).to_string()));
    json!([&[name][..], &rest.collect::<Vec<_>>()].concat().join(" "))
}

/// The documents that a query finds, some from `offset` on: `columns`, and `rows` with the key's `id` and
/// cells.
pub(crate) fn documents(source: &Source, login: Option<&Login>, asked: &Asked) -> Result<Value, Failure> {
    let refused = |why: &str| Failure::Refused(why.into());
    let id = asked.parameter("index").unwrap_or_default();
    let index =
        URL_SAFE_NO_PAD.decode(id).map_err(|_| refused("the id of an index is its name in base64"))?;
    let query = unquoted(&asked.parameter("query").unwrap_or_default());
    let offset: u64 = asked.parameter("offset").and_then(|offset| offset.parse().ok()).unwrap_or(0);
    let offset = offset.to_string();
    let words: [&[u8]; 8] = [
        b"FT.SEARCH",
        &index,
        &query,
        b"LIMIT",
        offset.as_bytes(),
        DOCUMENTS_SHOWN.as_bytes(),
        b"DIALECT",
        b"2",
    ];
    let reply = ask_one(source, login, asked.database(), words.into())?;
    rows(&reply).ok_or_else(|| refused("FT.SEARCH answered something else than documents"))
}

/// FT.SEARCH's reply in RESP2 as a table.
fn rows(reply: &Reply) -> Option<Value> {
    let [Reply::Int(total), documents @ ..] = reply.items()? else { return None };
    let (mut columns, mut rows, mut is_cut) = (Vec::new(), Vec::new(), false);
    for [key, fields] in documents.as_chunks::<2>().0 {
        let key = key.text()?;
        let mut cells: Vec<Value> = vec![Value::Null; columns.len()];
        for [name, value] in fields.items().unwrap_or_default().as_chunks::<2>().0 {
            let name = name.text()?;
            let place = columns.iter().position(|known| *known == name);
            let place = place.unwrap_or_else(|| {
                columns.push(name);
                cells.push(Value::Null);
                columns.len() - 1
            });
            if let Some(place) = cells.get_mut(place) {
                *place = cell(value, VALUE_BYTES);
            }
        }
        is_cut |= cells.len() > COLUMNS_MAX;
        cells.truncate(COLUMNS_MAX);
        columns.truncate(COLUMNS_MAX);
        let name = word(beginning(key, VALUE_BYTES));
        rows.push(json!({ "id": URL_SAFE_NO_PAD.encode(key), "name": name, "cells": cells }));
    }
    let columns: Vec<String> = columns.into_iter().map(|name| word(beginning(name, VALUE_BYTES))).collect();
    Some(json!({ "total": total, "columns": columns, "cut": is_cut, "rows": rows }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_vec())
    }

    fn list<const N: usize>(items: [Reply; N]) -> Reply {
        Reply::Array(items.into())
    }

    #[test]
    fn an_index_is_what_info_says() {
        let field = list(["identifier", "$.t", "attribute", "t", "type", "TEXT", "WEIGHT", "1"].map(bulk));
        let plain = list(["identifier", "n", "attribute", "n", "type", "NUMERIC", "SORTABLE"].map(bulk));
        let reply = list([
            bulk("index_definition"),
            list([bulk("key_type"), bulk("JSON"), bulk("prefixes"), list([bulk("a:"), bulk(b"b\xff")])]),
            bulk("attributes"),
            list([field, plain]),
            bulk("num_docs"),
            Reply::Int(12),
            bulk("vector_index_sz_mb"),
            bulk("0.5"),
            bulk("hash_indexing_failures"),
            Reply::Int(1),
            bulk("percent_indexed"),
            bulk("0.25"),
            bulk("total_index_memory_sz_mb"),
            bulk("1.5"),
            bulk("Index Errors"),
            list([
                bulk("indexing failures"),
                Reply::Int(1),
                bulk("last indexing error"),
                bulk("no <b>number"),
            ]),
        ]);
        let expected = json!({
            "name": "i", "id": "aQ", "type": "JSON", "prefixes": ["a:", "\"b\\xff\""],
            "fields": ["$.t AS t TEXT WEIGHT 1", "n NUMERIC SORTABLE"], "field_count": 2,
            "documents": 12.0, "bytes": 2_097_152.0, "indexed": 0.25, "failures": 1.0,
            "last_error": "no <b>number",
        });
        assert_eq!(index(b"i", &reply), expected);
        let refused = index(b"i\xff", &Reply::Error(b"NOPERM no".to_vec()));
        assert_eq!(refused, json!({ "name": "\"i\\xff\"", "id": "af8", "error": "NOPERM no" }));
        // An unknown shape has no figures.
        assert_eq!(index(b"i", &Reply::Int(1))["documents"], Value::Null);
    }

    #[test]
    fn documents_are_rows_within_limits() {
        let reply = list([
            Reply::Int(9),
            bulk("a"),
            list(["t", "x", "n", "1"].map(bulk)),
            bulk(b"b\xff"),
            list([bulk("n"), bulk("2"), bulk("v"), bulk([b'y'; VALUE_BYTES + 1])]),
            bulk("gone"),
            Reply::NullArray,
        ]);
        let shown = rows(&reply).expect("documents");
        assert_eq!((&shown["total"], &shown["cut"]), (&json!(9), &json!(false)));
        assert_eq!(shown["columns"], json!(["t", "n", "v"]));
        assert_eq!(shown["rows"][0], json!({ "id": "YQ", "name": "a", "cells": ["x", "1"] }));
        assert_eq!(shown["rows"][1]["name"], "\"b\\xff\"");
        let long = shown["rows"][1]["cells"][2].as_str().expect("text");
        assert_eq!(long.len(), VALUE_BYTES + " …".len());
        assert_eq!(shown["rows"][2]["cells"], json!([null, null, null]));
        let wide: Vec<Reply> = (0..200).map(|number| bulk(number.to_string())).collect();
        let shown = rows(&list([Reply::Int(1), bulk("a"), Reply::Array(wide)])).expect("documents");
        assert_eq!(shown["columns"].as_array().map(Vec::len), Some(COLUMNS_MAX));
        assert_eq!(
            (&shown["cut"], shown["rows"][0]["cells"].as_array().map(Vec::len)),
            (&json!(true), Some(32))
        );
        assert_eq!(rows(&Reply::Int(1)), None);
    }
}
