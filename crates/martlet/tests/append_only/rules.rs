//! When the file is rewritten, forced to disk, switched on and off, and which clients wait for that.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;

use super::full_disk::limit_files;
use super::{OURS, ask_until, run, start, until};

/// The value of a field of INFO.
fn info(server: &Server, field: &str) -> u64 {
    let report = run(server, 0, "INFO");
    let text = String::from_utf8_lossy(report.text().unwrap()).into_owned();
    let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.parse().ok());
    found.unwrap_or_else(|| panic!("no {field} in {text}"))
}

/// WAITAOF's number for this server's disk.
fn on_disk(reply: &Reply) -> i64 {
    let items = reply.items().unwrap_or_else(|| panic!("{reply:?}"));
    assert!(items.len() == 2 && items[1].integer() == Some(0), "{reply:?}");
    items[0].integer().unwrap()
}

/// Writes, and asks for as long as this whether that is on disk.
fn write_and_wait(client: &mut Client, line: &str, timeout_ms: &str) -> Reply {
    assert!(!client.command(&line.split(' ').collect::<Vec<_>>()).unwrap().is_error());
    client.command(&["WAITAOF", "1", "0", timeout_ms]).unwrap()
}

#[test]
fn waitaof_answers_when_the_disk_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &["--appendfsync", "everysec"]).unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    for i in 0..3 {
        assert_eq!(on_disk(&write_and_wait(&mut client, &format!("SET k{i} 1"), "0")), 1);
    }
    // Without replicas, only the time ends it.
    assert_eq!(on_disk(&run(&server, 0, "WAITAOF 0 1 1")), 1);
    for (line, refusal) in [
        ("WAITAOF 1 0", "ERR wrong number of arguments for 'waitaof' command"),
        ("WAITAOF 2 0 0", "ERR value is out of range, value must between 0 and 1"),
        ("WAITAOF -1 0 0", "ERR value is out of range, value must between 0 and 1"),
        ("WAITAOF x 0 0", "ERR value is not an integer or out of range"),
        ("WAITAOF 0 -1 0", "ERR value is out of range, must be positive"),
        ("WAITAOF 0 x 0", "ERR value is out of range, must be positive"),
        ("WAITAOF 0 0 -1", "ERR timeout is negative"),
        ("WAITAOF 0 0 1.5", "ERR timeout is not an integer or out of range"),
        ("WAITAOF 1 0 9223372036854775807", "ERR timeout is out of range"),
    ] {
        assert_eq!(run(&server, 0, line), Reply::Error(refusal.into()), "{line}");
    }
    run(&server, 0, "CONFIG SET appendonly no");
    assert_eq!(run(&server, 0, "WAITAOF 1 0 0"), Reply::Error(WITHOUT_FILE.into()));
    assert_eq!(on_disk(&run(&server, 0, "WAITAOF 0 0 0")), 0);
}

const WITHOUT_FILE: &str = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// A client that has written something.
fn writer(server: &Server, resp3: bool) -> Client {
    let mut client = Client::connect(server.address()).unwrap();
    client.command(&["HELLO", if resp3 { "3" } else { "2" }]).unwrap();
    assert!(!client.command(&["SET", "k", "written"]).unwrap().is_error());
    client
}

/// Has a client ask for something and be blocked, as the one after `before` others; it, and its id.
fn blocked(server: &Server, mut client: Client, before: u64, line: &str) -> (Client, i64) {
    let id = client.command(&["CLIENT", "ID"]).unwrap().integer().unwrap();
    client.send(&line.split(' ').collect::<Vec<_>>()).unwrap();
    ask_until(server, "INFO clients", &format!("blocked_clients:{}\r\n", before + 1));
    (client, id)
}

