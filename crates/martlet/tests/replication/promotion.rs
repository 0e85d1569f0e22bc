//! The received stream of a replica that becomes a primary.

use std::io::Write;

use martlet_client::blocking::Client;
use martlet_client::resp::encode_request;
use martlet_testkit::server::Server;

use super::diskless::{FOREIGN, false_primary};
use super::replica::{ask, field, ours};
use super::{Stopped, text, wait_until};

/// A snapshot without keys, of a known length.
const EMPTY: &[u8] = b"$18\r\nREDIS0010\xff\0\0\0\0\0\0\0\0";
/// As many units of a stream come to less than a replica receives ahead.
const UNITS: usize = 4000;

/// One unit of a stream: a command, a transaction, or one that needs the whole data set.
fn unit(number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let number_text = number.to_string();
    let mut add = |words: &[&str]| {
        encode_request(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>(), &mut out);
    };
    match number % 50 {
        7 => {
            add(&["MULTI"]);
            add(&["SWAPDB", "2", "3"]);
            add(&["SET", "last", &number_text]);
            add(&["EXEC"]);
        }
        n if n % 5 == 0 => {
            add(&["MULTI"]);
            add(&["INCR", "count"]);
            add(&["SET", "last", &number_text]);
            add(&["EXEC"]);
        }
        _ => add(&["SET", "last", &number_text]),
    }
    out
}

/// Has a replica promoted by `promotion` while it has more of the stream than it has applied. Its thread
/// sleeps before, in the same batch of requests. Whether it had more.
fn promote_behind(own: &Server, replica: &mut Client, promotion: &[&str], sleep_s: &str) -> bool {
    let start = format!("+FULLRESYNC {FOREIGN} 0\r\n").into_bytes();
    let mut socket = false_primary(replica, &[&start, EMPTY].concat());
    wait_until("the link", || field(replica, "master_link_status") == "up");
    let select = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";
    socket.write_all(select).unwrap();
    let mut client = Client::connect(own.address()).unwrap();
    let mut lines = format!("DEBUG SLEEP {sleep_s}");
    for line in ["INFO replication"].iter().chain(promotion).chain(&["INFO replication", "GET last"]) {
        lines = lines + "\r\n" + line;
    }
    client.send_raw(format!("{lines}\r\n").as_bytes()).unwrap();
    let mut ends = vec![select.len()];
    for number in 1..=UNITS {
        let unit = unit(number);
        ends.push(ends[number - 1] + unit.len());
        socket.write_all(&unit).unwrap();
    }
    let replies: Vec<_> = (0..promotion.len() + 4).map(|_| text(&client.read_reply().unwrap())).collect();
    let number = |of: &str, name: &str| -> usize {
        let line = of.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().parse().unwrap()
    };
    let (before, [.., after, last]) = (&replies[1], replies.as_slice()) else { unreachable!() };
    let (received, applied) = (number(before, "slave_read_repl_offset"), number(before, "slave_repl_offset"));
    // The old id of the stream ends there; the transaction's writes then belong to the other.
    let offset = number(after, "second_repl_offset") - 1;
    assert!(after.contains("role:master"), "{replies:?}");
    // All whole units that were there, and nothing of another.
    let count = ends.iter().rposition(|&end| end <= received).map_or(0, |count| count);
    let arrived = ends.iter().position(|&end| end == offset);
    assert!(arrived.is_some_and(|arrived| arrived >= count), "{received} bytes, {offset} applied");
    let arrived = arrived.unwrap_or(0);
    assert_eq!(*last, if arrived == 0 { "nil".into() } else { arrived.to_string() });
    assert_eq!(ask(replica, "DEL count last"), if arrived < 5 { "1" } else { "2" });
    received > applied
}

#[test]
fn a_promoted_replica_has_applied_what_it_had_received() {
    let (own, mut replica) = ours(&["--io-threads", "1", "--appendonly", "yes", "--replica-read-only", "no"]);
    for promotion in
        [&["REPLICAOF NO ONE"][..], &["MULTI", "SET own 1", "REPLICAOF NO ONE", "DEL own", "EXEC"]]
    {
        let sleeps = ["0.05", "0.2", "0.5", "1", "3"];
        let was_behind = sleeps.iter().any(|sleep_s| promote_behind(&own, &mut replica, promotion, sleep_s));
        assert!(was_behind, "it never had more than it had applied");
    }
    let digest = ask(&mut replica, "DEBUG DIGEST");
    assert_eq!(ask(&mut replica, "DEBUG LOADAOF"), "OK");
    assert_eq!(ask(&mut replica, "DEBUG DIGEST"), digest);
}

/// The process is stopped while its primary sends, and perhaps ends, and while REPLICAOF NO ONE arrives.
#[test]
fn a_promoted_replica_has_applied_what_its_kernel_had() {
    const SENT: usize = 1000;
    let (own, mut replica) = ours(&[]);
    for closes in [false, true, false, true] {
        let start = format!("+FULLRESYNC {FOREIGN} 0\r\n").into_bytes();
        let mut socket = false_primary(&mut replica, &[&start, EMPTY].concat());
        wait_until("the link", || field(&mut replica, "master_link_status") == "up");
        let stream: Vec<u8> = (1..=SENT).flat_map(unit).collect();
        let stopped = Stopped::new(own.pid());
        socket.write_all(&stream).unwrap();
        let socket = Some(socket).filter(|_| !closes);
        replica.send_raw(b"REPLICAOF NO ONE\r\nGET last\r\nDEL count last\r\n").unwrap();
        drop(stopped);
        let replies: Vec<_> = (0..3).map(|_| text(&replica.read_reply().unwrap())).collect();
        assert_eq!(replies, ["OK", &SENT.to_string(), "2"], "{closes}\n{}", own.log());
        drop(socket);
    }
}

/// Data of a primary that does not send its place belongs to no stream with a name: siblings would continue
/// from there by the old one.
#[test]
fn a_data_set_of_no_known_place_has_a_name_that_nobody_knows() {
    let (_own, mut replica) = ours(&[]);
    let full = format!("+FULLRESYNC {FOREIGN} 0\r\n").into_bytes();
    let first = false_primary(&mut replica, &[&full, EMPTY].concat());
    wait_until("the link", || field(&mut replica, "master_link_status") == "up");
    assert_eq!(field(&mut replica, "master_replid"), FOREIGN);
    let _second = false_primary(&mut replica, &[b"-ERR what\r\n", EMPTY].concat());
    drop(first);
    wait_until("the other link", || field(&mut replica, "master_link_status") == "up");
    assert_ne!(field(&mut replica, "master_replid"), FOREIGN);
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    assert_ne!(field(&mut replica, "master_replid2"), FOREIGN);
}
