//! Metrics and the page about the server, over HTTP as a scraper and a browser send it.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};
use martlet_testkit::wait::until;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// More connections than there may be at once.
const CONNECTIONS: usize = 200;

/// A server with its metrics' address.
struct Watched {
    server: Server,
    port: ReservedPort,
}

impl Watched {
    fn start(arguments: &[&str]) -> Watched {
        let port = ReservedPort::take().unwrap();
        let number = port.number().to_string();
        let arguments = [&["server", "--metrics-port", &number], arguments].concat();
        Watched { server: Server::start(Path::new(OURS), &arguments).unwrap(), port }
    }

    fn client(&self) -> Client {
        Client::connect(self.server.address()).unwrap()
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port.number()).into()
    }

    fn get(&self, path: &str) -> Response {
        ask(self.address(), &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    fn json(&self, path: &str) -> Value {
        let response = self.get(path);
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        serde_json::from_str(&response.body).unwrap()
    }

    fn post(&self, head: &str, body: &str) -> Response {
        let length = body.len();
        let head = format!(
            "POST /api/command HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{head}\r\n"
        );
        ask(self.address(), &(head + body))
    }
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

fn ask(address: SocketAddr, request: &str) -> Response {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.into(), body: body.into() }
}

/// Samples by name and labels, read as strictly as a scraper reads them: every one follows its family's kind,
/// every family is there once.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut families) = (BTreeMap::new(), Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "summary", "histogram"].contains(&kind), "{line}");
            assert!(!families.iter().any(|(other, _)| *other == name), "{name} twice");
            families.push((name, kind));
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        let name = sample.split('{').next().unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
        let (family, kind) = families.last().unwrap();
        let suffixes: &[&str] = match *kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            "summary" => &["", "_sum", "_count"],
            _ => &[""],
        };
        assert!(suffixes.iter().any(|suffix| name == format!("{family}{suffix}")), "{line} in {family}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(samples.insert(sample.to_owned(), value).is_none(), "{sample} twice");
    }
    samples
}

