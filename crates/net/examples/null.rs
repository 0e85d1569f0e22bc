//! A server that parses just enough RESP to count requests and answers `+OK` to each: what I/O alone costs.
//!
//! `cargo run --release -p martlet-net --example null -- [--uring | --epoll] [PORT]`; figures in
//! `docs/internals/net.md`.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use martlet_net::{Backend, Buffer, Choice, Sink, Token};

const REPLY: &[u8] = b"+OK\r\n";

#[derive(Default)]
struct Client {
    token: Option<Token>,
    /// A request that has not arrived whole.
    partial: Vec<u8>,
    output: Vec<u8>,
    dirty: bool,
}

#[derive(Default)]
struct Server {
    clients: Vec<Client>,
    free: Vec<u32>,
    generations: HashMap<u32, u32>,
    accepted: Vec<OwnedFd>,
    dirty: Vec<Token>,
    closed: Vec<Token>,
}

/// The length of the request at the start of `data`; `None` when it is not all there. An odd request counts
/// as one byte.
fn request_length(data: &[u8]) -> Option<usize> {
    if data.first()? != &b'*' {
        return Some(1);
    }
    let (arguments, mut at) = number(data, 1)?;
    for _ in 0..arguments {
        data.get(at)?;
        let (length, body) = number(data, at + 1)?;
        at = body + length + 2;
    }
    (at <= data.len()).then_some(at)
}

/// The number at `at`, and where the line after it starts.
fn number(data: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut value = 0;
    loop {
        match *data.get(at)? {
            digit @ b'0'..=b'9' => value = value * 10 + usize::from(digit - b'0'),
            _ => return Some((value, at + 2)),
        }
        at += 1;
    }
}

/// Answers every whole request in `data`; returns how much of it that was.
fn answer(mut data: &[u8], output: &mut Vec<u8>) -> usize {
    let whole = data.len();
    while let Some(length) = request_length(data) {
        output.extend_from_slice(REPLY);
        data = data.get(length..).unwrap_or_default();
    }
    whole - data.len()
}

impl Sink for Server {
    fn accepted(&mut self, _tag: u32, socket: OwnedFd) {
        self.accepted.push(socket);
    }

    fn received(&mut self, token: Token, data: &[u8]) -> bool {
        let client = &mut self.clients[token.index()];
        if client.partial.is_empty() {
            let used = answer(data, &mut client.output);
            client.partial.extend_from_slice(&data[used..]);
        } else {
            client.partial.extend_from_slice(data);
            let used = answer(&client.partial, &mut client.output);
            client.partial.drain(..used);
        }
        if !client.dirty && !client.output.is_empty() {
            client.dirty = true;
            self.dirty.push(token);
        }
        true
    }

    fn sent(&mut self, token: Token, buffer: Buffer, _result: io::Result<()>) {
        let Buffer::Owned(mut buffer) = buffer else { return };
        let client = &mut self.clients[token.index()];
        if client.output.is_empty() {
            buffer.clear();
            client.output = buffer;
        }
    }

    fn closed(&mut self, token: Token, _reason: Option<io::Error>) {
        self.closed.push(token);
    }

    fn woken(&mut self) {}
}

impl Server {
    fn adopt(&mut self, backend: &mut dyn Backend) -> io::Result<()> {
        for socket in std::mem::take(&mut self.accepted) {
            let index = self.free.pop().unwrap_or_else(|| {
                self.clients.push(Client::default());
                self.clients.len() as u32 - 1
            });
            let generation = self.generations.entry(index).or_default();
            *generation += 1;
            let token = Token::new(index, *generation);
            self.clients[index as usize] = Client { token: Some(token), ..Client::default() };
            backend.adopt(socket, token)?;
        }
        Ok(())
    }

    fn flush(&mut self, backend: &mut dyn Backend) {
        for token in self.dirty.drain(..) {
            let client = &mut self.clients[token.index()];
            client.dirty = false;
            backend.send(token, std::mem::take(&mut client.output).into());
        }
        for token in self.closed.drain(..) {
            backend.close(token);
            self.clients[token.index()].token = None;
            self.free.push(token.index() as u32);
        }
    }
}

fn main() -> io::Result<()> {
    let mut port = 7340;
    let mut choice = Choice::Auto;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--epoll" => choice = Choice::Epoll,
            "--uring" => choice = Choice::Uring,
            _ => port = argument.parse().map_err(io::Error::other)?,
        }
    }
    let mut backend = martlet_net::choose(choice)?.0.open()?;
    let listener = martlet_net::listen_tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), 511)?;
    backend.listen(listener, 0)?;
    println!("{} on 127.0.0.1:{port}", backend.name());
    let mut server = Server::default();
    loop {
        backend.poll(None, &mut server)?;
        server.adopt(&mut *backend)?;
        server.flush(&mut *backend);
    }
}
