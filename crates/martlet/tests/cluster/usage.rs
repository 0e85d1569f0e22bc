//! CLUSTER SLOT-STATS: the cost of a slot's commands, and when that is reset.

use super::{Node, attach, form, told, until};

/// The slot of `foo`.
const SLOT: &str = "12182";

/// SLOT-STATS of the slot of `foo`, without the time, which is never the same.
fn usage(node: &Node) -> String {
    let all = node.ask(&["CLUSTER", "SLOT-STATS", "SLOTSRANGE", SLOT, SLOT]);
    let words: Vec<&str> = all.split(' ').skip(1).collect();
    let kept = words.chunks_exact(2).filter(|pair| pair[0] != "cpu-usec");
    kept.map(|pair| pair.join("=")).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_slot_counts_what_its_commands_cost() {
    let (node, replica) = (Node::ours(&["--cluster-slot-stats-enabled", "cpu net"]), Node::ours(&[]));
    form(&[&node]);
    let counted = |expected: &str| {
        assert_eq!(usage(&node), expected);
        assert_eq!(node.ask(&["CONFIG", "RESETSTAT"]), "OK");
    };
    let mut client = node.connect();
    let mut ask = |words: &[&str]| told(&client.command(words).unwrap());
    assert_eq!((ask(&["SET", "foo", "bar"]), ask(&["GET", "foo"])), ("OK".into(), "bar".into()));
    assert_eq!(
        ask(&["CLUSTER", "SLOT-STATS", "ORDERBY", "network-bytes-in", "LIMIT", "2"]).split(" key").next(),
        Some(SLOT)
    );
    counted("key-count=1 network-bytes-in=53 network-bytes-out=14");
    // A transaction counts as a whole, with MULTI and the queued commands.
    for (words, answer) in [
        (&["MULTI"][..], "OK"),
        (&["SET", "foo", "bar"], "QUEUED"),
        (&["GET", "foo"], "QUEUED"),
        (&["EXEC"], "OK bar"),
    ] {
        assert_eq!(ask(words), answer);
    }
    counted("key-count=1 network-bytes-in=82 network-bytes-out=18");
    // A script counts for the slot of its keys, unless it may cross slots; a script without keys for none.
    assert_eq!(ask(&["EVAL", "#!lua\nreturn redis.call('get','foo')", "0"]), "bar");
    counted("key-count=1 network-bytes-in=64 network-bytes-out=9");
    assert_eq!(ask(&["EVAL", "return redis.call('get',KEYS[1])", "1", "foo"]), "bar");
    assert_eq!(ask(&["PING"]), "PONG");
    counted("key-count=1 network-bytes-in=0 network-bytes-out=0");
    // A waiting command counts when it is served.
    let mut waiting = node.connect();
    waiting.send(&["BLPOP", "{foo}list", "0"]).unwrap();
    until("it waits", || node.ask(&["INFO", "clients"]).contains("blocked_clients:1"));
    assert_eq!(usage(&node), "key-count=1 network-bytes-in=0 network-bytes-out=0");
    assert_eq!(ask(&["RPUSH", "{foo}list", "x"]), "1");
    assert_eq!(told(&waiting.read_reply().unwrap()), "{foo}list x");
    counted("key-count=1 network-bytes-in=74 network-bytes-out=30");
    // A slot that another node has owned begins at zero.
    assert_eq!(ask(&["SET", "foo", "bar"]), "OK");
    assert_eq!(ask(&["CLUSTER", "DELSLOTS", SLOT]), "OK");
    assert_eq!(usage(&node), "");
    assert_eq!(ask(&["CLUSTER", "ADDSLOTS", SLOT]), "OK");
    counted("key-count=1 network-bytes-in=0 network-bytes-out=0");
    // Off, only the figures without a cost are shown.
    assert_eq!(ask(&["CONFIG", "SET", "cluster-slot-stats-enabled", "no"]), "OK");
    assert_eq!(usage(&node), "key-count=1");
    let unknown = "-ERR Unrecognized sort metric for ORDERBY.";
    assert_eq!(ask(&["CLUSTER", "SLOT-STATS", "ORDERBY", "cpu-usec"]), unknown);
    assert_eq!(ask(&["CONFIG", "SET", "cluster-slot-stats-enabled", "mem"]), "OK");
    let expected = format!("key-count=1 memory-bytes={}", ask(&["MEMORY", "USAGE", "foo"]));
    assert_eq!(usage(&node), expected);
    // What replicas are sent counts as well.
    assert_eq!(ask(&["CONFIG", "SET", "cluster-slot-stats-enabled", "net"]), "OK");
    node.meet(&replica);
    attach(&replica, &node);
    until("the slot is served", || node.ask(&["GET", "foo"]) == "bar");
    assert_eq!(node.ask(&["CONFIG", "RESETSTAT"]), "OK");
    assert_eq!(ask(&["SET", "foo", "bar"]), "OK");
    counted("key-count=1 network-bytes-in=31 network-bytes-out=36");
}
