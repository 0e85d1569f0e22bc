//! Atomic slot migration between whole processes, under load, with ends that go and links that are cut.
//! `MARTLET_CLUSTER_VALKEY` names a valkey-server of version 9 or later that is then one end of it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use martlet_base::random::Random;
use martlet_base::slot::slot_of;
use martlet_client::blocking::Client;

use super::{LOOK, Node, PATIENCE, attach, introduce, take_over, told, until, until_up};

/// The slots up to this one move. Each node keeps some others: a node without any becomes a replica.
pub(crate) const LAST: u16 = 4095;
const WRITERS: usize = 3;
/// Counters of each.
const COUNTERS: u64 = 60;
/// Writes of each that are acknowledged between two migrations.
const WRITES_BETWEEN: u64 = 50;

/// Two primaries, of which the first has the lower half of all slots.
pub(crate) fn pair(first: &Node, second: &Node) {
    introduce(&[first, second]);
    assert_eq!(first.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]), "OK");
    assert_eq!(second.ask(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]), "OK");
    until_up(&[first, second]);
}

pub(crate) fn migrate(from: &Node, to: &Node) -> String {
    from.ask(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "0", &LAST.to_string(), "NODE", &to.id()])
}

/// A field of the newest migration that a node knows.
pub(crate) fn field(node: &Node, name: &str) -> String {
    let text = node.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]);
    text.split(&format!("{name} "))
        .nth(1)
        .unwrap_or_default()
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// States of ended jobs.
const ENDED: [&str; 3] = ["success", "failed", "cancelled"];

pub(crate) fn is_over(node: &Node) -> bool {
    ENDED.contains(&field(node, "state").as_str())
}

/// The state of the migration of this name.
fn state_of(node: &Node, name: &str) -> Option<String> {
    let text = node.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]);
    let of_it = text.split(&format!("name {name} ")).nth(1)?;
    of_it.split("state ").nth(1)?.split(' ').next().map(str::to_owned)
}

/// Counts up its own counters until the end is signalled; returns the last answered value of each. No other
/// client changes them, so each answer is one more than the last.
fn count(number: usize, nodes: [SocketAddr; 2], ends: &AtomicBool, done: &AtomicU64) -> HashMap<String, u64> {
    let (mut random, mut counters) = (Random::seeded(number as u64), HashMap::new());
    let mut clients = nodes.map(|node| Client::connect(node).unwrap());
    let mut at = 0;
    while !ends.load(Ordering::SeqCst) {
        let key = format!("{number}:{}", random.below(COUNTERS));
        let answer = told(&clients[at].command(&["INCR", &key]).unwrap());
        if answer.starts_with("-MOVED") {
            at = 1 - at;
            continue;
        }
        let counter = counters.entry(key).or_insert(0);
        *counter += 1;
        assert_eq!(answer, counter.to_string(), "nothing is lost or done twice");
        done.fetch_add(1, Ordering::SeqCst);
    }
    counters
}

/// Has writers count during `work`, which gets a way to wait for their writes; then their counters have the
/// answered values.
pub(crate) fn under_load(nodes: [&Node; 2], work: impl FnOnce(&dyn Fn())) {
    let (ends, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; WRITERS]);
    let addresses = nodes.map(Node::address);
    let counters = std::thread::scope(|scope| {
        let begin = |number: usize| {
            let (ends, done) = (&ends, &counts[number]);
            scope.spawn(move || count(number, addresses, ends, done))
        };
        let writers: Vec<_> = (0..WRITERS).map(begin).collect();
        let wait = || {
            let before: Vec<u64> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            until("all have written", || {
                let is_ended = writers.iter().any(|writer| writer.is_finished());
                let now = counts.iter().map(|count| count.load(Ordering::SeqCst));
                is_ended || now.zip(&before).all(|(now, before)| now - before >= WRITES_BETWEEN)
            });
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&wait)));
        ends.store(true, Ordering::SeqCst);
        let counters: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        outcome.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        counters
    });
    for (key, counter) in counters.into_iter().flatten() {
        let answers = nodes.map(|node| node.ask(&["GET", &key]));
        assert!(answers.contains(&counter.to_string()), "{key}: {counter}, but {answers:?}");
    }
}

