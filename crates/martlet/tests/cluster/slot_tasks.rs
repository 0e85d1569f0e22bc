//! CLUSTER MIGRATION between whole processes: slots that their next node asks for, as in Redis 8.4, under
//! load, with ends that go and links that are cut. `MARTLET_CLUSTER_REDIS` names a redis-server of version
//! 8.4 or later that is then one end of it.

use std::time::Instant;

use martlet_base::random::Random;
use martlet_base::slot::slot_of;
use martlet_client::blocking::Client;
use rustix::process::Signal;

use super::setslot::signal;
use super::slot_migration::{LAST, pair, received, under_load};
use super::{LOOK, Node, PATIENCE, attach, introduce, take_over, told, until, until_up};

/// A key of slot 0.
const KEY: &str = "{06S}";

/// Has a node ask for the slots that move; the task's id.
fn import(to: &Node) -> String {
    let id = to.ask(&["CLUSTER", "MIGRATION", "IMPORT", "0", &LAST.to_string()]);
    assert_eq!(id.len(), 40, "{id}");
    id
}

/// A field of a task; empty if the node does not know the task.
fn task(node: &Node, id: &str, name: &str) -> String {
    let reply = node.connect().command(&["CLUSTER", "MIGRATION", "STATUS", "ID", id]).unwrap();
    let martlet_client::resp::Reply::Array(tasks) = reply else { panic!("no array") };
    let Some(martlet_client::resp::Reply::Array(fields)) = tasks.into_iter().next() else {
        return String::new();
    };
    let texts: Vec<String> = fields.iter().map(told).collect();
    texts.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone()).unwrap_or_default()
}

fn states(nodes: [&Node; 2], id: &str) -> [String; 2] {
    nodes.map(|node| task(node, id, "state"))
}

fn until_completed(nodes: [&Node; 2], id: &str) {
    let began = Instant::now();
    while states(nodes, id) != ["completed"; 2] {
        let errors = nodes.map(|node| task(node, id, "last_error"));
        assert!(began.elapsed() < PATIENCE, "{:?} {errors:?}", states(nodes, id));
        std::thread::sleep(LOOK);
    }
}

/// There and back some times.
fn move_under_load(first: &Node, second: &Node) {
    pair(first, second);
    under_load([first, second], |wait| {
        for (from, to) in [(first, second), (second, first), (first, second)] {
            wait();
            let id = import(to);
            until_completed([from, to], &id);
            assert_eq!(task(from, &id, "operation"), "migrate");
            assert_eq!(task(to, &id, "operation"), "import");
            assert_eq!([from, to].map(|node| task(node, &id, "slots")), ["0-4095"; 2]);
            assert_eq!([from, to].map(|node| task(node, &id, "retries")), ["0"; 2]);
        }
        wait();
    });
}

#[test]
fn slots_that_are_asked_for_move_at_once_and_no_write_is_lost() {
    move_under_load(&Node::ours(&[]), &Node::ours(&[]));
}

