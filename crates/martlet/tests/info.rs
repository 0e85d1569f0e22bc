//! INFO's figures on the threads and their loops.

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;
use std::path::Path;

const BACKENDS: [&str; 2] = ["auto", "epoll"];

fn start(arguments: &[&str]) -> Server {
    let arguments = [&["server", "--enable-debug-command", "yes"], arguments].concat();
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap()
}

fn info(client: &mut Client, section: &str) -> String {
    let reply = client.command(&["INFO", section]).unwrap();
    String::from_utf8_lossy(reply.text().unwrap()).into_owned()
}

/// A field of INFO.
fn field(client: &mut Client, section: &str, name: &str) -> u64 {
    let text = info(client, section);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Sends requests in one piece and reads a reply to each.
fn pipeline(client: &mut Client, requests: &[&[&str]]) {
    use std::io::Write;
    let mut bytes = Vec::new();
    for request in requests {
        write!(bytes, "*{}\r\n", request.len()).unwrap();
        request.iter().for_each(|word| write!(bytes, "${}\r\n{word}\r\n", word.len()).unwrap());
    }
    client.stream().write_all(&bytes).unwrap();
    requests.iter().for_each(|_| assert!(!client.read_reply().unwrap().is_error()));
}

#[test]
fn a_request_counts_once_in_the_time_of_its_loop() {
    for backend in BACKENDS {
        let server = start(&["--io-threads", "1", "--io-backend", backend]);
        let mut client = Client::connect(server.address()).unwrap();
        let count: &[&str] = &["BITCOUNT", "long"];
        pipeline(&mut client, &[&["SETRANGE", "long", "4194304", "x"], count]);
        pipeline(&mut client, &[&["MULTI"], count, count, count, count, count, count, &["EXEC"]]);
        let commands_us = field(&mut client, "stats", "eventloop_duration_cmd_sum");
        let longest_us = field(&mut client, "debug", "eventloop_duration_max");
        // Last, since each question takes a loop.
        let loops_us = field(&mut client, "stats", "eventloop_duration_sum");
        assert!(0 < commands_us && commands_us <= loops_us, "{backend}: {commands_us} {loops_us}");
        assert!(longest_us <= loops_us, "{backend}: {longest_us} {loops_us}");
        // MULTI, EXEC and its commands; queued ones have not run.
        assert_eq!(field(&mut client, "debug", "eventloop_cmd_per_cycle_max"), 2 + 6, "{backend}");
        let loops = field(&mut client, "stats", "eventloop_cycles");
        assert!(field(&mut client, "stats", "eventloop_cycles") > loops, "{backend}");
    }
}

#[test]
fn the_debug_section_is_shown_by_its_name_only() {
    let server = start(&[]);
    let mut client = Client::connect(server.address()).unwrap();
    for section in ["default", "all", "everything"] {
        assert!(!info(&mut client, section).contains("# Debug"), "{section}");
    }
    assert!(info(&mut client, "debug").starts_with("# Debug\r\n"));
}

#[test]
fn every_thread_tells_of_its_connections() {
    let server = start(&["--io-threads", "2"]);
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(server.address()).unwrap()).collect();
    clients.iter_mut().for_each(|client| assert!(!client.command(&["PING"]).unwrap().is_error()));
    let text = info(&mut clients[0], "threads");
    let threads: Vec<&str> = text.lines().filter(|line| line.starts_with("io_thread_")).collect();
    assert_eq!(threads.len(), 2, "{text}");
    for (number, line) in threads.iter().enumerate() {
        assert!(line.starts_with(&format!("io_thread_{number}:clients=3,reads=")), "{text}");
    }
    assert!(field(&mut clients[0], "stats", "io_threaded_reads_processed") >= 3);
}

#[test]
fn keys_that_are_asked_for_together_are_counted() {
    let server = start(&["--io-threads", "1"]);
    let mut client = Client::connect(server.address()).unwrap();
    let get: &[&str] = &["GET", "key:1"];
    pipeline(&mut client, &[get; 16]);
    // Small values are in the caches anyway.
    assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_batches"), 0);
    pipeline(&mut client, &[&["DEBUG", "POPULATE", "100000"]]);
    // A thread that loses its core in the middle of a batch ends it there.
    let batches = loop {
        let before = field(&mut client, "stats", "io_threaded_total_prefetch_batches");
        let entries = field(&mut client, "stats", "io_threaded_total_prefetch_entries");
        pipeline(&mut client, &[get; 16]);
        let batches = field(&mut client, "stats", "io_threaded_total_prefetch_batches");
        if batches == before + 1 {
            assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_entries"), entries + 16);
            break batches;
        }
        assert!(batches > before, "no batch");
    };
    // The keys of one request, too, if they are several.
    pipeline(&mut client, &[&["MGET", "key:1", "key:2", "key:3"]]);
    assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_batches"), batches);
    pipeline(&mut client, &[&["DEL", "key:1", "key:2", "key:3", "key:4", "no:1"]]);
    assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_batches"), batches + 1);
}