#[test]
fn waitaof_waits_while_the_disk_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &["--appendfsync", "everysec"]).unwrap();
    let mut ours = Client::connect(server.address()).unwrap();
    let mut ask = |line: &str| ours.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
    ask("SET k 0");
    assert_eq!(on_disk(&ask("WAITAOF 1 0 0")), 1);
    // What these write is not forced to disk by itself.
    ask("CONFIG SET appendfsync no");
    let [first, second, third, fourth] = [true, false, true, false].map(|resp3| writer(&server, resp3));
    assert!(!ask("SET k 1").is_error());
    limit_files(&server, Some(0));
    // Refused by the disk, or already by the server if one of the others had not been written.
    run(&server, 0, "SET k 2");
    ask_until(&server, "INFO persistence", "aof_last_write_status:err");
    let (mut waiting, _) = blocked(&server, first, 0, "WAITAOF 1 0 0");
    let (mut second, _) = blocked(&server, second, 1, "WAITAOF 1 0 0");
    // A client without writes has nothing to wait for, whatever others have.
    assert_eq!(on_disk(&run(&server, 0, "WAITAOF 1 0 0")), 1);
    // Its time, or another client, ends the wait.
    assert_eq!(on_disk(&ask("WAITAOF 1 0 20")), 0);
    let (mut unblocked, id) = blocked(&server, third, 2, "WAITAOF 1 0 0");
    assert_eq!(ask(&format!("CLIENT UNBLOCK {id}")).integer(), Some(1));
    assert_eq!(unblocked.read_raw(12).unwrap(), b"*2\r\n:0\r\n:0\r\n");
    let (mut unblocked, id) = blocked(&server, fourth, 2, "WAITAOF 1 0 0");
    assert_eq!(ask(&format!("CLIENT UNBLOCK {id} ERROR")).integer(), Some(1));
    let text = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
    assert_eq!(unblocked.read_reply().unwrap(), Reply::Error(text.into()));
    // In a transaction nothing waits.
    let mut in_transaction = || {
        for line in ["MULTI", "WAITAOF 1 0 0", "WAITAOF 0 1 0"] {
            assert!(!ask(line).is_error());
        }
        let replies = ask("EXEC");
        replies.items().unwrap().iter().map(on_disk).collect::<Vec<_>>()
    };
    assert_eq!(in_transaction(), [0, 0]);
    run(&server, 0, "CONFIG SET appendfsync everysec");
    limit_files(&server, None);
    assert_eq!(waiting.read_raw(12).unwrap(), b"*2\r\n:1\r\n:0\r\n");
    assert_eq!(on_disk(&second.read_reply().unwrap()), 1);
    assert_eq!(in_transaction(), [1, 1]);
    assert_eq!(info(&server, "blocked_clients"), 0);
}

#[test]
fn waitaof_ends_when_the_file_is_switched_off() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--appendfsync", "no", "--io-threads", "2"];
    let server = start(OURS, directory.path(), &options).unwrap();
    // Nothing is forced to disk by itself.
    let mut clients: Vec<_> = ["WAITAOF 1 0 0", "WAITAOF 1 1 0", "WAITAOF 1 0 0", "WAITAOF 0 1 0"]
        .iter()
        .zip(0..)
        .map(|(line, before)| blocked(&server, writer(&server, before % 2 == 0), before, line))
        .collect();
    run(&server, 0, "CONFIG SET appendonly no");
    let (mut for_replica, id) = clients.pop().unwrap();
    for (mut client, _) in clients {
        assert_eq!(client.read_reply().unwrap(), Reply::Error(WITHOUT_FILE.into()));
    }
    assert_eq!(info(&server, "blocked_clients"), 1);
    run(&server, 0, &format!("CLIENT UNBLOCK {id}"));
    for_replica.read_reply().unwrap();
}

#[test]
fn waitaof_waits_for_the_first_base() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--appendonly", "no", "--rdb-key-save-delay", "20000"];
    let server = start(OURS, directory.path(), &options).unwrap();
    run(&server, 0, "DEBUG POPULATE 2000");
    let mut client = writer(&server, false);
    run(&server, 0, "CONFIG SET appendonly yes");
    assert_eq!(on_disk(&client.command(&["WAITAOF", "1", "0", "20"]).unwrap()), 0);
    assert_eq!(on_disk(&write_and_wait(&mut client, "SET k meanwhile", "20")), 0);
    let (mut waiting, _) = blocked(&server, client, 0, "WAITAOF 1 0 0");
    run(&server, 0, "CONFIG SET rdb-key-save-delay 0");
    assert_eq!(on_disk(&waiting.read_reply().unwrap()), 1);
    assert_eq!(listed_bytes(directory.path()).len(), 2);
}