#[test]
fn slots_are_asked_for_between_redis_and_this_server() {
    let Ok(redis) = std::env::var("MARTLET_CLUSTER_REDIS") else {
        println!("MARTLET_CLUSTER_REDIS names no server");
        return;
    };
    move_under_load(&Node::ours(&[]), &Node::start(&redis, &[], &[]));
    // Values of all kinds that both have, with times.
    let (ours, theirs) = (Node::ours(&[]), Node::start(&redis, &[], &[]));
    pair(&ours, &theirs);
    let requests: [&[&str]; 8] = [
        &["SET", "{06S}s", "1", "EX", "1000"],
        &["RPUSH", "{06S}l", "1", "two", "-3"],
        &["HSET", "{06S}h", "a", "1", "b", "2"],
        &["HEXPIRE", "{06S}h", "1000", "FIELDS", "1", "a"],
        &["SADD", "{06S}set", "1", "2", "x"],
        &["ZADD", "{06S}z", "1", "a", "-2.5", "b"],
        &["XADD", "{06S}x", "1-1", "a", "1"],
        &["XGROUP", "CREATE", "{06S}x", "g", "0"],
    ];
    requests.iter().for_each(|words| assert!(!ours.ask(words).starts_with('-'), "{words:?}"));
    let library = "#!lua name=moved\nredis.register_function('moved', function() return 'here' end)";
    assert_eq!(ours.ask(&["FUNCTION", "LOAD", library]), "moved");
    let looks: [&[&str]; 8] = [
        &["GET", "{06S}s"],
        &["LRANGE", "{06S}l", "0", "-1"],
        &["HMGET", "{06S}h", "a", "b"],
        &["HTTL", "{06S}h", "FIELDS", "1", "b"],
        &["SCARD", "{06S}set"],
        &["ZRANGE", "{06S}z", "0", "-1", "WITHSCORES"],
        &["XRANGE", "{06S}x", "-", "+"],
        &["FCALL", "moved", "0"],
    ];
    let sees = |node: &Node| looks.map(|words| node.ask(words));
    let before = sees(&ours);
    for (from, to) in [(&ours, &theirs), (&theirs, &ours)] {
        let id = import(to);
        until_completed([from, to], &id);
        assert_eq!(sees(to), before);
        let times = [to.ask(&["TTL", "{06S}s"]), to.ask(&["HTTL", "{06S}h", "FIELDS", "1", "a"])];
        assert!(times.iter().all(|ttl| ttl.parse::<u32>().is_ok_and(|ttl| ttl > 900)), "{times:?}");
        until("the source has none", || from.ask(&["DBSIZE"]) == "0");
    }
}

/// Connections that are killed, and tasks that are cancelled, at any time: the slots are one node's, no write
/// is lost, and what was not cancelled succeeds at last.
#[test]
fn a_task_that_is_cut_off_is_tried_again_and_leaves_the_slots_whole() {
    let seed = Random::from_entropy().below(1 << 40);
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let nodes = [Node::ours(&[]), Node::ours(&[])];
    pair(&nodes[0], &nodes[1]);
    under_load([&nodes[0], &nodes[1]], |wait| {
        for _ in 0..6 {
            wait();
            let owns = |line: &str| line.contains("myself") && line.contains(" 0-");
            let owner = usize::from(!nodes[0].ask(&["CLUSTER", "NODES"]).lines().any(owns));
            let (from, to) = (&nodes[owner], &nodes[1 - owner]);
            let id = import(to);
            (0..random.below(200)).for_each(|_| std::thread::yield_now());
            let is_cancelled = random.below(2) == 0;
            if is_cancelled {
                to.ask(&["CLUSTER", "MIGRATION", "CANCEL", "ID", &id]);
            } else {
                // The target's connections at the source.
                let list = from.ask(&["CLIENT", "LIST"]);
                let mut of_target = list.lines().filter(|line| line.contains("cmd=cluster|syncslots"));
                let id = of_target.next_back().and_then(|line| line.strip_prefix("id=")?.split(' ').next());
                id.into_iter().for_each(|id| drop(from.ask(&["CLIENT", "KILL", "ID", id])));
            }
            let began = Instant::now();
            let is_over = |[source, target]: [String; 2]| match target.as_str() {
                "completed" => source == "completed",
                "canceled" => ["", "failed", "canceled"].contains(&source.as_str()),
                _ => false,
            };
            while !is_over(states([from, to], &id)) {
                assert!(began.elapsed() < PATIENCE, "{:?} after a seed of {seed}", states([from, to], &id));
                std::thread::sleep(LOOK);
            }
            if !is_cancelled {
                assert_eq!(states([from, to], &id), ["completed"; 2]);
            } else if task(to, &id, "state") == "canceled" {
                let keys = to.ask(&["KEYS", "*"]);
                let is_left = |key: &&str| slot_of(key.as_bytes()) <= LAST;
                assert_eq!(keys.split(' ').filter(|key| !key.is_empty()).find(is_left), None);
            }
        }
    });
}

/// Keys of slot 0, and a task that sends some of them and does not end by itself.
fn begin_endless(from: &Node, to: &Node) -> String {
    let value = "x".repeat(2_000);
    (0..50).for_each(|number| assert_eq!(from.ask(&["SET", &format!("{KEY}{number}"), &value]), "OK"));
    assert_eq!(from.ask(&["CONFIG", "SET", "rdb-key-save-delay", "100000000"]), "OK");
    let id = import(to);
    until("keys arrive", || received(to) > 60_000);
    assert_eq!(states([from, to], &id), ["send-bulk-and-stream", "accumulate-buffer"]);
    id
}

