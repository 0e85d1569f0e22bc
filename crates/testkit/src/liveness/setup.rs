//! The data of a round's servers before its first step: a key of each type and encoding, with and without
//! expiry, users of each ACL category, functions.

use std::io;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

/// The keys' names. All lie in one slot, behind `{t}`; behind `{t}e:` is a copy that expires.
pub const NAMES: &[&str] = &[
    "s",
    "int",
    "long",
    "pf",
    "bits",
    "emb",
    "l",
    "list",
    "huge-elements",
    "i",
    "set",
    "small-set",
    "z",
    "zset",
    "geo",
    "h",
    "hash",
    "timed-hash",
    "x",
    "stream",
    "ar",
    "array",
    "ph",
];

/// The ACL categories that have a user: see [`users`].
const CATEGORIES: &[&str] = &[
    "read",
    "write",
    "keyspace",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "array",
    "pathhash",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Lets a script or a function call any command.
pub const CALL_ANY: &str = "return redis.call(unpack(ARGV))";

const LIBRARY: &str = "#!lua name=lib\nredis.register_function('call', function(keys, args) return \
    redis.call(unpack(args)) end)\nredis.register_function{function_name='peek', callback=function(keys, args) \
    return redis.pcall(unpack(args)) end, flags={'no-writes', 'allow-stale', 'allow-cross-slot-keys'}}";

/// The users: each may only call the commands of its category.
pub fn users() -> impl Iterator<Item = (String, &'static str)> {
    CATEGORIES.iter().map(|category| (format!("u_{category}"), *category))
}

/// All keys, whether they expire or not.
pub fn keys() -> impl Iterator<Item = Vec<u8>> {
    NAMES.iter().flat_map(|name| [format!("{{t}}{name}").into_bytes(), format!("{{t}}e:{name}").into_bytes()])
}

fn numbers(key: &str, command: &str, count: usize, each: impl Fn(usize) -> Vec<String>) -> Vec<String> {
    let mut words = vec![command.to_owned(), format!("{{t}}{key}")];
    words.extend((0..count).flat_map(each));
    words
}

/// Requests that create the keys; a server refuses those that it does not know.
pub fn requests() -> Vec<Vec<String>> {
    let key = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut all = vec![
        key(&["SET", "{t}s", "text"]),
        key(&["SET", "{t}int", "12345"]),
        key(&["SET", "{t}long", &"ab".repeat(40_000)]),
        key(&["SET", "{t}emb", "0.5"]),
        key(&["SETBIT", "{t}bits", "1000", "1"]),
        numbers("pf", "PFADD", 50, |i| vec![i.to_string()]),
        key(&["RPUSH", "{t}l", "a", "b", "1", "2"]),
        numbers("list", "RPUSH", 700, |i| vec![format!("m{i}-{}", "y".repeat(i % 70))]),
        key(&["RPUSH", "{t}huge-elements", &"z".repeat(9_000), "a", &"z".repeat(70_000)]),
        key(&["SADD", "{t}i", "1", "2", "3", "70000", "-5"]),
        numbers("set", "SADD", 300, |i| vec![format!("m{i}")]),
        key(&["SADD", "{t}small-set", "a", "b", "m1"]),
        key(&["ZADD", "{t}z", "1", "a", "2", "b", "inf", "c", "-inf", "m1"]),
        numbers("zset", "ZADD", 400, |i| vec![format!("{i}.5"), format!("m{i}")]),
        key(&[
            "GEOADD",
            "{t}geo",
            "13.361389",
            "38.115556",
            "a",
            "15.087269",
            "37.502669",
            "b",
            "-180",
            "85",
            "c",
        ]),
        key(&["HSET", "{t}h", "f1", "v", "f2", "7", "f3", "1.5"]),
        numbers("hash", "HSET", 700, |i| vec![format!("f{i}"), i.to_string()]),
        key(&["HSET", "{t}timed-hash", "f1", "1", "f2", "2", "f3", "3"]),
        key(&["HPEXPIRE", "{t}timed-hash", "100000", "FIELDS", "1", "f1"]),
        key(&["HPEXPIRE", "{t}timed-hash", "400", "FIELDS", "1", "f2"]),
        key(&["SADDEX", "{t}timed-set", "PX", "100000", "MEMBERS", "3", "a", "b", "c"]),
        key(&["SPEXPIRE", "{t}timed-set", "400", "MEMBERS", "1", "b"]),
        key(&["XADD", "{t}x", "1-1", "f1", "v"]),
        key(&["XADD", "{t}x", "1-2", "f1", "v", "f2", "w"]),
        key(&["XGROUP", "CREATE", "{t}x", "g", "0"]),
        key(&["XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "{t}x", ">"]),
        key(&["ARSET", "{t}ar", "0", "a", "1", "2", "3.5"]),
        key(&["ARMSET", "{t}array", "5", "a", "100000", "b", "4294967296", "c"]),
        key(&["PHMSET", "{t}ph", "a", "FIELDS", "1", "f1", "v", "ab", "FIELDS", "2", "f1", "v", "f2", "w"]),
    ];
    for i in 0..250 {
        all.push(key(&["XADD", "{t}stream", &format!("{}-1", i + 1), "f1", &i.to_string(), "f2", "v"]));
    }
    all.push(key(&["XGROUP", "CREATE", "{t}stream", "g", "5-0"]));
    all.push(key(&["XREADGROUP", "GROUP", "g", "c2", "COUNT", "50", "STREAMS", "{t}stream", ">"]));
    for (i, name) in NAMES.iter().enumerate() {
        let copy = format!("{{t}}e:{name}");
        all.push(key(&["COPY", &format!("{{t}}{name}"), &copy]));
        // Some live on, some expire while the round runs.
        all.push(key(&["PEXPIRE", &copy, if i % 3 == 0 { "700" } else { "100000000" }]));
    }
    all.push(key(&["FUNCTION", "LOAD", LIBRARY]));
    for (user, category) in users() {
        all.push(key(&["ACL", "SETUSER", &user, "on", ">p", "~*", "&*", "-@all", &format!("+@{category}")]));
    }
    all
}

/// Fills a server.
///
/// # Errors
/// The connection's.
pub fn fill(client: &mut Client, cluster: bool) -> io::Result<()> {
    if cluster {
        client.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            let info = client.command(&["CLUSTER", "INFO"])?;
            let is_ok =
                info.text().is_some_and(|text| text.windows(16).any(|part| part == b"cluster_state:ok"));
            if is_ok || std::time::Instant::now() > deadline {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    for request in requests() {
        let reply = client.command(&request)?;
        if matches!(&reply, Reply::Error(text) if text.starts_with(b"LOADING")) {
            return Err(io::Error::other("the server is still loading"));
        }
    }
    Ok(())
}
