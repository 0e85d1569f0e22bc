//! One suite, run against both backends over real sockets.
//!
//! Where io_uring does not work, its half is skipped, and says so past the capture of test output. No test
//! sleeps: they wait for the expected event, and fail when nothing at all happens for a long time.

mod harness;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness::{Harness, pattern, raise_descriptor_limit, set_descriptor_limit, works};
use martlet_net::{Kind, Token, listen_unix, set_keepalive};
use proptest::prelude::*;
use rustix::net::sockopt;

macro_rules! both {
    ($($name:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $name() { super::$name(super::Kind::Epoll) })*
        }
        mod io_uring {
            $(#[test] fn $name() { if super::works(super::Kind::Uring) { super::$name(super::Kind::Uring) } })*
        }
    };
}

both! {
    echoes_any_fragmentation,
    sends_100_mb_to_a_slow_reader,
    a_blocked_send_does_not_spin,
    answers_after_half_close,
    send_then_close_delivers,
    close_abandons_a_blocked_send,
    reset_fails_sends,
    many_buffers_leave_in_order,
    what_arrives_together_is_announced,
    pause_and_resume,
    wakes_from_many_threads,
    serves_thousands_at_once,
    unlisten_stops_one_listener,
    unix_sockets,
    sockets_inherit_their_options,
    survives_running_out_of_descriptors,
    stale_tokens_do_nothing,
    drops_with_work_under_way,
    a_connection_moves_under_load,
    one_that_cannot_be_given_up_stays,
}

fn echoes_any_fragmentation(kind: Kind) {
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(pieces in prop::collection::vec(1usize..40_000, 1..40), seed: u64)| {
        let mut harness = Harness::new(kind);
        let (token, peer) = harness.connect();
        let total: usize = pieces.iter().sum();
        let expected = pattern(seed, total);
        let written = expected.clone();
        let mut writer = peer.try_clone().unwrap();
        let writing = thread::spawn(move || {
            let mut rest = &written[..];
            for piece in pieces {
                writer.write_all(&rest[..piece]).unwrap();
                rest = &rest[piece..];
            }
        });
        let mut reader = peer;
        let reading = thread::spawn(move || {
            let mut echoed = vec![0; total];
            reader.read_exact(&mut echoed).map(|()| echoed)
        });
        harness.echo_until(|recorder| recorder.bytes_received(token) == total);
        harness.until("the echo to be read", |_| reading.is_finished());
        writing.join().unwrap();
        prop_assert!(reading.join().unwrap().unwrap() == expected);
    });
}

fn sends_100_mb_to_a_slow_reader(kind: Kind) {
    const BYTES: usize = 100 << 20;
    let mut harness = Harness::new(kind);
    let (token, mut peer) = harness.connect();
    let buffer = pattern(1, BYTES);
    let address = buffer.as_ptr();
    harness.backend.send(token, buffer.into());
    harness.backend.send(token, b"the end".to_vec().into());
    let reading = thread::spawn(move || {
        let (mut expected, mut piece) = (pattern(1, BYTES), vec![0; 150_000]);
        expected.extend_from_slice(b"the end");
        let mut at = 0;
        while at < expected.len() {
            let count = peer.read(&mut piece).unwrap();
            assert!(count > 0 && piece[..count] == expected[at..at + count], "at {at}");
            at += count;
            thread::yield_now();
        }
    });
    harness.until("both buffers", |recorder| recorder.sent.len() == 2);
    reading.join().unwrap();
    let (_, buffer, result) = &harness.recorder.sent[0];
    assert!(
        result.is_ok() && buffer.len() == BYTES && buffer.as_ptr() == address,
        "the same buffer, not a copy"
    );
}

