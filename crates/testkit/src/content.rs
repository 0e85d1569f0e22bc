//! Data that tests take from server to server: every type in every encoding, made by commands that all of
//! them know, and everything in a server as lines of text.
//!
//! Invariant: two servers that were filled alike give the same lines, whatever their versions and
//! encodings.

use std::io;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

/// When the keys and fields that expire do so: in 2036, and before 2038, which files of Redis 2.4 cannot
/// tell.
pub const EXPIRY_MS: i64 = 2_100_000_000_123;

/// How much is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A few KB: collections are large by their elements.
    Small,
    /// Collections are large by their counts too.
    Large,
}

/// A connection that asks for one thing after another.
struct Asker<'a>(&'a mut Client);

impl Asker<'_> {
    /// Asks; a refusal is the error.
    fn ask<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<Reply> {
        let reply = self.0.command(words)?;
        match &reply {
            Reply::Error(text) => {
                let word = words.first().map(|word| String::from_utf8_lossy(word.as_ref()).into_owned());
                Err(io::Error::other(format!("{word:?}: {}", String::from_utf8_lossy(text))))
            }
            _ => Ok(reply),
        }
    }

    fn line(&mut self, line: &str) -> io::Result<Reply> {
        self.ask(&line.split(' ').collect::<Vec<_>>())
    }

    /// Whether the server has a command; it is asked for with too few arguments.
    fn knows(&mut self, command: &str) -> io::Result<bool> {
        let Reply::Error(text) = self.0.command(&[command])? else { return Ok(true) };
        Ok(!String::from_utf8_lossy(&text).contains("unknown command"))
    }
}

/// Whether hashes of this server have fields that expire.
///
/// # Errors
/// The connection's.
pub fn has_field_expiry(client: &mut Client) -> io::Result<bool> {
    Asker(client).knows("HPEXPIREAT")
}

/// Bytes that LZF cannot shorten, the same each time.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Fills the selected database with sketches of one page and of several, which servers before Redis 8 do not
/// have: all that is in them is certain, so that servers' answers are equal.
///
/// # Errors
/// The connection's, or a command that is refused.
pub fn fill_sketches(client: &mut Client, count: usize) -> io::Result<()> {
    let asker = &mut Asker(client);
    for line in [
        format!("BF.RESERVE bloom_large{count} 0.001 50000 NONSCALING"),
        format!("CF.RESERVE cuckoo_large{count} 50000 BUCKETSIZE 4 EXPANSION 2"),
        format!("CMS.INITBYDIM cms{count} 40 5"),
        format!("CMS.INITBYDIM cms_large{count} 5000 5"),
        format!("TOPK.RESERVE topk{count} 10 50 4 1"),
        format!("TDIGEST.CREATE tdigest{count} COMPRESSION 20"),
    ] {
        asker.line(&line)?;
    }
    for i in 0..count {
        for line in [
            format!("BF.ADD bloom{count} {i}"),
            format!("BF.ADD bloom_large{count} {i}"),
            format!("CF.ADD cuckoo{count} {i}"),
            format!("CF.ADD cuckoo_large{count} {i}"),
            format!("CMS.INCRBY cms{count} {i} {i}"),
            format!("CMS.INCRBY cms_large{count} {i} 3"),
            format!("TOPK.INCRBY topk{count} {} {i}", i % 37),
            format!("TDIGEST.ADD tdigest{count} {i}.5"),
        ] {
            asker.line(&line)?;
        }
    }
    // Merged values are saved as they are in memory.
    asker.line(&format!("TDIGEST.QUANTILE tdigest{count} 0.5"))?;
    expire(asker, &format!("bloom{count}"))?;
    Ok(())
}

/// Fills the selected database with dictionaries of suggestions: scores that all differ, payloads, texts of
/// several bytes a character, and one dictionary without suggestions.
///
/// # Errors
/// The connection's, or a command that is refused.
pub fn fill_suggestions(client: &mut Client, count: usize) -> io::Result<()> {
    let asker = &mut Asker(client);
    for i in 0..count {
        let text = format!("{}-{i}", ["Martlet", "martin", "märz", "swift"][i % 4]);
        asker.line(&format!("FT.SUGADD suggestions{count} {text} {}.5", i + 1))?;
        asker.line(&format!("FT.SUGADD suggestions{count} {text} 0.25 INCR PAYLOAD p{i}"))?;
        asker.line(&format!("FT.SUGADD plain{count} {text} {}", i + 1))?;
    }
    asker.line(&format!("FT.SUGADD empty{count} none 0"))?;
    expire(asker, &format!("plain{count}"))?;
    Ok(())
}

