//! Votes, selection of replicas, hello messages, tilt and the file, on a machine alone.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use martlet_base::random::Random;
use martlet_client::resp::Reply;
use proptest::prelude::*;

use super::{Output, Sentinel, Settings, World};
use crate::config::load::Config;
use crate::config::rewrite::{Line, rewrite};
use crate::instance::{Flags, InstanceId};

const MY_ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER_ID: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const START_MS: i64 = 1_000_000;

/// A file that can fail.
#[derive(Default)]
struct Disk {
    text: Vec<u8>,
    is_broken: bool,
}

struct TestWorld(Rc<RefCell<Disk>>);

impl World for TestWorld {
    fn save(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        if disk.is_broken {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.text = rewrite(&disk.text, lines);
        Ok(())
    }

    fn resolve(&mut self, host: &str) -> Option<IpAddr> {
        (host == "known.example").then(|| IpAddr::from([10, 9, 9, 9]))
    }

    fn is_executable(&self, path: &str) -> bool {
        path.starts_with("/scripts/")
    }
}

fn from_file(text: &str) -> (Sentinel, Rc<RefCell<Disk>>) {
    let disk = Rc::new(RefCell::new(Disk { text: text.into(), is_broken: false }));
    let mut config = Config::default();
    config.read(text.as_bytes()).unwrap();
    let world = Box::new(TestWorld(disk.clone()));
    let mut sentinel = Sentinel::new(Settings::default(), Random::seeded(1), START_MS, world);
    sentinel.configure(&config.sentinel).unwrap();
    sentinel.start(START_MS);
    (sentinel, disk)
}

fn machine(more: &str) -> (Sentinel, Rc<RefCell<Disk>>) {
    from_file(&format!("sentinel myid {MY_ID}\nsentinel monitor m 10.0.0.1 6379 2\n{more}"))
}

fn primary(sentinel: &Sentinel) -> InstanceId {
    sentinel.primary("m").unwrap().0
}

fn vote(sentinel: &mut Sentinel, epoch: u64, candidate: &str) -> (Option<String>, u64) {
    let (_, vote) = sentinel.is_primary_down(START_MS, "10.0.0.1", 6379, epoch, candidate);
    (vote.leader, vote.epoch)
}

#[test]
fn a_vote_is_given_once_in_an_epoch_and_saved_before_it_is_told() {
    let (mut sentinel, disk) = machine("");
    assert_eq!(vote(&mut sentinel, 1, OTHER_ID), (Some(OTHER_ID.into()), 1));
    let text = String::from_utf8(disk.borrow().text.clone()).unwrap();
    assert!(
        text.contains("sentinel leader-epoch m 1\n") && text.contains("sentinel current-epoch 1\n"),
        "{text}"
    );
    assert_eq!(vote(&mut sentinel, 1, "c"), (Some(OTHER_ID.into()), 1), "the vote stands");
    assert_eq!(vote(&mut sentinel, 3, "c"), (Some("c".into()), 3));
    assert_eq!(vote(&mut sentinel, 2, OTHER_ID), (Some("c".into()), 3), "none in an older epoch");
    let (mut restarted, _) = from_file(&String::from_utf8(disk.borrow().text.clone()).unwrap());
    assert_eq!(vote(&mut restarted, 3, OTHER_ID), (None, 3), "whom for is forgotten, but not that");
    assert_eq!(
        restarted.is_primary_down(START_MS, "10.0.0.9", 6379, 9, "c").1.leader,
        None,
        "no such primary"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_told_of_and_does_not_stop_the_sentinel() {
    let (mut sentinel, disk) = machine("");
    disk.borrow_mut().is_broken = true;
    assert!(sentinel.flush_config(START_MS).is_err());
    let id = primary(&sentinel);
    let words = ["quorum", "3"].map(|word| word.as_bytes().to_vec());
    let error = sentinel.set(START_MS, id, &words).unwrap_err().to_string();
    assert_eq!(error, "ERR Failed to save config file. Check server logs.");
    assert_eq!(sentinel.primary("m").unwrap().1.settings.quorum, 3);
}

/// Opens all connections and answers INFO of each instance by its address.
fn answer_info(sentinel: &mut Sentinel, now_ms: i64, info: &dyn Fn(&str) -> Option<String>) {
    let mut places = std::collections::HashMap::new();
    for output in sentinel.take_outputs() {
        match output {
            Output::Connect { connection, ip, .. } => {
                places.insert(connection, ip);
                sentinel.connected(now_ms, connection, Some("10.0.9.9".into()));
            }
            Output::Send(connection, request) => {
                let Some(text) = places.get(&connection).and_then(|ip| info(ip)) else { continue };
                let reply = match request[0].as_slice() {
                    b"INFO" => Reply::Bulk(text.into_bytes()),
                    b"PING" => Reply::Simple(b"PONG".to_vec()),
                    _ => Reply::Simple(b"OK".to_vec()),
                };
                sentinel.received(now_ms, connection, reply);
            }
            _ => {}
        }
    }
}

#[test]
fn the_replica_with_the_lowest_priority_then_the_most_data_is_promoted() {
    let replicas = "sentinel known-replica m 10.0.0.2 6379\nsentinel known-replica m 10.0.0.3 6379\n\
                    sentinel known-replica m 10.0.0.4 6379\nsentinel known-replica m 10.0.0.5 6379\n";
    let (mut sentinel, _) = machine(replicas);
    let now_ms = START_MS + 2_000;
    let info = |ip: &str| {
        let (priority, offset) = match ip {
            "10.0.0.2" => (100, 50),
            "10.0.0.3" => (100, 90),
            "10.0.0.4" => (0, 999),
            "10.0.0.5" => (200, 999),
            _ => return Some("role:master\r\n".into()),
        };
        Some(format!(
            "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:up\r\nslave_priority:{priority}\r\nslave_repl_offset:{offset}\r\n"
        ))
    };
    sentinel.tick(now_ms);
    answer_info(&mut sentinel, now_ms, &info);
    let best = sentinel.best_replica(primary(&sentinel)).unwrap();
    assert_eq!(sentinel.instance(best).unwrap().address.ip, "10.0.0.3");
    assert_eq!(sentinel.force_failover(now_ms, b"m"), Ok(()));
    assert!(sentinel.force_failover(now_ms, b"m").unwrap_err().to_string().starts_with("INPROG"));
    sentinel.tick(now_ms + 100);
    sentinel.tick(now_ms + 200);
    sentinel.tick(now_ms + 300);
    let sent: Vec<String> = sentinel
        .take_outputs()
        .into_iter()
        .filter_map(|output| match output {
            Output::Send(_, request) => Some(
                request
                    .iter()
                    .map(|word| String::from_utf8_lossy(word).into_owned())
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
            _ => None,
        })
        .collect();
    let expected = [
        "MULTI",
        "SLAVEOF NO ONE",
        "CONFIG REWRITE",
        "CLIENT KILL TYPE normal",
        "CLIENT KILL TYPE pubsub",
        "EXEC",
    ];
    let at = sent.iter().position(|request| request == "MULTI").unwrap();
    assert_eq!(sent[at..at + expected.len()], expected);
}

#[test]
fn a_clock_that_jumps_tilts_and_nothing_is_found_down_meanwhile() {
    let (mut sentinel, _) = machine("");
    sentinel.tick(START_MS + 100);
    sentinel.tick(START_MS + 100_000);
    assert_eq!((sentinel.tilt_since_ms().is_some(), sentinel.tilts()), (true, 1));
    let is_down = |sentinel: &Sentinel| sentinel.primary("m").unwrap().1.flags.any(Flags::SUBJECTIVELY_DOWN);
    assert!(!is_down(&sentinel), "it has not answered for 100 s, by this clock");
    (1..=31).for_each(|second| sentinel.tick(START_MS + 100_000 + second * 1_000));
    assert!(sentinel.tilt_since_ms().is_none() && is_down(&sentinel));
    sentinel.tick(START_MS);
    assert_eq!(sentinel.tilts(), 2, "a step back counts, too");
}

#[test]
fn hello_messages_make_sentinels_known_and_newer_configurations_taken_over() {
    let (mut sentinel, _) = machine("");
    let hello = |epoch: u64, ip: &str| format!("10.0.1.2,26379,{OTHER_ID},{epoch},m,{ip},6379,{epoch}");
    sentinel.receive_hello(START_MS, &hello(0, "10.0.0.1"));
    assert_eq!(sentinel.primary("m").unwrap().1.sentinels.len(), 1);
    sentinel.take_outputs();
    sentinel.receive_hello(START_MS, &hello(5, "10.0.0.2"));
    let switched = sentinel.take_outputs().into_iter().any(|output| {
        output
            == Output::Publish {
                channel: "+switch-master".into(),
                message: "m 10.0.0.1 6379 10.0.0.2 6379".into(),
            }
    });
    assert!(switched);
    let (id, known) = sentinel.primary("m").unwrap();
    assert_eq!((known.config_epoch, sentinel.current_epoch()), (5, 5));
    assert_eq!(sentinel.current_address(id).ip, "10.0.0.2");
    assert!(known.replicas.contains_key("10.0.0.1:6379"), "the old one is watched as a replica");
    sentinel.receive_hello(START_MS, &hello(4, "10.0.0.3"));
    assert_eq!(sentinel.current_address(id).ip, "10.0.0.2", "an older configuration is not");
    // The same Sentinel elsewhere, another one in its place, and a malformed message.
    sentinel.receive_hello(START_MS, &hello(5, "10.0.0.2").replace("10.0.1.2", "10.0.1.3"));
    let mine = &sentinel.primary("m").unwrap().1.sentinels;
    assert_eq!(sentinel.instance(mine[OTHER_ID]).unwrap().address.ip, "10.0.1.3");
    for bad in [
        "",
        "a,b",
        "10.0.1.9,x,y,z,other,1,2,3",
        "10.0.1.9,1,a b,1,m,10.0.0.2,6379,1",
        "10.0.1.9,99999,c,1,m,h,1,1",
    ] {
        sentinel.receive_hello(START_MS, bad);
    }
    assert_eq!(sentinel.primary("m").unwrap().1.sentinels.len(), 1);
}

#[test]
fn what_is_wrong_in_the_file_is_told_with_its_place() {
    let (mut sentinel, _) = machine("");
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    for (line, message) in [
        ("monitor x 10.0.0.1 1 0", "Quorum must be 1 or greater."),
        ("monitor m 10.0.0.1 1 1", "Duplicate master name."),
        ("monitor x nowhere 1 1", "Can't resolve instance hostname."),
        ("monitor x 10.0.0.1 70000 1", "Invalid port number."),
        ("down-after-milliseconds m 0", "negative or zero time parameter."),
        ("down-after-milliseconds q 1", "No such master with specified name."),
        ("notification-script m /nowhere", "Notification script seems non existing or non executable."),
        ("myid short", "Malformed Sentinel id in myid option."),
        ("nonsense 1", "Unrecognized sentinel configuration statement."),
    ] {
        let good = words("announce-port 1");
        assert_eq!(sentinel.configure(&[good, words(line)]), Err((1, message.to_owned())), "{line}");
    }
}

proptest! {
    /// The written file reads back as the same state, whatever words users set.
    #[test]
    fn the_file_reads_back(
        pass in proptest::collection::vec(any::<u8>(), 1..20),
        name in "[a-zA-Z0-9._-]{1,12}",
        times in (1..1_000_000i64, 1..1_000_000i64, 0..100_000i64),
        quorum in 1..9u32,
        renamed in "[A-Z-]{1,10}",
    ) {
        let (mut sentinel, disk) = machine("");
        if sentinel.monitor(START_MS, name.as_bytes(), "10.1.0.1", 7000, quorum).is_ok() {
            let id = sentinel.primary(&name).unwrap().0;
            let words: Vec<Vec<u8>> = [
                b"auth-pass".to_vec(), pass, b"down-after-milliseconds".to_vec(), times.0.to_string().into_bytes(),
                b"failover-timeout".to_vec(), times.1.to_string().into_bytes(),
                b"primary-reboot-down-after-period".to_vec(), times.2.to_string().into_bytes(),
                b"rename-command".to_vec(), b"config".to_vec(), renamed.into_bytes(),
            ].into();
            sentinel.set(START_MS, id, &words).unwrap();
        }
        // Valkey's file has another name for one of them.
        let text = String::from_utf8(disk.borrow().text.clone()).unwrap();
        let text = text.replace("master-reboot", "primary-reboot").into_bytes();
        let mut config = Config::default();
        config.read(&text).unwrap();
        let world = Box::new(TestWorld(Rc::default()));
        let mut again = Sentinel::new(Settings::default(), Random::seeded(2), START_MS, world);
        again.configure(&config.sentinel).unwrap();
        let lines = |sentinel: &Sentinel| sentinel.config_lines().into_iter().map(|line| line.text).collect::<Vec<_>>();
        prop_assert_eq!(lines(&again), lines(&sentinel));
    }
}
