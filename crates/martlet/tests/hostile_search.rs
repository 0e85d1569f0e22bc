//! Requests of search that mean to stop a server: queries and pipelines that are long, deep or endless,
//! vectors of the wrong size, cursors that are never read, and very many indexes. The server answers each of
//! them, in bounded memory, while another client's GET is answered all the time.
//!
//! `MARTLET_SEARCH_INDEXES=100000` asks for as many indexes; `--nocapture` shows times, pauses and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

use crate::module_types::{ask, ask_ok, connect, start, until};

/// How long the other client may wait for its GET: generous, since a debug build shares a busy machine.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long one hostile request may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The server's resident memory at its highest, megabytes.
const RESIDENT_MAX_MB: u64 = 1_500;
/// The most indexes of a server.
const INDEXES_MAX: usize = 16_384;
/// Gap between two requests of the other client.
const GAP: Duration = Duration::from_micros(500);

/// Replies to the other client, and the longest time between two.
#[derive(Clone, Copy, Default)]
struct Pauses {
    replies: u64,
    longest: Duration,
}

/// A server, and a client that asks for a key all the time.
struct Besieged {
    server: Server,
    _directory: tempfile::TempDir,
    is_over: Arc<AtomicBool>,
    other: Option<JoinHandle<Pauses>>,
    name: &'static str,
    began: Instant,
}

impl Besieged {
    fn start(name: &'static str, arguments: &[&str]) -> Besieged {
        let directory = tempfile::tempdir().unwrap();
        let server = start(directory.path(), arguments);
        let mut client = connect(&server);
        ask_ok(&mut client, "SET k v");
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let other = std::thread::spawn(move || {
            let mut pauses = Pauses::default();
            while !seen.load(Ordering::Relaxed) {
                let asked = Instant::now();
                assert_eq!(client.command(&["GET", "k"]).unwrap().text(), Some(&b"v"[..]));
                pauses.longest = pauses.longest.max(asked.elapsed());
                pauses.replies += 1;
                std::thread::sleep(GAP);
            }
            pauses
        });
        let began = Instant::now();
        Besieged { server, _directory: directory, is_over, other: Some(other), name, began }
    }

    fn client(&self) -> Client {
        connect(&self.server)
    }

    /// The server's resident memory now and at its highest, megabytes.
    fn resident_mb(&self) -> [u64; 2] {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        ["VmRSS:", "VmHWM:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
        })
    }

    /// The end: the other client has been answered all the time, and memory is bounded.
    fn end(mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let pauses = self.other.take().unwrap().join().unwrap();
        let [_, highest] = self.resident_mb();
        println!(
            "{}: {:?}; {} replies to GET, the longest after {:?}; {highest} MB at most",
            self.name,
            self.began.elapsed(),
            pauses.replies,
            pauses.longest
        );
        assert!(pauses.replies > 10 && pauses.longest < PAUSE_MAX);
        assert!(highest < RESIDENT_MAX_MB, "{highest} MB");
        assert!(!self.server.has_exited(), "{}", self.server.log());
    }
}

/// Sends a request whose answer, of any kind, comes in time.
fn answer<A: AsRef<[u8]>>(client: &mut Client, words: &[A]) -> Reply {
    let asked = Instant::now();
    let reply = client.command(words).unwrap();
    let shown = || {
        let shown = words.iter().map(|word| {
            let word = word.as_ref();
            String::from_utf8_lossy(word.get(..40).unwrap_or(word)).into_owned()
        });
        shown.collect::<Vec<_>>().join(" ").chars().take(200).collect::<String>()
    };
    let took = asked.elapsed();
    if took > Duration::from_millis(300) {
        println!("  {took:?} for {} words: {}", words.len(), shown());
    }
    assert!(took < ANSWER_MAX, "{took:?} for {}", shown());
    reply
}

/// As [`answer`]: an error's text.
fn refusal<A: AsRef<[u8]>>(client: &mut Client, words: &[A]) -> String {
    match answer(client, words) {
        Reply::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("no error: {}", format!("{other:?}").chars().take(200).collect::<String>()),
    }
}

