//! CLUSTERSCAN: its errors and redirections, and that it meets every key while slots move.

use std::collections::{BTreeSet, VecDeque};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

use super::{Node, attach, form, introduce, told, until, until_settled, until_up};

/// Tags of slots 0, 1 and 16,383.
const TAGS: [&str; 3] = ["06S", "Qi", "6ZJ"];

/// Follows cursors and redirections as a cluster client does.
struct Scan<'a> {
    nodes: &'a [&'a Node],
    clients: Vec<Client>,
    /// Where the next request goes.
    at: usize,
}

impl<'a> Scan<'a> {
    fn new(nodes: &'a [&'a Node]) -> Scan<'a> {
        Scan { nodes, clients: nodes.iter().map(|node| node.connect()).collect(), at: 0 }
    }

    fn node_of(&self, redirection: &str) -> usize {
        let address = redirection.rsplit(' ').next().unwrap();
        self.nodes.iter().position(|node| node.address().to_string() == address).unwrap()
    }

    /// One call: the next cursor, and keys.
    fn call(&mut self, cursor: &str, options: &[&str]) -> (String, Vec<String>) {
        let words = [&["CLUSTERSCAN", cursor][..], options].concat();
        let mut is_asked = false;
        for _ in 0..20 {
            if is_asked {
                assert_eq!(told(&self.clients[self.at].command(&["ASKING"]).unwrap()), "OK");
            }
            match self.clients[self.at].command(&words).unwrap() {
                Reply::Array(parts) => {
                    let Reply::Array(names) = &parts[1] else { panic!("{parts:?}") };
                    return (told(&parts[0]), names.iter().map(told).collect());
                }
                error => {
                    let error = told(&error);
                    is_asked = error.starts_with("-ASK ");
                    assert!(is_asked || error.starts_with("-MOVED "), "{cursor}: {error}");
                    self.at = self.node_of(&error);
                }
            }
        }
        panic!("{cursor} is sent around");
    }

    /// All that a whole scan meets; `between` is called after each call.
    fn run(&mut self, options: &[&str], mut between: impl FnMut()) -> BTreeSet<String> {
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        for _ in 0..10_000 {
            let (next, names) = self.call(&cursor, options);
            seen.extend(names);
            if next == "0" {
                return seen;
            }
            cursor = next;
            between();
        }
        panic!("the scan does not end");
    }
}