/// There and back some times.
fn move_under_load(first: &Node, second: &Node) {
    pair(first, second);
    under_load([first, second], |wait| {
        for (from, to) in [(first, second), (second, first), (first, second)] {
            wait();
            assert_eq!(migrate(from, to), "OK");
            until("both ends have ended", || is_over(from) && is_over(to));
            assert_eq!([from, to].map(|node| field(node, "state")), ["success", "success"]);
        }
        wait();
    });
}

#[test]
fn slots_move_at_once_and_no_write_is_lost() {
    move_under_load(&Node::ours(&[]), &Node::ours(&[]));
}

#[test]
fn documents_move_with_their_slots() {
    let (first, second) = (Node::ours(&[]), Node::ours(&[]));
    pair(&first, &second);
    let keys: Vec<String> = (0..)
        .map(|i| format!("document:{i}"))
        .filter(|key| slot_of(key.as_bytes()) <= LAST)
        .take(50)
        .collect();
    for (i, key) in keys.iter().enumerate() {
        let text = format!(r#"{{"number":{i},"list":[1,2.5,null],"text":"{}"}}"#, "x".repeat(i * 20));
        assert_eq!(first.ask(&["JSON.SET", key, "$", &text]), "OK");
    }
    assert_eq!(first.ask(&["JSON.SET", &keys[0], "$", "[0.1,2]", "FPHA", "BF16"]), "OK");
    let texts: Vec<String> = keys.iter().map(|key| first.ask(&["JSON.GET", key])).collect();
    assert_eq!(migrate(&first, &second), "OK");
    until("both ends have ended", || is_over(&first) && is_over(&second));
    assert_eq!([&first, &second].map(|node| field(node, "state")), ["success", "success"]);
    for (key, text) in keys.iter().zip(texts) {
        assert_eq!(second.ask(&["JSON.GET", key]), text);
        assert!(first.ask(&["JSON.GET", key]).starts_with("-MOVED"));
    }
}

#[test]
fn slots_move_to_valkey_and_back() {
    let Some(valkey) = std::env::var_os("MARTLET_CLUSTER_VALKEY") else {
        println!("MARTLET_CLUSTER_VALKEY names no server");
        return;
    };
    let valkey = valkey.into_string().unwrap();
    assert!(Path::new(&valkey).exists());
    move_under_load(&Node::ours(&[]), &Node::start(&valkey, &[], &[]));
}

/// Connections that are killed and migrations that are cancelled at any time: the slots are one node's, and
/// no write is lost.
#[test]
fn what_is_cut_off_leaves_the_slots_whole() {
    let seed = Random::from_entropy().below(1 << 40);
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    // Consent that does not arrive has writes wait for twice this time, which clients outlast.
    let options = ["--cluster-manual-failover-timeout", "10000"];
    let nodes = [Node::ours(&options), Node::ours(&options)];
    pair(&nodes[0], &nodes[1]);
    under_load([&nodes[0], &nodes[1]], |wait| {
        for _ in 0..6 {
            wait();
            let owner = usize::from(
                !nodes[0]
                    .ask(&["CLUSTER", "NODES"])
                    .lines()
                    .any(|line| line.contains("myself") && line.contains(" 0-")),
            );
            let (from, to) = (&nodes[owner], &nodes[1 - owner]);
            assert_eq!(migrate(from, to), "OK");
            for _ in 0..random.below(200) {
                std::thread::yield_now();
            }
            if random.below(2) == 0 {
                from.ask(&["CLUSTER", "CANCELSLOTMIGRATIONS"]);
            } else {
                // Connections that bring slots.
                let list = to.ask(&["CLIENT", "LIST"]);
                let import = list.lines().find(|line| line.contains("flags=i"));
                let id = import.and_then(|line| line.strip_prefix("id=")?.split(' ').next());
                id.into_iter().for_each(|id| drop(to.ask(&["CLIENT", "KILL", "ID", id])));
            }
            let name = field(from, "name");
            // What never came to the other end is over there, too.
            let ends = || [from, to].map(|node| state_of(node, &name).unwrap_or_else(|| "failed".into()));
            let began = Instant::now();
            while !ends().iter().all(|state| ENDED.contains(&state.as_str())) {
                assert!(began.elapsed() < PATIENCE, "{:?} after a seed of {seed}", ends());
                std::thread::sleep(LOOK);
            }
            let states = ends();
            assert!(
                states.iter().all(|state| state == "success") || !states.contains(&"success".into()),
                "{states:?}"
            );
            if states[0] != "success" {
                let keys = to.ask(&["KEYS", "*"]);
                let is_left = |key: &&str| slot_of(key.as_bytes()) <= LAST;
                assert_eq!(keys.split(' ').filter(|key| !key.is_empty()).find(is_left), None);
            }
        }
    });
}

/// Bytes that imports have got at a node.
pub(crate) fn received(node: &Node) -> u64 {
    let info = node.ask(&["INFO", "stats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("total_net_cluster_slot_import_bytes:"));
    line.map_or(0, |bytes| bytes.parse().unwrap())
}

/// Keys of slot 0, and a migration of them that sends some and does not end by itself.
pub(crate) fn begin_endless(from: &Node, to: &Node) {
    let key = "{06S}";
    assert_eq!(from.ask(&["CLUSTER", "KEYSLOT", key]), "0");
    // More than a block, so that some of it is sent.
    let value = "x".repeat(2_000);
    (0..50).for_each(|number| assert_eq!(from.ask(&["SET", &format!("{key}{number}"), &value]), "OK"));
    // The cut takes longer than the test.
    assert_eq!(from.ask(&["CONFIG", "SET", "rdb-key-save-delay", "100000000"]), "OK");
    assert_eq!(migrate(from, to), "OK");
    until("keys arrive", || received(to) > 60_000);
    assert_eq!(field(to, "state"), "receiving-snapshot");
}

/// A replica that comes while slots are on their way hides their keys, too; and when it takes over, it
/// deletes them.
#[test]
fn a_replica_that_takes_over_meanwhile_has_none_of_the_keys() {
    let (from, to, replica) = (Node::ours(&[]), Node::ours(&[]), Node::ours(&[]));
    pair(&from, &to);
    to.meet(&replica);
    begin_endless(&from, &to);
    attach(&replica, &to);
    until("the replica knows", || field(&replica, "state") == "occurring-on-primary");
    assert_eq!(replica.ask(&["DBSIZE"]), "0");
    take_over(&replica, &[&from, &to, &replica]);
    until("all have given it up", || [&from, &to, &replica].iter().all(|node| is_over(node)));
    assert_eq!([&from, &to, &replica].map(|node| field(node, "state")), ["failed"; 3]);
    let told = replica.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]);
    assert!(told.contains("A failover occurred during slot import"), "{told}");
    assert_eq!([&from, &to, &replica].map(|node| node.ask(&["DBSIZE"])), ["50", "0", "0"]);
    // Another begins, and ends.
    assert_eq!(from.ask(&["CONFIG", "SET", "rdb-key-save-delay", "0"]), "OK");
    assert_eq!(migrate(&from, &replica), "OK");
    until("the slots are there", || is_over(&from) && is_over(&replica));
    until("the old primary has them", || to.ask(&["DBSIZE"]) == "50");
    assert_eq!(replica.ask(&["DBSIZE"]), "50");
}

/// Until the slots are the target's their keys are invisible there, and a failed import leaves none; replicas
/// see as much as their primary.
#[test]
fn keys_on_their_way_are_nobodys() {
    let (from, to, replica) = (Node::ours(&[]), Node::ours(&[]), Node::ours(&[]));
    pair(&from, &to);
    to.meet(&replica);
    attach(&replica, &to);
    begin_endless(&from, &to);
    until("the replica knows", || {
        replica.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]).contains("occurring-on-primary")
    });
    let sees = |node: &Node| {
        let scanned = node.ask(&["SCAN", "0", "COUNT", "10000"]);
        [node.ask(&["DBSIZE"]), node.ask(&["KEYS", "*"]), node.ask(&["RANDOMKEY"]), scanned]
    };
    let nothing = ["0", "", "nil", "0 "];
    assert_eq!(sees(&to), nothing);
    assert_eq!(sees(&replica), nothing);
    assert!(to.ask(&["GET", "{06S}1"]).starts_with("-MOVED 0 "));
    // A client that asks for the slot sees its progress.
    assert_ne!(to.ask(&["CLUSTER", "COUNTKEYSINSLOT", "0"]), "0");
    assert!(to.ask(&["CLUSTER", "GETKEYSINSLOT", "0", "1"]).starts_with("{06S}"));
    // A flushed import fails, and leaves nothing.
    assert_eq!(to.ask(&["FLUSHALL"]), "OK");
    until("it has failed", || is_over(&from) && is_over(&to) && is_over(&replica));
    assert!(to.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]).contains("Data was flushed"));
    assert_eq!(from.ask(&["DBSIZE"]), "50");
    assert_eq!(from.ask(&["CONFIG", "SET", "rdb-key-save-delay", "0"]), "OK");
    assert_eq!(migrate(&from, &to), "OK");
    until("the slots are there", || is_over(&from) && is_over(&to) && is_over(&replica));
    assert_eq!(to.ask(&["DBSIZE"]), "50");
    until("the replica has all", || replica.ask(&["DBSIZE"]) == "50");
    assert_eq!(field(&replica, "state"), "success");
    until("the source has none", || from.ask(&["DBSIZE"]) == "0");
}

