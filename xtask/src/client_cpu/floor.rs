//! The kernel's share of a load tester's work: 50 connections, one send and one receive per batch, one wait for all that
//! are ready. The batch is built once, replies are counted by their bytes and never looked at: nobody who speaks to a server by these
//! system calls can do less.

use crate::run::Outcome;
use rustix::event::epoll;
use rustix::io::Errno;
use std::io::{Read, Write};
use std::net::TcpStream;

/// As redis-benchmark's default.
const CONNECTIONS: u64 = 50;
/// Bytes of the reply `+OK`.
const REPLY_BYTES: usize = 5;

/// What is sent.
#[derive(clap::Args)]
pub struct Options {
    port: u16,
    pipeline: usize,
    requests: usize,
}

struct Connection {
    stream: TcpStream,
    missing_bytes: usize,
}

/// Sends SETs of 64 bytes as redis-benchmark would, to its 50 connections in turn.
pub fn run(options: &Options) -> Outcome {
    let mut batch = Vec::new();
    for number in 0..options.pipeline {
        write!(batch, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{number:012}\r\n$64\r\n{}\r\n", "x".repeat(64))?;
    }
    let (poll, mut connections) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, Vec::new());
    for index in 0..CONNECTIONS {
        let stream = TcpStream::connect(("127.0.0.1", options.port))?;
        stream.set_nodelay(true)?;
        epoll::add(&poll, &stream, epoll::EventData::new_u64(index), epoll::EventFlags::IN)?;
        connections.push(Connection { stream, missing_bytes: options.pipeline * REPLY_BYTES });
    }
    for connection in &mut connections {
        connection.stream.write_all(&batch)?;
    }
    let (mut batches, mut buffer) = (options.requests / options.pipeline, vec![0; 64 * 1024]);
    let mut events = Vec::with_capacity(connections.len());
    while batches > 0 {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Err(Errno::INTR) => continue,
            waited => waited?,
        };
        for event in &events {
            let Some(connection) = connections.get_mut(event.data.u64() as usize) else { continue };
            let count = connection.stream.read(&mut buffer)?;
            if count == 0 {
                return Err("the server closed the connection".into());
            }
            connection.missing_bytes = connection.missing_bytes.saturating_sub(count);
            if connection.missing_bytes == 0 {
                batches = batches.saturating_sub(1);
                connection.stream.write_all(&batch)?;
                connection.missing_bytes = options.pipeline * REPLY_BYTES;
            }
        }
    }
    Ok(())
}