/// Commands that take a query, before and after it.
const OF_QUERY: &[(&[&str], &[&str])] = &[
    (&["FT.SEARCH", "i"], &["DIALECT", "2"]),
    (&["FT.SEARCH", "i"], &["DIALECT", "1", "TIMEOUT", "0"]),
    (&["FT.AGGREGATE", "i"], &["DIALECT", "3"]),
    (&["FT.EXPLAIN", "i"], &["DIALECT", "2"]),
    (&["FT.PROFILE", "i", "SEARCH", "QUERY"], &["DIALECT", "2"]),
    (&["FT.SPELLCHECK", "i"], &[]),
];

#[test]
fn long_and_deep_queries_are_refused() {
    let besieged = Besieged::start("long and deep queries", &[]);
    let mut client = besieged.client();
    ask_ok(
        &mut client,
        "FT.CREATE i SCHEMA t TEXT n NUMERIC g TAG v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2",
    );
    ask_ok(&mut client, "HSET d t b n 1 g a");
    let (many, deep) = (1_000_000, 100_000);
    let tags = format!("@g:{{{}a}}", "a|".repeat(many));
    let long =
        ["b ".repeat(many), "b|".repeat(many) + "b", "-b ".repeat(many), tags, "@n:[0 1] ".repeat(many / 4)];
    let nested = [
        "(".repeat(deep) + "b" + &")".repeat(deep),
        "(b ".repeat(deep) + &")".repeat(deep),
        "(b|".repeat(deep) + "b" + &")".repeat(deep),
        "-(".repeat(deep) + "b" + &")".repeat(deep),
        "~(".repeat(deep) + "b" + &")".repeat(deep),
        "@t:(".repeat(deep) + "b" + &")".repeat(deep),
        "(b)=>{$weight:1;}=>{$weight:1;}".repeat(2 * deep),
        "(".repeat(deep),
    ];
    for (place, query) in long.iter().chain(&nested).enumerate() {
        // Each query by two commands, each command with some of all kinds.
        for (before, after) in OF_QUERY.iter().cycle().skip(2 * place).take(2) {
            let words = [before, &[query.as_str()][..], after].concat();
            // Dialect 1 ends some queries early: the rest is an ordinary query.
            let reply = answer(&mut client, &words);
            let is_lenient = after.first() != Some(&"DIALECT") || after.get(1) == Some(&"1");
            assert!(is_lenient || reply.is_error(), "{before:?} {}", &query[..20]);
        }
    }
    // The same of expressions.
    let expressions = [
        "(".repeat(deep) + "1" + &")".repeat(deep),
        "!".repeat(deep) + "1",
        "-".repeat(deep) + "1",
        "1+".repeat(deep) + "1",
        "2^".repeat(deep) + "1",
        "1&&".repeat(deep) + "1",
        "lower(".repeat(deep) + "@t" + &")".repeat(deep),
        "case(1,".repeat(deep) + "1" + &",2)".repeat(deep),
    ];
    for expression in &expressions {
        for words in [
            ["FT.AGGREGATE", "i", "*", "APPLY", expression, "AS", "x"].as_slice(),
            &["FT.AGGREGATE", "i", "*", "FILTER", expression],
            &["FT.CREATE", "j", "FILTER", expression, "SCHEMA", "t", "TEXT"],
        ] {
            answer(&mut client, words);
        }
        answer(&mut client, &["FT.DROPINDEX", "j"]);
    }
    let names: Vec<String> = (0..200_000).map(|number| format!("f{number}")).collect();
    let mut schema = vec!["FT.CREATE", "wide", "SCHEMA"];
    names.iter().for_each(|name| schema.extend([name.as_str(), "TEXT"]));
    refusal(&mut client, &schema);
    let mut params = vec!["FT.SEARCH", "i", "*", "PARAMS", "400000"];
    names.iter().for_each(|name| params.extend([name.as_str(), "1"]));
    params.extend(["DIALECT", "2"]);
    answer(&mut client, &params);
    for (before, text) in [
        (&["FT.SEARCH", "i", "*", "RETURN"][..], "RETURN is limited to 1024 fields"),
        (&["FT.SEARCH", "i", "*", "SUMMARIZE", "FIELDS"], "RETURN is limited to 1024 fields"),
        (&["FT.AGGREGATE", "i", "*", "LOAD"], "LOAD is limited to 1024 fields"),
    ] {
        let with = |count: usize| {
            let number = count.to_string();
            let named = names[..count].iter().map(String::as_str);
            before.iter().copied().chain([&*number]).chain(named).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(refusal(&mut client, &with(names.len())), text);
        // SUMMARIZE wants fields of the schema.
        let is_read = !before.contains(&"SUMMARIZE");
        assert_eq!(answer(&mut client, &with(1024)).is_error(), !is_read, "{before:?}");
    }
    assert_eq!(ask(&mut client, "FT.SEARCH i b NOCONTENT").items().map(<[Reply]>::len), Some(2));
    besieged.end();
}

/// Texts of unlike words, so that an index has many terms.
fn fill_terms(client: &mut Client, documents: usize, words: usize) {
    for document in 0..documents {
        let text = (0..words)
            .map(|word| format!("x{:x}a{:05}", (document * words + word) % 4096, document * words + word));
        let text = text.collect::<Vec<_>>().join(" ");
        client.send(&["HSET", &format!("d:{document}"), "t", &text, "n", &document.to_string()]).unwrap();
        if document % 500 == 499 {
            (0..500).for_each(|_| assert!(!client.read_reply().unwrap().is_error()));
        }
    }
}

#[test]
fn patterns_over_many_terms_end_in_time() {
    let besieged = Besieged::start("patterns over 50,000 terms", &[]);
    let mut client = besieged.client();
    ask_ok(&mut client, "CONFIG SET search-max-prefix-expansions 1000000 search-min-prefix 1");
    ask_ok(&mut client, "FT.CREATE i PREFIX 1 d: SCHEMA t TEXT NOSTEM n NUMERIC");
    fill_terms(&mut client, 2_500, 20);
    let patterns = [
        "*a*",
        "*0*",
        "x*",
        "*1",
        "%%%x%%%",
        "%%%x12a0012%%%",
        "%%%aaaaaaaaaaaaaaaaaaaa%%%",
        "w'*?*'",
        "w'*0*1*2*'",
        "w'?*?*?*?*?*z'",
        "-*a*",
        "(*a*|*0*|*1*) -*9*",
        "*a* *0* *1* *2* *3*",
        "%%%x%%% | %%%y%%% | w'*a*'",
    ];
    for on_timeout in ["return", "fail"] {
        ask_ok(&mut client, &format!("CONFIG SET search-on-timeout {on_timeout} search-timeout 20"));
        for pattern in patterns {
            for words in [
                ["FT.SEARCH", "i", pattern, "NOCONTENT", "DIALECT", "2"].as_slice(),
                &["FT.AGGREGATE", "i", pattern, "GROUPBY", "1", "@n", "DIALECT", "2"],
                &[
                    "FT.SEARCH",
                    "i",
                    pattern,
                    "SORTBY",
                    "n",
                    "LIMIT",
                    "0",
                    "100000",
                    "NOCONTENT",
                    "DIALECT",
                    "2",
                    "TIMEOUT",
                    "1",
                ],
            ] {
                let reply = answer(&mut client, words);
                match &reply {
                    Reply::Error(text) => {
                        assert_eq!(on_timeout, "fail", "{pattern}: {reply:?}");
                        assert!(text.starts_with(b"Timeout limit was reached"), "{pattern}: {reply:?}");
                    }
                    _ => {
                        assert!(reply.items().is_some_and(|items| items[0].integer().is_some()), "{pattern}")
                    }
                }
            }
        }
    }
    // The values hold: a timeout is possible at all, and without one all terms are found.
    ask_ok(&mut client, "CONFIG SET search-timeout 1");
    let words = ["FT.SEARCH", "i", "w'*?*'", "DIALECT", "2", "NOCONTENT", "LIMIT", "0", "0"];
    assert!(answer(&mut client, &words).is_error(), "50,000 terms in a millisecond");
    let whole = answer(&mut client, &[&words[..], &["TIMEOUT", "0"]].concat());
    assert_eq!(whole.items().and_then(|items| items[0].integer()), Some(2_500));
    besieged.end();
}

/// A figure of FT.INFO's cursor_stats.
fn cursors(client: &mut Client, figure: &str) -> i64 {
    let info = ask(client, "FT.INFO i");
    let value = |reply: &Reply, name: &str| {
        let (pairs, _) = reply.items().unwrap().as_chunks::<2>();
        pairs.iter().find(|[found, _]| found.text() == Some(name.as_bytes())).unwrap()[1].clone()
    };
    value(&value(&info, "cursor_stats"), figure).integer().unwrap()
}

#[test]
fn unread_cursors_are_bounded_and_expire() {
    let besieged = Besieged::start("cursors that are not read", &[]);
    let mut client = besieged.client();
    ask_ok(&mut client, "FT.CREATE i SCHEMA t TEXT n NUMERIC");
    for number in 0..200 {
        ask_ok(&mut client, &format!("HSET d{number} t {} n {number}", "x".repeat(1000)));
    }
    let open = ["FT.AGGREGATE", "i", "*", "LOAD", "*", "WITHCURSOR", "COUNT", "1", "MAXIDLE"];
    let mut opened = 0;
    let mut refused = String::new();
    for _ in 0..1_000 {
        match answer(&mut client, &[&open[..], &["400"]].concat()) {
            Reply::Error(text) => refused = String::from_utf8(text).unwrap(),
            _ => opened += 1,
        }
    }
    assert!(refused.contains("Too many cursors allocated"), "{refused}");
    assert!((128..1_000).contains(&opened), "{opened}");
    assert!(cursors(&mut client, "index_total") <= 128);
    until("cursors expire", || cursors(&mut client, "index_total") == 0);
    // A closed connection leaves its cursors, which expire as well.
    for _ in 0..50 {
        assert!(!answer(&mut besieged.client(), &[&open[..], &["300"]].concat()).is_error());
    }
    until("cursors of closed connections expire", || cursors(&mut client, "global_total") == 0);
    besieged.end();
}

#[test]
fn long_pipelines_and_growing_texts_are_bounded() {
    let besieged = Besieged::start("pipelines", &[]);
    let mut client = besieged.client();
    ask_ok(&mut client, "FT.CREATE i SCHEMA t TEXT n NUMERIC");
    for number in 0..100 {
        ask_ok(&mut client, &format!("HSET d{number} t {} n {number}", "x".repeat(100)));
    }
    for on_timeout in ["return", "fail"] {
        ask_ok(&mut client, &format!("CONFIG SET search-on-timeout {on_timeout}"));
        for expression in [
            "@n+1",
            "format(\"%s%s\", @n, @n)",
            "format(\"%s%s%s%s%s%s%s%s\", @n, @n, @n, @n, @n, @n, @n, @n)",
            "upper(@n)",
            "split(format(\"%s,%s\", @n, @n))",
            "to_str(@n)",
            "log(@n)*exp(@n)",
        ] {
            let chain = |steps: usize| {
                let mut words = vec!["FT.AGGREGATE", "i", "*", "LOAD", "1", "@n"];
                (0..steps).for_each(|_| words.extend(["APPLY", expression, "AS", "n"]));
                [&words[..], &["TIMEOUT", "1000"]].concat()
            };
            assert_eq!(refusal(&mut client, &chain(5_000)), "FT.AGGREGATE is limited to 1000 steps");
            let reply = answer(&mut client, &chain(990));
            if expression == "@n+1" {
                // The order of rows is the documents', and `n` is the first and only property.
                let row = reply.items().and_then(|items| items.get(1)?.items());
                assert_eq!(row.and_then(|row| row[1].text()), Some(&b"990"[..]), "{reply:?}");
            }
        }
        let mut names: Vec<String> = (0..990).map(|number| format!("c{number}")).collect();
        names.insert(0, "n".into());
        let steps: Vec<String> = names.iter().map(|name| format!("@{name}+1")).collect();
        let mut words = vec!["FT.AGGREGATE", "i", "*", "LOAD", "1", "@n"];
        for (step, name) in steps.iter().zip(&names[1..]) {
            words.extend(["APPLY", step, "AS", name]);
        }
        let reply = answer(&mut client, &words);
        let row = reply.items().and_then(|items| items.get(1)?.items());
        assert_eq!(row.map(<[Reply]>::len), Some(2 * names.len()));
        let mut grouped = vec!["FT.AGGREGATE", "i", "*"];
        (0..5_000).for_each(|_| grouped.extend(["GROUPBY", "0", "REDUCE", "COUNT", "0", "AS", "n"]));
        assert_eq!(refusal(&mut client, &grouped), "FT.AGGREGATE is limited to 1000 steps");
    }
    assert_eq!(ask(&mut client, "FT.SEARCH i * LIMIT 0 0").items().map(<[Reply]>::len), Some(1));
    besieged.end();
}

#[test]
fn vectors_of_the_wrong_size_are_refused() {
    let besieged = Besieged::start("vectors", &[]);
    let mut client = besieged.client();
    for (index, algorithm, kind) in
        [("i", "HNSW", "FLOAT32"), ("f", "FLAT", "FLOAT64"), ("b", "HNSW", "BFLOAT16")]
    {
        let line = format!(
            "FT.CREATE {index} PREFIX 1 {index}: SCHEMA v VECTOR {algorithm} 6 TYPE {kind} DIM 4 DISTANCE_METRIC COSINE"
        );
        ask_ok(&mut client, &line);
    }
    ask_ok(
        &mut client,
        "FT.CREATE j ON JSON PREFIX 1 j: SCHEMA $.v AS v VECTOR HNSW 6 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2",
    );
    let nan: Vec<u8> = [f32::NAN, f32::INFINITY, -f32::MAX, f32::MIN_POSITIVE]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let mut wrong = 0;
    for (number, bytes) in [0, 1, 3, 15, 17, 31, 33, 4096, 4 << 20].into_iter().enumerate() {
        for index in ["i", "f", "b"] {
            let value = vec![0x3f; bytes];
            let key = format!("{index}:{number}");
            assert!(!answer(&mut client, &[&b"HSET"[..], key.as_bytes(), b"v", &value]).is_error());
            let query = [
                &b"FT.SEARCH"[..],
                index.as_bytes(),
                b"*=>[KNN 3 @v $q]",
                b"PARAMS",
                b"2",
                b"q",
                &value,
                b"DIALECT",
                b"2",
            ];
            let said = refusal(&mut client, &query);
            assert!(said.contains("does not match index's expected size"), "{said}");
        }
        wrong += 1;
    }
    for (number, text) in [
        "[]",
        "[1]",
        "[1,2,3,4,5]",
        "[1,2,3,\"4\"]",
        "[[1,2,3,4],[1]]",
        "\"x\"",
        "{}",
        "[1e400,2,3,4]",
        "null",
    ]
    .iter()
    .enumerate()
    {
        answer(&mut client, &["JSON.SET", &format!("j:{number}"), "$", &format!("{{\"v\":{text}}}")]);
    }
    assert!(!answer(&mut client, &[&b"HSET"[..], b"i:nan", b"v", &nan]).is_error());
    for query in [
        "*=>[KNN 1000000000000000000 @v $q]",
        "*=>[KNN 0 @v $q]",
        "*=>[KNN -1 @v $q]",
        "*=>[KNN 3 @v $q EF_RUNTIME 1000000000]",
        "@v:[VECTOR_RANGE nan $q]",
        "@v:[VECTOR_RANGE 1e300 $q]",
        "@v:[VECTOR_RANGE -1 $q]",
    ] {
        for vector in [nan.as_slice(), &[0; 16], &[0xff; 16]] {
            answer(
                &mut client,
                &[&b"FT.SEARCH"[..], b"i", query.as_bytes(), b"PARAMS", b"2", b"q", vector, b"DIALECT", b"2"],
            );
        }
    }
    for line in [
        "FT.CREATE huge SCHEMA v VECTOR HNSW 6 TYPE FLOAT32 DIM 1000000000000 DISTANCE_METRIC L2",
        "FT.CREATE huge SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 M 1000000000000",
        "FT.CREATE huge SCHEMA v VECTOR FLAT 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 INITIAL_CAP 1000000000000",
        "FT.CREATE huge SCHEMA v VECTOR FLAT 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 BLOCK_SIZE 1000000000000",
    ] {
        answer(&mut client, &line.split(' ').collect::<Vec<_>>());
    }
    // No document of the wrong size is in the index.
    let found = ask(&mut client, "FT.SEARCH f * LIMIT 0 0");
    assert_eq!(found.items().and_then(|items| items[0].integer()), Some(0), "of {wrong}");
    besieged.end();
}

#[test]
fn very_many_indexes_are_made_used_and_dropped() {
    let wanted = std::env::var("MARTLET_SEARCH_INDEXES").ok().and_then(|count| count.parse().ok());
    let wanted: usize = wanted.unwrap_or(10_000);
    let count = wanted.min(INDEXES_MAX);
    let besieged = Besieged::start("indexes", &[]);
    let mut client = besieged.client();
    let [before, _] = besieged.resident_mb();
    let pipelined = |client: &mut Client, what: &str, request: &dyn Fn(usize) -> Vec<String>| {
        let began = Instant::now();
        for first in (0..count).step_by(500) {
            let batch = first..(first + 500).min(count);
            batch.clone().for_each(|number| client.send(&request(number)).unwrap());
            batch.for_each(|number| {
                let reply = client.read_reply().unwrap();
                assert!(!reply.is_error(), "{what} {number}: {reply:?}");
            });
        }
        println!("  {what}: {:?}", began.elapsed());
    };
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    pipelined(&mut client, "creating", &|number| {
        words(format!("FT.CREATE i{number} PREFIX 1 p{number}: SCHEMA t TEXT n NUMERIC SORTABLE g TAG"))
    });
    if wanted > count {
        let said = refusal(&mut client, &["FT.CREATE", "more", "SCHEMA", "t", "TEXT"]);
        assert_eq!(said, format!("The server has {INDEXES_MAX} indexes already"));
    }
    let [made, _] = besieged.resident_mb();
    println!("  {} MB for {count} indexes", made.saturating_sub(before));
    pipelined(&mut client, "a document for each", &|number| {
        words(format!("HSET p{number}:d t hello n {number} g x"))
    });
    let [filled, _] = besieged.resident_mb();
    println!("  {} MB with a document for each", filled.saturating_sub(before));
    assert_eq!(answer(&mut client, &["FT._LIST"]).items().map(<[Reply]>::len), Some(count));
    for number in [0, count / 2, count - 1] {
        let found = answer(&mut client, &["FT.SEARCH", &format!("i{number}"), "hello", "NOCONTENT"]);
        assert_eq!(found.items().and_then(|items| items[1].text()), Some(format!("p{number}:d").as_bytes()));
    }
    pipelined(&mut client, "dropping", &|number| words(format!("FT.DROPINDEX i{number} DD")));
    assert_eq!(ask(&mut client, "DBSIZE").integer(), Some(1));
    // As many over the same keys: each write is a write to all of them.
    let same = (count / 20).min(1_000);
    for number in 0..same {
        ask_ok(&mut client, &format!("FT.CREATE s{number} PREFIX 1 s: SCHEMA t TEXT"));
    }
    for number in 0..10 {
        assert!(!answer(&mut client, &["HSET", &format!("s:{number}"), "t", "hello"]).is_error());
    }
    answer(&mut client, &["FT.DROPINDEX", "s0", "DD"]);
    besieged.end();
}