/// Requests, and by how much each raises `cluster_incompatible_ops` of Redis 8.6.2, where every one counts.
/// `/` separates words that have spaces.
const INCOMPATIBLE: &[(u64, &str)] = &[
    (0, "SELECT 0"),
    (1, "SELECT 1"),
    (1, "SELECT 99"),
    (0, "SELECT x"),
    (1, "SWAPDB 0 1"),
    (1, "SWAPDB 0 0"),
    (0, "SWAPDB 0 99"),
    (0, "SET key1 v"),
    (1, "COPY key1 a{key1}"),
    (1, "COPY key1 b{key1} DB 1"),
    (0, "COPY key1 key1 DB 1"),
    (0, "COPY key1 b{key1} DB 99"),
    (0, "MOVE key1 1"),
    (1, "MOVE key1 0"),
    (0, "SELECT 0"),
    (1, "COPY key1 key2"),
    (0, "COPY key1 key2{key1}"),
    (2, "COPY key2{key1} key9 DB 1"),
    (1, "COPY nokey key1{nokey} DB 1"),
    (1, "MSET foo bar bar foo"),
    (1, "DEL foo bar"),
    (0, "DEL foo"),
    (0, "MSET foo"),
    (0, "MULTI"),
    (0, "SET foo bar"),
    (0, "DEL bar"),
    (1, "EXEC"),
    (0, "MULTI"),
    (1, "MSET foo 1 bar 1"),
    (1, "EXEC"),
    (0, "MULTI"),
    (0, "SELECT 1"),
    (0, "SELECT 0"),
    (1, "EXEC"),
    (0, "MULTI"),
    (0, "NOSUCH"),
    (0, "SET foo 1"),
    (0, "SET bar 1"),
    (0, "EXEC"),
    (1, "EVAL/#!lua flags=no-cluster\nreturn 1/0"),
    (0, "EVAL/#!lua\nreturn 1/0"),
    (1, "EVAL/redis.call('mset',KEYS[1],0,KEYS[2],0)/2/foo/bar"),
    (1, "EVAL/redis.call('mset','foo',0,'bar',0)/0"),
    (
        1,
        "EVAL/#!lua flags=allow-cross-slot-keys\nredis.call('mset','foo',0,'bar',0) redis.call('mset','foo',0,'bar',0)/0",
    ),
    (
        0,
        "EVAL/#!lua flags=allow-cross-slot-keys\nredis.call('set','foo',0) redis.call('set','bar',0)/2/foo/bar{foo}",
    ),
    (0, "EVAL/redis.call('set','foo',0) redis.call('set','bar',0)/0"),
    (1, "EVAL/#!lua\nredis.call('set','foo',0) redis.call('set','bar',0) redis.call('set','c',0)/0"),
    (1, "EVAL/#!lua\nredis.call('set','bar',0)/1/foo"),
    (1, "EVAL/redis.call('select',1) redis.call('select',0)/0"),
    (0, "MULTI"),
    (0, "EVAL/#!lua flags=no-cluster\nreturn 1/0"),
    (1, "EXEC"),
    (
        0,
        "FUNCTION/LOAD/#!lua name=t\nredis.register_function{function_name='f',callback=function() return 1 end,flags={'no-cluster'}}",
    ),
    (1, "FCALL f 0"),
    (0, "RPUSH mylist 1 2"),
    (1, "SORT mylist BY weight_*"),
    (0, "SORT mylist BY weight{mylist}_*"),
    (0, "SORT mylist BY nosort"),
    (0, "SORT mylist GET #"),
    (2, "SORT mylist GET # GET a_* GET b_*"),
    (1, "SORT mylist GET plain"),
    (1, "SORT mylist STORE dst"),
    (1, "SORT mylist BY weight_* FOO"),
    (1, "BLPOP foo2 bar2 0.01"),
    (1, "WATCH foo bar"),
    (0, "UNWATCH"),
    (1, "XREAD STREAMS foo9 bar9 0 0"),
    (0, "MGET foo foo"),
    (0, "KEYS *"),
    (1, "SSUBSCRIBE foo bar"),
];

#[test]
fn operations_that_a_cluster_could_not_run_are_counted() {
    let name = "cluster_incompatible_ops";
    let server = start(&["--io-threads", "2", "--cluster-compatibility-sample-ratio", "100"]);
    let connect = || Client::connect(server.address()).unwrap();
    let (mut client, mut observer) = (connect(), connect());
    let mut before = 0;
    for (expected, line) in INCOMPATIBLE {
        let words: Vec<&str> = line.split(if line.contains('/') { '/' } else { ' ' }).collect();
        client.command(&words).unwrap();
        let now = field(&mut observer, "stats", name);
        assert_eq!(now - before, *expected, "{line}");
        before = now;
    }
    let mut set = |ratio: &str| {
        let set = observer.command(&["CONFIG", "SET", "cluster-compatibility-sample-ratio", ratio]).unwrap();
        assert_eq!(set.text(), Some(&b"OK"[..]));
    };
    let mut writer = connect();
    let mut write = |count| {
        let request: &[&str] = &["MSET", "foo", "1", "bar", "2"];
        pipeline(&mut writer, &vec![request; count]);
    };
    set("0");
    write(100);
    assert!(!info(&mut connect(), "stats").contains(name));
    // Of 2,000, 30 % are 600; a fair share is within six standard deviations of that.
    set("30");
    write(2000);
    let sampled = field(&mut connect(), "stats", name) - before;
    assert!((477..=723).contains(&sampled), "{sampled} of 2000");
    assert_eq!(connect().command(&["CONFIG", "RESETSTAT"]).unwrap().text(), Some(&b"OK"[..]));
    assert_eq!(field(&mut connect(), "stats", name), 0);
}