/// Prometheus' own reader finds no fault; its remarks on style are named in docs/metrics.md, and no more.
#[test]
fn promtool_complains_of_redis_exporters_names_alone() {
    if !is_installed("promtool") {
        return;
    }
    let watched = Watched::start(&["--enable-debug-command", "yes"]);
    let mut client = watched.client();
    for request in
        ["DEBUG POPULATE 100", "LPUSH list a", "SET k v EX 100", "XADD s * f v", "INCR list", "SAVE"]
    {
        client.command(&request.split(' ').collect::<Vec<_>>()).unwrap();
    }
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(watched.get("/metrics").body.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let page = include_str!("../../../docs/metrics.md");
    let excused = page.split("promtool").nth(1).unwrap().split("\n\n").next().unwrap();
    let named: BTreeSet<String> =
        said.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let listed: BTreeSet<String> =
        excused.split('`').skip(1).step_by(2).map(|name| format!("redis_{name}")).collect();
    assert_eq!(named, listed, "{said}");
}

#[test]
fn a_scraper_finds_what_the_server_has_done() {
    let watched = Watched::start(&[]);
    let mut client = watched.client();
    for key in ["a", "b", "c"] {
        client.command(&["SET", key, "1", "EX", "1000"]).unwrap();
    }
    assert!(client.command(&["INCR", "a", "b"]).unwrap().is_error());
    let first = watched.get("/metrics");
    assert!(
        first.head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4"),
        "{}",
        first.head
    );
    let first = parse(&first.body);
    assert_eq!(first["redis_up"], 1.0);
    assert_eq!(first["redis_exporter_last_scrape_error{err=\"\"}"], 0.0);
    assert_eq!(first["redis_commands_total{cmd=\"set\"}"], 3.0);
    assert_eq!(first["redis_commands_rejected_calls_total{cmd=\"incr\"}"], 1.0);
    assert_eq!(first["redis_commands_latencies_usec_count{cmd=\"set\"}"], 3.0);
    assert_eq!(first["redis_db_keys{db=\"db0\"}"], 3.0);
    assert_eq!(first["redis_db_keys_expiring{db=\"db0\"}"], 3.0);
    assert_eq!(first["redis_errors_total{err=\"ERR\"}"], 1.0);
    assert!(first["redis_memory_used_bytes"] > 0.0 && first["redis_config_maxclients"] == 10_000.0);
    for name in ["shard_lock_waits_total", "gate_wait_usec_total", "active_time_main_thread_seconds_total"] {
        assert!(first.contains_key(&format!("redis_{name}")), "{name}");
    }
    assert!(first.contains_key("redis_io_thread_clients{thread=\"0\"}"));
    client.command(&["SET", "a", "2"]).unwrap();
    let second = parse(&watched.get("/metrics").body);
    assert_eq!(second["redis_commands_total{cmd=\"set\"}"], 4.0);
    // A scrape makes no error reply.
    assert_eq!(second["redis_errors_total{err=\"ERR\"}"], 1.0);
    assert_eq!(second["redis_total_error_replies"], first["redis_total_error_replies"]);
    assert!(second.contains_key("redis_latency_percentiles_usec{cmd=\"set\",quantile=\"99.9\"}"));
    assert!(!second.keys().any(|name| name.starts_with("redis_cluster_state")));
    // One connection to the server does for both.
    let received = "redis_connections_received_total";
    assert_eq!(first[received], second[received]);
}

#[test]
fn the_board_asks_for_nothing_that_is_not_served() {
    let watched = Watched::start(&["--appendonly", "yes"]);
    let mut client = watched.client();
    client.command(&["SET", "k", "v"]).unwrap();
    let primary = watched.server.address();
    let of = [&*primary.ip().to_string(), &*primary.port().to_string()].join(" ");
    let _replica = Server::start(Path::new(OURS), &["server", "--replicaof", &of]).unwrap();
    let board = include_str!("../../../packaging/grafana.json");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let wanted: BTreeSet<&str> =
        board.split(|c| !is_of_name(c)).filter(|word| word.starts_with("redis_")).collect();
    assert!(wanted.len() > 20, "{wanted:?}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let samples = parse(&watched.get("/metrics").body);
        let served: BTreeSet<&str> = samples.keys().filter_map(|sample| sample.split('{').next()).collect();
        let missing: Vec<_> = wanted.difference(&served).collect();
        if missing.is_empty() {
            break;
        }
        // The replica's row comes with it.
        assert!(Instant::now() < deadline, "{missing:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_asks_is_who_the_server_knows() {
    let watched = Watched::start(&[]);
    let mut client = watched.client();
    client.command(&["CONFIG", "SET", "requirepass", "secret"]).unwrap();
    let limited = ["ACL", "SETUSER", "alice", "on", ">pw", "~a*", "+@read", "+ping", "-info"];
    assert_eq!(client.command(&limited).unwrap().text(), Some(&b"OK"[..]));
    client.command(&["MSET", "a1", "x", "b1", "y"]).unwrap();
    let unknown = watched.get("/metrics");
    assert_eq!(unknown.status, 401, "{}", unknown.body);
    assert!(unknown.head.to_ascii_lowercase().contains("www-authenticate: basic"), "{}", unknown.head);
    let as_user = |path: &str, login: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\n\r\n");
        ask(watched.address(), &head)
    };
    // :secret, :wrong and alice:pw.
    let (default, wrong, alice) = ("OnNlY3JldA==", "Ondyb25n", "YWxpY2U6cHc=");
    assert_eq!(parse(&as_user("/metrics", default).body)["redis_up"], 1.0);
    assert_eq!(as_user("/", default).status, 200);
    assert_eq!(as_user("/metrics", wrong).status, 401);
    assert_eq!(as_user("/", "nothing").status, 400);
    let refused = parse(&as_user("/metrics", alice).body);
    assert_eq!(refused["redis_up"], 0.0);
    assert!(refused.keys().any(|name| name.contains("NOPERM")), "{refused:?}");
    // She may see her own keys, and no more of others than their names.
    assert_eq!(as_user("/", alice).status, 200);
    assert!(as_user("/api/key?id=YTE", alice).body.contains("\"text\":\"x\""));
    assert!(as_user("/api/key?id=YjE", alice).body.contains("NOPERM"));
    assert_eq!(as_user("/api/slowlog", alice).status, 422);
}

#[test]
fn indexes_are_shown_and_searched_as_their_user_may() {
    let watched = Watched::start(&[]);
    let mut client = watched.client();
    assert_eq!(watched.json("/api/indexes"), json!({ "total": 0, "indexes": [] }));
    for line in [
        "FT.CREATE books PREFIX 2 a b SCHEMA t TEXT n NUMERIC SORTABLE",
        "FT.CREATE other PREFIX 1 c SCHEMA t TEXT",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(!client.command(&words).unwrap().is_error(), "{line}");
    }
    // A scan that is under way may find the document that fails, too.
    until("the keys are scanned", || {
        let shown = watched.json("/api/indexes");
        shown["indexes"].as_array().unwrap().iter().all(|index| index["indexed"] == 1.0)
    });
    let failing = client.command(&["HSET", "b0", "t", "<script>x</script>", "n", "none"]).unwrap();
    assert!(!failing.is_error());
    for number in 0..120 {
        let (key, number) = (format!("a{number}"), number.to_string());
        client.send(&["HSET", &key, "t", "red <b>car</b>", "n", &number, "extra", "e"]).unwrap();
    }
    (0..120).for_each(|_| assert!(!client.read_reply().unwrap().is_error()));
    let shown = watched.json("/api/indexes");
    assert_eq!(shown["total"], 2);
    let books = &shown["indexes"][0];
    assert_eq!(
        (&books["name"], &books["id"], &books["type"]),
        (&json!("books"), &json!("Ym9va3M"), &json!("HASH"))
    );
    assert_eq!(books["prefixes"], json!(["a", "b"]));
    assert_eq!(books["fields"], json!(["t TEXT WEIGHT 1", "n NUMERIC SORTABLE UNF"]));
    assert_eq!([&books["documents"], &books["indexed"], &books["failures"]], [120.0, 1.0, 1.0]);
    assert!(books["bytes"].as_f64().unwrap() > 1000.0, "{books}");
    assert!(books["last_error"].as_str().unwrap().starts_with("Invalid numeric value"), "{books}");
    let find = |query: &str| format!("/api/search?index=Ym9va3M&query={query}");
    let page = watched.json(&find("car+%40n%3A%5B100+200%5D"));
    assert_eq!((&page["total"], &page["columns"]), (&json!(20), &json!(["t", "n", "extra"])));
    let row = &page["rows"][0];
    assert_eq!(
        (&row["cells"][0], row["cells"].as_array().map(Vec::len)),
        (&json!("red <b>car</b>"), Some(3))
    );
    let mut names = BTreeSet::new();
    for (offset, count) in [(0, 50), (50, 50), (100, 20), (150, 0)] {
        let page = watched.json(&find(&format!("red&offset={offset}")));
        let rows = page["rows"].as_array().unwrap();
        assert_eq!((rows.len(), &page["total"]), (count, &json!(120)), "{offset}");
        names.extend(rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()));
    }
    assert_eq!(names.len(), 120);
    // Refusals are the server's, in its words.
    for (path, why) in [
        (find("%40n%3A%5B1"), "Syntax error"),
        ("/api/search?index=bm9uZQ&query=x".to_owned(), "bm9uZQ"),
        ("/api/search?index=!&query=x".to_owned(), "base64"),
    ] {
        let refused = watched.get(&path);
        assert_eq!(refused.status, 422, "{path}: {}", refused.body);
        let error: Value = serde_json::from_str(&refused.body).unwrap();
        let words = match client.command(&["FT.SEARCH", "none", "x"]).unwrap() {
            Reply::Error(text) if why == "bm9uZQ" => String::from_utf8(text).unwrap(),
            _ => why.to_owned(),
        };
        assert!(error["error"].as_str().unwrap().contains(&words), "{error}");
    }
    let limited = ["ACL", "SETUSER", "alice", "on", ">pw", "~c*", "+@read", "+ping", "+ft._list"];
    assert_eq!(client.command(&limited).unwrap().text(), Some(&b"OK"[..]));
    let as_alice = |path: &str| {
        let login = "Authorization: Basic YWxpY2U6cHc=";
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{login}\r\n\r\n");
        ask(watched.address(), &head)
    };
    let refused = as_alice(&find("red"));
    assert!(refused.status == 422 && refused.body.contains("NOPERM"), "{}", refused.body);
    let seen: Value = serde_json::from_str(&as_alice("/api/indexes").body).unwrap();
    assert_eq!(seen["indexes"].as_array().map(Vec::len), Some(2));
    assert!(seen["indexes"][0]["error"].as_str().unwrap().contains("NOPERM"), "{seen}");
    assert_eq!(seen["indexes"][1]["documents"], 0.0);
    assert_eq!(watched.get("/api/search").status, 422, "no index");
    assert_eq!(watched.get(&find(&"x".repeat(100_000))).status, 431, "a long address");
}

#[test]
fn all_keys_are_found_a_page_at_a_time_and_each_type_is_shown() {
    let watched = Watched::start(&[]);
    let mut client = watched.client();
    for number in 0..1200 {
        client.send(&["SET", &format!("key:{number}"), "v"]).unwrap();
    }
    (0..1200).for_each(|_| assert!(!client.read_reply().unwrap().is_error()));
    let (mut cursor, mut names) = ("0".to_owned(), Vec::new());
    loop {
        let page = watched.json(&format!("/api/keys?cursor={cursor}&count=300&match=key%3A*"));
        names.extend(
            page["keys"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap().to_owned()),
        );
        assert!(page["keys"].as_array().unwrap().iter().all(|key| key["bytes"].as_u64().unwrap() > 0));
        cursor = page["cursor"].as_str().unwrap().to_owned();
        if cursor == "0" {
            break;
        }
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 1200);
    let makers: [&[&str]; 7] = [
        &["SET", "string", "text"],
        &["RPUSH", "list", "x", "y"],
        &["SADD", "set", "x"],
        &["ZADD", "zset", "1.5", "x"],
        &["HSET", "hash", "f", "v"],
        &["XADD", "stream", "1-1", "f", "v"],
        &["ARSET", "array", "3", "x"],
    ];
    for command in makers {
        assert!(!client.command(&["SELECT", "3"]).unwrap().is_error());
        assert!(!client.command(command).unwrap().is_error(), "{command:?}");
    }
    let mut shown = BTreeMap::new();
    for key in watched.json("/api/keys?db=3")["keys"].as_array().unwrap() {
        let id = key["id"].as_str().unwrap();
        let value = watched.json(&format!("/api/key?db=3&id={id}"));
        assert_eq!((&value["name"], &value["type"]), (&key["name"], &key["type"]));
        assert!(value["encoding"].is_string() && value["ttl"] == -1 && value["length"].as_u64().unwrap() > 0);
        let beginning = value.get("rows").unwrap_or(&value["text"]);
        shown.insert(key["type"].as_str().unwrap().to_owned(), beginning.to_string());
    }
    let expected = [
        ("array", r#"[[3,"x"]]"#),
        ("hash", r#"[["f","v"]]"#),
        ("list", r#"[["x"],["y"]]"#),
        ("set", r#"[["x"]]"#),
        ("stream", r#"[["1-1",["f","v"]]]"#),
        ("string", r#""text""#),
        ("zset", r#"[["x","1.5"]]"#),
    ];
    assert_eq!(shown, expected.map(|(kind, value)| (kind.into(), value.into())).into());
    show_module_types(&watched, &mut client);
    assert_eq!(watched.json("/api/key?db=3&id=bm9uZQ")["type"], "none");
    assert_eq!(watched.get("/api/keys?db=99").status, 422);
    assert_eq!(watched.get("/api/key?id=%21").status, 422);
}

/// The page finds values of Redis 8's types and shows what is in them, or facts about them.
fn show_module_types(watched: &Watched, client: &mut Client) {
    for line in [
        "SELECT 5",
        "JSON.SET document $ {\"a\":[1,null]}",
        "BF.RESERVE bloom 0.01 100",
        "CF.RESERVE cuckoo 100",
        "CMS.INITBYDIM counts 10 2",
        "TOPK.RESERVE top 3",
        "TDIGEST.CREATE digest",
        "TS.ADD series 5 1.5",
        "VADD vectors VALUES 2 1 2 e",
    ] {
        let reply = client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
        assert!(!reply.is_error(), "{line}: {reply:?}");
    }
    let mut shown = BTreeMap::new();
    for key in watched.json("/api/keys?db=5")["keys"].as_array().unwrap() {
        let value = watched.json(&format!("/api/key?db=5&id={}", key["id"].as_str().unwrap()));
        assert!(key["bytes"].as_u64() > Some(0) && value["type"] == key["type"], "{value}");
        let beginning = value.get("rows").map_or(&value["text"], |rows| &rows[0]);
        shown.insert(value["type"].as_str().unwrap().to_owned(), beginning.to_string());
        let of_type = watched.json(&format!("/api/keys?db=5&type={}", key["type"].as_str().unwrap()));
        assert_eq!(of_type["keys"], serde_json::json!([key]));
    }
    let expected = [
        ("CMSk-TYPE", r#"["width",10]"#),
        ("MBbloom--", r#"["Capacity",100]"#),
        ("MBbloomCF", r#"["Size",184]"#),
        ("ReJSON-RL", r#""{\n  \"a\": [\n    1,\n    null\n  ]\n}""#),
        ("TDIS-TYPE", r#"["Compression",100]"#),
        ("TSDB-TYPE", r#"[5,"1.5"]"#),
        ("TopK-TYPE", r#"["k",3]"#),
        ("vectorset", r#"["e"]"#),
    ];
    assert_eq!(shown, expected.map(|(kind, value)| (kind.into(), value.into())).into());
}

/// A name is found however many keys there are; binary names are shown as redis-cli shows them, and found so.
#[test]
fn a_key_is_found_by_its_name() {
    let watched = Watched::start(&["--enable-debug-command", "yes"]);
    let mut client = watched.client();
    let binary: &[u8] = b"bin\xff\x00";
    for request in [
        vec![&b"DEBUG"[..], b"POPULATE", b"20000"],
        vec![b"SET", b"session:1", b"x"],
        vec![b"SET", b"a*b", b"x"],
        vec![b"HSET", binary, b"f\xfe", b"v"],
    ] {
        assert!(!client.command(&request).unwrap().is_error());
    }
    let found = |query: &str| {
        let page = watched.json(&format!("/api/keys?{query}"));
        assert_eq!(page["cursor"], "0", "{query}");
        let names = page["keys"].as_array().unwrap().iter();
        names.map(|key| key["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("match=session:1"), ["session:1"]);
    assert_eq!(found("match=session:1&type=string"), ["session:1"]);
    assert_eq!(found("match=session:1&type=hash"), [] as [&str; 0]);
    assert_eq!(found("match=session:2"), [] as [&str; 0]);
    assert_eq!(found("match=a%5C*b"), ["a*b"]);
    let shown = r#""bin\xff\x00""#;
    assert_eq!(found("match=%22bin%5Cxff%5Cx00%22"), [shown]);
    let key = watched.json("/api/key?id=Ymlu_wA");
    assert_eq!(
        (key["name"].as_str(), key["columns"].to_string()),
        (Some(shown), r#"["field","value"]"#.into())
    );
    assert_eq!(key["rows"].to_string(), r#"[["\"f\\xfe\"","v"]]"#);
    let page = watched.get("/").body;
    assert!(
        page.contains(r#"["string","list","set","hash","zset","stream","array","pathhash","ReJSON-RL","#)
            && !page.contains("{{")
    );
}

#[test]
fn commands_are_refused_unless_allowed_and_sent_by_the_page() {
    let watched = Watched::start(&[]);
    let body = r#"{"db": 0, "command": ["SET", {"id": "a2V5"}, "value"]}"#;
    assert_eq!(watched.post("", body).status, 403);
    let refused = watched.post("x-martlet: page\r\n", body);
    assert_eq!((refused.status, refused.body.contains("metrics-allow-writes")), (403, true));
    let mut client = watched.client();
    assert_eq!(
        client.command(&["CONFIG", "SET", "metrics-allow-writes", "yes"]).unwrap().text(),
        Some(&b"OK"[..])
    );
    assert_eq!(watched.post("", body).status, 403);
    let allowed = watched.post("x-martlet: page\r\n", body);
    assert_eq!((allowed.status, allowed.body.as_str()), (200, r#"{"reply":"OK"}"#));
    assert_eq!(client.command(&["GET", "key"]).unwrap().text(), Some(&b"value"[..]));
    for wrong in ["", "[]", r#"{"command": []}"#, r#"{"command": [1]}"#, r#"{"command": ["GET"]}"#] {
        assert_eq!(watched.post("x-martlet: page\r\n", wrong).status, 422, "{wrong}");
    }
    let long = format!("{{\"command\": [\"SET\", \"key\", \"{}\"]}}", "x".repeat(70_000));
    assert_eq!(watched.post("x-martlet: page\r\n", &long).status, 413);
}

#[test]
fn bad_requests_cost_their_senders_only() {
    let watched = Watched::start(&[]);
    let ask_raw = |request: &str| ask(watched.address(), request);
    assert_eq!(ask_raw("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 421);
    assert_eq!(ask_raw("GET /nothing HTTP/1.1\r\nHost: [::1]:1\r\n\r\n").status, 404);
    assert_eq!(ask_raw("PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405);
    assert_eq!(ask_raw("nonsense\r\n\r\n").status, 400);
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000));
    assert!([400, 414, 431].contains(&ask_raw(&long).status));
}

/// Peers that say nothing, half a head, half a body, or read no answer: an honest one is answered meanwhile,
/// long before their time is up.
#[test]
fn peers_that_are_slow_keep_nobody_waiting() {
    let watched = Watched::start(&[]);
    for beginning in [
        "",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Half: ",
        "POST /api/command HTTP/1.1\r\nHost: localhost\r\nx-martlet: page\r\nContent-Length: 100\r\n\r\n{",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let mut slow: Vec<TcpStream> = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(watched.address()).unwrap();
            stream.write_all(beginning.as_bytes()).unwrap();
            slow.push(stream);
        }
        for _ in 0..5 {
            // A byte more of each, of those that are still there: it keeps none of them.
            slow.iter_mut().for_each(|stream| drop(stream.write_all(b"x")));
            let began = Instant::now();
            assert_eq!(parse(&watched.get("/metrics").body)["redis_up"], 1.0);
            assert!(began.elapsed() < Duration::from_secs(4), "{beginning:?}: {:?}", began.elapsed());
        }
    }
}

/// `martlet metrics` in front of another server.
struct Exporter {
    child: Child,
    address: SocketAddr,
}

impl Exporter {
    fn start(server: &str) -> Exporter {
        let mut child = Command::new(OURS)
            .args(["metrics", "--listen", "127.0.0.1:0", "--server", server])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("Serving http://").and_then(|rest| rest.split('/').next());
        Exporter { child, address: address.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap() }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn other_servers_are_shown_too() {
    let ours = Server::start(Path::new(OURS), &["server"]).unwrap();
    let mut client = Client::connect(ours.address()).unwrap();
    client.command(&["CONFIG", "SET", "requirepass", "secret"]).unwrap();
    let mut servers = vec![(ours, ":secret@")];
    if is_installed("redis-server") {
        servers.push((Server::start(Path::new("redis-server"), &[] as &[&str]).unwrap(), ""));
    }
    for (server, login) in &servers {
        let exporter = Exporter::start(&format!("redis://{login}{}", server.address()));
        let get =
            |path: &str| ask(exporter.address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let samples = parse(&get("/metrics").body);
        assert_eq!(samples["redis_up"], 1.0);
        assert!(samples["redis_memory_used_bytes"] > 0.0 && samples["redis_connected_clients"] >= 1.0);
        // What this server does not know, or refuses, is not asked at each scrape.
        let errors = |samples: &BTreeMap<String, f64>| samples["redis_total_error_replies"];
        assert_eq!(errors(&parse(&get("/metrics").body)), errors(&parse(&get("/metrics").body)));
        let live: Value = serde_json::from_str(&get("/api/live").body).unwrap();
        assert!(live["info"]["server"]["redis_version"].is_string() && live["latency"].is_array());
        assert!(get("/").body.contains("<title>Martlet</title>"));
    }
    let nobody = ReservedPort::take().unwrap();
    let exporter = Exporter::start(&format!("redis://127.0.0.1:{}", nobody.number()));
    let response = ask(exporter.address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((response.status, parse(&response.body)["redis_up"]), (200, 0.0));
}
