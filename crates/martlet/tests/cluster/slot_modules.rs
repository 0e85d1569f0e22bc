//! Documents, sketches, series and vector sets whose slot moves while clients write to them: at once, and key
//! by key. No acknowledged write is lost or done twice, and each node's index of labels has its own series.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use martlet_client::blocking::Client;

use super::slot_migration::{field, is_over, migrate, pair};
use super::{Node, told, until};

/// All keys are of slot 0.
const SLOT: &str = "0";
/// Series that no client writes to.
const STILL: usize = 20;
/// Writes to each value that are acknowledged between two moves.
const WRITES_BETWEEN: usize = 40;

/// A value that one client writes to.
struct Written {
    created: &'static str,
    /// `#` stands for the number of the write.
    write: &'static str,
    /// The answer to a write.
    answer: &'static str,
    /// A question at the end, and its answer after that many writes.
    asked: &'static str,
    found: &'static str,
}

const WRITTEN: [Written; 9] = [
    Written {
        created: "JSON.SET {06S}json $ {\"n\":0,\"l\":[]}",
        write: "JSON.NUMINCRBY {06S}json $.n 1",
        answer: "[#]",
        asked: "JSON.GET {06S}json $.n",
        found: "[#]",
    },
    Written {
        created: "BF.RESERVE {06S}bloom 0.000001 50 EXPANSION 2",
        write: "BF.ADD {06S}bloom item#",
        answer: "1",
        asked: "BF.CARD {06S}bloom",
        found: "#",
    },
    Written {
        created: "CF.RESERVE {06S}cuckoo 50 EXPANSION 2",
        write: "CF.ADD {06S}cuckoo item#",
        answer: "1",
        asked: "CF.EXISTS {06S}cuckoo item#",
        found: "1",
    },
    Written {
        created: "CMS.INITBYDIM {06S}cms 50 5",
        write: "CMS.INCRBY {06S}cms x 1",
        answer: "#",
        asked: "CMS.QUERY {06S}cms x",
        found: "#",
    },
    Written {
        created: "TOPK.RESERVE {06S}topk 3 20 3 1",
        write: "TOPK.INCRBY {06S}topk x 1",
        answer: "nil",
        asked: "TOPK.LIST {06S}topk WITHCOUNT",
        found: "x #",
    },
    Written {
        created: "TDIGEST.CREATE {06S}digest",
        write: "TDIGEST.ADD {06S}digest #",
        answer: "OK",
        asked: "TDIGEST.RANK {06S}digest 1e9",
        found: "#",
    },
    Written {
        created: "TS.CREATE {06S}series CHUNK_SIZE 128 LABELS of test",
        write: "TS.ADD {06S}series # 1",
        answer: "#",
        asked: "TS.RANGE {06S}series - + AGGREGATION sum 1000000",
        found: "0 #",
    },
    Written {
        created: "VADD {06S}vectors VALUES 2 1 1 first",
        write: "VADD {06S}vectors VALUES 2 1 # e#",
        answer: "1",
        asked: "VRANGE {06S}vectors [e# [e#",
        found: "e#",
    },
    Written {
        created: "FT.SUGADD {06S}suggestions none 0",
        write: "FT.SUGADD {06S}suggestions text# 1",
        answer: "#",
        asked: "FT.SUGGET {06S}suggestions text# MAX 1",
        found: "text#",
    },
];

/// A client of both nodes that goes where they send it.
struct Redirected {
    clients: [Client; 2],
    at: usize,
}

impl Redirected {
    fn new(nodes: [SocketAddr; 2]) -> Redirected {
        Redirected { clients: nodes.map(|node| Client::connect(node).unwrap()), at: 0 }
    }

    fn ask(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        loop {
            let answer = told(&self.clients[self.at].command(&words).unwrap());
            if answer.starts_with("-MOVED") {
                self.at = 1 - self.at;
            } else if answer.starts_with("-ASK") {
                let other = &mut self.clients[1 - self.at];
                assert_eq!(told(&other.command(&["ASKING"]).unwrap()), "OK");
                let answer = told(&other.command(&words).unwrap());
                // The slot may have come back meanwhile.
                if !answer.starts_with("-MOVED") {
                    return answer;
                }
            } else {
                return answer;
            }
        }
    }
}

fn at(text: &str, number: usize) -> String {
    text.replace('#', &number.to_string())
}