#[test]
fn nothing_is_forced_to_disk_during_a_rewrite_or_a_save_if_that_is_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--appendfsync", "everysec", "--no-appendfsync-on-rewrite", "yes"];
    let server = start(OURS, directory.path(), &options).unwrap();
    run(&server, 0, "DEBUG POPULATE 2000");
    let mut client = Client::connect(server.address()).unwrap();
    for (command, field) in
        [("BGSAVE", "rdb_bgsave_in_progress"), ("BGREWRITEAOF", "aof_rewrite_in_progress")]
    {
        assert_eq!(on_disk(&write_and_wait(&mut client, "SET k before", "0")), 1);
        run(&server, 0, "CONFIG SET rdb-key-save-delay 20000");
        let files = || listed_bytes(directory.path());
        let before = files();
        assert!(!run(&server, 0, command).is_error());
        assert_eq!(info(&server, field), 1);
        // A rewrite forces the writes before its cut to disk.
        run(&server, 0, "SET k meanwhile");
        while command == "BGREWRITEAOF" && (files().len() == before.len() || files().last().unwrap().1 == 0) {
            run(&server, 0, "SET k meanwhile");
        }
        // Longer than a second, after which it would be forced to disk otherwise.
        assert_eq!(on_disk(&write_and_wait(&mut client, "SET k meanwhile", "1500")), 0, "{command}");
        run(&server, 0, "CONFIG SET no-appendfsync-on-rewrite no");
        assert_eq!(on_disk(&client.command(&["WAITAOF", "1", "0", "0"]).unwrap()), 1, "{command}");
        assert_eq!(info(&server, field), 1);
        run(&server, 0, "CONFIG SET no-appendfsync-on-rewrite yes");
        let (mut waiting, _) = blocked(&server, writer(&server, false), 0, "WAITAOF 1 0 0");
        run(&server, 0, "CONFIG SET rdb-key-save-delay 0");
        // Its end has it forced to disk.
        assert_eq!(on_disk(&waiting.read_reply().unwrap()), 1, "{command}");
        ask_until(&server, "INFO persistence", &format!("{field}:0"));
    }
}

/// The names of the files as they are listed, and their bytes.
fn listed_bytes(directory: &Path) -> Vec<(String, u64)> {
    let files = directory.join("appendonlydir");
    let list = fs::read_to_string(files.join("appendonly.aof.manifest")).unwrap();
    let names = list.lines().map(|line| line.split(' ').nth(1).unwrap());
    names.map(|name| (name.to_owned(), fs::metadata(files.join(name)).unwrap().len())).collect()
}

/// Bytes of the base that is listed, and of all files of the append-only file.
fn file_bytes(directory: &Path) -> (u64, u64) {
    let sizes = listed_bytes(directory);
    let base = sizes.iter().filter(|(name, _)| name.contains(".base.")).map(|(_, bytes)| bytes).sum();
    (base, sizes.iter().map(|(_, bytes)| bytes).sum())
}

/// Ours, and the real one where it is installed.
fn programs() -> Vec<&'static str> {
    [OURS].into_iter().chain(is_installed("redis-server").then_some("redis-server")).collect()
}

#[test]
fn growth_is_counted_from_where_redis_counts_it() {
    for program in programs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let write = |server: &Server| {
            for i in 0..50 {
                run(server, 0, &format!("SET k{i} {}", "v".repeat(100)));
            }
        };
        let told = |server: &Server, base, all| {
            ask_until(
                server,
                "INFO persistence",
                &format!("aof_current_size:{all}\r\naof_base_size:{base}\r\n"),
            );
        };
        let server = start(program, path, &[]).unwrap();
        write(&server);
        // After a rewrite from where it ended, writes during it included.
        assert!(!run(&server, 0, "BGREWRITEAOF").is_error());
        ask_until(&server, "INFO persistence", "aof_rewrites:1");
        ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
        let (_, rewritten) = file_bytes(path);
        told(&server, rewritten, rewritten);
        write(&server);
        assert!(file_bytes(path).1 > rewritten);
        told(&server, rewritten, file_bytes(path).1);
        drop(server);
        // After a start from the base, whatever followed it.
        let server = start(program, path, &[]).unwrap();
        let (base, all) = file_bytes(path);
        assert!(base <= rewritten && rewritten < all);
        told(&server, base, all);
    }
}

