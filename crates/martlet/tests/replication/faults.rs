//! Links that delay, break up, truncate and cut, by seed, between a primary under writes and its replicas,
//! each of which loads in its own way.
//!
//! Invariants, whatever the links do: a reader of a replica sees transactions as a whole; once the links are
//! sound, all have the same data; and when the primary is killed, the replica that is furthest has every
//! write that WAIT, or the reply with `martlet-sync-replicas`, confirmed for one replica.
//!
//! `MARTLET_REPLICATION_ROUNDS` is the number of rounds, `MARTLET_REPLICATION_SEED` the seed of the first.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_testkit::server::Server;

use super::replica::{ask, assert_equal, field, peer, with_client};
use super::{has_peer, info, start_ours, wait_until};

const ROUNDS: u64 = 2;
/// How long links are bad in a round.
const BAD_TIME: Duration = Duration::from_millis(3000);
const WRITERS: usize = 3;
/// Elements that lists keep.
const LIST_LEN: u64 = 50;

/// A way to the primary that is bad while `is_bad`.
struct BadLink {
    port: u16,
    is_bad: Arc<AtomicBool>,
    cuts: Arc<AtomicU64>,
}

impl BadLink {
    fn start(target: SocketAddr, seed: u64) -> BadLink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_bad, cuts) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let link = BadLink { port, is_bad: is_bad.clone(), cuts: cuts.clone() };
        std::thread::spawn(move || {
            for (number, replica) in (0..).zip(listener.incoming()) {
                let replica = replica.unwrap();
                // The primary may have been killed.
                let Ok(primary) = TcpStream::connect(target) else { continue };
                for (way, from, to) in [(0, &replica, &primary), (1, &primary, &replica)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let random = Random::seeded(seed.wrapping_mul(1_000_003).wrapping_add(2 * number + way));
                    let (is_bad, cuts) = (is_bad.clone(), cuts.clone());
                    std::thread::spawn(move || carry(from, to, random, &is_bad, &cuts));
                }
            }
        });
        link
    }
}

