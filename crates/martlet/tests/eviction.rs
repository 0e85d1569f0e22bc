//! Memory at its limit, as clients of a whole server see it.

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use std::path::Path;

const VALUE_BYTES: usize = 1000;
/// Bytes that the tests leave for keys.
const ROOM_BYTES: u64 = 2 << 20;
/// By how much memory may be above its limit when nothing runs: the slack of two threads, and INFO's own
/// reply.
const ABOVE_MAX_BYTES: u64 = 64 << 10;

fn start(arguments: &[&str]) -> (Server, Client) {
    let all: Vec<&str> =
        ["server", "--io-threads", "2", "--save", ""].iter().chain(arguments).copied().collect();
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &all).unwrap();
    let client = Client::connect(server.address()).unwrap();
    (server, client)
}

/// A field of INFO.
fn info(client: &mut Client, field: &str) -> u64 {
    let reply = client.command(&["INFO"]).unwrap();
    let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {field} in {text}"))
}

fn ok(client: &mut Client, words: &[&str]) {
    let reply = client.command(words).unwrap();
    let Reply::Error(error) = reply else { return };
    panic!("{}: {}", words[0], String::from_utf8_lossy(&error));
}

/// Sets the limit at the bytes in use and [`ROOM_BYTES`].
fn limit(client: &mut Client, policy: &str) -> u64 {
    let limit = info(client, "used_memory") + ROOM_BYTES;
    ok(client, &["CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", &limit.to_string()]);
    limit
}

fn keys(client: &mut Client) -> i64 {
    match client.command(&["DBSIZE"]).unwrap() {
        Reply::Int(keys) => keys,
        other => panic!("DBSIZE: {other:?}"),
    }
}

#[test]
fn each_policy_stays_within_the_limit_and_evicts_what_it_says() {
    let (_server, mut client) = start(&[]);
    let value = "x".repeat(VALUE_BYTES);
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl"] {
        ok(&mut client, &["FLUSHALL"]);
        let limit = limit(&mut client, policy);
        for number in 0..500 {
            ok(&mut client, &["SET", &format!("kept:{number}"), &value]);
        }
        for number in 0..5000 {
            ok(&mut client, &["SET", &format!("k:{number}"), &value, "EX", &(1000 + number).to_string()]);
        }
        let used = info(&mut client, "used_memory");
        assert!(used < limit + ABOVE_MAX_BYTES, "{policy}: {used} of {limit}");
        let left = keys(&mut client);
        assert!((500..4000).contains(&left), "{policy}: {left} keys");
        let kept = (0..500).filter(|number| {
            client.command(&["EXISTS", &format!("kept:{number}")]).unwrap() == Reply::Int(1)
        });
        let kept = kept.count();
        if policy.starts_with("volatile") {
            assert_eq!(kept, 500, "{policy}");
        } else {
            assert!(kept < 500, "{policy}");
        }
        if policy == "volatile-ttl" {
            // Those that expire last are there.
            assert_eq!(client.command(&["EXISTS", "k:4999"]).unwrap(), Reply::Int(1));
            assert_eq!(client.command(&["EXISTS", "k:0"]).unwrap(), Reply::Int(0));
        }
        ok(&mut client, &["CONFIG", "SET", "maxmemory", "0"]);
    }
    assert!(info(&mut client, "evicted_keys") > 0);
}

#[test]
fn no_more_keys_go_than_are_needed_however_large_they_are() {
    let (_server, mut client) = start(&[]);
    let value = "x".repeat(100 << 10);
    limit(&mut client, "allkeys-lru");
    for number in 0..60 {
        ok(&mut client, &["SET", &format!("k:{number}"), &value]);
        let left = keys(&mut client);
        assert!(left >= (number + 1).min(14), "{left} keys after {}", number + 1);
    }
    assert!(info(&mut client, "evicted_keys") >= 40);
}

