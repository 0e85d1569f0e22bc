//! Applying with all threads: the data is the primary's, byte by byte of the stream, and a reader sees it at
//! every moment as it was at some place of the stream.

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_testkit::server::Server;

use super::{Stopped, assert_equal, follow, info, run, start_ours, text, wait_for_link, wait_until};

/// Commands that the replica finds waiting.
const COMMANDS: usize = 60_000;
/// Requests sent together.
const PIPELINE: usize = 500;

/// A write, mostly to one key. `a` and `b` count alternately.
fn request(random: &mut Random, at: usize) -> String {
    if at.is_multiple_of(4) {
        return ["INCR a", "INCR b"][at / 4 % 2].to_owned();
    }
    let (key, number) = (random.below(200), random.below(1000));
    match random.below(if at % 3000 == 1 { 16 } else { 12 }) {
        0 | 1 => format!("SET s{key} {number}"),
        2 => format!("APPEND t{key} {number}"),
        3 => format!("RPUSH l{key} {number}"),
        4 => format!("LPOP l{key}"),
        5 => format!("HSET h{key} f{number} {at}"),
        6 => format!("HDEL h{key} f{number}"),
        7 => format!("SADD set{key} {number} m{number}"),
        8 => format!("ZADD z{key} {number} m{number}"),
        9 => format!("INCRBY n{key} {number}"),
        10 => format!("SET e{key} x EX 1000"),
        11 => format!("XADD x{key} MAXLEN 50 * f {number}"),
        12 => format!("SUNIONSTORE u{key} set1 set2 set3"),
        13 => format!("DEL s{key} l{key} h{key}"),
        14 => format!("LMOVE l{key} l1 LEFT RIGHT"),
        _ => format!("SINTERSTORE u{key} set4 set5"),
    }
}

/// One that keeps all that a replica lacks.
fn start_primary() -> Server {
    start_ours(&["--repl-backlog-size", "64mb", "--client-output-buffer-limit", "replica 0 0 0"])
}

fn write(primary: &Server, seed: u64) {
    let mut client = Client::connect(primary.address()).unwrap();
    let mut random = Random::seeded(seed);
    for first in (0..COMMANDS).step_by(PIPELINE) {
        for at in first..first + PIPELINE {
            let line = request(&mut random, at);
            client.send(&line.split(' ').collect::<Vec<_>>()).unwrap();
        }
        for _ in 0..PIPELINE {
            let reply = client.read_reply().unwrap();
            assert!(!reply.is_error(), "{reply:?}");
        }
    }
}

#[test]
fn what_waits_is_applied_by_all_threads() {
    let primary = start_primary();
    let replica = start_ours(&["--io-threads", "3"]);
    let last = start_ours(&[]);
    follow(&replica, primary.address());
    wait_for_link(&replica);
    follow(&last, replica.address());
    wait_for_link(&last);
    let syncs = info(&primary, "sync_full");
    let mut waiting = Client::connect(replica.address()).unwrap();
    waiting.send(&["XREAD", "BLOCK", "0", "STREAMS", "x7", "$"]).unwrap();
    wait_until("it waits", || info(&replica, "blocked_clients") == "1");
    let stopped = Stopped::new(replica.pid());
    write(&primary, 1);
    let total = text(&run(&primary, "GET b"));
    drop(stopped);
    let mut reader = Client::connect(replica.address()).unwrap();
    let (mut looks, mut middle) = (0, 0);
    wait_until("all is applied", || {
        for request in [&["MULTI"][..], &["GET", "a"], &["GET", "b"]] {
            reader.command(request).unwrap();
        }
        let seen = text(&reader.command(&["EXEC"]).unwrap());
        let numbers: Vec<i64> = seen.split(' ').map(|word| word.parse().unwrap_or(0)).collect();
        assert!([0, 1].contains(&(numbers[0] - numbers[1])), "{seen} is no state of the primary");
        looks += 1;
        middle += usize::from(numbers[1] > 0 && numbers[1].to_string() != total);
        numbers[1].to_string() == total
    });
    println!("{looks} looks, {middle} of them in the middle");
    assert_equal(&primary, &replica);
    assert_equal(&replica, &last);
    assert!(text(&waiting.read_reply().unwrap()).starts_with("x7 "));
    assert_eq!(info(&primary, "sync_full"), syncs);
    let applied: usize = info(&replica, "slave_commands_applied_by_all_threads").parse().unwrap();
    assert!(applied > COMMANDS / 4, "only {applied} commands were applied by all threads");
}

#[test]
fn what_all_threads_apply_is_in_the_file_too() {
    let primary = start_primary();
    let options = ["--io-threads", "3", "--appendonly", "yes"];
    let replica = start_ours(&options);
    follow(&replica, primary.address());
    wait_for_link(&replica);
    let stopped = Stopped::new(replica.pid());
    write(&primary, 2);
    drop(stopped);
    assert_equal(&primary, &replica);
    assert_ne!(info(&replica, "slave_commands_applied_by_all_threads"), "0");
    assert_eq!(text(&run(&replica, "REPLICAOF NO ONE")), "OK");
    let digest = text(&run(&replica, "DEBUG DIGEST"));
    assert_eq!(text(&run(&replica, "DEBUG LOADAOF")), "OK");
    assert_eq!(text(&run(&replica, "DEBUG DIGEST")), digest);
}

#[test]
fn who_looks_on_sees_the_streams_order() {
    let primary = start_primary();
    let replica = start_ours(&["--io-threads", "3", "--notify-keyspace-events", "KA"]);
    follow(&replica, primary.address());
    wait_for_link(&replica);
    let stopped = Stopped::new(replica.pid());
    write(&primary, 3);
    drop(stopped);
    assert_equal(&primary, &replica);
    assert_eq!(info(&replica, "slave_commands_applied_by_all_threads"), "0");
}
