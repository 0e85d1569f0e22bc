//! A replica that leaves its primary: for another one, or to be an empty primary; beside Valkey, whose the
//! commands are.

use martlet_client::blocking::Client;

use super::{Node, attach, form, told, until, until_up};

/// The slot of `foo`, which is the last node's of two.
const SLOT: &str = "12182";

const AS_VALKEY: &[&str] = &["--martlet-presents-as", "valkey"];

fn shard(node: &Node) -> String {
    node.ask(&["CLUSTER", "MYSHARDID"])
}

/// A client of a node that is subscribed to the shard channel `foo`.
fn subscriber(node: &Node) -> Client {
    let mut client = node.connect();
    assert_eq!(told(&client.command(&["SSUBSCRIBE", "foo"]).unwrap()), "ssubscribe foo 1");
    client
}

/// Two primaries and a replica, which first changes its primary and then has none. Valkey 9.1 leaves those
/// subscribed that a replica had as it became a primary without slots.
fn leaves(first: &Node, second: &Node, replica: &Node, ends_subscriptions: bool) {
    form(&[first, second]);
    first.meet(replica);
    attach(replica, second);
    let own = replica.id();
    until("all know the replica", || first.ask(&["CLUSTER", "NODES"]).contains(&own));
    let mut client = subscriber(replica);
    attach(replica, first);
    assert_eq!(told(&client.read_reply().unwrap()), "sunsubscribe foo 0", "the slot is another shard's");
    attach(replica, second);
    let mut client = subscriber(replica);

    assert_eq!(second.ask(&["SET", "foo", "1"]), "OK");
    until("the key is there", || replica.ask(&["DBSIZE"]) == "1");
    let replicate = |words: &[&str]| replica.ask(&[&["CLUSTER", "REPLICATE"], words].concat());
    let unknown = "-ERR unknown subcommand or wrong number of arguments for 'REPLICATE'. Try CLUSTER HELP.";
    assert_eq!(replicate(&["NO", "TWO"]), unknown);
    assert_eq!(replicate(&["NO", "ONE", "MORE"]), unknown);
    assert_eq!(replicate(&["NO"]), "-ERR Unknown node NO");
    // A ping of the primary tells it.
    until("the replica knows its shard", || shard(replica) == shard(second));
    for _ in 0..2 {
        assert_eq!(replicate(&["no", "ONE"]), "OK");
        assert!(replica.ask(&["ROLE"]).starts_with("master"));
        assert_eq!(replica.ask(&["DBSIZE"]), "0");
    }
    if ends_subscriptions {
        assert_eq!(told(&client.read_reply().unwrap()), "sunsubscribe foo 0");
    }
    assert_ne!(shard(replica), shard(second));
    for node in [first, second] {
        until("the others hear of its role", || {
            let list = node.ask(&["CLUSTER", "NODES"]);
            list.lines().any(|line| line.starts_with(&own) && line.contains(" master - "))
        });
        assert_eq!(node.ask(&["CLUSTER", "REPLICATE", "NO", "ONE"]), "OK", "a primary stays as it is");
    }
    until_up(&[first, second, replica]);
    assert_eq!(second.ask(&["GET", "foo"]), "1");
    let shards = first.ask(&["CLUSTER", "SHARDS"]);
    assert!([first, second, replica].iter().all(|node| shards.contains(&format!(" id {}", shard(node)))));

    let set = |node: &Node, words: &[&str]| node.ask(&[&["CLUSTER", "SETSLOT", SLOT], words].concat());
    assert_eq!(set(second, &["MIGRATING", &second.id()]), "-ERR Target node is myself");
    assert_eq!(set(first, &["IMPORTING", &first.id()]), "-ERR Target node is myself");
    let before = shard(replica);
    assert_eq!(replica.ask(&["CLUSTER", "RESET", "SOFT"]), "OK");
    assert_ne!(shard(replica), before);
}

#[test]
fn a_replica_leaves_its_primary() {
    leaves(&Node::ours(AS_VALKEY), &Node::ours(AS_VALKEY), &Node::ours(AS_VALKEY), true);
}

#[test]
fn a_replica_leaves_its_primary_of_valkey() {
    let Ok(valkey) = std::env::var("MARTLET_CLUSTER_VALKEY") else {
        println!("MARTLET_CLUSTER_VALKEY names no server");
        return;
    };
    let real = || Node::start(&valkey, &[], &[]);
    leaves(&real(), &real(), &real(), false);
}

#[test]
fn shards_have_no_id_as_redis() {
    let node = Node::ours(&[]);
    let shards = node.ask(&["CLUSTER", "SHARDS"]);
    assert!(shards.contains(&node.id()) && !shards.contains(&shard(&node)), "{shards}");
}