#[test]
fn cursors_are_checked_and_sent_to_their_slots_owner() {
    let nodes = [Node::ours(&[]), Node::ours(&[])];
    let [first, second] = &nodes;
    form(&[first, second]);
    let moved = |slot: u16, to: &Node| format!("-MOVED {slot} {}", to.address());
    let ask = |node: &Node, line: &str| node.ask(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(ask(first, "CLUSTERSCAN 0"), moved(13_907, second));
    assert_eq!(ask(second, "CLUSTERSCAN 0"), "0-{06S}-0 ");
    assert_eq!(ask(second, "CLUSTERSCAN 0 SLOT 7"), "0-{1LV}-0 ");
    assert_eq!(ask(second, "CLUSTERSCAN 0 MATCH foo"), "0-{9Le}-0 ");
    assert_eq!(ask(second, "CLUSTERSCAN 0 MATCH f?o"), "0-{06S}-0 ");
    assert_eq!(ask(second, "CLUSTERSCAN 0 SLOT 0 MATCH {Qi}*"), "0 ");
    assert_eq!(ask(second, "CLUSTERSCAN 0-{06S}-0"), moved(0, first));
    assert_eq!(ask(first, "CLUSTERSCAN 0-{06S}-0"), "0-{8YG}-0 ");
    assert_eq!(ask(second, "CLUSTERSCAN 0-{8YG}-0"), "0 ");
    assert_eq!(ask(first, "CLUSTERSCAN 0-{06S}-0 MATCH {Qi}*"), "0-{Qi}-0 ");
    assert_eq!(ask(first, "CLUSTERSCAN 0-{Qi}-0 MATCH {06S}*"), "0 ");
    for (line, error) in [
        ("0-{06S}-0x", "Invalid cursor"),
        ("0-{06S}-", "Invalid cursor"),
        ("0-{06S}-0-0", "Invalid cursor"),
        ("0-{06S}", "Invalid cursor"),
        ("0-{06S}-18446744073709551616", "Invalid cursor"),
        ("0-{06S}-0 SLOT 1", "Cursor slot mismatch with SLOT argument"),
        ("0-{06S}-x SLOT 20000", "Invalid or out of range slot"),
        ("0-{06S}-x SLOT x", "Invalid or out of range slot"),
        ("0-{06S}-0 SLOT 0 SLOT 0", "SLOT option can only be specified once"),
        ("0-{06S}-0 SLOT", "syntax error"),
        ("0-{06S}-0 COUNT 0", "syntax error"),
        ("0-{06S}-0 COUNT x", "value is not an integer or out of range"),
        ("0-{06S}-0 TYPE x", "unknown type name 'x'"),
        ("0-{06S}-0 NOSCORES", "NOSCORES option can only be used in ZSCAN"),
        ("0-{06S}-0 NOVALUES", "NOVALUES option can only be used in HSCAN"),
        ("0-{06S}-0 MORE", "syntax error"),
    ] {
        assert_eq!(ask(first, &format!("CLUSTERSCAN {line}")), format!("-ERR {error}"), "{line}");
    }
    let crossing = ask(first, "SCAN 0 SLOT 0");
    assert_eq!(crossing, "-ERR syntax error");
}

#[test]
fn a_scan_goes_through_slots_in_their_order() {
    let node = Node::ours(&[]);
    form(&[&node]);
    for (tag, count) in TAGS.into_iter().zip([300, 2, 40]) {
        for number in 0..count {
            assert_eq!(node.ask(&["SET", &format!("{{{tag}}}{number}"), "v"]), "OK");
        }
    }
    assert_eq!(node.ask(&["LPUSH", "{06S}list", "v"]), "1");
    let all = [&node];
    let mut scan = Scan::new(&all);
    let (mut cursor, mut seen, mut calls) = ("0-{06S}-0".to_owned(), Vec::new(), 0);
    let mut fingerprints = BTreeSet::new();
    while cursor != "0" {
        let (next, names) = scan.call(&cursor, &["COUNT", "7"]);
        // The cursor's tag is incomplete, all before it is complete.
        let is_before = |name: &String| !name.starts_with("{06S}");
        assert!(next == "0" || !next.contains("06S") || !names.iter().any(is_before), "{next} {names:?}");
        if let Some((fingerprint, _)) = next.split_once('-') {
            fingerprints.insert(fingerprint.to_owned());
        }
        seen.extend(names);
        (cursor, calls) = (next, calls + 1);
        assert!(calls < 1_000);
    }
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (343, 343));
    assert!((343 / 14..=343 / 7 + 3).contains(&calls), "{calls} calls");
    assert_eq!(fingerprints.len(), 1, "{fingerprints:?}");
    assert_ne!(fingerprints.first().unwrap(), "0");
    let of_slot = |scan: &mut Scan<'_>, words: &[&str]| scan.run(words, || ()).len();
    assert_eq!(of_slot(&mut scan, &["SLOT", "1", "COUNT", "1"]), 2);
    assert_eq!(of_slot(&mut scan, &["MATCH", "{06S}*", "COUNT", "50"]), 301);
    assert_eq!(of_slot(&mut scan, &["TYPE", "list"]), 1);
    assert_eq!(of_slot(&mut scan, &["MATCH", "*9", "TYPE", "string", "SLOT", "0"]), 30);
    // Another's position is the slot's begin.
    let (_, names) = scan.call("other0-{06S}-123456789", &["COUNT", "1000", "SLOT", "0"]);
    assert_eq!(names.len(), 301);
}

