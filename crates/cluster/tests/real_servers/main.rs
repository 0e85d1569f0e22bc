//! Our node in clusters of real servers: it joins and stays, its vote counts, and theirs make it a primary.
//! `MARTLET_CLUSTER_PEER` names the server, redis-server when unset. Without one these tests say so and pass.

mod bus;

use std::path::Path;
use std::time::Duration;

use bus::Bus;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_cluster::machine::{Action, Failover};
use martlet_cluster::packet::Published;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};

const NODE_TIMEOUT_MS: i64 = 2_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Real servers with buses, and a Martlet node that has met the first.
struct Mixed {
    real: Vec<(Server, ReservedPort)>,
    ours: Bus,
    folder: std::path::PathBuf,
}

impl Drop for Mixed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ask(node: &Server, words: &[&str]) -> String {
    let mut client = Client::connect(node.address()).expect("connects");
    let reply: Reply = client.command(words).expect("answers");
    assert!(!reply.is_error(), "{words:?}: {reply:?}");
    reply.text().map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned())
}

impl Mixed {
    fn start(name: &str, count: usize) -> Option<Mixed> {
        let program = std::env::var("MARTLET_CLUSTER_PEER").unwrap_or_else(|_| "redis-server".into());
        if !is_installed(&program) {
            return None;
        }
        let timeout = NODE_TIMEOUT_MS.to_string();
        let start = |_| {
            let bus = ReservedPort::take().expect("a port");
            let number = bus.number().to_string();
            let mut arguments = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout];
            arguments.extend(["--cluster-port", &number, "--save", ""]);
            (Server::start(Path::new(&program), &arguments).expect("the server starts"), bus)
        };
        let real: Vec<_> = (0..count).map(start).collect();
        let folder = std::env::temp_dir().join(format!("martlet-cluster-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut ours = Bus::start(NODE_TIMEOUT_MS, folder.join("nodes.conf"));
        for (server, bus) in &real {
            let (port, bus) = (server.address().port(), bus.number());
            ours.with(|cluster, now| cluster.meet(now, "127.0.0.1", port.into(), bus.into()))
                .expect("an address");
        }
        Some(Mixed { real, ours, folder })
    }

    fn id_of(&self, real: usize) -> String {
        ask(&self.real[real].0, &["CLUSTER", "MYID"])
    }

    /// Runs until all real servers say this of themselves.
    fn until_info(&mut self, expected: &str) {
        let real = &self.real;
        let holds =
            |_: &Bus| real.iter().all(|(server, _)| ask(server, &["CLUSTER", "INFO"]).contains(expected));
        assert!(self.ours.run_until(PATIENCE, holds), "{expected}");
    }

    fn give_slots(&self, real: usize, first: &str, last: &str) {
        ask(&self.real[real].0, &["CLUSTER", "ADDSLOTSRANGE", first, last]);
    }
}

#[test]
fn our_node_joins_real_ones_and_stays() {
    let Some(mut mixed) = Mixed::start("join", 3) else { return };
    mixed.give_slots(0, "0", "5460");
    mixed.give_slots(1, "5461", "10922");
    mixed.give_slots(2, "10923", "16383");
    mixed.until_info("cluster_known_nodes:4");
    mixed.until_info("cluster_state:ok");
    let is_up = |ours: &Bus| !ours.cluster.is_down() && ours.cluster.size() == 3;
    assert!(mixed.ours.run_until(PATIENCE, is_up), "all slots are known here");
    // A minute, if there is time.
    let seconds =
        std::env::var("MARTLET_CLUSTER_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let Mixed { real, ours, .. } = &mut mixed;
    let id = ours.cluster.myself().id;
    let is_lost = |ours: &Bus| {
        let nodes = ask(&real[0].0, &["CLUSTER", "NODES"]);
        let line = nodes.lines().find(|line| line.starts_with(id.as_str()));
        let stays = line.is_some_and(|line| line.contains(" master - ") && line.contains(" connected"));
        !stays || ours.cluster.is_down()
    };
    assert!(!ours.run_until(Duration::from_secs(seconds), is_lost));
    ask(&real[1].0, &["PUBLISH", "channel", "hello"]);
    let published = Published { channel: b"channel".to_vec(), message: b"hello".to_vec(), is_sharded: false };
    let has_arrived = |ours: &Bus| ours.decisions.contains(&Action::Deliver(published.clone()));
    assert!(ours.run_until(PATIENCE, has_arrived));
    assert_eq!(ours.cluster.counters().refused, 0);
    let failed = ours.cluster.nodes().filter(|(_, node)| node.is_failed()).count();
    assert_eq!((failed, ours.cluster.nodes().count()), (0, 4));
}

#[test]
fn our_vote_makes_a_real_replica_a_primary() {
    let Some(mut mixed) = Mixed::start("vote", 3) else { return };
    mixed.give_slots(0, "0", "5460");
    mixed.give_slots(1, "5461", "10922");
    mixed.ours.with(|cluster, now| cluster.add_slots(now, &[(10_923, 16_383)])).expect("free slots");
    mixed.until_info("cluster_known_nodes:4");
    mixed.until_info("cluster_state:ok");
    let primary = mixed.id_of(0);
    ask(&mixed.real[2].0, &["CLUSTER", "REPLICATE", &primary]);
    let replica = mixed.id_of(2);
    let Mixed { real, ours, .. } = &mut mixed;
    let is_synced = |_: &Bus| ask(&real[2].0, &["INFO", "replication"]).contains("master_link_status:up");
    assert!(ours.run_until(PATIENCE, is_synced));
    // Of three primaries one dies; the two votes that are needed are the other real one's and ours.
    drop(real.remove(0));
    let is_promoted = |ours: &Bus| {
        let owner = ours.cluster.owner(0).map(|owner| ours.cluster.node(owner));
        owner.is_some_and(|owner| owner.id.as_str() == replica) && !ours.cluster.is_down()
    };
    assert!(ours.run_until(PATIENCE, is_promoted));
    assert!(ours.cluster.last_vote_epoch() > 0, "ours was needed");
    assert_eq!(ours.cluster.counters().refused, 0);
    assert!(ours.cluster.find(primary.as_bytes()).is_some_and(|key| ours.cluster.node(key).is_failed()));
}

#[test]
fn votes_of_real_primaries_make_ours_one() {
    let Some(mut mixed) = Mixed::start("elected", 3) else { return };
    mixed.give_slots(0, "0", "5460");
    mixed.give_slots(1, "5461", "10922");
    mixed.give_slots(2, "10923", "16383");
    mixed.until_info("cluster_known_nodes:4");
    mixed.until_info("cluster_state:ok");
    let primary = mixed.id_of(0);
    let replicated = mixed.ours.with(|cluster, now| cluster.replicate(now, primary.as_bytes(), false));
    replicated.expect("a primary that is known");
    let port = mixed.real[0].0.address().port();
    let host = "127.0.0.1".to_owned();
    assert!(mixed.ours.decisions.contains(&Action::Replicate { host, port, is_full_sync: true }));
    let Mixed { real, ours, .. } = &mut mixed;
    let id = ours.cluster.myself().id;
    let line = |at: usize| {
        let nodes = ask(&real[at].0, &["CLUSTER", "NODES"]);
        nodes.lines().find(|line| line.starts_with(id.as_str())).unwrap_or_default().to_owned()
    };
    let expected = format!(" slave {primary} ");
    assert!(ours.run_until(PATIENCE, |_| (0..3).all(|at| line(at).contains(&expected))));
    ours.with(|cluster, now| cluster.failover(now, Failover::Forced)).expect("a replica");
    assert!(ours.run_until(PATIENCE, |_| (0..3).all(|at| line(at).ends_with(" connected 0-5460"))));
    assert!(ours.decisions.contains(&Action::StopReplicating));
    let has_followed = |ours: &Bus| {
        let old = ours.cluster.find(primary.as_bytes()).map(|key| ours.cluster.node(key));
        old.is_some_and(|old| old.is_replica() && old.primary == Some(ours.cluster.my_key()))
    };
    assert!(ours.run_until(PATIENCE, has_followed), "{}", line(0));
    assert_eq!(ours.cluster.counters().refused, 0);
}
