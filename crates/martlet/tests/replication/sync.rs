//! `martlet-sync-replicas`: a reply leaves when replicas have its write, and not before.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};

use super::{
    PATIENCE, Stopped, follow, has_peer, info, run, start_ours, start_peer, text, wait_for_link, wait_until,
};

/// A primary that waits for one replica, and that replica.
fn pair(of_primary: &[&str], start_replica: fn(&[&str]) -> Server) -> (Server, Server) {
    let options = ["--martlet-sync-replicas", "1", "--min-replicas-max-lag", "1000"];
    let primary = start_ours(&[&options, of_primary].concat());
    assert!(text(&run(&primary, "SET k v")).starts_with("NOREPLICAS"));
    let replica = start_replica(&[]);
    follow(&replica, primary.address());
    wait_for_link(&replica);
    wait_until("the replica counts", || text(&run(&primary, "SET k v")) == "OK");
    (primary, replica)
}

/// Ends a server at once.
pub fn kill(server: &Server) {
    kill_process(Pid::from_raw(server.pid() as i32).unwrap(), Signal::KILL).unwrap();
}

/// Sends a request whose reply is not read yet.
fn send(server: &Server, line: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    stream
}

/// The bytes so far, without waiting.
fn received(stream: &mut TcpStream) -> Option<Vec<u8>> {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 64];
    let read = stream.read(&mut bytes);
    stream.set_nonblocking(false).unwrap();
    match read {
        Ok(count) => Some(bytes[..count].to_vec()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

/// The next bytes.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 64];
    let count = stream.read(&mut bytes).unwrap();
    bytes[..count].to_vec()
}

/// A SET that has run, and whose reply is awaited.
fn begin_set(server: &Server) -> TcpStream {
    let before = calls(server, "set");
    let writer = send(server, "SET k new");
    wait_until("SET has run", || calls(server, "set") != before);
    writer
}

/// How often a command has run.
fn calls(server: &Server, command: &str) -> String {
    let field = info(server, &format!("cmdstat_{command}"));
    field.split(',').next().unwrap_or_default().to_owned()
}

#[test]
fn replies_about_data_wait_for_replicas_and_others_do_not() {
    if !has_peer() {
        return;
    }
    for way in [&["--io-threads", "1"], &["--io-threads", "2"]] {
        let (primary, replica) = pair(way, start_peer);
        let gets = calls(&primary, "get");
        let stands_still = Stopped::new(replica.pid());
        let mut writer = begin_set(&primary);
        let mut reader = send(&primary, "GET k");
        wait_until("GET has run", || calls(&primary, "get") != gets);
        // Each INFO was answered in that time, in later loops.
        assert_eq!(text(&run(&primary, "PING")), "PONG");
        assert_eq!((received(&mut writer), received(&mut reader)), (None, None));
        drop(stands_still);
        assert_eq!(receive(&mut writer), b"+OK\r\n");
        assert_eq!(receive(&mut reader), b"$3\r\nnew\r\n");
    }
}

#[test]
fn who_waits_is_answered_when_nothing_is_to_be_waited_for() {
    if !has_peer() {
        return;
    }
    let (primary, replica) = pair(&[], start_peer);
    let _stands_still = Stopped::new(replica.pid());
    let mut writer = begin_set(&primary);
    assert_eq!(received(&mut writer), None);
    assert_eq!(text(&run(&primary, "CONFIG SET martlet-sync-replicas 0")), "OK");
    assert_eq!(receive(&mut writer), b"+OK\r\n");
}

#[test]
fn a_primary_that_becomes_a_replica_acknowledges_nothing_that_may_be_lost() {
    if !has_peer() {
        return;
    }
    let (primary, replica) = pair(&["--appendonly", "yes", "--appendfsync", "always"], start_peer);
    let other = start_ours(&[]);
    let _stands_still = Stopped::new(replica.pid());
    let mut writer = begin_set(&primary);
    follow(&primary, other.address());
    assert_eq!(receive(&mut writer), b"", "an end, and no reply");
}

#[test]
fn with_too_few_replicas_reads_are_served_and_writes_refused() {
    if !has_peer() {
        return;
    }
    let (primary, replica) = pair(&[], start_peer);
    {
        let _stands_still = Stopped::new(replica.pid());
        let mut writer = begin_set(&primary);
        // It cannot be confirmed any more.
        kill(&replica);
        wait_until("it is gone", || info(&primary, "connected_slaves") == "0");
        assert_eq!(text(&run(&primary, "GET k")), "new");
        assert!(text(&run(&primary, "SET k newer")).starts_with("NOREPLICAS"));
        assert_eq!(received(&mut writer), None);
        let replica = start_peer(&[]);
        follow(&replica, primary.address());
        assert_eq!(receive(&mut writer), b"+OK\r\n");
    }
}

/// Clients count up in their own keys until the primary is killed; the replica has every confirmed count.
#[test]
fn what_was_acknowledged_is_there_after_the_primary_was_killed() {
    if !has_peer() {
        return;
    }
    for start_replica in [start_peer as fn(&[&str]) -> Server, start_ours] {
        let (primary, replica) = pair(&["--io-threads", "2"], start_replica);
        let acknowledged: Vec<_> = (0..4).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for (number, last) in acknowledged.iter().enumerate() {
                let mut client = Client::connect(primary.address()).unwrap();
                client.set_timeout(Duration::from_secs(20));
                scope.spawn(move || {
                    for value in 1..u64::MAX {
                        let (key, value_text) = (format!("k{number}"), value.to_string());
                        let Ok(reply) = client.command(&["SET", &key, &value_text]) else { return };
                        assert_eq!(text(&reply), "OK");
                        last.store(value, Ordering::SeqCst);
                    }
                });
            }
            let has_enough = |last: &AtomicU64| last.load(Ordering::SeqCst) > 500;
            wait_until("clients have written", || acknowledged.iter().all(has_enough));
            kill(&primary);
        });
        assert_eq!(text(&run(&replica, "REPLICAOF NO ONE")), "OK");
        for (number, last) in acknowledged.iter().enumerate() {
            let kept: u64 = text(&run(&replica, &format!("GET k{number}"))).parse().unwrap();
            let last = last.load(Ordering::SeqCst);
            assert!(kept == last || kept == last + 1, "client {number} was told {last}, there is {kept}");
        }
    }
}