#[test]
fn the_size_grows_before_the_first_base_is_whole() {
    for program in programs() {
        let directory = tempfile::tempdir().unwrap();
        let server = start(program, directory.path(), &["--appendonly", "no"]).unwrap();
        run(&server, 0, "SET first value");
        let temporary = directory.path().join("appendonlydir/temp-appendonly.aof.incr");
        let write_and_ask = |left: &dyn Fn() -> u64| {
            // Ours makes the cut on a thread of its own: what is written before it is not in the file.
            let write = || run(&server, 0, &format!("SET key {}", "v".repeat(1000)));
            let bytes = || fs::metadata(&temporary).map_or(0, |facts| facts.len());
            until(&format!("{program}: writes go to the file"), || {
                write();
                bytes() > 10_000
            });
            // Bytes that have left the buffer may not have reached the file yet.
            until(&format!("{program}: the size is that of the files"), || {
                let written = bytes();
                info(&server, "aof_current_size") == left() + written
            });
        };
        let switch = |value| assert!(!run(&server, 0, &format!("CONFIG SET appendonly {value}")).is_error());
        let delay = |us: u64| run(&server, 0, &format!("CONFIG SET rdb-key-save-delay {us}"));
        // Its first key takes minutes.
        delay(300_000_000);
        switch("yes");
        write_and_ask(&|| 0);
        // The files of a log that was switched off count, too.
        switch("no");
        delay(0);
        switch("yes");
        ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n");
        run(&server, 0, "SET later value");
        switch("no");
        // Its last bytes may still be on their way to the file.
        let left = || file_bytes(directory.path()).1;
        assert!(left() > 0);
        delay(300_000_000);
        switch("yes");
        write_and_ask(&left);
    }
}

/// Writes a kilobyte to one of ten keys; the size of the file then.
fn write_kilobyte(server: &Server, number: u64) -> u64 {
    let line = format!("SET k{} {number}-{}", number % 10, "v".repeat(1000));
    assert!(!run(server, 0, &line).is_error());
    info(server, "aof_current_size")
}

#[test]
fn a_file_that_has_grown_is_rewritten() {
    let directory = tempfile::tempdir().unwrap();
    let rule = "--auto-aof-rewrite-percentage 0 --auto-aof-rewrite-min-size 4kb --rdbcompression no";
    let server = start(OURS, directory.path(), &rule.split(' ').collect::<Vec<_>>()).unwrap();
    // Switched off: although it has grown by more than the rules will ask for.
    let mut writes = 0;
    while write_kilobyte(&server, writes) < 30_000 {
        writes += 1;
    }
    assert_eq!(info(&server, "aof_rewrites"), 0);
    run(&server, 0, "CONFIG SET auto-aof-rewrite-percentage 100");
    ask_until(&server, "INFO persistence", "aof_rewrites:1");
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    // The percentage of the base counts, or the smallest size where that is more.
    for (rewrites, percentage, min_bytes) in [(1, 100, 4096), (2, 300, 4096), (3, 1, 60_000)] {
        run(&server, 0, &format!("CONFIG SET auto-aof-rewrite-min-size {min_bytes}"));
        run(&server, 0, &format!("CONFIG SET auto-aof-rewrite-percentage {percentage}"));
        let base = info(&server, "aof_base_size");
        assert!((9_000..30_000).contains(&base), "{base}");
        let due = min_bytes.max(base + base * percentage / 100);
        let mut bytes = 0;
        while info(&server, "aof_rewrites") == rewrites {
            writes += 1;
            bytes = write_kilobyte(&server, writes).max(bytes);
            assert!(writes < 100_000, "{bytes} bytes, due at {due}, and no rewrite");
        }
        // Sizes are reported a moment after their bytes: by the write before last.
        assert!(bytes + 2200 > due, "rewritten at {bytes} bytes, and not due before {due}");
        assert_eq!(info(&server, "aof_rewrites"), rewrites + 1);
        ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    }
    assert_eq!(server.logged("Starting automatic rewriting of AOF", 4), 4);
    drop(server);
    let text = fs::read_to_string(directory.path().join("appendonlydir/appendonly.aof.manifest")).unwrap();
    assert!(text.starts_with("file appendonly.aof.5.base.rdb seq 5 type b\n"), "{text}");
    let server = start(OURS, directory.path(), &[]).unwrap();
    let last = run(&server, 0, &format!("GET k{}", writes % 10));
    assert!(last.text().unwrap().starts_with(format!("{writes}-").as_bytes()));
}

