//! The family's tests: shapes in both protocols, what a command says to the journal and to watchers, errors
//! that change nothing, and damaged values under every command.

use martlet_base::random::Random;
use martlet_keyspace::Key;
use martlet_values::Limits;
use martlet_values::payload::restore_unsummed;

use crate::testing::{Fixture, show};

fn with(document: &str) -> Fixture {
    let mut t = Fixture::new();
    assert_eq!(show(&t.run_args(&["JSON.SET", "d", "$", document])), "+OK");
    t
}

/// The document as JSON text.
fn document(t: &mut Fixture) -> String {
    let reply = t.run_args(&["JSON.GET", "d"]);
    let text = String::from_utf8(reply).unwrap();
    text.lines().nth(1).unwrap_or("nil").to_owned()
}

#[test]
fn a_document_is_set_and_read() {
    let mut t = with(r#"{"a":1,"b":[1,2]}"#);
    assert_eq!(t.effects(), [r#"JSON.SET d $ {"a":1,"b":[1,2]}"#]);
    assert_eq!(t.events(), ["new d", "json.set d"]);
    assert_eq!(t.dirty, 1);
    assert_eq!(t.run("JSON.GET d $.b"), r#""[[1,2]]""#);
    assert_eq!(t.run("JSON.GET d .b .a"), r#""{\".b\":[1,2],\".a\":1}""#);
    assert_eq!(t.run("JSON.SET d $.c 3"), "+OK");
    assert_eq!(t.events(), ["json.set d"]);
    assert_eq!(document(&mut t), r#"{"a":1,"b":[1,2],"c":3}"#);
    assert_eq!(t.run("TYPE d"), "+ReJSON-RL");
    assert_eq!(t.run("OBJECT ENCODING d"), "\"raw\"");
    assert_eq!(t.run("JSON.SET d $ 5"), "+OK");
    assert_eq!(t.events(), ["json.set d"]);
    assert_eq!(document(&mut t), "5");
}

#[test]
fn a_request_that_changes_nothing_is_not_recorded() {
    let mut t = with(r#"{"a":1,"e":[],"s":"x","o":{"q":1},"t":[true]}"#);
    for line in [
        "JSON.SET d $ 1 NX",
        "JSON.SET d $.zz 1 XX",
        "JSON.SET d $.zz.y 1",
        "JSON.SET none $ 1 XX",
        "JSON.MERGE d $.zz.y 1",
        "JSON.MSET d $.a.y 1",
        "JSON.DEL d $.zz",
        "JSON.DEL none",
        "JSON.FORGET d .zz",
        "JSON.CLEAR d $.s",
        "JSON.TOGGLE d $.a",
        "JSON.NUMINCRBY d $.s 1",
        "JSON.NUMMULTBY d $.zz x",
        "JSON.STRAPPEND d $.a x",
        "JSON.ARRAPPEND d $.a 1",
        "JSON.ARRINSERT d $.a 0 1",
        "JSON.ARRTRIM d $.a 0 1",
        "JSON.ARRPOP d $.e",
        "JSON.ARRPOP d $.a",
    ] {
        let reply = t.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        assert!(t.effects().is_empty() && t.dirty == 0, "{line}");
        assert!(t.events().iter().all(|event| event.starts_with("keymiss")), "{line}: {:?}", t.events());
    }
    assert_eq!(document(&mut t), r#"{"a":1,"e":[],"s":"x","o":{"q":1},"t":[true]}"#);
}

#[test]
fn each_change_is_recorded_once_as_it_was_asked() {
    for (line, event) in [
        ("JSON.SET d $..a 2", "json.set"),
        ("JSON.MERGE d $.o 1", "json.merge"),
        ("JSON.DEL d $..a", "json.del"),
        ("JSON.FORGET d .a", "json.del"),
        ("JSON.CLEAR d $..*", "json.clear"),
        ("JSON.TOGGLE d $..t", "json.toggle"),
        ("JSON.NUMINCRBY d .a 0", "json.numincrby"),
        ("JSON.NUMMULTBY d $..a 2", "json.nummultby"),
        ("JSON.NUMPOWBY d $.a 2", "json.numpowby"),
        ("JSON.STRAPPEND d .s \"x\"", "json.strappend"),
        ("JSON.ARRAPPEND d $.b 1 2", "json.arrappend"),
        ("JSON.ARRINSERT d .b 0 1", "json.arrinsert"),
        ("JSON.ARRPOP d .b", "json.arrpop"),
        ("JSON.ARRPOP d .e", "json.arrpop"),
        ("JSON.ARRTRIM d $.b 0 -1", "json.arrtrim"),
    ] {
        let mut t = with(r#"{"a":1,"b":[1,2,3],"e":[],"s":"x","t":true,"o":{"a":1,"t":false}}"#);
        let words: Vec<&str> = line.split(' ').collect();
        let reply = show(&t.run_args(&words));
        assert!(!reply.starts_with('-') && reply != "nil" || line.ends_with(".e"), "{line}: {reply}");
        assert_eq!(t.effects(), [line]);
        assert_eq!(t.events(), [format!("{event} d")]);
        assert_eq!(t.dirty, 1, "{line}");
    }
}

#[test]
fn a_document_goes_with_its_last_child_or_its_root() {
    let mut t = with(r#"{"a":{"b":1}}"#);
    assert_eq!(t.run("JSON.DEL d $.a.b"), ":1");
    assert_eq!(document(&mut t), r#"{"a":{}}"#);
    assert_eq!(t.run("JSON.DEL d .a"), ":1");
    assert_eq!(t.effects(), ["JSON.DEL d .a"]);
    assert_eq!(t.events(), ["json.del d"]);
    assert_eq!(t.run("EXISTS d"), ":0");
    for root in ["JSON.DEL d", "JSON.DEL d .", "JSON.FORGET d $", "JSON.DEL d $.."] {
        let mut t = with("[1]");
        let reply = t.run(root);
        assert_eq!(
            (reply.as_str(), t.run("EXISTS d").as_str()),
            if root.ends_with("..") {
                (
                    "-Error occurred on position 3, \"$.. <<<<----\", expected one of the following: <string>, '*'.",
                    ":1",
                )
            } else {
                (":1", ":0")
            },
            "{root}"
        );
    }
}

#[test]
fn mset_changes_all_keys_or_none() {
    let mut t = with(r#"{"a":1}"#);
    t.run("SET s x");
    for (line, error) in [
        ("JSON.MSET d $.a 2 s $ 1", "-Existing key has wrong Redis type"),
        ("JSON.MSET d $.a 2 e $ {", "-EOF while parsing an object at line 1 column 1"),
        ("JSON.MSET d $.a 2 e $.x 1", "-ERR new objects must be created at the root"),
        ("JSON.MSET e $ {} e $.x 1", "-ERR new objects must be created at the root"),
        ("JSON.MSET d $.a 2 d $..zz 1", "-Err wrong static path"),
        ("JSON.MSET d $.a 2 e", "-ERR wrong number of arguments for 'json.mset' command"),
    ] {
        assert_eq!(show(&t.run_args(&line.split(' ').collect::<Vec<_>>())), error, "{line}");
        assert!(t.effects().is_empty());
        assert_eq!((document(&mut t).as_str(), t.run("EXISTS e").as_str()), (r#"{"a":1}"#, ":0"), "{line}");
    }
    assert_eq!(t.run("JSON.MSET d $.a 2 e $ 3 d $.b 4 d $.a 5"), "+OK");
    assert_eq!(t.events(), ["new e", "json.mset d", "json.mset e", "json.mset d", "json.mset d"]);
    assert_eq!((t.effects().len(), t.dirty), (1, 1));
    assert_eq!(t.run("JSON.MGET d e s none $"), r#"["[{\"a\":5,\"b\":4}]" "[3]" nil nil]"#);
    assert_eq!(t.run("JSON.MSET d $.a.x 2 e $ 7"), "nil");
    assert_eq!(t.run("JSON.MGET d e ."), r#"["{\"a\":5,\"b\":4}" "7"]"#);
}

#[test]
fn replies_have_the_shape_of_their_protocol() {
    const DOCUMENT: &str = r#"{"a":1,"f":1.5,"t":true,"s":"x","n":null,"b":[1,[2]]}"#;
    for (line, two, three) in [
        ("JSON.TYPE d", r#""object""#, r#"["object"]"#),
        ("JSON.TYPE d $.a", r#"["integer"]"#, r#"[["integer"]]"#),
        ("JSON.TYPE none", "nil", "[nil]"),
        ("JSON.NUMINCRBY d .a 1", r#""2""#, "[:2]"),
        ("JSON.NUMINCRBY d $.* 1", r#""[2,2.5,null,null,null,null]""#, "[:2 ,2.5 nil nil nil nil]"),
        ("JSON.NUMMULTBY d .zz 1", "-ERR Path '$.zz' does not exist or does not contains a number", "[]"),
        ("JSON.TOGGLE d .t", r#""false""#, r#""false""#),
        ("JSON.TOGGLE d $.t", "[:0]", "[:0]"),
        ("JSON.RESP d .f", r#""1.5""#, ",1.5"),
        ("JSON.RESP d .b", "[+[ :1 [+[ :2]]", "[+[ :1 [+[ :2]]"),
        (
            "JSON.GET d FORMAT EXPAND $",
            "-ERR FORMAT argument is not supported on RESP2",
            r#"[[{"a" :1 "f" ,1.5 "t" #t "s" "x" "n" nil "b" [:1 [:2]]}]]"#,
        ),
        (
            "JSON.GET d FORMAT EXPAND1 $.*",
            "-ERR FORMAT argument is not supported on RESP2",
            r#"[[:1 ,1.5 #t "\"x\"" nil "[1,[2]]"]]"#,
        ),
        ("JSON.GET d $.a FORMAT EXPAND", r#""[1]""#, "[[:1]]"),
        ("JSON.GET d FORMAT STRING .a", "-ERR FORMAT argument is not supported on RESP2", r#""1""#),
    ] {
        for (resp3, reply) in [(false, two), (true, three)] {
            let mut t = with(DOCUMENT);
            t.resp3 = resp3;
            assert_eq!(t.run(line), reply, "{line}");
        }
    }
}

#[test]
fn an_error_changes_nothing() {
    let mut t = with(r#"{"a":1,"s":"x","b":[[1],[2,3,4]],"big":9223372036854775807}"#);
    let before = document(&mut t);
    for (line, error) in [
        ("JSON.SET d $.b[7] 1", "-ERR array index out of range"),
        ("JSON.SET d $.*.y 1", "-Err wrong static path"),
        ("JSON.SET d $..b..c 1", "-Err wrong static path"),
        ("JSON.SET d $.a [1", "-EOF while parsing a list at line 1 column 2"),
        ("JSON.NUMINCRBY d $.* 1", "-ERR numeric overflow"),
        ("JSON.NUMINCRBY d $.a 1e999", "-ERR number out of range at line 1 column 5"),
        ("JSON.ARRINSERT d $.b[*] 2 1", "-ERR index out of bounds"),
        ("JSON.STRAPPEND d .s 1", "-WRONGTYPE wrong type of path value - expected string but found 1"),
        ("JSON.ARRPOP d .a", "-ERR Path '$.a' does not exist or not an array"),
        ("JSON.CLEAR d . .", "-ERR wrong number of arguments for 'json.clear' command"),
        ("JSON.SET d $ 1 BF16", "-ERR syntax error"),
        ("JSON.SET d $ [1e39] FPHA FP32", "-ERR value out of range"),
        ("JSON.SET d $ [1] FPHA FP8", "-ERR invalid FPHA type"),
    ] {
        assert_eq!(show(&t.run_args(&line.split(' ').collect::<Vec<_>>())), error, "{line}");
        assert_eq!(document(&mut t), before, "{line}");
    }
    let reply = t.run_args(&["JSON.SET", "d", "$.a + 1", "1"]);
    const READS_ONLY: &str =
        "-ERR computed/projection expressions are only supported by JSON.GET/JSON.MGET/JSON.RESP";
    assert_eq!(show(&reply), READS_ONLY);
    assert_eq!(document(&mut t), before);
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let reply = t.run_args(&["JSON.SET", "d", "$.a", &nested(126)]);
    assert_eq!(show(&reply), "+OK");
    let reply = t.run_args(&["JSON.SET", "d", "$.a", &nested(127)]);
    assert_eq!(show(&reply), "-ERR recursion limit exceeded");
    let reply = t.run_args(&["JSON.SET", "d", "$", &nested(1_000_000)]);
    assert_eq!(show(&reply), "-recursion limit exceeded at line 1 column 128");
    let reply = t.run_args(&["JSON.GET", "d", &format!("$.{}", "a".repeat(100_000))]);
    assert!(show(&reply).starts_with("-ERR JSONPath is beyond its limit"), "{}", show(&reply));
}

#[test]
fn bytes_that_are_no_utf8_are_refused() {
    let mut t = with("{}");
    for words in [
        [&b"JSON.SET"[..], b"d", b"\xff", b"1"],
        [b"JSON.SET", b"d", b"$", b"\"\xff\""],
        [b"JSON.STRAPPEND", b"d", b"$", b"\"\xff\""],
        [b"JSON.NUMINCRBY", b"d", b"$", b"\xff"],
        [b"JSON.ARRAPPEND", b"d", b"$", b"\"\xff\""],
        [b"JSON.MSET", b"d", b"\xff", b"1"],
    ] {
        assert_eq!(show(&t.run_args(&words)), "-Couldn't parse as UTF-8 string");
    }
    assert_eq!(show(&t.run_args(&[&b"JSON.SET"[..], b"\xff", b"$", b"1"])), "+OK");
    assert_eq!(show(&t.run_args(&[&b"JSON.GET"[..], b"\xff"])), "\"1\"");
}

#[test]
fn keys_of_other_types_are_refused() {
    let mut t = Fixture::new();
    t.run("SET k x");
    for command in super::COMMANDS {
        let name = command.spec.name;
        let rest: &[&str] = match name {
            "json.mget" => continue,
            "json.debug" => &["memory", "k"],
            "json.set" | "json.merge" | "json.mset" | "json.arrappend" | "json.arrindex"
            | "json.numincrby" | "json.nummultby" | "json.numpowby" | "json.strappend" => &["k", "$", "1"],
            "json.arrinsert" | "json.arrtrim" => &["k", "$", "0", "1"],
            _ => &["k", "$"],
        };
        let reply = show(&t.run_args(&[&[name], rest].concat()));
        assert_eq!(reply, "-Existing key has wrong Redis type", "{name}");
        assert_eq!(t.run("GET k"), "\"x\"");
    }
    t.run("JSON.SET d $ 1");
    for line in ["GET d", "LPUSH d x", "HSET d f v", "SADD d m", "XADD d * f v", "SORT d"] {
        assert_eq!(t.run(line), "-WRONGTYPE Operation against a key holding the wrong kind of value");
    }
}

#[test]
fn copies_stay_as_they_are() {
    let mut t = with(r#"{"a":[1,2,3],"o":{"x":{"y":"a text that has a block"}}}"#);
    t.run("COPY d e");
    t.run("JSON.SET d $.o.x.y 1");
    t.run("JSON.ARRPOP d $.a");
    assert_eq!(t.run("JSON.GET e .o.x.y"), r#""\"a text that has a block\"""#);
    assert_eq!(t.run("JSON.GET e .a"), "\"[1,2,3]\"");
    t.run("RENAME d f");
    assert_eq!(document(&mut t), "nil");
    assert_eq!(t.run("JSON.GET f"), r#""{\"a\":[1,2],\"o\":{\"x\":{\"y\":1}}}""#);
}

/// A payload that was damaged and is still accepted gives a value that every command works on.
#[test]
fn damaged_payloads_are_refused_or_whole() {
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut t = Fixture::new();
    let documents: [(&str, &[&str]); 3] = [
        (r#"{"a":1,"b":[1,2,{"c":true}],"s":"hey, a longer text","f":1.5,"u":18446744073709551615}"#, &[]),
        ("[[0.5,1,2,3,4,5,6,7,8,9],[1,2,3,4,5,6,7,8,900],[1e300,\"x\"],{\"k\":[]}]", &["FPHA", "FP64"]),
        ("[[0.5,1.5],[3,4,5]]", &["FPHA", "BF16"]),
    ];
    let mut accepted = 0;
    for round in 0..1500 {
        let (text, options) = documents[round % documents.len()];
        t.run("DEL d");
        let set = [&["JSON.SET", "d", "$", text], options].concat();
        let reply = show(&t.run_args(&set));
        assert!(reply == "+OK" || reply.contains("out of range"), "{reply}");
        let payload = t.run_args(&["DUMP", "d"]);
        let start = payload.windows(2).position(|pair| pair == b"\r\n").unwrap() + 2;
        let mut body = payload[start..payload.len() - 2 - 8].to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(body.len() as u64 - 2) as usize;
            match random.below(3) {
                0 => body[at] ^= 1 << random.below(8),
                1 => body[at] = random.below(256) as u8,
                _ => drop(body.remove(at)),
            }
        }
        body.extend([0; 8]);
        if let Ok(value) = restore_unsummed(&body, &Limits::default()) {
            let key = Key::new(b"d");
            t.keys.with_shard(key.shard(), |keys| keys.set_value(&key, value, None));
            accepted += 1;
            every_command(&mut t);
        }
    }
    assert!(accepted > 20, "{accepted}");
}

/// Every command of the family on the key `d`, with paths that lead everywhere.
fn every_command(t: &mut Fixture) {
    for line in [
        "JSON.GET d",
        "JSON.GET d $..*",
        "JSON.MGET d $..a",
        "JSON.TYPE d $..*",
        "JSON.RESP d",
        "JSON.STRLEN d $..*",
        "JSON.OBJKEYS d $..*",
        "JSON.OBJLEN d $..*",
        "JSON.ARRLEN d $..*",
        "JSON.ARRINDEX d $..* 1",
        "JSON.DEBUG MEMORY d $..*",
        "MEMORY USAGE d",
        "DUMP d",
        "COPY d e REPLACE",
        "JSON.NUMINCRBY d $..* 1",
        "JSON.NUMMULTBY d $..* 1.5",
        "JSON.NUMPOWBY d $..* 2",
        "JSON.TOGGLE d $..*",
        "JSON.STRAPPEND d $..* '\"x\"'",
        "JSON.ARRAPPEND d $..* 1 null",
        "JSON.ARRINSERT d $..* 0 2",
        "JSON.ARRPOP d $..* 0",
        "JSON.ARRTRIM d $..* 0 3",
        "JSON.MERGE d $ '{\"m\":{\"n\":null}}'",
        "JSON.SET d $..a 2",
        "JSON.MSET d $.z 1 e $ 1",
        "JSON.CLEAR d $..a",
        "JSON.DEL d $..b",
        "JSON.FORGET d $..*",
        "JSON.SET d $ 1",
    ] {
        t.run(line);
    }
}

/// Values of a large document that MERGE and ARRTRIM remove are freed by another thread; what stays is whole.
#[test]
fn large_values_that_merge_and_arrtrim_remove_are_freed_in_the_background() {
    let mut t = Fixture::new();
    let items: Vec<String> =
        (0..5000).map(|number| format!(r#"{{"n":{number},"text":"{number} and more"}}"#)).collect();
    let list = format!("[{}]", items.join(","));
    let document = format!(r#"{{"gone":{list},"kept":{{"a":{list},"b":1}},"list":{list}}}"#);
    t.run_args(&["JSON.SET", "d", "$", &document]);
    let freed = |t: &mut Fixture| {
        t.keys.engine().lazy_free.wait();
        t.keys.engine().lazy_free.freed()
    };
    for (request, count) in [
        (&["JSON.MERGE", "d", "$", r#"{"gone":null,"kept":{"a":{"x":1}},"new":[]}"#][..], 1),
        (&["JSON.ARRTRIM", "d", "$.list", "1", "2"], 1),
        (&["JSON.ARRTRIM", "d", "$.list", "0", "0"], 0),
    ] {
        let before = freed(&mut t);
        let reply = t.run_args(request);
        assert_ne!(reply[0], b'-', "{request:?}");
        assert_eq!(freed(&mut t) - before, count, "{request:?}");
    }
    let left = r#"{"list":[{"n":1,"text":"1 and more"}],"kept":{"a":{"x":1},"b":1},"new":[]}"#;
    assert_eq!(t.run_args(&["JSON.GET", "d"]), format!("${}\r\n{left}\r\n", left.len()).into_bytes());
}