/// Until the slots are the target's its keys are invisible; the changes wait at the target, which INFO shows,
/// and another task is refused.
#[test]
fn keys_and_changes_on_their_way_are_invisible() {
    let (from, to, replica) = (Node::ours(&[]), Node::ours(&[]), Node::ours(&[]));
    pair(&from, &to);
    to.meet(&replica);
    attach(&replica, &to);
    let id = begin_endless(&from, &to);
    for node in [&to, &replica] {
        until("it hides them", || node.ask(&["DBSIZE"]) == "0" && node.ask(&["KEYS", "*"]).is_empty());
    }
    assert_eq!(from.ask(&["APPEND", &format!("{KEY}1"), "y"]), "2001");
    let kept = || {
        let info = to.ask(&["INFO", "memory"]);
        let line =
            info.lines().find_map(|line| line.strip_prefix("mem_cluster_slot_migration_input_buffer:"));
        line.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap()
    };
    until("the change is kept", || kept() > 0);
    assert!(to.ask(&["CLUSTER", "INFO"]).contains("cluster_slot_migration_active_tasks:1"));
    let refused = to.ask(&["CLUSTER", "MIGRATION", "IMPORT", "5000", "5001"]);
    assert_eq!(refused, "-ERR another ASM task is already in progress");
    // The snapshot ends, and with it the rest.
    assert_eq!(from.ask(&["CLUSTER", "MIGRATION", "CANCEL", "ALL"]), "1");
    assert!(task(&from, &id, "last_error").starts_with("Cancelled due to user request"));
    assert_eq!(from.ask(&["CONFIG", "SET", "rdb-key-save-delay", "0"]), "OK");
    // The target tries again.
    until_completed([&from, &to], &id);
    assert_eq!(task(&to, &id, "retries").parse::<u32>().map(|count| count > 0), Ok(true));
    assert_eq!(to.ask(&["STRLEN", &format!("{KEY}1")]), "2001");
    assert_eq!([to.ask(&["DBSIZE"]), kept().to_string()], ["50", "0"]);
    until("the replica has all", || replica.ask(&["DBSIZE"]) == "50");
    until("the source has none", || from.ask(&["DBSIZE"]) == "0");
}

/// A replica that takes over for the target deletes what it has of the slots; one that takes over for the
/// source is asked next.
#[test]
fn failovers_of_either_end() {
    let nodes = std::array::from_fn::<_, 4, _>(|_| Node::ours(&[]));
    let [from, to, of_from, of_to] = [&nodes[0], &nodes[1], &nodes[2], &nodes[3]];
    pair(from, to);
    from.meet(of_from);
    from.meet(of_to);
    let all = [from, to, of_from, of_to];
    attach(of_from, from);
    attach(of_to, to);
    let id = begin_endless(from, to);
    take_over(of_to, &all);
    until("the old target has given it up", || task(to, &id, "state") == "canceled");
    assert!(task(to, &id, "last_error").starts_with("Cancelled due to switching to replica"));
    until("the source has", || task(from, &id, "state") == "failed");
    until("nothing is left", || of_to.ask(&["DBSIZE"]) == "0" && to.ask(&["DBSIZE"]) == "0");
    assert_eq!(from.ask(&["SET", &format!("{KEY}1"), "new"]), "OK", "writes go on");
    // The new target asks, and the source's replica takes over meanwhile.
    let id = begin_endless_again(from, of_to);
    take_over(of_from, &all);
    until("the old source has given it up", || task(from, &id, "state") == "canceled");
    until_completed([of_from, of_to], &id);
    assert_eq!(of_to.ask(&["GET", &format!("{KEY}1")]), "new");
    assert_eq!(of_to.ask(&["DBSIZE"]), "50");
    assert_eq!(task(of_to, &id, "source"), of_from.id());
}

fn begin_endless_again(from: &Node, to: &Node) -> String {
    let id = import(to);
    until("it is under way", || task(from, &id, "state") == "send-bulk-and-stream");
    id
}