#[test]
fn with_nothing_to_evict_writes_are_refused_and_reads_and_deletes_are_not() {
    for policy in ["noeviction", "volatile-lru"] {
        let (_server, mut client) = start(&[]);
        limit(&mut client, policy);
        let value = "x".repeat(VALUE_BYTES);
        let refusal = (0..10_000).find_map(|number| {
            match client.command(&["SET", &format!("k:{number}"), &value]).unwrap() {
                Reply::Error(error) => Some(String::from_utf8_lossy(&error).into_owned()),
                _ => None,
            }
        });
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(refusal.as_deref(), Some(oom), "{policy}");
        assert_eq!(client.command(&["GET", "k:0"]).unwrap().text().unwrap(), value.as_bytes());
        for number in 0..500 {
            assert_eq!(client.command(&["DEL", &format!("k:{number}")]).unwrap(), Reply::Int(1));
        }
        ok(&mut client, &["SET", "k", &value]);
        assert_eq!(info(&mut client, "evicted_keys"), 0);
    }
}

#[test]
fn what_was_evicted_is_gone_from_the_append_only_file_too() {
    let (_server, mut client) =
        start(&["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"]);
    limit(&mut client, "allkeys-random");
    let value = "x".repeat(VALUE_BYTES);
    for number in 0..5000 {
        ok(&mut client, &["SET", &format!("k:{number}"), &value]);
    }
    ok(&mut client, &["CONFIG", "SET", "maxmemory", "0"]);
    let (before, digest) = (keys(&mut client), client.command(&["DEBUG", "DIGEST"]).unwrap());
    assert!(before < 4000, "{before}");
    ok(&mut client, &["DEBUG", "LOADAOF"]);
    assert_eq!(keys(&mut client), before);
    assert_eq!(client.command(&["DEBUG", "DIGEST"]).unwrap(), digest);
}

/// Replies that are not read, and requests that do not end, take memory that keys have to make room for.
#[test]
fn buffers_of_clients_evict_keys() {
    let fill = |client: &mut Client| {
        let value = "x".repeat(VALUE_BYTES);
        for number in 0..1000 {
            ok(client, &["SET", &format!("k:{number}"), &value]);
        }
        ok(client, &["SET", "long", &"x".repeat(60_000)]);
        limit(client, "allkeys-lru");
    };
    let (server, mut client) = start(&["--client-output-buffer-limit", "normal 0 0 0"]);
    fill(&mut client);
    let mut slow = Client::connect(server.address()).unwrap();
    for _ in 0..600 {
        slow.send(&["GETRANGE", "long", "0", "60000"]).unwrap();
    }
    while keys(&mut client) > 500 {}

    let (server, mut client) = start(&[]);
    fill(&mut client);
    let mut endless = Client::connect(server.address()).unwrap();
    endless.send_raw(b"*2\r\n$3\r\nGET\r\n$20000000\r\n").unwrap();
    endless.send_raw(&vec![b'x'; 10_000_000]).unwrap();
    while keys(&mut client) > 0 {}
    assert!(info(&mut client, "mem_clients_normal") > 10_000_000);
    assert_eq!(info(&mut client, "mem_not_counted_for_evict"), 0);
    // Nothing is left to be evicted.
    let refused = client.command(&["SET", "k", "v"]).unwrap();
    assert_eq!(refused, Reply::Error(b"OOM command not allowed when used memory > 'maxmemory'.".to_vec()));
    drop(endless);
    while client.command(&["SET", "k", "v"]).unwrap() != Reply::Simple(b"OK".to_vec()) {}
}

