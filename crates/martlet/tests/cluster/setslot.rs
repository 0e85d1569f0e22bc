//! SETSLOT, of which replicas hear before their primary does it.

use std::path::Path;

use martlet_client::resp::Reply;
use rustix::process::{Pid, Signal, kill_process};

use super::{Node, attach, form, has_peer, take_over, told, until, until_known, until_up};

/// The slot of `foo`, which is the last node's of two.
const SLOT: &str = "12182";

/// A node's open slots, from its own line.
fn under_way(node: &Node) -> String {
    let list = node.ask(&["CLUSTER", "NODES"]);
    let own = list.lines().find(|line| line.contains("myself")).unwrap_or_default();
    own.split(' ').find(|word| word.starts_with('[')).unwrap_or_default().to_owned()
}

/// Whether a node knows another as the owner of [`SLOT`].
fn knows_owner(node: &Node, owner: &Node) -> bool {
    let list = node.ask(&["CLUSTER", "NODES"]);
    let line = list.lines().find(|line| line.starts_with(&owner.id())).unwrap_or_default();
    line.split(' ').any(|word| word == SLOT)
}

/// A pair of primaries with a replica of the first, which gets the slot. Its replica has done everything that
/// the first acknowledged, and continues with it when it takes over.
fn replicas_follow(target: &Node, source: &Node, replica: &Node) {
    form(&[target, source]);
    target.meet(replica);
    attach(replica, target);
    until_known(replica, &[target, source]);
    let (from, to) = (source.id(), target.id());
    until("the replica knows the source", || replica.ask(&["CLUSTER", "NODES"]).contains(&from));
    let set = |words: &[&str]| target.ask(&[&["CLUSTER", "SETSLOT", SLOT], words].concat());
    assert!(set(&["MIGRATING", &from]).contains("I'm not the owner of hash slot 12182"));
    assert_eq!(set(&["IMPORTING", &from]), "OK");
    assert_eq!([target, replica].map(under_way), [(); 2].map(|()| format!("[{SLOT}-<-{from}]")));
    assert_eq!(set(&["STABLE", "TIMEOUT", "60000"]), "OK");
    assert_eq!([target, replica].map(under_way), ["", ""]);
    assert_eq!(set(&["IMPORTING", &from, "timeout", "0"]), "OK");
    assert_eq!(source.ask(&["CLUSTER", "SETSLOT", SLOT, "MIGRATING", &to]), "OK");
    take_over(replica, &[target, source, replica]);
    assert_eq!(under_way(replica), format!("[{SLOT}-<-{from}]"));
    until("the old primary follows", || target.ask(&["ROLE"]).contains("connected"));
    assert_eq!(replica.ask(&["CLUSTER", "SETSLOT", SLOT, "NODE", &replica.id()]), "OK");
    assert!(knows_owner(replica, replica) && knows_owner(target, replica));
    assert_eq!([target, replica].map(under_way), ["", ""]);
    assert_eq!(source.ask(&["CLUSTER", "SETSLOT", SLOT, "NODE", &replica.id()]), "OK");
    until_up(&[target, source, replica]);
    assert_eq!(replica.ask(&["SET", "foo", "1"]), "OK");
    until("the other has it", || target.connect().command(&["READONLY"]).is_ok() && has_foo(target));
}

fn has_foo(node: &Node) -> bool {
    let mut client = node.connect();
    client.command(&["READONLY"]).unwrap();
    told(&client.command(&["GET", "foo"]).unwrap()) == "1"
}

#[test]
fn replicas_hear_of_a_slot_before_their_primary_does_it() {
    replicas_follow(&Node::ours(&[]), &Node::ours(&[]), &Node::ours(&[]));
}

#[test]
fn valkeys_replicas_hear_of_a_slot_and_ours_from_valkey() {
    let Ok(valkey) = std::env::var("MARTLET_CLUSTER_VALKEY") else {
        println!("MARTLET_CLUSTER_VALKEY names no server");
        return;
    };
    assert!(Path::new(&valkey).exists());
    let real = || Node::start(&valkey, &[], &[]);
    replicas_follow(&Node::ours(&[]), &Node::ours(&[]), &real());
    replicas_follow(&real(), &Node::ours(&[]), &Node::ours(&[]));
}

/// Stops a process, or continues it.
pub(crate) fn signal(node: &Node, signal: Signal) {
    let pid = Pid::from_raw(node.server.pid() as i32).unwrap();
    match signal {
        Signal::STOP => martlet_testkit::server::stop(pid),
        other => kill_process(pid, other).map_err(Into::into),
    }
    .unwrap();
}

