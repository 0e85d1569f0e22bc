//! FAILOVER beside CLIENT PAUSE: each has clients wait for reasons of its own, and ends only its own wait.
//! The same steps run against redis-server, if it is installed.
//!
//! Nothing here waits for a time, but for what a pause has left.

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;

use super::replica::{ask, assert_equal, field, follow, ours, peer};
use super::{Stopped, has_peer, text, wait_until};

/// A primary and its replica, each with a client.
struct Pair {
    top: Server,
    primary: Client,
    own: Server,
    replica: Client,
}

impl Pair {
    fn of(start: fn(&[&str]) -> (Server, Client)) -> Pair {
        let (top, mut primary) = start(&[]);
        let (own, mut replica) = start(&[]);
        follow(&mut replica, top.address().port());
        assert_eq!(ask(&mut primary, "SET k v"), "OK");
        assert_equal(&mut primary, &mut replica);
        Pair { top, primary, own, replica }
    }

    /// Has a replica that no longer acknowledges, as long as the result lives; the primary is ahead of it.
    fn stop_replica(&mut self) -> Stopped {
        let stopped = Stopped::new(self.own.pid());
        assert_eq!(ask(&mut self.primary, "SET ahead 1"), "OK");
        stopped
    }

    fn fail_over(&mut self, options: &str) -> String {
        let port = self.own.address().port();
        ask(&mut self.primary, format!("FAILOVER TO 127.0.0.1 {port} {options}").trim_end())
    }

    /// A client whose request is under way.
    fn asks(&self, request: &str) -> Client {
        let mut client = Client::connect(self.top.address()).unwrap();
        client.send(&request.split(' ').collect::<Vec<_>>()).unwrap();
        client
    }

    fn state(&mut self) -> String {
        field(&mut self.primary, "master_failover_state")
    }

    fn role(&mut self) -> String {
        ask(&mut self.primary, "ROLE").split(' ').next().unwrap().into()
    }

    /// Waits until this number of clients waits.
    fn await_waiting(&mut self, count: usize) {
        let line = format!("blocked_clients:{count}\r");
        let primary = &mut self.primary;
        wait_until("clients wait", || ask(primary, "INFO clients").contains(&line));
    }

    /// The writer's request has not run, and still waits.
    fn expect_unwritten(&mut self) {
        for _ in 0..50 {
            assert_eq!(ask(&mut self.primary, "GET k"), "v");
        }
        self.await_waiting(1);
    }
}

fn each(test: fn(Pair)) {
    test(Pair::of(ours));
    if has_peer() {
        test(Pair::of(peer));
    }
}

const REPLICA: &str = "READONLY You can't write against a read only replica.";

#[test]
fn writes_wait_for_a_failover_whatever_becomes_of_a_pause() {
    each(|mut pair| {
        let stopped = pair.stop_replica();
        assert_eq!(pair.fail_over("TIMEOUT 60000"), "OK");
        assert_eq!(pair.state(), "waiting-for-sync");
        let mut writer = pair.asks("SET k w");
        pair.expect_unwritten();
        assert_eq!(ask(&mut pair.primary, "CLIENT PAUSE 100000 WRITE"), "OK");
        assert_eq!(ask(&mut pair.primary, "CLIENT UNPAUSE"), "OK");
        pair.expect_unwritten();
        // And for a pause, whatever becomes of the failover.
        assert_eq!(ask(&mut pair.primary, "CLIENT PAUSE 100000 WRITE"), "OK");
        assert_eq!(ask(&mut pair.primary, "FAILOVER ABORT"), "OK");
        assert_eq!((pair.state(), pair.role()), ("no-failover".into(), "master".into()));
        pair.expect_unwritten();
        assert_eq!(ask(&mut pair.primary, "CLIENT UNPAUSE"), "OK");
        assert_eq!(text(&writer.read_reply().unwrap()), "OK");
        drop(stopped);
        assert_equal(&mut pair.primary, &mut pair.replica);
    });
}

