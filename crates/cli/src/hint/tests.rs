//! Hints beside what redis-cli shows, and for whatever is typed.

use super::*;
use martlet_client::resp::Reply;

fn text(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

/// An argument: `name:type` and flags; with a token `COUNT=count:integer`.
fn argument(spec: &str, flags: &str, inner: Vec<Reply>) -> Reply {
    let (token, spec) = spec.split_once('=').map_or((None, spec), |(token, rest)| (Some(token), rest));
    let (name, kind) = spec.split_once(':').unwrap_or((spec, "string"));
    let mut fields = vec![(text("name"), text(name)), (text("type"), text(kind))];
    fields.extend(token.map(|token| (text("token"), text(token))));
    let flags = flags.split_whitespace().map(|flag| Reply::Simple(flag.into())).collect();
    fields.push((text("flags"), Reply::Set(flags)));
    fields.push((text("arguments"), Reply::Array(inner)));
    Reply::Map(fields)
}

fn plain(spec: &str) -> Reply {
    argument(spec, "", vec![])
}

fn token(name: &str) -> Reply {
    plain(&format!("{name}={name}:pure-token"))
}

fn command(name: &str, arguments: Vec<Reply>) -> (Reply, Reply) {
    (text(name), Reply::Map(vec![(text("arguments"), Reply::Array(arguments))]))
}

fn docs() -> Docs {
    let optional = |spec: &str| argument(spec, "optional", vec![]);
    let condition = argument("condition:oneof", "optional", vec![token("NX"), token("XX")]);
    let expiration = argument(
        "expiration:oneof",
        "optional",
        vec![plain("EX=seconds:integer"), plain("PX=milliseconds:integer"), token("KEEPTTL")],
    );
    let set = vec![plain("key:key"), plain("value"), condition, optional("GET=get:pure-token"), expiration];
    let nested = argument(
        "options:block",
        "optional",
        vec![plain("count:integer"), optional("WITHSCORES=w:pure-token")],
    );
    let pairs = argument("pair:block", "multiple", vec![plain("parameter"), plain("value")]);
    let get = argument(
        "GET=get:block",
        "optional multiple multiple_token",
        vec![plain("encoding"), plain("offset:integer")],
    );
    let config =
        Reply::Map(vec![(text("subcommands"), Reply::Map(vec![command("config|set", vec![pairs])]))]);
    let scores = argument("data:block", "multiple", vec![plain("score:double"), plain("member")]);
    let zadd = vec![
        plain("key:key"),
        optional("CH=change:pure-token"),
        optional("INCR=increment:pure-token"),
        scores,
    ];
    Docs::read(&Reply::Map(vec![
        command("set", set),
        command("zrandmember", vec![plain("key:key"), nested]),
        command("mget", vec![argument("key:key", "multiple", vec![])]),
        command("bitfield_ro", vec![plain("key:key"), get]),
        command(
            "scan",
            vec![plain("cursor:integer"), optional("MATCH=pattern"), optional("COUNT=count:integer")],
        ),
        command("zadd", zadd),
        command("migrate", vec![argument(":oneof", "", vec![plain("key:key"), plain("=:pure-token")])]),
        (text("config"), config),
    ]))
}

/// Lines, and what redis-cli 8 shows after them (without spaces at the end).
const CASES: &[(&str, &str)] = &[
    ("SET ", "key value [NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]"),
    ("set key val", "value [NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]"),
    ("SET key value EX", "[NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]"),
    ("SET key value EX ", "seconds [NX|XX] [GET]"),
    ("SET key value EX 23 ", "[NX|XX] [GET]"),
    ("SET key value EX sec ", ""),
    ("SET key value XX ", "[GET] [EX seconds|PX milliseconds|KEEPTTL]"),
    ("SET \"a key\" value FOO ", ""),
    ("SET key value GET XX KEEPTTL ", ""),
    ("ZRANDMEMBER k ", "[count [WITHSCORES]]"),
    ("ZRANDMEMBER k 3 ", "[WITHSCORES]"),
    ("ZRANDMEMBER k 3 WITHSCORES ", ""),
    ("MGET ", "key [key ...]"),
    ("MGET k k ", "[key ...]"),
    ("BITFIELD_RO k ", "[GET encoding offset [GET encoding offset ...]]"),
    ("BITFIELD_RO k GET ", "encoding offset [GET encoding offset ...]]"),
    ("BITFIELD_RO k GET u8 12 ", "[GET encoding offset ...]]"),
    ("CONFIG SET ", "parameter value [parameter value ...]"),
    ("config set param ", "value [parameter value ...]"),
    ("config set param value ", "[parameter value ...]"),
    ("SCAN 0 COUNT ", "count [MATCH pattern]"),
    ("ZADD key CH ", "[INCR] score member [score member ...]"),
    ("ZADD key 0.5 ", "member [score member ...]"),
    ("MIGRATE ", "key|\"\""),
];

#[test]
fn hints_are_redis_clis() {
    let docs = docs();
    for (line, expected) in CASES {
        let got = hint(&docs, line);
        assert_eq!(got.as_deref().map(str::trim_end), Some(*expected), "{line}");
    }
    for line in ["", " ", "SET", "nosuch ", "SET \"open", "CONFIG nosuch"] {
        assert_eq!(hint(&docs, line).filter(|hint| !hint.is_empty()), None, "{line}");
    }
}

#[test]
fn only_tokens_that_fit_are_offered() {
    let docs = docs();
    for (line, expected) in [
        ("SET ", &[][..]),
        ("SET key value ", &["EX", "GET", "KEEPTTL", "NX", "PX", "XX"]),
        ("SET key value NX G", &["EX", "GET", "KEEPTTL", "PX"]),
        ("SET key value EX ", &[]),
        ("SET key value EX 1 ", &["GET", "NX", "XX"]),
        ("SET key value FOO ", &[]),
        ("SCAN 0 match x ", &["COUNT"]),
        ("ZADD key ", &["CH", "INCR"]),
        ("ZADD key CH ", &["INCR"]),
        ("nosuch ", &[]),
    ] {
        assert_eq!(next_tokens(&docs, line), expected, "{line}");
    }
}

#[test]
fn a_server_without_documentation_has_guessed_hints() {
    let names = Reply::Array(vec![Reply::Array(vec![
        text("get"),
        Reply::Int(-3),
        Reply::Array(vec![]),
        Reply::Int(1),
        Reply::Int(1),
        Reply::Int(1),
    ])]);
    let docs = Docs::read_names(&names);
    assert_eq!(hint(&docs, "GET ").as_deref(), Some("key arg ...options..."));
    assert_eq!(hint(&docs, "GET k ").as_deref(), Some(""));
}

proptest::proptest! {
    #[test]
    fn whatever_is_typed_has_a_hint_or_none(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "set", "config", "bitfield_ro", "zadd", "scan", "mget", "zrandmember", "GET", "EX", "1", "COUNT",
                "NX", "CH", "\"q\"", "'", "é", "", "MATCH",
            ]),
            0..9,
        ),
        end in "[ ]?",
    ) {
        let docs = docs();
        let line = words.join(" ") + &end;
        for (at, _) in line.char_indices() {
            hint(&docs, &line[..at]);
            next_tokens(&docs, &line[..at]);
        }
    }

    #[test]
    fn whatever_a_server_says_is_read(bytes in proptest::collection::vec(0u8..6, 0..60)) {
        // Arrays in arrays in arrays, with fields that mean something here and there.
        let fields = ["arguments", "subcommands", "flags", "name", "token", "type"];
        let mut stack = vec![Vec::new()];
        for byte in bytes {
            match byte {
                0 => stack.push(Vec::new()),
                1 if stack.len() > 1 => {
                    let done = stack.pop().expect("two");
                    stack.last_mut().expect("one").push(Reply::Array(done));
                }
                other => {
                    let last = stack.last_mut().expect("never empty");
                    last.push(text(fields[usize::from(other) % fields.len()]));
                }
            }
        }
        let docs = Docs::read(&Reply::Array(stack.remove(0)));
        for entry in &docs.entries {
            all_arguments(entry);
        }
    }
}
