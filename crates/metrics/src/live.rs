//! Facts that the page shows about the server as a whole, as JSON.

use martlet_client::resp::Reply;
use serde_json::{Map, Value, json};

use crate::info::Info;
use crate::shown::{lossy, text};
use crate::source::{Failure, Login, Source};

/// Entries of the slow log, and clients, that are shown.
const SLOW_SHOWN: &[u8] = b"100";
const CLIENTS_SHOWN: usize = 500;

/// Asks one command; its error is a failure.
pub(crate) fn ask_one(
    source: &Source,
    login: Option<&Login>,
    database: usize,
    command: Vec<&[u8]>,
) -> Result<Reply, Failure> {
    told(source.ask(login, database, &[command])?.pop())
}

/// A reply, unless it is an error.
pub(crate) fn told(reply: Option<Reply>) -> Result<Reply, Failure> {
    match reply {
        Some(Reply::Error(text)) => Err(Failure::Refused(lossy(&text))),
        Some(reply) => Ok(reply),
        None => Err(Failure::Unreachable("the server did not answer".into())),
    }
}

/// A reply as JSON; maps of RESP2, which are flat, stay as they are.
pub(crate) fn json_of(reply: &Reply) -> Value {
    match reply {
        Reply::Int(number) => json!(number),
        Reply::Bool(yes) => json!(yes),
        Reply::NullBulk | Reply::NullArray | Reply::Null => Value::Null,
        Reply::Error(text) => json!({ "error": lossy(text) }),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items.iter().map(json_of).collect(),
        Reply::Map(pairs) => pairs.iter().map(|(key, value)| json!([json_of(key), json_of(value)])).collect(),
        Reply::Attributed(_, reply) => json_of(reply),
        other => other.text().map_or(Value::Null, |bytes| json!(text(bytes))),
    }
}

/// `name, value, name, value` as an object.
fn object_of(reply: &Reply) -> Value {
    let items = reply.items().unwrap_or_default();
    let pairs = items.chunks_exact(2).filter_map(|pair| match pair {
        [name, value] => Some((lossy(name.text()?), json_of(value))),
        _ => None,
    });
    Value::Object(pairs.collect())
}

/// Whether the server lets the user in at all.
pub(crate) fn may_connect(source: &Source, login: Option<&Login>) -> Result<(), Failure> {
    match source.ask(login, 0, &[vec![b"PING"]])?.first() {
        // A user without the right to PING may see no more than that.
        Some(Reply::Error(text)) if !text.starts_with(b"NOPERM") => Err(Failure::Refused(lossy(text))),
        _ => Ok(()),
    }
}

/// All of INFO, and the histograms of all commands' latencies.
pub(crate) fn now(source: &Source, login: Option<&Login>) -> Result<Value, Failure> {
    let commands: [Vec<&[u8]>; 2] = [vec![b"INFO", b"EVERYTHING"], vec![b"LATENCY", b"HISTOGRAM"]];
    let replies = source.ask_periodically(login, 1, &commands)?;
    let [info, histograms] = replies.as_slice() else { return Ok(Value::Null) };
    if let Reply::Error(text) = info {
        return Err(Failure::Refused(lossy(text)));
    }
    let info = Info::parse(&lossy(info.text().unwrap_or_default()));
    let mut sections = Map::new();
    for (title, fields) in info.sections() {
        let fields = fields.iter().map(|(name, value)| (name.clone(), json!(value)));
        sections.insert(title.into(), Value::Object(fields.collect()));
    }
    Ok(json!({ "info": sections, "latency": latency(histograms) }))
}

/// Number of calls that took at most the given microseconds, over all commands.
fn latency(histograms: &Reply) -> Value {
    let mut least: Vec<(i64, i64)> = Vec::new();
    for histogram in histograms.items().unwrap_or_default().iter().filter_map(Reply::items) {
        let Some(buckets) = histogram.get(3).and_then(Reply::items) else { continue };
        let mut below = 0;
        for pair in buckets.chunks_exact(2) {
            let [Some(most), Some(count)] = [pair.first(), pair.get(1)].map(|n| n.and_then(Reply::integer))
            else {
                continue;
            };
            // The buckets of a command are cumulative, and each has its own.
            least.push((most, count - below));
            below = count;
        }
    }
    least.sort_unstable();
    least
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| json!([same[0].0, same.iter().map(|(_, n)| n).sum::<i64>()]))
        .collect()
}