/// Counts two keys up, always together, until the end is signalled; returns the last answered count.
fn count_up(address: std::net::SocketAddr, name: usize, stop: &AtomicBool, answered: &AtomicU64) {
    let mut client = Client::connect(address).unwrap();
    let (a, b) = (format!("a{name}"), format!("b{name}"));
    while !stop.load(Ordering::Relaxed) {
        let lines = [["MULTI"].as_slice(), &["INCR", &a], &["INCR", &b], &["EXEC"]];
        let replies = lines.map(|words| client.command(words));
        // At the end it is killed.
        let [.., Ok(reply)] = replies else { return };
        let count = reply.items().unwrap()[0].integer().unwrap();
        answered.store(count as u64, Ordering::SeqCst);
    }
}

#[test]
fn switched_off_and_on_under_load_it_has_what_was_answered_since() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--io-threads", "2"];
    let mut server = Some(start(OURS, directory.path(), &options).unwrap());
    let stop = AtomicBool::new(false);
    let answered: [AtomicU64; 3] = Default::default();
    let counts = || answered.each_ref().map(|count| count.load(Ordering::SeqCst));
    let go_on = || {
        let before = counts();
        while counts().iter().zip(before).any(|(now, before)| *now < before + 20) {
            std::thread::yield_now();
        }
    };
    for round in 0..3 {
        let running = server.take().unwrap();
        std::thread::scope(|scope| {
            stop.store(false, Ordering::SeqCst);
            for (name, count) in answered.iter().enumerate() {
                let (address, stop) = (running.address(), &stop);
                scope.spawn(move || count_up(address, name, stop, count));
            }
            for _ in 0..3 {
                go_on();
                run(&running, 0, "CONFIG SET appendonly no");
                go_on();
                run(&running, 0, "CONFIG SET appendonly yes");
                ask_until(
                    &running,
                    "INFO persistence",
                    "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0",
                );
            }
            assert_eq!(info(&running, "aof_enabled"), 1);
            go_on();
            stop.store(true, Ordering::SeqCst);
            drop(running);
        });
        let next = start(OURS, directory.path(), &options).unwrap();
        for (name, told) in counts().into_iter().enumerate() {
            let value = |key| run(&next, 0, &format!("GET {key}{name}"));
            let text = String::from_utf8(value("a").text().unwrap().to_vec()).unwrap();
            assert_eq!(value("b").text(), Some(text.as_bytes()), "round {round}: half a transaction");
            let count: u64 = text.parse().unwrap();
            // Beyond the answered count there is at most the transaction that was under way.
            assert!((told..=told + 1).contains(&count), "round {round}: {count}, {told} answered");
            answered[name].store(count, Ordering::SeqCst);
        }
        server = Some(next);
    }
}

/// A consumer that the file creates has been seen when it is read, and has never been active.
#[test]
fn a_consumer_of_the_file_was_seen_when_it_was_read() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &[]).unwrap();
    for line in ["XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATECONSUMER s g made", "PEXPIREAT s 1"] {
        assert!(!run(&server, 0, line).is_error());
    }
    for line in ["XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATECONSUMER s g made"] {
        assert!(!run(&server, 0, line).is_error());
    }
    assert!(!run(&server, 0, "XREADGROUP GROUP g reader STREAMS s >").is_error());
    assert!(!run(&server, 0, "DEBUG LOADAOF").is_error());
    let consumers = run(&server, 0, "XINFO CONSUMERS s g");
    let consumers = consumers.items().unwrap();
    assert_eq!(consumers.len(), 2);
    for consumer in consumers {
        let fields = consumer.items().unwrap();
        let (idle, inactive) = (fields[5].integer().unwrap(), fields[7].integer().unwrap());
        assert!((0..600_000).contains(&idle) && inactive == -1, "{fields:?}");
    }
}
