//! The data after a restart.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

use super::client::{ACCOUNTS, DATABASES};
use super::model::{Entry, Expiry, Keys, Value};

/// Everything that is there.
pub struct Seen {
    /// The keys of each client, by its prefix' number.
    pub clients: BTreeMap<u64, Keys>,
    /// What all of them share, as text.
    pub shared: Keys,
}

fn texts(reply: &Reply) -> Vec<String> {
    let text = |reply: &Reply| match reply.integer() {
        Some(number) => number.to_string(),
        None => String::from_utf8_lossy(reply.text().unwrap_or(b"(nil)")).into_owned(),
    };
    match reply.items() {
        Some(items) => items.iter().map(text).collect(),
        None => vec![text(reply)],
    }
}

/// Asks, and fails on an error.
pub fn ask(client: &mut Client, words: &[&str]) -> Vec<String> {
    let reply = client.command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(!reply.is_error(), "{words:?}: {reply:?}");
    texts(&reply)
}

fn expiry(at: &str) -> Expiry {
    at.parse().ok().filter(|&at| at >= 0).map(|at: i64| (at, at))
}

/// The key's value; `None` if it has expired since.
fn entry(client: &mut Client, key: &str) -> Option<Entry> {
    let expires = expiry(&ask(client, &["PEXPIRETIME", key])[0]);
    let value = match ask(client, &["TYPE", key])[0].as_str() {
        "string" => match client.command(&["GET", key]).unwrap() {
            Reply::Bulk(text) => Value::Text(String::from_utf8_lossy(&text).into_owned()),
            _ => return None,
        },
        "list" => Value::List(ask(client, &["LRANGE", key, "0", "-1"]).into()),
        "set" => Value::Set(ask(client, &["SMEMBERS", key]).into_iter().collect()),
        "zset" => {
            let pairs = ask(client, &["ZRANGE", key, "0", "-1", "WITHSCORES"]);
            let score = |text: &String| text.parse().unwrap_or_else(|_| panic!("{key} has a score {text}"));
            Value::Scores(pairs.chunks(2).map(|pair| (pair[0].clone(), score(&pair[1]))).collect())
        }
        "hash" => Value::Fields(fields(client, key)?),
        _ => return None,
    };
    Some((value, expires))
}

/// A hash's fields; `None` if all have expired since.
fn fields(client: &mut Client, key: &str) -> Option<BTreeMap<String, (String, Expiry)>> {
    let mut fields = BTreeMap::new();
    for name in ask(client, &["HKEYS", key]) {
        let at = ask(client, &["HPEXPIRETIME", key, "FIELDS", "1", &name])[0].clone();
        match client.command(&["HGET", key, &name]).unwrap() {
            Reply::Bulk(text) if at != "-2" => {
                fields.insert(name, (String::from_utf8_lossy(&text).into_owned(), expiry(&at)));
            }
            _ => {}
        }
    }
    (!fields.is_empty()).then_some(fields)
}

/// Reads all keys of all databases.
pub fn look(address: SocketAddr) -> Seen {
    let mut client = Client::connect(address).unwrap();
    let mut seen = Seen { clients: BTreeMap::new(), shared: Keys::new() };
    for db in 0..DATABASES {
        ask(&mut client, &["SELECT", &db.to_string()]);
        for key in ask(&mut client, &["KEYS", "*"]) {
            let Some(entry) = entry(&mut client, &key) else { continue };
            let owner = key.strip_prefix('c').and_then(|rest| rest.split_once(':'));
            match owner.and_then(|(id, name)| Some((id.parse::<u64>().ok()?, name))) {
                Some((id, name)) => {
                    assert_eq!(id % DATABASES, db, "{key} is in another database");
                    let keys = seen.clients.entry(id).or_default();
                    assert!(keys.insert(name.to_owned(), entry).is_none(), "{key} is there twice");
                }
                None => {
                    seen.shared.insert(key, entry);
                }
            }
        }
    }
    seen
}

/// The clients' shared keys, before they begin.
pub fn set_up(address: SocketAddr, items: u64) {
    let mut client = Client::connect(address).unwrap();
    for account in 0..ACCOUNTS {
        ask(&mut client, &["SET", &format!("account:{account}"), "1000"]);
    }
    for item in 0..items {
        ask(&mut client, &["RPUSH", "here", &item.to_string()]);
    }
}

/// Checks invariants of transactions and moves, when the clients have counted this number of transfers.
///
/// # Errors
/// The violated invariant.
pub fn check_shared(seen: &Seen, transfers: i64, items: u64) -> Result<(), String> {
    let number = |key: &str| match seen.shared.get(key) {
        Some((Value::Text(text), None)) => text.parse::<i64>().unwrap_or(i64::MIN / 100),
        _ => 0,
    };
    let sum: i64 = (0..ACCOUNTS).map(|account| number(&format!("account:{account}"))).sum();
    if sum != 1000 * ACCOUNTS as i64 {
        return Err(format!("the accounts have {sum}: {:?}", seen.shared));
    }
    if number("transfers") != transfers {
        return Err(format!("{} transfers, but the clients have counted {transfers}", number("transfers")));
    }
    let mut left: Vec<u64> = Vec::new();
    for key in ["here", "there"] {
        if let Some((Value::List(list), None)) = seen.shared.get(key) {
            left.extend(list.iter().filter_map(|item| item.parse::<u64>().ok()));
        }
    }
    left.sort_unstable();
    if left != (0..items).collect::<Vec<_>>() {
        return Err(format!("of {items} items in the lists {left:?} are left"));
    }
    Ok(())
}