/// Fills the selected database with vector sets of each encoding, with a projection and attributes.
///
/// # Errors
/// The connection's, or a command that is refused.
pub fn fill_vectors(client: &mut Client, count: usize) -> io::Result<()> {
    let asker = &mut Asker(client);
    for i in 0..count {
        let vector = format!("VALUES 4 {} {} {} {}", i % 7, i % 11, i % 13, i % 17 + 1);
        for line in [
            format!("VADD int8:{count} {vector} e{i}"),
            format!("VADD float:{count} {vector} e{i} NOQUANT M 6 SETATTR {{\"n\":{i}}}"),
            format!("VADD binary:{count} {vector} e{i} BIN"),
            format!("VADD reduced:{count} REDUCE 3 {vector} e{i}"),
        ] {
            asker.line(&line)?;
        }
    }
    expire(asker, &format!("int8:{count}"))?;
    Ok(())
}

/// A vector set's elements, each with its vector and its attribute.
fn vectors(asker: &mut Asker<'_>, key: &[u8]) -> io::Result<Vec<String>> {
    let names = asker.ask(&[b"VRANGE".as_slice(), key, b"-", b"+"])?;
    let mut lines = Vec::new();
    for name in texts(&names) {
        let vector = texts(&asker.ask(&[b"VEMB".as_slice(), key, &name])?);
        let attribute = asker.ask(&[b"VGETATTR".as_slice(), key, &name])?;
        let attribute = attribute.text().unwrap_or_default().escape_ascii().to_string();
        let components: Vec<_> = vector.iter().map(|text| text.escape_ascii().to_string()).collect();
        lines.push(format!("'{}'={} {attribute}", name.escape_ascii(), components.join(",")));
    }
    Ok(lines)
}

/// Fills the selected database with time series, which few servers have: chunks of both kinds, labels, and
/// rules whose last buckets are open.
///
/// # Errors
/// The connection's, or a command that is refused.
pub fn fill_series(client: &mut Client, count: usize) -> io::Result<()> {
    let asker = &mut Asker(client);
    for number in 0..6 {
        let encoding = if number % 2 == 0 { "COMPRESSED" } else { "UNCOMPRESSED" };
        let source = format!("s{number}");
        asker.line(&format!(
            "TS.CREATE {source} CHUNK_SIZE 128 ENCODING {encoding} LABELS kind raw n {number}"
        ))?;
        for aggregator in ["avg", "twa", "std.p", "first"] {
            asker.line(&format!("TS.CREATE {source}:{aggregator} LABELS kind {aggregator}"))?;
            asker.line(&format!(
                "TS.CREATERULE {source} {source}:{aggregator} AGGREGATION {aggregator} 50 7"
            ))?;
        }
        for time in 0..count {
            asker.line(&format!("TS.ADD {source} {} {}.{}", time * 7, (time * number) % 13, time % 10))?;
        }
    }
    Ok(())
}

/// Fills databases 0, 3 and 9: every type in its short encoding and its long one, with and without expiry;
/// hashes whose fields expire where `has_timed`.
///
/// # Errors
/// The connection's, or a command that is refused.
pub fn fill(client: &mut Client, size: Size, has_timed: bool) -> io::Result<()> {
    let mut asker = Asker(client);
    for db in [0, 3, 9] {
        asker.line(&format!("SELECT {db}"))?;
        fill_strings(&mut asker)?;
        if size == Size::Large || db == 3 {
            fill_collections(&mut asker, 12, has_timed)?;
        }
        if size == Size::Large && db == 3 {
            fill_collections(&mut asker, 700, has_timed)?;
        }
    }
    Ok(())
}

/// Values of JSON documents: each kind of value, long texts, and arrays of one type of number.
const DOCUMENTS: [&str; 6] = [
    r#"{"a":1,"b":[1,2.5,{"c":true,"d":null}],"text":"é \"quoted\" and a longer text","u":18446744073709551615}"#,
    "[0,1,2,3,4,5,6,7,8,900,70000,-5000000000]",
    "[0.5,1.25,1e300,-0.0,3.0,4.0,5.0,6.0,7.0]",
    r#""text""#,
    "-5",
    "{}",
];