/// Writes to all values during `work`, which gets a way to wait for writes; then all have what was answered.
fn under_writers(nodes: [&Node; 2], work: impl FnOnce(&dyn Fn())) {
    let addresses = nodes.map(Node::address);
    let (ends, done) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; WRITTEN.len()]);
    std::thread::scope(|scope| {
        let writers = WRITTEN.iter().zip(&done).map(|(written, done)| {
            let ends = &ends;
            scope.spawn(move || {
                let mut client = Redirected::new(addresses);
                while !ends.load(Ordering::SeqCst) {
                    let number = done.load(Ordering::SeqCst) + 1;
                    let write = at(written.write, number);
                    assert_eq!(client.ask(&write), at(written.answer, number), "{write}");
                    done.store(number, Ordering::SeqCst);
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let wait = || {
            let before = done.each_ref().map(|done| done.load(Ordering::SeqCst));
            until("all have written", || {
                let now = done.each_ref().map(|done| done.load(Ordering::SeqCst));
                let is_ahead = |(now, before): (&usize, &usize)| *now >= before + WRITES_BETWEEN;
                writers.iter().any(|writer| writer.is_finished()) || now.iter().zip(&before).all(is_ahead)
            });
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&wait)));
        ends.store(true, Ordering::SeqCst);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        outcome.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
    let mut client = Redirected::new(addresses);
    for (written, done) in WRITTEN.iter().zip(&done) {
        let number = done.load(Ordering::SeqCst);
        let asked = at(written.asked, number);
        assert_eq!(client.ask(&asked), at(written.found, number), "{asked}");
        for sampled in (1..=number).step_by(7) {
            let exists = match written.write.split_once(' ').unwrap().0 {
                "BF.ADD" => at("BF.EXISTS {06S}bloom item#", sampled),
                "CF.ADD" => at("CF.EXISTS {06S}cuckoo item#", sampled),
                "VADD" => at("VISMEMBER {06S}vectors e#", sampled),
                _ => break,
            };
            assert_eq!(client.ask(&exists), "1", "{exists}");
        }
    }
}

/// Two nodes, of which the first has the values.
fn filled() -> [Node; 2] {
    let nodes = [Node::ours(&[]), Node::ours(&[])];
    pair(&nodes[0], &nodes[1]);
    let mut client = Redirected::new(nodes.each_ref().map(Node::address));
    for written in &WRITTEN {
        let answer = client.ask(written.created);
        assert!(!answer.starts_with('-'), "{}: {answer}", written.created);
    }
    for number in 0..STILL {
        let key = format!("{{06S}}still{number}");
        assert_eq!(client.ask(&format!("TS.CREATE {key} LABELS of test number {number}")), "OK");
        assert_eq!(client.ask(&format!("TS.ADD {key} 5 {number}")), "5");
    }
    nodes
}

/// The series that a node's index of labels has, by each of two questions.
fn indexed(node: &Node) -> Vec<String> {
    let found = node.ask(&["TS.QUERYINDEX", "of=test"]);
    let mut keys: Vec<String> = found.split_whitespace().map(str::to_owned).collect();
    keys.sort();
    let sampled = node.ask(&["TS.MGET", "FILTER", "of=test"]);
    assert_eq!(sampled.matches("{06S}").count(), keys.len(), "{sampled}");
    keys
}

#[test]
fn values_of_modules_move_at_once_under_writers() {
    let [first, second] = filled();
    let before = indexed(&first);
    assert_eq!(before.len(), STILL + 1);
    under_writers([&first, &second], |wait| {
        for (from, to) in [(&first, &second), (&second, &first), (&first, &second)] {
            wait();
            assert_eq!(migrate(from, to), "OK");
            until("both ends have ended", || is_over(from) && is_over(to));
            assert_eq!([from, to].map(|node| field(node, "state")), ["success", "success"]);
            until("the old keys are gone", || from.ask(&["DBSIZE"]) == "0");
            assert_eq!((indexed(from), indexed(to)), (vec![], before.clone()));
        }
        wait();
    });
    let number = (STILL - 1).to_string();
    assert_eq!(second.ask(&["TS.GET", &format!("{{06S}}still{number}")]), format!("5 {number}"));
}

#[test]
fn values_of_modules_move_key_by_key_under_writers() {
    let [first, second] = filled();
    let before = indexed(&first);
    under_writers([&first, &second], |wait| {
        for (from, to) in [(&first, &second), (&second, &first)] {
            wait();
            assert_eq!(to.ask(&["CLUSTER", "SETSLOT", SLOT, "IMPORTING", &from.id()]), "OK");
            assert_eq!(from.ask(&["CLUSTER", "SETSLOT", SLOT, "MIGRATING", &to.id()]), "OK");
            let port = to.address().port().to_string();
            loop {
                let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", SLOT, "4"]);
                if keys.is_empty() {
                    break;
                }
                let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
                let keys: Vec<&str> = keys.split(' ').collect();
                assert_eq!(from.ask(&[&words[..], &keys].concat()), "OK", "{keys:?}");
                let mut both = [indexed(from), indexed(to)].concat();
                both.sort();
                assert_eq!(both, before, "each series is in one node's index");
            }
            wait();
            for node in [to, from] {
                assert_eq!(node.ask(&["CLUSTER", "SETSLOT", SLOT, "NODE", &to.id()]), "OK");
            }
            assert_eq!((indexed(from), indexed(to)), (vec![], before.clone()));
        }
        wait();
    });
}
