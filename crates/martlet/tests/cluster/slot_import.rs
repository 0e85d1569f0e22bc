//! The mark of slots on their way in files and full syncs: ends that are killed in the middle of an import,
//! and replicas that come then.

use std::path::Path;

use martlet_client::blocking::Client;
use rustix::process::Signal;

use super::setslot::signal;
use super::slot_migration::{begin_endless, field, is_over, migrate, pair};
use super::{Node, attach, take_over, told, until, until_up};

/// A key of slot 12182, which the target has.
const OWN: &str = "foo";

/// Options of a target that has an append-only file, with rewrites.
const LOGGED: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

fn until_rewritten(node: &Node) {
    assert!(node.ask(&["BGREWRITEAOF"]).starts_with("Background"));
    until("the base is written", || {
        let info = node.ask(&["INFO", "persistence"]);
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });
}

/// A node sees none of the keys of slot 0, and nothing of it as under way key by key.
fn sees_none(node: &Node) {
    assert_eq!(node.ask(&["DBSIZE"]), "1");
    assert_eq!(node.ask(&["KEYS", "*"]), OWN);
    assert!(!node.ask(&["CLUSTER", "NODES"]).contains("-<-"), "nothing is left to be mended");
}

/// Kills the target in the middle of an import, once `keep` has seen to its files.
fn kill_target(options: &[&str], keep: impl Fn(&Node)) {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (Node::ours(&[]), Node::ours_in(directory.path(), options));
    pair(&from, &to);
    assert_eq!(to.ask(&["SET", OWN, "1"]), "OK");
    begin_endless(&from, &to);
    keep(&to);
    sees_none(&to);
    let to = to.restart(directory.path(), options);
    until_up(&[&from, &to]);
    until("it has ended", || is_over(&from) && is_over(&to));
    sees_none(&to);
    assert_eq!(to.ask(&["CLUSTER", "COUNTKEYSINSLOT", "0"]), "0");
    assert!(to.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]).contains("Process restarted"));
    assert_eq!((field(&to, "state"), from.ask(&["DBSIZE"])), ("failed".into(), "50".into()));
    // Another time it succeeds, and by both files the keys are this node's.
    assert_eq!(from.ask(&["CONFIG", "SET", "rdb-key-save-delay", "0"]), "OK");
    assert_eq!(migrate(&from, &to), "OK");
    until("both ends have ended", || is_over(&from) && is_over(&to));
    assert_eq!([&from, &to].map(|node| field(node, "state")), ["success"; 2]);
    assert_eq!(to.ask(&["DBSIZE"]), "51");
    keep(&to);
    let to = to.restart(directory.path(), options);
    until_up(&[&from, &to]);
    assert_eq!(to.ask(&["DBSIZE"]), "51");
    assert!(!to.ask(&["CLUSTER", "NODES"]).contains("-<-"));
}

#[test]
fn a_target_that_was_saved_and_killed_meanwhile_has_none_of_the_keys() {
    kill_target(&[], |to| assert_eq!(to.ask(&["SAVE"]), "OK"));
}

#[test]
fn a_target_with_a_log_that_was_killed_meanwhile_has_none_of_the_keys() {
    kill_target(LOGGED, |_| {});
}

#[test]
fn a_target_whose_log_was_written_anew_has_none_of_the_keys() {
    kill_target(LOGGED, until_rewritten);
}

#[test]
fn a_target_whose_log_has_commands_only_has_none_of_the_keys() {
    let options = [LOGGED, &["--aof-use-rdb-preamble", "no"]].concat();
    kill_target(&options, until_rewritten);
}

/// A replica that is started again while slots are on their way to its primary still hides their keys, by its
/// own file; once it is a primary it deletes them.
fn restart_replica(options: &[&str], keep: impl Fn(&Node, &mut Client)) {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (Node::ours(&[]), Node::ours(&[]));
    let replica = Node::ours_in(directory.path(), options);
    pair(&from, &to);
    assert_eq!(to.ask(&["SET", OWN, "1"]), "OK");
    to.meet(&replica);
    attach(&replica, &to);
    begin_endless(&from, &to);
    until("the replica knows", || field(&replica, "state") == "occurring-on-primary");
    let mut client = to.connect();
    assert_eq!(told(&client.command(&["SET", OWN, "2"]).unwrap()), "OK");
    keep(&replica, &mut client);
    signal(&to, Signal::STOP);
    let replica = replica.restart(directory.path(), options);
    let seen = [field(&replica, "state"), replica.ask(&["DBSIZE"]), replica.ask(&["KEYS", "*"])];
    signal(&to, Signal::CONT);
    assert_eq!(seen, ["occurring-on-primary", "1", OWN]);
    until("the link is up", || replica.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    assert_eq!(replica.ask(&["DBSIZE"]), "1");
    let primary = to.id();
    until("the bus reaches the primary", || {
        let list = replica.ask(&["CLUSTER", "NODES"]);
        list.lines().any(|line| line.starts_with(&primary) && line.contains(" connected"))
    });
    take_over(&replica, &[&from, &to, &replica]);
    until("all have given it up", || [&from, &to, &replica].iter().all(|node| is_over(node)));
    assert!(replica.ask(&["CLUSTER", "GETSLOTMIGRATIONS"]).contains("A failover occurred"));
    sees_none(&replica);
    until("the old primary follows", || to.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    until("it has none either", || to.ask(&["DBSIZE"]) == "1");
}

#[test]
fn a_replica_that_is_started_again_meanwhile_hides_the_keys() {
    restart_replica(&[], |replica, client| {
        assert_eq!(told(&client.command(&["WAIT", "1", "0"]).unwrap()), "1");
        assert_eq!(replica.ask(&["SAVE"]), "OK");
    });
}

#[test]
fn a_replica_with_a_log_that_is_started_again_meanwhile_hides_the_keys() {
    // Until then it may be without a log, which restarted with the data set.
    restart_replica(LOGGED, |_, client| {
        assert_eq!(told(&client.command(&["WAITAOF", "0", "1", "0"]).unwrap()), "0 1");
    });
}

/// The same with Valkey: its Martlet replica gets the data set in the middle of an import, and a Valkey
/// replica gets Martlet's.
#[test]
fn a_replica_of_valkey_that_comes_meanwhile_hides_the_keys() {
    let Ok(valkey) = std::env::var("MARTLET_CLUSTER_VALKEY") else {
        println!("MARTLET_CLUSTER_VALKEY names no server");
        return;
    };
    assert!(Path::new(&valkey).exists());
    let real = || Node::start(&valkey, &[], &[]);
    for (to, replica) in [(Node::ours(&[]), real()), (real(), Node::ours(&[]))] {
        let from = Node::ours(&[]);
        pair(&from, &to);
        assert_eq!(to.ask(&["SET", OWN, "1"]), "OK");
        to.meet(&replica);
        begin_endless(&from, &to);
        attach(&replica, &to);
        until("the replica knows", || field(&replica, "state") == "occurring-on-primary");
        sees_none(&replica);
        take_over(&replica, &[&from, &to, &replica]);
        until("all have given it up", || [&from, &to, &replica].iter().all(|node| is_over(node)));
        sees_none(&replica);
        assert_eq!(replica.ask(&["CLUSTER", "COUNTKEYSINSLOT", "0"]), "0");
        assert_eq!([&from, &to, &replica].map(|node| field(node, "state")), ["failed"; 3]);
    }
}