/// What large values leave goes back to the system as fast as others come, so that the process stays near its
/// limit; and the figures add up.
#[test]
fn resident_memory_stays_near_the_limit() {
    let (server, mut client) = start(&[]);
    limit(&mut client, "allkeys-lru");
    let limit = info(&mut client, "used_memory") + (32 << 20);
    ok(&mut client, &["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    let before = info(&mut client, "allocator_resident");
    let value = vec![b'x'; 2 << 20];
    let mut random = Random::seeded(39);
    let mut most = 0;
    for round in 0..1000 {
        // A third of the values is below half a megabyte, where the allocator would share pages.
        let bytes = if round % 3 == 0 { random.below(512 << 10) } else { random.below(2 << 20) } as usize;
        let key = format!("k:{}", random.below(100));
        assert!(!client.command(&[b"SET", key.as_bytes(), &value[..bytes]]).unwrap().is_error());
        if round % 20 == 0 && round > 200 {
            most = most.max(info(&mut client, "allocator_resident"));
        }
    }
    // A value on its way, and the 4 MB that may be resident before they are given back, twice.
    assert!(most < before + (32 << 20) + (16 << 20), "{most} of {before} and 32 MB");
    assert!(info(&mut client, "evicted_keys") > 100);
    let text = client.command(&["INFO", "memory"]).unwrap();
    let text = String::from_utf8_lossy(text.text().unwrap()).into_owned();
    let figure = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().parse::<i64>().unwrap()
    };
    let [used, active, resident, rss] =
        ["allocator_allocated", "allocator_active", "allocator_resident", "used_memory_rss"].map(figure);
    assert!(active <= resident && resident < rss, "{active} {resident} {rss}");
    let differences = ["allocator_frag_bytes", "allocator_rss_bytes", "rss_overhead_bytes"].map(figure);
    assert_eq!(differences, [active - used, resident - active, rss - resident]);
    assert_eq!(figure("mem_fragmentation_bytes"), rss - used);
    ok(&mut client, &["FLUSHALL", "SYNC"]);
    while info(&mut client, "allocator_resident") > before + (8 << 20) {}
    drop(server);
}

/// Old values that a snapshot keeps while it is written evict no keys, and are counted until it ends or is
/// cancelled.
#[test]
fn what_a_snapshot_keeps_evicts_no_keys() {
    const KEYS: usize = 100;
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["server", "--io-threads", "2", "--save", "", "--rdb-key-save-delay", "100000000"];
    let server =
        Server::start_in(directory.path(), Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    let fill = |client: &mut Client, byte: &str| {
        let (short, long) = (byte.repeat(VALUE_BYTES), byte.repeat(40 * VALUE_BYTES));
        for key in 0..KEYS {
            ok(client, &["SET", &format!("short:{key}"), &short]);
            ok(client, &["SET", &format!("long:{key}"), &long]);
            let hash = format!("hash:{key}");
            (0..20).for_each(|field| ok(client, &["HSET", &hash, &field.to_string(), &short]));
        }
    };
    fill(&mut client, "x");
    // The values are three times that room.
    limit(&mut client, "allkeys-lru");
    for (begin, ends) in [("BGSAVE", true), ("BGSAVE CANCEL", false), ("BGREWRITEAOF", true)] {
        ok(&mut client, &["CONFIG", "SET", "rdb-key-save-delay", "100000000"]);
        assert_eq!(info(&mut client, "current_cow_size"), 0, "before {begin}");
        let words: Vec<&str> = begin.split(' ').collect();
        ok(&mut client, &words[..1]);
        while info(&mut client, "current_cow_size") == 0 {}
        fill(&mut client, "y");
        let held = info(&mut client, "current_cow_size");
        assert!(held > 2 * ROOM_BYTES, "{begin}: {held}");
        assert!(info(&mut client, "mem_not_counted_for_evict") >= held);
        assert!(info(&mut client, "used_memory") > info(&mut client, "maxmemory"));
        assert_eq!((keys(&mut client), info(&mut client, "evicted_keys")), (3 * KEYS as i64, 0), "{begin}");
        // Keys beyond the limit without them are evicted.
        match ends {
            true => ok(&mut client, &["CONFIG", "SET", "rdb-key-save-delay", "0"]),
            false => ok(&mut client, &words),
        }
        while info(&mut client, "rdb_bgsave_in_progress") + info(&mut client, "aof_rewrite_in_progress") > 0 {
        }
        assert_eq!(info(&mut client, "current_cow_size"), 0, "after {begin}");
    }
    ok(&mut client, &["CONFIG", "SET", "rdb-key-save-delay", "100000000"]);
    ok(&mut client, &["BGSAVE"]);
    fill(&mut client, "z");
    let more = "x".repeat(40 * VALUE_BYTES);
    (0..KEYS).for_each(|key| ok(&mut client, &["SET", &format!("more:{key}"), &more]));
    assert!(info(&mut client, "evicted_keys") > 0);
    let counted = info(&mut client, "used_memory") - info(&mut client, "mem_not_counted_for_evict");
    assert!(counted < info(&mut client, "maxmemory") + ABOVE_MAX_BYTES, "{counted}");
}

#[test]
fn the_largest_clients_go_first_and_those_that_may_not_go_stay() {
    let (server, mut client) = start(&[]);
    ok(&mut client, &["CLIENT", "NO-EVICT", "ON"]);
    let connect = |bytes: usize, protect: bool| {
        let mut other = Client::connect(server.address()).unwrap();
        if protect {
            ok(&mut other, &["CLIENT", "NO-EVICT", "ON"]);
        }
        other.send_raw(format!("*2\r\n$3\r\nGET\r\n${bytes}\r\n").as_bytes()).unwrap();
        other.send_raw(&vec![b'x'; bytes - 1]).unwrap();
        other
    };
    let _clients =
        [connect(1 << 20, false), connect(3 << 20, false), connect(4 << 20, true), connect(2 << 20, false)];
    let sizes = |client: &mut Client| -> Vec<u64> {
        let list = client.command(&["CLIENT", "LIST"]).unwrap();
        let text = String::from_utf8_lossy(list.text().unwrap()).into_owned();
        let size = |line: &str| line.split(" tot-mem=").nth(1)?.split(' ').next()?.parse::<u64>().ok();
        let mut sizes: Vec<u64> = text.lines().filter_map(size).filter(|size| *size > 1 << 19).collect();
        sizes.sort_unstable();
        sizes.iter().map(|size| size >> 20).collect()
    };
    while sizes(&mut client) != [1, 2, 3, 4] {}
    ok(&mut client, &["CONFIG", "SET", "maxmemory-clients", "8mb"]);
    assert_eq!(sizes(&mut client), [1, 2, 4]);
    ok(&mut client, &["CONFIG", "SET", "maxmemory-clients", "4500kb"]);
    assert_eq!(sizes(&mut client), [4]);
    assert_eq!(info(&mut client, "evicted_clients"), 3);
}

#[test]
fn prepared_field_sets_are_their_clients_memory() {
    let (server, mut client) = start(&[]);
    ok(&mut client, &["CLIENT", "NO-EVICT", "ON"]);
    ok(&mut client, &["CONFIG", "SET", "maxmemory-clients", "2mb"]);
    let mut other = Client::connect(server.address()).unwrap();
    let memory = |other: &mut Client| -> u64 {
        let reply = other.command(&["CLIENT", "INFO"]).unwrap();
        let text = String::from_utf8_lossy(reply.text().unwrap()).into_owned();
        text.split(" tot-mem=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let prepare = |other: &mut Client, number: usize| {
        let fields: Vec<String> = (0..500).map(|field| format!("field:{number}:{field}")).collect();
        let name = number.to_string();
        let mut words = vec!["HIMPORT", "PREPARE", &name];
        words.extend(fields.iter().map(String::as_str));
        other.command(&words)
    };
    let before = memory(&mut other);
    for number in 0..10 {
        prepare(&mut other, number).unwrap();
    }
    assert!(memory(&mut other) >= before + 10 * 500 * 10);
    ok(&mut other, &["RESET"]);
    assert!(memory(&mut other) < before + 10_000);
    // That many would exceed the limit many times over.
    let evicted = (0..2000).any(|number| prepare(&mut other, number).is_err());
    assert!(evicted && info(&mut client, "evicted_clients") == 1);
}

/// A key that is evicted ahead of a tracking client's request is reported to the client before the reply, as
/// in Redis.
#[test]
fn notices_of_evicted_keys_precede_the_reply() {
    let notice = |reply: Reply, name: &str| {
        let Reply::Push(items) = &reply else { panic!("{name}: {reply:?}") };
        assert_eq!(items[0].text().unwrap(), b"invalidate");
        items[1].clone()
    };
    // One thread: another one's read looks at the memory only once it has itself added its slack, so that the
    // thread of SETBIT or periodic work may be first to evict, and its notice arrives by mail.
    let (server, mut client) = start(&["--io-threads", "1", "--enable-debug-command", "yes"]);
    let mut tracker = Client::connect(server.address()).unwrap();
    for words in [&["HELLO", "3"][..], &["CLIENT", "TRACKING", "ON"], &["SETEX", "volatile", "10000", "x"]] {
        ok(&mut tracker, words);
    }
    ok(&mut tracker, &["GET", "volatile"]);
    limit(&mut client, "volatile-random");
    ok(&mut client, &["SETBIT", "large", &(8 * 2 * ROOM_BYTES).to_string(), "0"]);
    // Evicts although it only reads.
    tracker.send(&["GETBIT", "large", "0"]).unwrap();
    let keys = notice(tracker.read_reply().unwrap(), "eviction");
    assert_eq!(keys, Reply::Array(vec![Reply::Bulk(b"volatile".to_vec())]));
    assert_eq!(tracker.read_reply().unwrap(), Reply::Int(0));
    ok(&mut client, &["CONFIG", "SET", "maxmemory", "0"]);

    // The table's limit, too; nothing else enforces it while periodic work is paused.
    ok(&mut client, &["DEBUG", "PAUSE-CRON", "1"]);
    ok(&mut tracker, &["MGET", "1", "2"]);
    ok(&mut tracker, &["MULTI"]);
    ok(&mut client, &["CONFIG", "SET", "tracking-table-max-keys", "1"]);
    tracker.send(&["PING"]).unwrap();
    tracker.send(&["EXEC"]).unwrap();
    let keys = notice(tracker.read_reply().unwrap(), "the table");
    assert!(matches!(&keys, Reply::Array(keys) if keys.len() == 1), "{keys:?}");
    // One for each key above the limit: the earlier GETBIT's is remembered, too.
    notice(tracker.read_reply().unwrap(), "the table");
    assert_eq!(tracker.read_reply().unwrap(), Reply::Simple(b"QUEUED".to_vec()));
    assert_eq!(tracker.read_reply().unwrap(), Reply::Array(vec![Reply::Simple(b"PONG".to_vec())]));
}

/// Ten clients are informed of each evicted key, whose name is most of what it takes: the notices weigh more
/// than the keys, and evict none in the same go.
#[test]
fn notices_of_evicted_keys_evict_no_keys() {
    let one_thread =
        ["--io-threads", "1", "--maxmemory-eviction-tenacity", "100", "--enable-debug-command", "yes"];
    let (server, mut client) = start(&one_thread);
    let mut trackers: Vec<Client> = (0..10).map(|_| Client::connect(server.address()).unwrap()).collect();
    for tracker in &mut trackers {
        ok(tracker, &["HELLO", "3"]);
        ok(tracker, &["CLIENT", "TRACKING", "ON"]);
    }
    for number in 0..300 {
        let key = format!("{number}{}", "x".repeat(VALUE_BYTES));
        ok(&mut client, &["SET", &key, "x"]);
        trackers.iter_mut().for_each(|tracker| ok(tracker, &["GET", &key]));
    }
    // No other go follows before the figures are read.
    ok(&mut client, &["DEBUG", "PAUSE-CRON", "1"]);
    let limit = info(&mut client, "used_memory") - 40_000;
    ok(&mut client, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", &limit.to_string()]);
    let (evicted, left) = (info(&mut client, "evicted_keys"), keys(&mut client));
    assert!((10..=150).contains(&evicted) && left >= 150, "{evicted} evicted, {left} left");
}