#[test]
fn a_failover_goes_on_while_writes_are_paused() {
    each(|mut pair| {
        assert_eq!(ask(&mut pair.primary, "CLIENT PAUSE 100000 WRITE"), "OK");
        let mut writer = pair.asks("SET k w");
        pair.await_waiting(1);
        assert_eq!(pair.fail_over(""), "OK");
        wait_until("the failover", || pair.state() == "no-failover");
        assert_eq!(
            (pair.role(), ask(&mut pair.replica, "ROLE").starts_with("master")),
            ("slave".into(), true)
        );
        // The pause of a client goes on.
        pair.expect_unwritten();
        assert_eq!(ask(&mut pair.primary, "CLIENT UNPAUSE"), "OK");
        assert_eq!(text(&writer.read_reply().unwrap()), REPLICA);
        assert_eq!(ask(&mut pair.replica, "SET k x"), "OK");
        assert_equal(&mut pair.replica, &mut pair.primary);
    });
}

#[test]
fn a_failover_goes_on_while_all_clients_are_paused() {
    each(|mut pair| {
        let stopped = pair.stop_replica();
        assert_eq!(pair.fail_over(""), "OK");
        assert_eq!(ask(&mut pair.primary, "CLIENT PAUSE 400 ALL"), "OK");
        let (mut reader, mut writer) = (pair.asks("GET k"), pair.asks("SET k w"));
        drop(stopped);
        wait_until("the other is a primary", || ask(&mut pair.replica, "ROLE").starts_with("master"));
        assert_eq!(text(&reader.read_reply().unwrap()), "v");
        assert_eq!(text(&writer.read_reply().unwrap()), REPLICA);
        assert_eq!((pair.state(), pair.role()), ("no-failover".into(), "slave".into()));
        assert_equal(&mut pair.replica, &mut pair.primary);
    });
}

#[test]
fn a_forced_failover_is_aborted_while_writes_are_paused() {
    each(|mut pair| {
        let stopped = pair.stop_replica();
        assert_eq!(ask(&mut pair.primary, "CLIENT PAUSE 100000 WRITE"), "OK");
        let mut writer = pair.asks("SET k w");
        pair.await_waiting(1);
        assert_eq!(pair.fail_over("TIMEOUT 100 FORCE"), "OK");
        wait_until("the time is over", || pair.state() == "failover-in-progress");
        assert_eq!(pair.role(), "slave");
        assert!(pair.top.logged("time out exceeded, failing over.", 1) > 0);
        assert_eq!(ask(&mut pair.primary, "FAILOVER ABORT"), "OK");
        assert_eq!((pair.state(), pair.role()), ("no-failover".into(), "master".into()));
        pair.expect_unwritten();
        assert_eq!(ask(&mut pair.primary, "CLIENT UNPAUSE"), "OK");
        assert_eq!(text(&writer.read_reply().unwrap()), "OK");
        drop(stopped);
        assert_equal(&mut pair.primary, &mut pair.replica);
    });
}

#[test]
fn a_forced_failover_ends_the_waits_of_writers() {
    each(|mut pair| {
        let stopped = pair.stop_replica();
        assert_eq!(pair.fail_over("TIMEOUT 100 FORCE"), "OK");
        let mut writer = pair.asks("SET k w");
        wait_until("the time is over", || pair.state() == "failover-in-progress");
        pair.expect_unwritten();
        drop(stopped);
        wait_until("the failover", || pair.state() == "no-failover");
        assert_eq!(text(&writer.read_reply().unwrap()), REPLICA);
        assert_eq!(
            (pair.role(), ask(&mut pair.replica, "ROLE").starts_with("master")),
            ("slave".into(), true)
        );
        assert_equal(&mut pair.replica, &mut pair.primary);
    });
}

#[test]
fn a_target_whose_clients_are_paused_takes_over_afterwards() {
    each(|mut pair| {
        assert_eq!(ask(&mut pair.replica, "CLIENT PAUSE 300 ALL"), "OK");
        assert_eq!(pair.fail_over(""), "OK");
        let mut writer = pair.asks("SET k w");
        wait_until("the failover", || pair.state() == "no-failover");
        assert_eq!(text(&writer.read_reply().unwrap()), REPLICA);
        assert_eq!(
            (pair.role(), ask(&mut pair.replica, "ROLE").starts_with("master")),
            ("slave".into(), true)
        );
        assert_equal(&mut pair.replica, &mut pair.primary);
    });
}