/// A target that is killed in the middle: writes go on, and the target has none of the keys when it comes
/// back.
#[test]
fn a_killed_target_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let (from, to) = (Node::ours(&[]), Node::ours_in(directory.path(), &options));
    pair(&from, &to);
    let id = begin_endless(&from, &to);
    signal(&to, Signal::KILL);
    until("the source has noticed it", || task(&from, &id, "state") == "failed");
    assert_eq!(from.ask(&["SET", &format!("{KEY}1"), "1"]), "OK");
    let to = to.restart(directory.path(), &options);
    until_up(&[&from, &to]);
    until("nothing is left", || to.ask(&["CLUSTER", "COUNTKEYSINSLOT", "0"]) == "0");
    assert_eq!(from.ask(&["CONFIG", "SET", "rdb-key-save-delay", "0"]), "OK");
    let id = import(&to);
    until_completed([&from, &to], &id);
    assert_eq!([to.ask(&["DBSIZE"]), to.ask(&["GET", &format!("{KEY}1")])], ["50", "1"]);
}

/// The parameters: how far behind a target may be, how long writes wait, when a slow target is given up, how
/// many tasks are remembered.
#[test]
fn the_limits_of_a_task() {
    let options = ["--enable-debug-command", "yes"];
    let (from, to) = (Node::ours(&options), Node::ours(&options));
    pair(&from, &to);
    let set = |node: &Node, name: &str, value: &str| {
        let name = format!("cluster-slot-migration-{name}");
        assert_eq!(node.ask(&["CONFIG", "SET", &name, value]), "OK");
    };
    let hold = |node: &Node, step: &str, flag: &str| {
        assert_eq!(node.ask(&["DEBUG", "SLOTMIGRATION", step, flag]), "OK");
    };
    let error = |node: &Node, id: &str, text: &str| {
        until(text, || task(node, id, "last_error").starts_with(text));
    };
    assert_eq!(from.ask(&["SET", KEY, "1"]), "OK");
    // Consent that is not used ends with the pause.
    set(&from, "write-pause-timeout", "300");
    hold(&to, "PREVENT-FAILOVER", "1");
    let id = import(&to);
    error(&from, &id, "Server paused timeout");
    assert_eq!(from.ask(&["SET", KEY, "2"]), "OK");
    hold(&to, "PREVENT-FAILOVER", "0");
    until_completed([&from, &to], &id);
    assert_eq!(to.ask(&["GET", KEY]), "2");
    // A target whose lag never is small enough.
    set(&to, "sync-buffer-drain-timeout", "100");
    hold(&to, "PREVENT-PAUSE", "1");
    let id = import(&from);
    error(&to, &id, "Sync buffer drain timeout (state: send-stream");
    hold(&to, "PREVENT-PAUSE", "0");
    until_completed([&to, &from], &id);
    set(&from, "max-archived-tasks", "1");
    until("one is remembered", || {
        let reply = from.connect().command(&["CLUSTER", "MIGRATION", "STATUS", "ALL"]).unwrap();
        matches!(reply, martlet_client::resp::Reply::Array(tasks) if tasks.len() == 1)
    });
}

