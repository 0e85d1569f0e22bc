//! redis-cli --cluster on Martlet clusters, and on mixed ones with real servers.

use super::{Node, has_peer, manage, until, until_agreed, until_settled, until_up};

/// Writes keys of many slots to their owners; returns the number of keys.
fn fill(nodes: &[&Node], count: usize) {
    let mut clients: Vec<_> = nodes.iter().map(|node| node.connect()).collect();
    for number in 0..count {
        let (key, value) = (format!("key:{number}"), format!("value:{number}"));
        let stored = clients.iter_mut().any(|client| {
            super::told(&client.command(&["SET", key.as_str(), value.as_str()]).unwrap()) == "OK"
        });
        assert!(stored, "nobody takes {key}");
    }
}

fn keys(nodes: &[&Node]) -> usize {
    nodes.iter().map(|node| node.ask(&["DBSIZE"]).parse::<usize>().unwrap()).sum()
}

fn manage_cluster(nodes: &[Node; 3], added: &Node) {
    let all: Vec<&Node> = nodes.iter().collect();
    let addresses: Vec<String> = all.iter().map(|node| node.address().to_string()).collect();
    let first = addresses[0].as_str();
    super::form(&all);
    fill(&all, 300);
    // Until no two primaries have the same epoch, one of them may take a later one than the node that has
    // just taken a slot of it, and so take that back: in a cluster of Redis as of Martlet.
    let settled = |nodes: &[&Node]| {
        until_settled(nodes);
        until_agreed(first);
    };
    let move_slots = |nodes: &[&Node], from: &Node, to: &Node, count: &str| {
        settled(nodes);
        let (from, to) = (from.id(), to.id());
        let words = ["--cluster-from", &from, "--cluster-to", &to, "--cluster-slots", count, "--cluster-yes"];
        manage(&[&["reshard", first][..], &words].concat());
    };
    move_slots(&all, &nodes[0], &nodes[1], "40");
    until_up(&all);
    assert_eq!(keys(&all), 300);
    settled(&all);
    manage(&["rebalance", first, "--cluster-threshold", "0.5"]);
    settled(&all);
    nodes[0].meet(added);
    until("the node is known", || nodes[2].ask(&["CLUSTER", "NODES"]).contains(&added.id()));
    let nodes_agree = || {
        let info = |node: &&Node| node.ask(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:4");
        all.iter().all(info) && added.ask(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:4")
    };
    until("all know it", nodes_agree);
    let with_added = [&all[..], &[added]].concat();
    move_slots(&with_added, &nodes[2], added, "20");
    until_up(&with_added);
    assert_eq!(keys(&with_added), 300);
    assert!(
        added.ask(&["CLUSTER", "NODES"]).lines().any(|line| line.contains("myself") && line.contains('-'))
    );
    settled(&with_added);
    // An open slot is mended.
    let slot = nodes[2].ask(&["CLUSTER", "KEYSLOT", "foo"]);
    let owner = with_added.iter().find(|node| !node.ask(&["GET", "foo"]).starts_with('-')).unwrap();
    let target = with_added.iter().find(|node| node.id() != owner.id()).unwrap();
    assert_eq!(owner.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target.id()]), "OK");
    manage(&["fix", first]);
    assert!(!owner.ask(&["CLUSTER", "NODES"]).contains("->-"));
}

#[test]
fn redis_cli_manages_a_cluster_of_ours() {
    if has_peer() {
        manage_cluster(&[Node::ours(&[]), Node::ours(&[]), Node::ours(&[])], &Node::ours(&[]));
    }
}

#[test]
fn redis_cli_manages_a_mixed_cluster() {
    if has_peer() {
        manage_cluster(&[Node::ours(&[]), Node::real(), Node::ours(&[])], &Node::real());
    }
}

/// A primary that gives its last slot away becomes a replica of the new owner, to whose data its own is
/// unrelated: if it announced its offset, it would win an election and serve data that it does not have.
#[test]
fn who_gives_its_last_slot_away_counts_for_nothing_until_it_has_the_data() {
    let (from, to) = (Node::ours(&[]), Node::ours(&[]));
    super::introduce(&[&from, &to]);
    assert_eq!(to.ask(&["CLUSTER", "ADDSLOTSRANGE", "1", "16383"]), "OK");
    assert_eq!(from.ask(&["CLUSTER", "ADDSLOTS", "0"]), "OK");
    until_up(&[&from, &to]);
    let offset = || {
        let info = from.ask(&["INFO", "replication"]);
        let line = info.lines().find_map(|line| line.strip_prefix("slave_repl_offset:")).unwrap_or_default();
        line.to_owned()
    };
    assert_eq!(to.ask(&["SET", "foo", "1"]), "OK");
    // Its save takes longer than the test.
    assert_eq!(to.ask(&["CONFIG", "SET", "rdb-key-save-delay", "100000000"]), "OK");
    assert_eq!(to.ask(&["CLUSTER", "SETSLOT", "0", "IMPORTING", &from.id()]), "OK");
    assert_eq!(from.ask(&["CLUSTER", "SETSLOT", "0", "MIGRATING", &to.id()]), "OK");
    assert_eq!(to.ask(&["CLUSTER", "SETSLOT", "0", "NODE", &to.id()]), "OK");
    until("it is a replica", || from.ask(&["ROLE"]).starts_with("slave"));
    assert_eq!(offset(), "0");
    until("it asks for the data", || to.ask(&["INFO", "replication"]).contains("connected_slaves:1"));
    assert_eq!(offset(), "0");
    let line = |shards: &str| shards.split(&from.id()).nth(1).unwrap_or_default().to_owned();
    assert!(line(&from.ask(&["CLUSTER", "SHARDS"])).contains("replication-offset 0 "));
}