/// Carries bytes one way until an end of the connection is gone, or it is cut, in the middle of anything.
fn carry(mut from: TcpStream, mut to: TcpStream, mut random: Random, is_bad: &AtomicBool, cuts: &AtomicU64) {
    // Small ones cut the handshake, large ones a snapshot or the stream.
    let mut left = 1 << (6 + random.below(16));
    let mut bytes = vec![0; 1 << 16];
    loop {
        let bad = is_bad.load(Ordering::SeqCst);
        let most = if bad { 1 << random.below(17) } else { bytes.len() };
        let Ok(count @ 1..) = from.read(&mut bytes[..most]) else { break };
        let passed = if bad { count.min(left) } else { count };
        if bad && random.below(20) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(60)));
        }
        if to.write_all(&bytes[..passed]).is_err() {
            break;
        }
        if bad {
            left -= passed;
            if left == 0 {
                cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// A client's writes and their confirmations.
#[derive(Default)]
struct Written {
    /// The last value that it has sent.
    sent: AtomicU64,
    /// The last write that was confirmed for one replica.
    promised: AtomicU64,
}

/// Counts up until the end is signalled or the primary is gone.
fn write(primary: SocketAddr, number: usize, waits: bool, written: &Written, ends: &AtomicBool, seed: u64) {
    let mut random = Random::seeded(seed ^ number as u64);
    let mut client = Client::connect(primary).unwrap();
    for value in 1..u64::MAX {
        if ends.load(Ordering::SeqCst) {
            return;
        }
        written.sent.store(value, Ordering::SeqCst);
        let filler = "x".repeat(random.below(8_000) as usize);
        let lines = [
            "MULTI".into(),
            format!("SET a{number} {value}"),
            format!("RPUSH l{number} {value}"),
            format!("LTRIM l{number} -{LIST_LEN} -1"),
            format!("HSET h{number} {} f{filler}", random.below(200)),
            if random.below(500) == 0 {
                "SWAPDB 3 4".into()
            } else {
                format!("ZINCRBY z{number} 1 {}", random.below(100))
            },
            format!("SET c{number} {value}"),
            "EXEC".into(),
        ];
        let Some(outcome) = run_all(&mut client, &lines) else { return };
        let mut is_promised = !waits && !outcome.contains("NOREPLICAS") && !outcome.contains("EXECABORT");
        if waits && random.below(10) == 0 {
            let Some(has) = run_all(&mut client, &["WAIT 1 100".to_owned()]) else { return };
            is_promised = has.parse::<u64>().is_ok_and(|count| count > 0);
        }
        if is_promised {
            written.promised.store(value, Ordering::SeqCst);
        }
    }
}

/// The answer to the last of these lines; `None` once the server is gone.
fn run_all(client: &mut Client, lines: &[String]) -> Option<String> {
    client.send_raw(lines.iter().map(|line| line.clone() + "\r\n").collect::<String>().as_bytes()).ok()?;
    let replies: Option<Vec<_>> = lines.iter().map(|_| client.read_reply().ok()).collect();
    Some(super::text(replies?.last()?))
}

/// Reads the values that transactions have written together until the end is signalled; returns how often
/// there were any.
fn read(replica: SocketAddr, ends: &AtomicBool) -> u64 {
    let (mut client, mut seen) = (Client::connect(replica).unwrap(), 0);
    while !ends.load(Ordering::SeqCst) {
        for number in 0..WRITERS {
            let lines = ["MULTI", &format!("GET a{number}"), &format!("LINDEX l{number} -1"), "EXEC"];
            let both = run_all(&mut client, &lines.map(str::to_owned)).unwrap();
            // No offset is reported while data is loaded.
            if let Some((a, last)) =
                both.split_once(' ').filter(|_| !both.contains("LOADING") && !both.contains("EXECABORT"))
            {
                assert_eq!(a, last, "half of a transaction");
                seen += u64::from(a != "nil");
            }
        }
    }
    seen
}

fn replicas(bad: &[BadLink]) -> Vec<(Server, Client)> {
    let load = |way| with_client(start_ours(&["--repl-diskless-load", way]));
    let mut replicas = vec![load("disabled"), load("swapdb")];
    if has_peer() {
        replicas.push(peer(&[]));
    }
    for ((_, client), link) in replicas.iter_mut().zip(bad) {
        assert_eq!(ask(client, &format!("REPLICAOF 127.0.0.1 {}", link.port)), "OK");
    }
    replicas
}

fn is_loading(server: &Server) -> bool {
    info(server, "loading") == "1" || info(server, "async_loading") == "1"
}

fn round(seed: u64) {
    let mut random = Random::seeded(seed);
    let (is_killed, waits) = (seed % 2 == 1, seed % 4 < 2);
    let backlog = (1_u64 << (14 + random.below(6))).to_string();
    let diskless = ["no", "yes"][random.below(2) as usize];
    let mut options = vec!["--repl-backlog-size", &backlog, "--repl-diskless-sync", diskless];
    if !waits {
        options.extend(["--martlet-sync-replicas", "1", "--min-replicas-max-lag", "1000"]);
    }
    let (server, mut primary) = with_client(start_ours(&options));
    let links: Vec<_> = (0..3).map(|number| BadLink::start(server.address(), seed * 3 + number)).collect();
    let mut replicas = replicas(&links);
    let written: [Written; WRITERS] = Default::default();
    let (ends, address) = (AtomicBool::new(false), server.address());
    std::thread::scope(|scope| {
        let (written, ends) = (&written, &ends);
        for (number, written) in written.iter().enumerate() {
            scope.spawn(move || write(address, number, waits, written, ends, seed));
        }
        let readers: Vec<_> = replicas.iter().map(|(replica, _)| replica.address()).collect();
        let readers: Vec<_> = readers.into_iter().map(|at| scope.spawn(move || read(at, ends))).collect();
        let began = Instant::now();
        wait_until("the end of the bad time", || began.elapsed() > BAD_TIME);
        if is_killed {
            super::sync::kill(&server);
        } else {
            links.iter().for_each(|link| link.is_bad.store(false, Ordering::SeqCst));
        }
        ends.store(true, Ordering::SeqCst);
        let seen: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        let cuts: u64 = links.iter().map(|link| link.cuts.load(Ordering::SeqCst)).sum();
        let sum = |of: fn(&Written) -> &AtomicU64| -> u64 {
            written.iter().map(|written| of(written).load(Ordering::SeqCst)).sum()
        };
        let (sent, promised) = (sum(|of| &of.sent), sum(|of| &of.promised));
        println!("seed {seed}: {cuts} cuts, {seen} transactions seen, {sent} sent, {promised} promised");
    });
    if is_killed {
        return promote(&mut replicas, &written);
    }
    for (_, replica) in &mut replicas {
        wait_until("the link", || field(replica, "master_link_status") == "up");
        assert_equal(&mut primary, replica);
    }
}

/// Has the replica that is furthest take over, as a Sentinel would, and checks the promised writes.
fn promote(replicas: &mut Vec<(Server, Client)>, written: &[Written]) {
    let mut offsets = Vec::new();
    for (server, client) in replicas.iter_mut() {
        wait_until("the end of loading", || !is_loading(server));
        offsets.push(field(client, "slave_repl_offset").parse::<u64>().unwrap());
    }
    let furthest = (0..offsets.len()).max_by_key(|&index| offsets[index]).unwrap();
    let (server, mut primary) = replicas.remove(furthest);
    assert_eq!(ask(&mut primary, "REPLICAOF NO ONE"), "OK");
    for (number, of) in written.iter().enumerate() {
        let kept = ask(&mut primary, &format!("GET c{number}")).parse().unwrap_or(0);
        let (promised, sent) = (of.promised.load(Ordering::SeqCst), of.sent.load(Ordering::SeqCst));
        assert!(
            (promised..=sent).contains(&kept),
            "{promised} promised, {kept} kept, {sent} sent: {offsets:?}"
        );
    }
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    for (_, replica) in replicas {
        ask(replica, &format!("REPLICAOF 127.0.0.1 {}", server.address().port()));
        wait_until("the link", || field(replica, "master_link_status") == "up");
        ask(&mut primary, "INCR after");
        assert_equal(&mut primary, replica);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn bad_links_lose_nothing_that_was_promised() {
    let rounds = number("MARTLET_REPLICATION_ROUNDS").unwrap_or(ROUNDS);
    let first = number("MARTLET_REPLICATION_SEED").unwrap_or_else(|| Random::from_entropy().below(1 << 40));
    let failed: Vec<_> = (first..first.saturating_add(rounds))
        .filter(|&seed| std::panic::catch_unwind(|| round(seed)).is_err())
        .collect();
    assert!(failed.is_empty(), "MARTLET_REPLICATION_SEED={failed:?}");
}