/// Requests that move slots by two ways, as orders to nodes: each is carried out between two calls.
fn moves(nodes: &[&Node], tags: &[String], keys: usize) -> VecDeque<(usize, Vec<String>)> {
    let mut orders = VecDeque::new();
    let ids: Vec<String> = nodes.iter().map(|node| node.id()).collect();
    for (index, tag) in tags.iter().enumerate() {
        let slot = nodes[0].ask(&["CLUSTER", "KEYSLOT", tag]);
        let from = usize::from(slot.parse::<u16>().unwrap() >= 8_192);
        let to = 1 - from;
        let mut order = |node: usize, words: &[&str]| {
            orders.push_back((node, words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()));
        };
        if index % 3 == 0 {
            order(from, &["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot, &slot, "NODE", &ids[to]]);
            continue;
        }
        order(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[from]]);
        order(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[to]]);
        let names: Vec<String> = (0..keys).map(|number| format!("{{{tag}}}{number}")).collect();
        let port = nodes[to].address().port().to_string();
        for names in names.chunks(5) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            order(from, &[&["MIGRATE", "127.0.0.1", &port, "", "0", "60000", "KEYS"][..], &names].concat());
        }
        order(to, &["CLUSTER", "SETSLOT", &slot, "NODE", &ids[to]]);
        order(from, &["CLUSTER", "SETSLOT", &slot, "NODE", &ids[to]]);
    }
    orders
}

#[test]
fn a_scan_meets_every_key_while_slots_move() {
    const KEYS: usize = 30;
    for skipped in [0, 3, 12, 30] {
        let nodes = [Node::ours(&[]), Node::ours(&[])];
        let all: Vec<&Node> = nodes.iter().collect();
        form(&all);
        until_settled(&all);
        // Of slots that lie apart, and of neighbours.
        let tags: Vec<String> =
            (0..9).map(|number| number.to_string()).chain(TAGS.map(str::to_owned)).collect();
        let mut expected = BTreeSet::new();
        let mut clients: Vec<Client> = nodes.iter().map(Node::connect).collect();
        for name in tags.iter().flat_map(|tag| (0..KEYS).map(move |number| format!("{{{tag}}}{number}"))) {
            let takes = |client: &mut Client| told(&client.command(&["SET", &name, "v"]).unwrap()) == "OK";
            assert!(clients.iter_mut().any(takes));
            expected.insert(name);
        }
        let mut orders = moves(&all, &tags, KEYS);
        let mut waits = skipped;
        let seen = Scan::new(&all).run(&["COUNT", "3"], || {
            if waits > 0 {
                waits -= 1;
                return;
            }
            let Some((node, words)) = orders.pop_front() else { return };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let told = all[node].ask(&words);
            assert!(told == "OK" || told == "NOKEY", "{words:?}: {told}");
            if words.contains(&"MIGRATESLOTS") {
                let count = |node: &Node| node.ask(&["CLUSTER", "COUNTKEYSINSLOT", words[3]]);
                until("the slot has moved", || {
                    (count(all[node]), count(all[1 - node])) == ("0".into(), KEYS.to_string())
                });
            }
        });
        let missing: Vec<&String> = expected.difference(&seen).collect();
        assert!(missing.is_empty(), "{skipped}: {missing:?}");
    }
}

/// Moves slot 0 from one node to the other; returns the requests that are left for the first three of its
/// eight keys to arrive.
fn open_slot(from: &Node, to: &Node) -> [String; 10] {
    for number in 0..8 {
        assert_eq!(from.ask(&["SET", &format!("{{06S}}{number}"), "v"]), "OK");
    }
    assert_eq!(to.ask(&["CLUSTER", "SETSLOT", "0", "IMPORTING", &from.id()]), "OK");
    assert_eq!(from.ask(&["CLUSTER", "SETSLOT", "0", "MIGRATING", &to.id()]), "OK");
    let port = to.address().port().to_string();
    ["MIGRATE", "127.0.0.1", &port, "", "0", "60000", "KEYS", "{06S}0", "{06S}1", "{06S}2"].map(String::from)
}