fn a_blocked_send_does_not_spin(kind: Kind) {
    let mut harness = Harness::new(kind);
    let (token, peer) = harness.connect();
    let (busy, mut busy_peer) = harness.connect();
    harness.backend.send(token, vec![7; 64 << 20].into());
    let waker = harness.backend.waker();
    // Traffic on another connection gives a spinning backend its time, without a clock.
    let talking = thread::spawn(move || {
        for _ in 0..200 {
            busy_peer.write_all(b"ping").unwrap();
            busy_peer.read_exact(&mut [0; 4]).unwrap();
        }
        waker.wake();
    });
    let mut polls = 0;
    harness.echo_until(|recorder| {
        polls += 1;
        recorder.woken > 0
    });
    talking.join().unwrap();
    assert_eq!(harness.recorder.bytes_received(busy), 800);
    assert!(polls < 1000, "{polls} polls for 200 messages");
    assert!(harness.recorder.sent.iter().all(|(sent, ..)| *sent != token));
    drop(peer);
}

fn answers_after_half_close(kind: Kind) {
    let mut harness = Harness::new(kind);
    let (token, mut peer) = harness.connect();
    peer.write_all(b"last request").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    harness.until("the end of the stream", |recorder| !recorder.closed.is_empty());
    assert_eq!(harness.recorder.received_from(token), b"last request");
    assert_eq!(harness.recorder.closed, [(token, None)]);
    let reply = pattern(2, 20 << 20);
    harness.backend.send(token, reply.clone().into());
    let reading = thread::spawn(move || {
        let mut data = Vec::new();
        peer.read_to_end(&mut data).map(|_| data)
    });
    harness.until("the reply to be sent", |recorder| recorder.sent.len() == 1);
    assert!(harness.recorder.sent[0].2.is_ok());
    harness.backend.close(token);
    harness.until("the peer to see the end", |_| reading.is_finished());
    assert!(reading.join().unwrap().unwrap() == reply);
    assert_eq!(harness.recorder.closed.len(), 1, "told once");
}

fn send_then_close_delivers(kind: Kind) {
    let mut harness = Harness::new(kind);
    let (token, mut peer) = harness.connect();
    harness.backend.send(token, b"+OK\r\n".to_vec().into());
    harness.backend.close(token);
    harness.turn();
    let mut data = Vec::new();
    peer.read_to_end(&mut data).unwrap();
    assert_eq!(data, b"+OK\r\n");
    assert!(harness.recorder.sent.is_empty() && harness.recorder.closed.is_empty(), "nothing after close");
}

fn close_abandons_a_blocked_send(kind: Kind) {
    for settle in [false, true] {
        let mut harness = Harness::new(kind);
        let (token, mut peer) = harness.connect();
        harness.backend.send(token, pattern(3, 32 << 20).into());
        if settle {
            harness.turn();
            harness.turn();
        }
        harness.backend.close(token);
        // The index is free at once, for a socket that must not notice its predecessor.
        let (successor, mut other) =
            harness.connect_as(Token::new(token.index() as u32, token.generation() + 1));
        let mut data = Vec::new();
        let ended = peer.read_to_end(&mut data);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
        assert!(data.len() < 32 << 20 && data == pattern(3, 32 << 20)[..data.len()]);
        other.write_all(b"hello").unwrap();
        harness.echo_until(|recorder| recorder.bytes_received(successor) == 5);
        other.read_exact(&mut [0; 5]).unwrap();
        harness.turn();
        assert!(harness.recorder.sent.iter().all(|(sent, ..)| *sent == successor));
        assert!(harness.recorder.closed.is_empty());
    }
}

fn reset_fails_sends(kind: Kind) {
    let mut harness = Harness::new(kind);
    let (token, peer) = harness.connect();
    // Closing with a linger of zero sends a reset instead of the end of the stream.
    sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    harness.backend.send(token, vec![0; 32 << 20].into());
    harness.backend.send(token, b"behind it".to_vec().into());
    harness.turn();
    drop(peer);
    harness.until("failures", |recorder| recorder.sent.len() == 2 && recorder.closed.len() == 1);
    assert!(harness.recorder.sent.iter().all(|(_, _, result)| result.is_err()));
    assert_eq!(harness.recorder.sent[1].1, b"behind it");
    let lengths: Vec<_> = harness.recorder.sent.iter().map(|(_, buffer, _)| buffer.len()).collect();
    assert_eq!(lengths, [32 << 20, 9]);
    // Which of the two learns of the reset is the kernel's choice: it reports an error once.
    harness.backend.send(token, b"too late".to_vec().into());
    harness.until("the late one", |recorder| recorder.sent.len() == 3);
    assert!(harness.recorder.sent[2].2.is_err());
    harness.backend.close(token);
}