/// A job that DEBUG SLOTMIGRATION stopped continues once it is released, and nothing moves key by key in that
/// time.
#[test]
fn what_is_held_up_goes_on() {
    // Twice this time writers wait for consent that is not acted on.
    let options = ["--enable-debug-command", "yes", "--cluster-manual-failover-timeout", "3000"];
    let (from, to) = (Node::ours(&options), Node::ours(&options));
    pair(&from, &to);
    let debug = |node: &Node, step: &str, flag: &str| node.ask(&["DEBUG", "SLOTMIGRATION", step, flag]);
    assert!(debug(&from, "PREVENT-ALL", "1").contains("unknown subcommand or wrong number of arguments"));
    assert_eq!(from.ask(&["SET", "{06S}", "1"]), "OK");
    assert_eq!(debug(&from, "PREVENT-PAUSE", "1"), "OK");
    assert_eq!(migrate(&from, &to), "OK");
    until("it waits", || field(&from, "state") == "waiting-to-pause");
    let set =
        |node: &Node, other: &Node, word: &str| node.ask(&["CLUSTER", "SETSLOT", "5000", word, &other.id()]);
    for word in ["MIGRATING", "IMPORTING", "NODE"] {
        assert_eq!(set(&from, &to, word), "-ERR Slot export in progress.");
        assert_eq!(set(&to, &from, word), "-ERR Slot import in progress.");
    }
    assert_eq!(from.ask(&["SET", "{06S}", "2"]), "OK");
    assert_eq!(debug(&from, "PREVENT-PAUSE", "0"), "OK");
    until("both ends have ended", || is_over(&from) && is_over(&to));
    assert_eq!([&from, &to].map(|node| field(node, "state")), ["success"; 2]);
    assert_eq!(to.ask(&["GET", "{06S}"]), "2");
    // Consent that is not used ends, and the source continues.
    assert_eq!(debug(&from, "PREVENT-FAILOVER", "1"), "OK");
    assert_eq!(migrate(&to, &from), "OK");
    until("it has consent", || field(&from, "state") == "failover-granted");
    until("the target has given up", || is_over(&from));
    assert_eq!(field(&from, "state"), "failed");
    until("the source has", || is_over(&to));
    assert_eq!(to.ask(&["SET", "{06S}", "3"]), "OK");
    assert_eq!(from.ask(&["DBSIZE"]), "0");
}