/// Adds JSON documents to database 3 of a server that has them; whether it does.
///
/// # Errors
/// The connection's, or a command that is refused.
pub fn fill_documents(client: &mut Client) -> io::Result<bool> {
    let mut asker = Asker(client);
    if !asker.knows("JSON.SET")? {
        return Ok(false);
    }
    asker.line("SELECT 3")?;
    let members: Vec<String> = (0..500).map(|i| format!(r#""member {i}":{{"x":[{i}],"y":"{i}"}}"#)).collect();
    let large = format!("{{{}}}", members.join(","));
    for (i, text) in DOCUMENTS.into_iter().chain([&*large]).enumerate() {
        asker.ask(&["JSON.SET", &format!("json:{i}"), "$", text])?;
    }
    expire(&mut asker, "json:1")?;
    Ok(true)
}

fn fill_strings(asker: &mut Asker<'_>) -> io::Result<()> {
    let every: Vec<u8> = (0..=255).collect();
    let (repeated, noise) = ("ab".repeat(500), noise(300));
    let texts: [&[u8]; 11] = [
        b"",
        b"7",
        b"-5",
        b"-70000",
        b"2147483647",
        b"12345678901234",
        b"007",
        b"text",
        &every,
        repeated.as_bytes(),
        &noise,
    ];
    for (i, text) in texts.iter().enumerate() {
        asker.ask(&[b"SET".as_slice(), format!("s:{i}").as_bytes(), text])?;
        asker.ask(&[b"SET".as_slice(), format!("expiring:{i}").as_bytes(), text])?;
        expire(asker, &format!("expiring:{i}"))?;
    }
    asker.ask(&[b"SET".as_slice(), &every, b"a key of all bytes"])?;
    Ok(())
}

fn expire(asker: &mut Asker<'_>, key: &str) -> io::Result<Reply> {
    if asker.knows("PEXPIREAT")? {
        asker.line(&format!("PEXPIREAT {key} {EXPIRY_MS}"))
    } else {
        asker.line(&format!("EXPIREAT {key} {}", EXPIRY_MS / 1000))
    }
}

fn fill_collections(asker: &mut Asker<'_>, count: usize, has_timed: bool) -> io::Result<()> {
    const SCORES: [&str; 7] = ["inf", "-inf", "1e300", "3", "-0.1", "0.14285714285714285", "-0.5"];
    let long = "x".repeat(1000);
    for i in 0..count {
        let score = SCORES.get(i).map_or_else(|| format!("{i}.5"), |score| (*score).to_owned());
        for line in [
            format!("RPUSH l{count} {i} text{i}"),
            format!("RPUSH l_long{count} {i} {i}{long}"),
            format!("SADD i16_{count} -{i}"),
            format!("SADD i32_{count} {}", i * 70_000),
            format!("SADD i64_{count} {}", i * 5_000_000_000),
            format!("SADD t{count} {i} t{i}"),
            format!("SADD t_long{count} {i}{long}"),
            format!("ZADD z{count} {score} m{i}"),
            format!("ZADD z_long{count} {score} {i}{long}"),
            format!("HSET h{count} f{i} v{i}"),
            format!("HSET h_long{count} f{i} {i}{long}"),
        ] {
            asker.line(&line)?;
        }
        for (key, value) in [("hx", "v"), ("hx_long", &*long)] {
            if has_timed {
                asker.line(&format!("HSET {key}{count} f{i} {i}{value}"))?;
                if i % 3 != 0 {
                    let at_ms = EXPIRY_MS + i as i64;
                    asker.line(&format!("HPEXPIREAT {key}{count} {at_ms} FIELDS 1 f{i}"))?;
                }
            }
        }
    }
    for key in ["l", "i16_", "t", "z", "h_long"] {
        expire(asker, &format!("{key}{count}"))?;
    }
    Ok(())
}

/// Everything in the databases that [`fill`] uses, a line for each key, in a fixed order.
///
/// # Errors
/// The connection's, or a command that is refused.
pub fn dump(client: &mut Client) -> io::Result<Vec<String>> {
    let mut asker = Asker(client);
    let has_times = asker.knows("HPEXPIRETIME")?;
    let has_expiry_time = asker.knows("PEXPIRETIME")?;
    let mut lines = Vec::new();
    for db in 0..10 {
        asker.line(&format!("SELECT {db}"))?;
        let keys = asker.line("KEYS *")?;
        let mut keys = texts(&keys);
        keys.sort();
        for key in keys {
            let kind = asker.ask(&[b"TYPE", key.as_slice()])?;
            let kind = String::from_utf8_lossy(kind.text().unwrap_or_default()).into_owned();
            let value = value(&mut asker, &kind, &key, has_times)?;
            let at_ms = if has_expiry_time {
                asker.ask(&[b"PEXPIRETIME", key.as_slice()])?.integer()
            } else {
                // Nothing else was given to any key.
                let ttl = asker.ask(&[b"TTL", key.as_slice()])?.integer();
                ttl.map(|ttl| if ttl < 0 { ttl } else { EXPIRY_MS })
            };
            let at_ms = at_ms.unwrap_or(0);
            lines.push(format!("{db} {} {kind} {at_ms} {}", key.escape_ascii(), value.join(" ")));
        }
    }
    Ok(lines)
}

/// A reply's elements as bytes.
fn texts(reply: &Reply) -> Vec<Vec<u8>> {
    let items = reply.items().unwrap_or_default();
    items.iter().map(|item| item.text().unwrap_or_default().to_vec()).collect()
}

/// A value's elements; those that have no order sorted.
fn value(asker: &mut Asker<'_>, kind: &str, key: &[u8], has_times: bool) -> io::Result<Vec<String>> {
    let words: &[&[u8]] = match kind {
        "string" => &[b"GET", key],
        "list" => &[b"LRANGE", key, b"0", b"-1"],
        "set" => &[b"SMEMBERS", key],
        "zset" => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        "hash" => &[b"HGETALL", key],
        "MBbloom--" => &[b"BF.DEBUG", key],
        "MBbloomCF" => &[b"CF.DEBUG", key],
        "CMSk-TYPE" => &[b"CMS.QUERY", key, b"3", b"5", b"11", b"none"],
        "TopK-TYPE" => &[b"TOPK.LIST", key, b"WITHCOUNT"],
        "TDIS-TYPE" => &[b"TDIGEST.BYRANK", key, b"0", b"3", b"9", b"11"],
        "ReJSON-RL" => &[b"JSON.GET", key],
        "vectorset" => return vectors(asker, key),
        // The order tells the scores; the last digit of some is another one in Redis.
        "trietype0" => &[b"FT.SUGGET", key, b"", b"MAX", b"1000000", b"WITHPAYLOADS"],
        "TSDB-TYPE" => &[b"TS.RANGE", key, b"-", b"+", b"LATEST"],
        _ => return Ok(vec![]),
    };
    let reply = asker.ask(words)?;
    let elements = match kind {
        "string" | "MBbloomCF" | "ReJSON-RL" => vec![reply.text().unwrap_or_default().to_vec()],
        "CMSk-TYPE" | "TopK-TYPE" => {
            let items = reply.items().unwrap_or_default().iter();
            let text = |item: &Reply| match item.integer() {
                Some(number) => number.to_string().into_bytes(),
                None => item.text().unwrap_or_default().to_vec(),
            };
            items.map(text).collect()
        }
        "TSDB-TYPE" => {
            let samples = reply.items().unwrap_or_default().iter();
            samples.map(|sample| format!("{sample:?}").into_bytes()).collect()
        }
        _ => texts(&reply),
    };
    let shown = |element: &Vec<u8>| format!("'{}'", element.escape_ascii());
    let mut lines: Vec<String> = match kind {
        "zset" => {
            elements.chunks(2).map(|pair| format!("{}={:?}", shown(&pair[0]), score(&pair[1]))).collect()
        }
        "hash" => {
            elements.chunks(2).map(|pair| pair.iter().map(shown).collect::<Vec<_>>().join("=")).collect()
        }
        _ => elements.iter().map(shown).collect(),
    };
    if kind == "hash" && has_times {
        for (line, pair) in lines.iter_mut().zip(elements.chunks(2)) {
            let at = asker.ask(&[b"HPEXPIRETIME".as_slice(), key, b"FIELDS", b"1", &pair[0]])?;
            let at_ms = at.items().and_then(<[Reply]>::first).and_then(Reply::integer);
            line.push_str(
                &at_ms.filter(|&at_ms| at_ms >= 0).map(|at_ms| format!("@{at_ms}")).unwrap_or_default(),
            );
        }
    }
    if kind == "set" || kind == "hash" {
        lines.sort();
    }
    Ok(lines)
}

/// A score's value: servers write the same one with more digits or fewer.
fn score(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