fn many_buffers_leave_in_order(kind: Kind) {
    let mut harness = Harness::new(kind);
    let mut peers = Vec::new();
    for _ in 0..40 {
        let (token, mut peer) = harness.connect();
        let expected: Vec<u8> = (0..50).flat_map(|piece| pattern(piece, piece as usize * 97)).collect();
        let length = expected.len();
        let reading = thread::spawn(move || {
            let mut data = vec![0; length];
            peer.read_exact(&mut data).unwrap();
            assert!(data == expected);
        });
        for piece in 0..50 {
            harness.backend.send(token, pattern(piece, piece as usize * 97).into());
        }
        peers.push((token, reading));
    }
    harness.until("all of them", |recorder| recorder.sent.len() == 40 * 50);
    for (token, reading) in peers {
        reading.join().unwrap();
        let of_token: Vec<_> = harness.recorder.sent.iter().filter(|(sent, ..)| *sent == token).collect();
        assert!(of_token.iter().all(|(_, _, result)| result.is_ok()));
        let lengths = of_token.iter().map(|(_, buffer, _)| buffer.len()).filter(|length| *length > 0);
        assert!(lengths.eq((1..50).map(|piece| piece * 97)));
    }
}

/// The harness checks that the received bytes are the announced ones.
fn what_arrives_together_is_announced(kind: Kind) {
    let mut harness = Harness::new(kind);
    let mut peers: Vec<_> = (0..40).map(|_| harness.connect()).collect();
    for round in 1..=20_usize {
        for (at, (_, peer)) in peers.iter_mut().enumerate() {
            peer.write_all(&pattern(at as u64, round * 31)).unwrap();
        }
        let bytes: usize = (1..=round).map(|round| 40 * round * 31).sum();
        harness.until("all of them", |recorder| recorder.total_received == bytes);
    }
    assert_eq!(harness.recorder.total_announced > 0, kind == Kind::Uring);
}

fn pause_and_resume(kind: Kind) {
    let mut harness = Harness::new(kind);
    let (token, mut peer) = harness.connect();
    peer.write_all(b"before").unwrap();
    harness.until("data", |recorder| recorder.bytes_received(token) == 6);
    harness.backend.pause(token);
    harness.turn();
    peer.write_all(&pattern(4, 100_000)).unwrap();
    let (other, mut other_peer) = harness.connect();
    other_peer.write_all(b"x").unwrap();
    harness.until("another connection", |recorder| recorder.bytes_received(other) == 1);
    harness.turn();
    assert_eq!(harness.recorder.bytes_received(token), 6, "paused");
    harness.backend.resume(token);
    harness.until("what came meanwhile", |recorder| recorder.bytes_received(token) == 100_006);
    assert!(harness.recorder.received_from(token)[6..] == pattern(4, 100_000));
    // Changing one's mind before the backend could act on it.
    for _ in 0..3 {
        harness.backend.pause(token);
        harness.backend.resume(token);
        harness.backend.pause(token);
        harness.backend.pause(token);
        harness.turn();
        harness.backend.resume(token);
        harness.backend.resume(token);
        let before = harness.recorder.bytes_received(token);
        peer.write_all(b"again").unwrap();
        harness.until("data again", |recorder| recorder.bytes_received(token) == before + 5);
    }
    harness.backend.pause(token);
    harness.turn();
    drop(peer);
    harness.turn();
    assert!(harness.recorder.closed.is_empty());
    harness.backend.resume(token);
    harness.until("the end", |recorder| recorder.closed == [(token, None)]);
}