/// A replica that announces this port, and acknowledges only at the test's command.
fn silent_replica(primary: &Server, port: &str) -> Client {
    let mut client = Client::connect(primary.address()).unwrap();
    let greeting = ["REPLCONF", "listening-port", port, "capa", "eof", "capa", "psync2"];
    assert_eq!(text(&client.command(&greeting).unwrap()), "OK");
    client.send(&["PSYNC", "?", "-1"]).unwrap();
    client
}

/// Whether the replica of this number has come so far.
fn is_online(primary: &Server, number: usize, offset: u64) -> bool {
    info(primary, &format!("slave{number}")).contains(&format!("state=online,offset={offset},"))
}

/// Waits until this number of replicas can be relied on.
fn wait_for_good(primary: &Server, count: &str) {
    wait_until("they can be relied on", || info(primary, "min_slaves_good_slaves") == count);
    assert_eq!(text(&run(primary, "PING")), "PONG");
}

/// More than the stream has.
const FAR: u64 = 1 << 40;

#[test]
fn a_replica_with_two_connections_has_one_memory() {
    let options = ["--martlet-sync-replicas", "2", "--min-replicas-max-lag", "1000"];
    let primary = start_ours(&[&options[..], &["--repl-diskless-sync-delay", "0"]].concat());
    let acknowledge = |number: usize, replica: &mut Client| {
        wait_until("it is online", || is_online(&primary, number, 0));
        replica.send(&["REPLCONF", "ACK", &FAR.to_string()]).unwrap();
        wait_until("it has come so far", || is_online(&primary, number, FAR));
    };
    let mut both = [silent_replica(&primary, "7001"), silent_replica(&primary, "7001")];
    wait_for_good(&primary, "2");
    let mut writer = begin_set(&primary);
    both.iter_mut().enumerate().for_each(|(number, replica)| acknowledge(number, replica));
    assert_eq!(text(&run(&primary, "PING")), "PONG");
    assert_eq!(received(&mut writer), None);
    acknowledge(2, &mut silent_replica(&primary, "7002"));
    assert_eq!(receive(&mut writer), b"+OK\r\n");
}

#[test]
fn what_was_there_before_is_told_of_once_replicas_have_it() {
    let options = ["--min-replicas-max-lag", "1000", "--repl-diskless-sync-delay", "0"];
    let primary = start_ours(&options);
    assert_eq!(text(&run(&primary, "SET k v")), "OK");
    assert_eq!(text(&run(&primary, "CONFIG SET martlet-sync-replicas 1")), "OK");
    let mut replica = silent_replica(&primary, "7001");
    wait_for_good(&primary, "1");
    let mut reader = send(&primary, "GET k");
    wait_until("GET has run", || calls(&primary, "get") == "calls=1");
    assert_eq!((text(&run(&primary, "PING")), received(&mut reader)), ("PONG".into(), None));
    replica.send(&["REPLCONF", "ACK", &FAR.to_string()]).unwrap();
    assert_eq!(receive(&mut reader), b"$1\r\nv\r\n");
}