#[test]
fn a_slot_under_way_is_scanned_at_both_ends() {
    let (from, to) = (Node::ours(&[]), Node::ours(&[]));
    form(&[&from, &to]);
    let moved = open_slot(&from, &to);
    assert_eq!(from.ask(&moved.each_ref().map(String::as_str)), "OK");
    let told = from.ask(&["CLUSTERSCAN", "0-{06S}-0"]);
    let (cursor, names) = told.split_once(' ').unwrap();
    assert_eq!(names.split(' ').count(), 5, "{told}");
    assert!(cursor.ends_with("-{06S}-18446744073709551615"), "{told}");
    let asked = format!("-ASK 0 {}", to.address());
    assert_eq!(from.ask(&["CLUSTERSCAN", cursor]), asked);
    assert_eq!(to.ask(&["CLUSTERSCAN", cursor]), format!("-MOVED 0 {}", from.address()));
    let mut client = to.connect();
    let mut ask = |words: &[&str]| super::told(&client.command(words).unwrap());
    assert_eq!(ask(&["ASKING"]), "OK");
    let told = ask(&["CLUSTERSCAN", cursor]);
    let (next, names) = told.split_once(' ').unwrap();
    assert_eq!((next, names.split(' ').count()), ("0-{Qi}-0", 3), "{told}");
    // The slot stays: the scan of it restarts here.
    assert_eq!(from.ask(&["CLUSTER", "SETSLOT", "0", "STABLE"]), "OK");
    let told = from.ask(&["CLUSTERSCAN", cursor, "SLOT", "0"]);
    assert!(told.starts_with("0 ") && told.split(' ').count() == 6, "{told}");
}

#[test]
fn a_replica_scans_for_readers() {
    let (primary, replica) = (Node::ours(&[]), Node::ours(&[]));
    introduce(&[&primary, &replica]);
    assert_eq!(primary.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    until_up(&[&primary]);
    assert_eq!(primary.ask(&["SET", "{06S}key", "v"]), "OK");
    attach(&replica, &primary);
    assert_eq!(replica.ask(&["CLUSTERSCAN", "0-{06S}-0"]), format!("-MOVED 0 {}", primary.address()));
    let mut reader = replica.connect();
    assert_eq!(told(&reader.command(&["READONLY"]).unwrap()), "OK");
    assert_eq!(told(&reader.command(&["CLUSTERSCAN", "0-{06S}-0"]).unwrap()), "0 {06S}key");
}

/// A replica whose primary's slot moves serves the keys that it has, and redirects readers for the rest.
#[test]
fn a_replica_sends_readers_on_while_a_slot_moves() {
    let (from, to, replica) = (Node::ours(&[]), Node::ours(&[]), Node::ours(&[]));
    form(&[&from, &to]);
    from.meet(&replica);
    attach(&replica, &from);
    let moved = open_slot(&from, &to);
    let mut client = from.connect();
    assert_eq!(told(&client.command(&moved).unwrap()), "OK");
    assert_eq!(told(&client.command(&["WAIT", "1", "0"]).unwrap()), "1");
    let mut reader = replica.connect();
    let mut read = |words: &[&str]| told(&reader.command(words).unwrap());
    assert_eq!(read(&["READONLY"]), "OK");
    let asked = format!("-ASK 0 {}", to.address());
    until("the replica sends on", || read(&["GET", "{06S}0"]) == asked);
    assert_eq!(read(&["GET", "{06S}3"]), "v");
    assert!(read(&["MGET", "{06S}0", "{06S}3"]).starts_with("-TRYAGAIN"));
    assert!(read(&["SET", "{06S}0", "v"]).starts_with("-MOVED 0"));
    assert!(replica.ask(&["GET", "{06S}0"]).starts_with("-MOVED 0"), "to who has not said READONLY");
    let scanned = read(&["CLUSTERSCAN", "0-{06S}-0"]);
    let (cursor, names) = scanned.split_once(' ').unwrap();
    assert_eq!((names.split(' ').count(), read(&["CLUSTERSCAN", cursor])), (5, asked), "{scanned}");
}