/// The slow log, the newest entry first.
pub(crate) fn slow_log(source: &Source, login: Option<&Login>) -> Result<Value, Failure> {
    let reply = ask_one(source, login, 0, vec![b"SLOWLOG", b"GET", SLOW_SHOWN])?;
    let entries = reply.items().unwrap_or_default().iter().filter_map(Reply::items).map(|entry| {
        let at = |at: usize| entry.get(at).map_or(Value::Null, json_of);
        json!({ "id": at(0), "time": at(1), "usec": at(2), "command": at(3), "client": at(4), "name": at(5) })
    });
    Ok(entries.collect())
}

/// The clients, as CLIENT LIST has them.
pub(crate) fn clients(source: &Source, login: Option<&Login>) -> Result<Value, Failure> {
    let reply = ask_one(source, login, 0, vec![b"CLIENT", b"LIST"])?;
    let text = lossy(reply.text().unwrap_or_default());
    let client = |line: &str| {
        let fields = line.split(' ').filter_map(|field| field.split_once('='));
        Value::Object(fields.map(|(name, value)| (name.into(), json!(value))).collect())
    };
    let clients: Vec<Value> = text.lines().take(CLIENTS_SHOWN).map(client).collect();
    Ok(json!({ "total": text.lines().count(), "clients": clients }))
}

/// Uses of the memory.
pub(crate) fn memory(source: &Source, login: Option<&Login>) -> Result<Value, Failure> {
    Ok(object_of(&ask_one(source, login, 0, vec![b"MEMORY", b"STATS"])?))
}

/// The keys that cost most, if the server is collecting that.
pub(crate) fn hot_keys(source: &Source, login: Option<&Login>) -> Result<Value, Failure> {
    let reply = told(source.ask_periodically(login, 0, &[vec![b"HOTKEYS", b"GET"]])?.pop())?;
    // One object, or a list of one.
    let reply = match reply.items() {
        Some([only]) if only.items().is_some() => only.clone(),
        _ => reply,
    };
    Ok(if reply.items().is_none() { Value::Null } else { object_of(&reply) })
}

/// The nodes of the cluster, a line each, and its state.
pub(crate) fn cluster(source: &Source, login: Option<&Login>) -> Result<Value, Failure> {
    let commands: [Vec<&[u8]>; 2] = [vec![b"CLUSTER", b"NODES"], vec![b"CLUSTER", b"INFO"]];
    let replies = source.ask(login, 0, &commands)?;
    let [nodes, state] = replies.as_slice() else { return Ok(Value::Null) };
    if let Reply::Error(text) = nodes {
        return Err(Failure::Refused(lossy(text)));
    }
    let nodes = lossy(nodes.text().unwrap_or_default());
    let nodes = nodes.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let address = parts_before(word(1), '@');
        json!({ "id": word(0), "address": address, "flags": word(2), "primary": word(3), "epoch": word(6),
                "link": word(7), "slots": words.get(8..).unwrap_or_default() })
    });
    let state = Info::parse(&lossy(state.text().unwrap_or_default()));
    let state =
        state.sections().flat_map(|(_, fields)| fields).map(|(name, value)| (name.clone(), json!(value)));
    Ok(json!({ "nodes": nodes.collect::<Vec<_>>(), "state": state.collect::<Map<_, _>>() }))
}

fn parts_before(text: &str, end: char) -> &str {
    text.split(end).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_of_commands_are_added_up() {
        let histogram = |buckets: &[i64]| {
            let buckets = Reply::Array(buckets.iter().map(|number| Reply::Int(*number)).collect());
            Reply::Array(vec![Reply::Null, Reply::Int(0), Reply::Null, buckets])
        };
        let name = || Reply::Bulk(b"get".to_vec());
        let replies = Reply::Array(vec![name(), histogram(&[1, 5, 4, 7]), name(), histogram(&[2, 1, 4, 4])]);
        assert_eq!(latency(&replies), json!([[1, 5], [2, 1], [4, 5]]));
    }

    #[test]
    fn replies_become_json() {
        let reply = Reply::Array(vec![Reply::Bulk(b"a\xff".to_vec()), Reply::NullBulk, Reply::Int(2)]);
        assert_eq!(json_of(&reply), json!(["\"a\\xff\"", null, 2]));
        let flat = Reply::Array(vec![Reply::Bulk(b"n".to_vec()), Reply::Int(2)]);
        assert_eq!(object_of(&flat), json!({ "n": 2 }));
    }
}