/// A primary that cannot reach its replicas changes nothing, and returns an error when its time is up.
#[test]
fn without_its_replicas_a_slot_stays_as_it_is() {
    let (target, source, replica) = (Node::ours(&[]), Node::ours(&[]), Node::ours(&[]));
    form(&[&target, &source]);
    target.meet(&replica);
    attach(&replica, &target);
    let from = source.id();
    let words = ["CLUSTER", "SETSLOT", SLOT, "IMPORTING", &from];
    let ask = |more: &[&str]| target.ask(&[&words[..], more].concat());
    assert_eq!(ask(&["TIMEOUT"]), "-ERR Missing timeout value");
    assert_eq!(ask(&["TIMEOUT", "-1"]), "-ERR timeout is negative");
    assert_eq!(ask(&["TIMEOUT", "x"]), "-ERR timeout is not an integer or out of range");
    assert!(ask(&["TIMEOUT", "1", "more"]).starts_with("-ERR Invalid CLUSTER SETSLOT action"));
    assert!(replica.ask(&words).contains("Please use SETSLOT only with masters."));
    signal(&replica, Signal::STOP);
    let answers = [ask(&["TIMEOUT", "50"]), ask(&[])];
    let state = under_way(&target);
    // Clients are served in that time, and a waiting one can be unblocked.
    let mut waiting = target.connect();
    let id = told(&waiting.command(&["CLIENT", "ID"]).unwrap());
    waiting.send(&[&words[..], &["TIMEOUT", "0"]].concat()).unwrap();
    until("it waits", || target.ask(&["INFO", "clients"]).contains("blocked_clients:1"));
    assert_eq!(target.ask(&["CLIENT", "UNBLOCK", &id, "ERROR"]), "1");
    let unblocked = waiting.read_reply();
    signal(&replica, Signal::CONT);
    assert_eq!(answers, [(); 2].map(|()| "-NOREPLICAS Not enough good replicas to write."));
    assert_eq!(state, "");
    assert!(matches!(unblocked, Ok(Reply::Error(text)) if text.starts_with(b"UNBLOCKED")));
    // The replica has heard of it even so.
    until("the replica goes on", || under_way(&replica).contains(&from));
    assert_eq!(ask(&[]), "OK");
    assert_eq!(under_way(&target), format!("[{SLOT}-<-{from}]"));
    // In a transaction nothing waits; replicas get the change.
    let mut client = target.connect();
    for words in [&["MULTI"][..], &["CLUSTER", "SETSLOT", SLOT, "STABLE"]] {
        client.command(words).unwrap();
    }
    assert_eq!(told(&client.command(&["EXEC"]).unwrap()), "OK");
    until("the replica has it, too", || under_way(&replica).is_empty());
}

/// A primary that becomes a replica while its client waits says what a replica says: managers of clusters
/// take that for the source's answer when its last slot has gone. The connection goes on.
#[test]
fn who_waits_on_a_primary_that_becomes_a_replica_gets_a_replicas_answer() {
    let (source, empty, replica) = (Node::ours(&[]), Node::ours(&[]), Node::ours(&[]));
    form(&[&source]);
    [&empty, &replica].into_iter().for_each(|node| source.meet(node));
    attach(&replica, &empty);
    until_known(&replica, &[&source, &empty]);
    until("it knows the owner", || empty.ask(&["CLUSTER", "NODES"]).contains("0-16383"));
    signal(&replica, Signal::STOP);
    let mut waiting = empty.connect();
    let from = source.id();
    waiting.send(&["CLUSTER", "SETSLOT", SLOT, "IMPORTING", &from, "TIMEOUT", "0"]).unwrap();
    until("it waits", || empty.ask(&["INFO", "clients"]).contains("blocked_clients:1"));
    let becomes = empty.ask(&["CLUSTER", "REPLICATE", &from]);
    let answer = waiting.read_reply();
    signal(&replica, Signal::CONT);
    assert_eq!(becomes, "OK");
    assert!(matches!(answer, Ok(Reply::Error(text)) if text == b"ERR Please use SETSLOT only with masters."));
    assert_eq!(told(&waiting.command(&["PING"]).unwrap()), "PONG");
}

/// Redis' replicas take no SETSLOT, and so get none.
#[test]
fn replicas_of_redis_are_not_asked() {
    if !has_peer() {
        return;
    }
    let (target, source, replica) = (Node::ours(&[]), Node::ours(&[]), Node::real());
    form(&[&target, &source]);
    target.meet(&replica);
    attach(&replica, &target);
    assert_eq!(target.ask(&["CLUSTER", "SETSLOT", SLOT, "IMPORTING", &source.id()]), "OK");
    assert!(under_way(&target).contains(SLOT));
    assert_eq!(target.ask(&["WAIT", "1", "0"]), "1");
    assert_eq!(under_way(&replica), "");
    assert!(replica.ask(&["INFO", "stats"]).contains("unexpected_error_replies:0"));
}

/// A replica that gets its primary's data set hears of its slots under way, too.
fn newcomer_knows(source: &Node, target: &Node, replicas: [&Node; 2]) {
    form(&[source, target]);
    let (from, to) = (source.id(), target.id());
    assert_eq!(target.ask(&["CLUSTER", "SETSLOT", "0", "IMPORTING", &from]), "OK");
    assert_eq!(source.ask(&["CLUSTER", "SETSLOT", "0", "MIGRATING", &to]), "OK");
    for (replica, primary) in replicas.iter().zip([source, target]) {
        primary.meet(replica);
        attach(replica, primary);
    }
    let states = [format!("[0->-{to}]"), format!("[0-<-{from}]")];
    until("the replicas know", || replicas.map(under_way) == states);
}

#[test]
fn a_replica_that_comes_later_knows_of_slots_under_way() {
    newcomer_knows(&Node::ours(&[]), &Node::ours(&[]), [&Node::ours(&[]), &Node::ours(&[])]);
    // By the disk.
    let by_disk = || Node::ours(&["--repl-diskless-sync", "no"]);
    newcomer_knows(&by_disk(), &by_disk(), [&Node::ours(&[]), &Node::ours(&[])]);
}

#[test]
fn a_replica_of_valkey_that_comes_later_knows_of_slots_under_way() {
    let Ok(valkey) = std::env::var("MARTLET_CLUSTER_VALKEY") else {
        println!("MARTLET_CLUSTER_VALKEY names no server");
        return;
    };
    let real = || Node::start(&valkey, &[], &[]);
    newcomer_knows(&Node::ours(&[]), &real(), [&real(), &Node::ours(&[])]);
}
