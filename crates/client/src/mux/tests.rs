//! The multiplexer against small servers of this file.

use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;

#[derive(Default)]
struct Seen {
    connected: Vec<usize>,
    data: Vec<u8>,
    sent: usize,
    closed: Vec<(usize, bool)>,
}

impl Handler for Seen {
    fn woken(&mut self) {}
    fn connected(&mut self, slot: usize) {
        self.connected.push(slot);
    }
    fn data(&mut self, _: usize, data: &[u8]) {
        self.data.extend_from_slice(data);
    }
    fn sent(&mut self, _: usize) {
        self.sent += 1;
    }
    fn closed(&mut self, slot: usize, error: Option<io::Error>) {
        self.closed.push((slot, error.is_some()));
    }
}

fn until<M: Mux>(mux: &mut M, seen: &mut Seen, done: impl Fn(&Seen) -> bool) {
    let mut turns = 0;
    while !done(seen) {
        mux.wait(Some(Duration::from_secs(10)), seen).expect("the wait works");
        turns += 1;
        assert!(turns < 100_000, "nothing more happens");
    }
}

/// An echo server for one connection that ends with it.
fn echo() -> (Address, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = Address::Tcp(listener.local_addr().expect("bound"));
    let thread = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                stream.write_all(&buffer[..count]).expect("the peer reads");
            }
        }
    });
    (address, thread)
}

fn made<M: Mux>(slots: usize) -> M {
    M::new(slots).expect("the mux works here")
}

fn exchange(mut mux: impl Mux) {
    let (address, server) = echo();
    for round in 0..2 {
        let mut seen = Seen::default();
        mux.open(2, &address, None).expect("opens");
        until(&mut mux, &mut seen, |s| s.connected == [2]);
        let payload: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8 + round).collect();
        mux.buffer(2).expect("free").clear();
        mux.buffer(2).expect("free").extend_from_slice(&payload);
        seen.sent += usize::from(mux.send(2, round == 0));
        until(&mut mux, &mut seen, |s| s.data.len() == payload.len() && s.sent >= 1);
        assert_eq!(seen.data, payload);
        assert_eq!(mux.buffer(2).expect("free again"), &payload);
        mux.close(2);
    }
    mux.wait(Some(Duration::ZERO), &mut Seen::default()).expect("the wait works");
    server.join().expect("both connections ended");
}

fn refusal_and_close(mut mux: impl Mux) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let mut seen = Seen::default();
    mux.open(0, &Address::Tcp(free), None).expect("starts");
    until(&mut mux, &mut seen, |s| !s.closed.is_empty());
    assert_eq!(seen.closed, [(0, true)]);

    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = Address::Tcp(listener.local_addr().expect("bound"));
    mux.open(0, &address, None).expect("starts");
    let mut seen = Seen::default();
    until(&mut mux, &mut seen, |s| s.connected == [0]);
    drop(listener.accept().expect("comes"));
    until(&mut mux, &mut seen, |s| !s.closed.is_empty());
    assert_eq!(seen.closed, [(0, false)]);
}

#[test]
fn epoll_exchanges_and_reopens() {
    exchange(made::<EpollMux>(4));
}

#[test]
fn epoll_reports_refusal_and_close() {
    refusal_and_close(made::<EpollMux>(1));
}

#[test]
fn epoll_of_old_kernels_waits_in_milliseconds() {
    let old = |slots| {
        let mut mux = made::<EpollMux>(slots);
        mux.is_coarse = true;
        mux
    };
    exchange(old(4));
    refusal_and_close(old(1));
    let (began, mut mux) = (std::time::Instant::now(), old(1));
    mux.wait(Some(Duration::from_micros(20_900)), &mut Seen::default()).expect("the wait works");
    assert!(began.elapsed() >= Duration::from_millis(20));
}

#[test]
fn uring_behaves_like_epoll_where_it_is_allowed() {
    if uring_works() {
        exchange(made::<UringMux>(4));
        refusal_and_close(made::<UringMux>(1));
    }
}