fn wakes_from_many_threads(kind: Kind) {
    const THREADS: u64 = 8;
    const MESSAGES: u64 = 5000;
    let mut harness = Harness::new(kind);
    let arrived = Arc::new(AtomicU64::new(0));
    let senders: Vec<_> = (0..THREADS)
        .map(|_| {
            let (waker, arrived) = (harness.backend.waker(), arrived.clone());
            thread::spawn(move || {
                for _ in 0..MESSAGES {
                    arrived.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            })
        })
        .collect();
    // A wake that is lost leaves the last messages unseen while poll sleeps.
    let mut seen = 0;
    while seen < THREADS * MESSAGES {
        let woken = harness.recorder.woken;
        harness.poll();
        assert!(harness.recorder.woken - woken <= 1, "woken once per poll");
        if harness.recorder.woken > woken {
            seen = arrived.load(Ordering::Relaxed);
        }
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert!(u64::from(harness.recorder.woken) <= THREADS * MESSAGES);
}

fn serves_thousands_at_once(kind: Kind) {
    // Two descriptors each, and some for all other uses.
    let count = (raise_descriptor_limit().saturating_sub(500) / 4).min(2000) as usize;
    let mut harness = Harness::new(kind);
    let mut peers: Vec<_> = (0..count).map(|_| harness.connect()).collect();
    // The last one is more than the buffers hold together, were they io_uring's.
    for length in [1usize, 100, 16_000] {
        harness.recorder.received.clear();
        for (token, peer) in &mut peers {
            peer.write_all(&pattern(token.0, length)).unwrap();
        }
        harness.echo_until(|recorder| recorder.total_received == count * length);
        harness.recorder.total_received = 0;
        let mut data = vec![0; length];
        for (token, peer) in &mut peers {
            peer.read_exact(&mut data).unwrap();
            assert!(data == pattern(token.0, length));
        }
    }
    drop(peers);
    harness.until("all ends", |recorder| recorder.closed.len() == count);
}

fn unlisten_stops_one_listener(kind: Kind) {
    let mut harness = Harness::new(kind);
    let first = harness.listen(1);
    let second = harness.listen(2);
    let _one = TcpStream::connect(first).unwrap();
    harness.until("a connection", |recorder| recorder.accepted.len() == 1);
    assert_eq!(harness.recorder.accepted[0].0, 1);
    harness.backend.unlisten(1);
    harness.turn();
    harness.turn();
    assert_eq!(TcpStream::connect(first).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let _two = TcpStream::connect(second).unwrap();
    harness.until("another connection", |recorder| recorder.accepted.len() == 2);
    assert_eq!(harness.recorder.accepted[1].0, 2);
    let third = harness.listen(1);
    let _three = TcpStream::connect(third).unwrap();
    harness.until("a third connection", |recorder| recorder.accepted.len() == 3);
    assert_eq!(harness.recorder.accepted[2].0, 1);
}

fn unix_sockets(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut harness = Harness::new(kind);
    harness.backend.listen(listen_unix(&path, 0o640, 10).unwrap(), 5).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(listen_unix(&path, 0, 10).unwrap_err().kind(), ErrorKind::AddrInUse);
    let mut peer = UnixStream::connect(&path).unwrap();
    harness.until("a connection", |recorder| recorder.accepted.len() == 1);
    let socket = harness.recorder.accepted.pop().unwrap().1;
    let token = Token::new(0, 1);
    harness.backend.adopt(socket, token).unwrap();
    let expected = pattern(6, 3 << 20);
    let written = expected.clone();
    let mut writer = peer.try_clone().unwrap();
    let writing = thread::spawn(move || writer.write_all(&written).unwrap());
    let reading = thread::spawn(move || {
        let mut data = vec![0; 3 << 20];
        peer.read_exact(&mut data).unwrap();
        data
    });
    harness.echo_until(|_| reading.is_finished());
    writing.join().unwrap();
    assert!(reading.join().unwrap() == expected);
    harness.until("the end", |recorder| recorder.closed == [(token, None)]);
}

fn sockets_inherit_their_options(kind: Kind) {
    let mut harness = Harness::new(kind);
    let listener = martlet_net::listen_tcp("[::1]:0".parse().unwrap(), 10).or_else(|_| {
        // A machine without IPv6.
        martlet_net::listen_tcp("127.0.0.1:0".parse().unwrap(), 10)
    });
    let listener = listener.unwrap();
    set_keepalive(&listener, 300).unwrap();
    let address = harness::address_of(&listener);
    harness.backend.listen(listener, 0).unwrap();
    let _peer = TcpStream::connect(address).unwrap();
    harness.until("a connection", |recorder| recorder.accepted.len() == 1);
    let (_, socket) = harness.recorder.accepted.pop().unwrap();
    assert!(sockopt::tcp_nodelay(&socket).unwrap());
    assert!(sockopt::socket_keepalive(&socket).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), Duration::from_secs(300));
    assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), Duration::from_secs(100));
    assert!(rustix::fs::fcntl_getfl(socket.as_fd()).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
    assert!(rustix::io::fcntl_getfd(socket.as_fd()).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    set_keepalive(&socket, 0).unwrap();
    assert!(!sockopt::socket_keepalive(&socket).unwrap());
}

/// A server that cannot have more than a few descriptors, in a separate process since the limit is the
/// process's.
fn survives_running_out_of_descriptors(kind: Kind) {
    const CONNECTIONS: usize = 60;
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server_short_of_descriptors", "--ignored", "--nocapture", "-q"])
        .env("MARTLET_NET_TEST_KIND", kind.name())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = harness::Lines::new(server.stdout.take().unwrap());
    let address = output.value_after("listens on ");
    let mut peers: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        peer.write_all(&[number as u8]).unwrap();
    }
    // Each is served once those before it are gone.
    for (number, mut peer) in peers.into_iter().enumerate() {
        let mut data = [0];
        peer.read_exact(&mut data).unwrap();
        assert_eq!(data, [number as u8]);
    }
    let polls: usize = output.value_after("polls ").parse().unwrap();
    assert!(server.wait().unwrap().success());
    assert!(polls < 2000, "{polls} polls for {CONNECTIONS} connections: it spins while it cannot accept");
}

#[test]
#[ignore = "the child of another test"]
fn server_short_of_descriptors() {
    let kind = match std::env::var("MARTLET_NET_TEST_KIND").as_deref() {
        Ok("io_uring") => Kind::Uring,
        Ok("epoll") => Kind::Epoll,
        _ => return,
    };
    let mut harness = Harness::new(kind);
    let address = harness.listen(0);
    // Room for about ten connections.
    set_descriptor_limit(harness::descriptors_in_use() + 10);
    println!("listens on {address}");
    let (mut polls, mut served, mut most, mut live) = (0, 0, 0, 0);
    while served < 60 {
        polls += 1;
        harness.echo();
        while let Some((_, socket)) = harness.recorder.accepted.pop() {
            live += 1;
            most = usize::max(most, live);
            let token = harness.next_token();
            harness.backend.adopt(socket, token).unwrap();
        }
        for (token, _) in std::mem::take(&mut harness.recorder.closed) {
            harness.backend.close(token);
            live -= 1;
            served += 1;
        }
    }
    assert!(most < 20, "the limit did not bite");
    println!("polls {polls}");
}

fn stale_tokens_do_nothing(kind: Kind) {
    let mut harness = Harness::new(kind);
    let (token, mut peer) = harness.connect();
    for stale in [Token::new(token.index() as u32, 99), Token::new(12_345, 1)] {
        harness.backend.send(stale, b"nobody".to_vec().into());
        harness.backend.pause(stale);
        harness.backend.resume(stale);
        harness.backend.close(stale);
    }
    let (socket, _other) = UnixStream::pair().unwrap();
    let taken = harness.backend.adopt(socket.into(), Token::new(token.index() as u32, 7)).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    harness.backend.send(token, b"somebody".to_vec().into());
    harness.until("the one reply", |recorder| recorder.sent.len() == 1);
    let mut data = [0; 8];
    peer.read_exact(&mut data).unwrap();
    assert_eq!(&data, b"somebody");
    harness.backend.close(token);
    harness.backend.close(token);
    harness.backend.send(token, b"gone".to_vec().into());
    harness.turn();
    assert_eq!(harness.recorder.sent.len(), 1);
    assert_eq!(peer.read(&mut data).unwrap(), 0);
}

fn drops_with_work_under_way(kind: Kind) {
    let mut harness = Harness::new(kind);
    let address = harness.listen(0);
    let (blocked, mut blocked_peer) = harness.connect();
    let (_idle, mut idle_peer) = harness.connect();
    let (queued, _queued_peer) = harness.connect();
    harness.backend.send(blocked, pattern(9, 16 << 20).into());
    harness.turn();
    harness.backend.send(queued, b"never started".to_vec().into());
    drop(harness);
    let mut data = Vec::new();
    let _ = blocked_peer.read_to_end(&mut data);
    assert!(data == pattern(9, 16 << 20)[..data.len()]);
    assert_eq!(idle_peer.read(&mut [0]).unwrap(), 0);
    assert!(TcpStream::connect(address).is_err());
}

/// Two backends hand one connection to and fro while its peer sends: every byte arrives, in order.
fn a_connection_moves_under_load(kind: Kind) {
    const BYTES: usize = 4 << 20;
    let mut harnesses = [Harness::new(kind), Harness::new(kind)];
    let (mut token, peer) = harnesses[0].connect();
    let (expected, mut writer) = (pattern(11, BYTES), peer.try_clone().unwrap());
    let written = expected.clone();
    let writing = thread::spawn(move || written.chunks(777).for_each(|part| writer.write_all(part).unwrap()));
    let mut reader = peer;
    let reading = thread::spawn(move || {
        let mut echoed = vec![0; BYTES];
        reader.read_exact(&mut echoed).map(|()| echoed)
    });
    let (mut at, mut moves, mut received) = (0, 0, 0);
    while received < BYTES {
        let [first, second] = &mut harnesses;
        let (here, there) = if at == 0 { (first, second) } else { (second, first) };
        let mut input = here.receive();
        here.backend.release(token);
        input.extend(here.receive());
        let released = here.recorder.released.pop();
        let echoing = match released {
            Some((released, socket)) => {
                assert_eq!(released, token);
                token = there.next_token();
                there.backend.adopt(socket, token).unwrap();
                (at, moves) = (1 - at, moves + 1);
                there
            }
            None => here,
        };
        for (_, data) in input {
            received += data.len();
            echoing.backend.send(token, data.into());
        }
    }
    harnesses[at].until("the echo to be read", |_| reading.is_finished());
    writing.join().unwrap();
    assert!(reading.join().unwrap().unwrap() == expected);
    assert!(moves > 1, "{moves} moves");
}

fn one_that_cannot_be_given_up_stays(kind: Kind) {
    let mut harness = Harness::new(kind);
    let (blocked, mut blocked_peer) = harness.connect();
    let (paused, mut paused_peer) = harness.connect();
    let (closed, _closed_peer) = harness.connect();
    harness.backend.send(blocked, pattern(1, 32 << 20).into());
    harness.backend.pause(paused);
    harness.turn();
    harness.backend.close(closed);
    for token in [blocked, paused, closed, Token::new(77, 1)] {
        harness.backend.release(token);
    }
    harness.turn();
    harness.turn();
    assert!(harness.recorder.released.is_empty());
    let reading = thread::spawn(move || {
        let mut data = vec![0; 32 << 20];
        blocked_peer.read_exact(&mut data).map(|()| (data, blocked_peer))
    });
    harness.until("the reply", |recorder| recorder.sent.len() == 1);
    let (data, mut blocked_peer) = reading.join().unwrap().unwrap();
    assert!(data == pattern(1, 32 << 20));
    harness.backend.resume(paused);
    paused_peer.write_all(b"still here").unwrap();
    blocked_peer.write_all(b"so am I").unwrap();
    harness
        .until("both", |recorder| recorder.bytes_received(paused) + recorder.bytes_received(blocked) == 17);
    assert!(harness.recorder.released.is_empty());
    // Both can leave now, and one whose peer has gone first cannot.
    harness.backend.release(paused);
    harness.until("a socket", |recorder| recorder.released.len() == 1);
    drop(blocked_peer);
    harness.until("the end", |recorder| recorder.closed == [(blocked, None)]);
    harness.backend.release(blocked);
    harness.turn();
    assert_eq!(harness.recorder.released.len(), 1);
}