/// Words that are wrong, and nodes that may not: nothing begins.
#[test]
fn what_is_refused() {
    let (first, second, replica) = (Node::ours(&[]), Node::ours(&[]), Node::ours(&[]));
    pair(&first, &second);
    first.meet(&replica);
    attach(&replica, &first);
    let ask = |node: &Node, words: &str| {
        let words: Vec<&str> = ["CLUSTER", "MIGRATION"].into_iter().chain(words.split(' ')).collect();
        node.ask(&words)
    };
    let arity = "-ERR wrong number of arguments for 'cluster|migration' command";
    let cases = [
        ("IMPORT", arity),
        ("IMPORT 100", arity),
        ("IMPORT 100 200 300", arity),
        ("UNKNOWN 1 2", "-ERR unknown argument"),
        ("IMPORT 200 100", "-ERR start slot number 200 is greater than end slot number 100"),
        ("IMPORT 0 16384", "-ERR Invalid or out of range slot"),
        ("IMPORT 10 a", "-ERR Invalid or out of range slot"),
        ("IMPORT 100 200", "-ERR this node is already the owner of the slot range"),
        ("IMPORT 8000 9000", "-ERR slots belong to different source nodes"),
        ("IMPORT 9000 9001 9001 9002", "-ERR Slot 9001 specified multiple times"),
        ("CANCEL", arity),
        ("CANCEL ID", arity),
        ("CANCEL ALL x", arity),
        ("CANCEL abc def", "-ERR unknown argument"),
        ("CANCEL ALL", "0"),
        ("STATUS ID", arity),
        ("STATUS ABC", "-ERR unknown argument"),
        ("STATUS ALL", ""),
    ];
    for (words, answer) in cases {
        assert_eq!(ask(&first, words), answer, "{words}");
    }
    assert_eq!(ask(&replica, "IMPORT 9000 9000"), "-ERR slot migration not allowed on replica.");
    assert_eq!(first.ask(&["CLUSTER", "SETSLOT", "5000", "MIGRATING", &second.id()]), "OK");
    let open = "-ERR all slot states must be STABLE to start a slot migration task.";
    assert_eq!(ask(&first, "IMPORT 9000 9000"), open);
    // Messages of nodes, of a client that is none.
    let mut client = Client::connect(first.address()).unwrap();
    let said = told(&client.command(&["AUTH", "internal connection", &"0".repeat(40)]).unwrap());
    assert!(said.starts_with("-WRONGPASS"), "{said}");
    let id = "a".repeat(40);
    let said = told(&client.command(&["CLUSTER", "SYNCSLOTS", "SYNC", &id, "0", "1"]).unwrap());
    assert_eq!(said, "-ERR CLUSTER SYNCSLOTS subcommands are only allowed for internal clients");
    assert!(client.command(&["PING"]).is_err(), "the connection is closed");
}

/// TRIMSLOTS, of a client, of a primary's stream and of a file.
#[test]
fn slots_are_trimmed() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let (node, replica) = (Node::ours_in(directory.path(), &options), Node::ours(&[]));
    introduce(&[&node, &replica]);
    assert_eq!(node.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    attach(&replica, &node);
    until_up(&[&node, &replica]);
    let refused = [
        ("1 -1 0", "-ERR Invalid or out of range slot"),
        ("1 200 100", "-ERR start slot number 200 is greater than end slot number 100"),
        ("2 100 200 300", "-ERR invalid number of ranges"),
        ("0 1 1", "-ERR invalid number of ranges"),
        ("x 1 1", "-ERR value is not an integer or out of range"),
    ];
    let trim = |first: &str, words: &str| {
        let words: Vec<&str> = ["TRIMSLOTS", first].into_iter().chain(words.split(' ')).collect();
        node.ask(&words)
    };
    for (words, answer) in refused {
        assert_eq!(trim("RANGES", words), answer, "{words}");
    }
    assert_eq!(trim("UNKNOWN", "1 100 200"), "-ERR missing ranges argument");
    assert_eq!(node.ask(&["MSET", "{06S}1", "x", "{06S}2", "y"]), "OK");
    assert_eq!(node.ask(&["SET", "other", "z"]), "OK");
    until("the replica has all", || replica.ask(&["DBSIZE"]) == "3");
    assert_eq!(trim("RANGES", "2 0 0 7 9"), "OK");
    assert_eq!(node.ask(&["KEYS", "*"]), "other");
    until("the replica has followed", || replica.ask(&["KEYS", "*"]) == "other");
    // A file of Redis has the command itself.
    assert_eq!(node.ask(&["SET", "{06S}1", "x"]), "OK");
    let file = directory.path().join("appendonlydir/appendonly.aof.1.incr.aof");
    signal(&node, Signal::KILL);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(b"*5\r\n$9\r\nTRIMSLOTS\r\n$6\r\nRANGES\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\n0\r\n");
    std::fs::write(&file, bytes).unwrap();
    let node = node.restart(directory.path(), &options);
    until("the file is loaded", || !node.ask(&["DBSIZE"]).starts_with('-'));
    assert_eq!(node.ask(&["KEYS", "*"]), "other");
}
