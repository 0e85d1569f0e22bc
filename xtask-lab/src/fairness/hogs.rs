//! Clients that take all that they can get, each kind in its own way.

use martlet_client::blocking::Client;
use martlet_client::resp::{decode, encode_request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

/// Bytes that a hog may have sent and the server not received: more would fill the loopback's queue, which
/// then drops packets of others, too. TCP's wait before it sends them again would say nothing about fairness.
const SENT_AHEAD_BYTES: usize = 128 << 10;

/// A kind of hog.
pub struct Hog {
    /// The row.
    pub name: &'static str,
    /// Its work.
    pub what: &'static str,
    /// Stores the data that it needs.
    pub prepare: fn(&mut Client) -> io::Result<()>,
    run: for<'scope> fn(&'scope Scope<'scope, '_>, &'scope Ground) -> io::Result<()>,
}

/// All rows.
pub const HOGS: &[Hog] = &[
    Hog { name: "none", what: "nobody", prepare: nothing, run: |_, _| Ok(()) },
    Hog {
        name: "cheap",
        what: "2 clients, SET without end, 500 a write",
        prepare: nothing,
        run: |scope, ground| {
            (0..2).try_for_each(|_| pipeline(scope, ground, &["SET", "cheap", "value"], 500))
        },
    },
    Hog {
        name: "costly",
        what: "SORT of 200 elements, LIMIT 0 1, 500 a write",
        prepare: |client| push(client, "numbers", 200),
        run: |scope, ground| pipeline(scope, ground, &["SORT", "numbers", "LIMIT", "0", "1"], 500),
    },
    Hog {
        name: "whole store",
        what: "SORT of 200 elements BY w_*, 500 a write",
        prepare: |client| push(client, "numbers", 200),
        run: |scope, ground| {
            pipeline(scope, ground, &["SORT", "numbers", "BY", "w_*", "LIMIT", "0", "1"], 500)
        },
    },
    Hog {
        name: "walk",
        what: "KEYS absent* in 20,000 keys, 10 at a time",
        prepare: |client| {
            let mut words = vec!["MSET".to_string()];
            words.extend((0..20_000).flat_map(|number| [format!("key:{number}"), "v".into()]));
            client.command(&words).map(drop)
        },
        run: |scope, ground| in_rounds(scope, ground, &["KEYS", "absent*"], 10),
    },
    Hog {
        name: "long replies",
        what: "LRANGE of 10,000 elements, 20 at a time",
        prepare: |client| push(client, "long", 10_000),
        run: |scope, ground| in_rounds(scope, ground, &["LRANGE", "long", "0", "-1"], 20),
    },
    Hog {
        name: "large values",
        what: "GET of 10 MB, 4 at a time",
        prepare: |client| client.command(&["SET", "large", &"v".repeat(10_000_000)]).map(drop),
        run: |scope, ground| in_rounds(scope, ground, &["GET", "large"], 4),
    },
    Hog {
        name: "slow readers",
        what: "50 clients that GET 100 KB 20 times and read 4 KB each millisecond",
        prepare: |client| client.command(&["SET", "middle", &"v".repeat(100_000)]).map(drop),
        run: read_slowly,
    },
    Hog { name: "publish", what: "PUBLISH to 200 subscribers, 100 a write", prepare: nothing, run: publish },
    Hog {
        name: "connections",
        what: "4 clients that connect, PING and close",
        prepare: nothing,
        run: |scope, ground| {
            (0..4).for_each(|_| drop(scope.spawn(|| ground.reconnect())));
            Ok(())
        },
    },
    Hog {
        name: "long argument",
        what: "SET of 100 MB in pieces of 1,000 bytes",
        prepare: nothing,
        run: |scope, ground| {
            let stream = ground.connect()?;
            scope.spawn(move || ground.write_pieces(stream));
            Ok(())
        },
    },
];

/// Where hogs run.
pub struct Ground {
    address: SocketAddr,
    over: AtomicBool,
    /// Shut down at the end, so that no thread waits on them any longer.
    sockets: Mutex<Vec<TcpStream>>,
}

/// Runs `measure` beside a hog.
pub fn beside<R>(hog: &Hog, address: SocketAddr, measure: impl FnOnce() -> R) -> io::Result<R> {
    let ground = Ground { address, over: AtomicBool::new(false), sockets: Mutex::default() };
    std::thread::scope(|scope| {
        let started = (hog.run)(scope, &ground);
        // It has reached its pace.
        std::thread::sleep(Duration::from_millis(100));
        let result = measure();
        ground.over.store(true, Ordering::Relaxed);
        for socket in ground.sockets.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        started.map(|()| result)
    })
}

fn nothing(_: &mut Client) -> io::Result<()> {
    Ok(())
}

fn push(client: &mut Client, list: &str, count: usize) -> io::Result<()> {
    let mut words = vec!["RPUSH".to_string(), list.into()];
    words.extend((0..count).map(|number| (number * 7919 % count).to_string()));
    client.command(&words).map(drop)
}

/// A client that writes the same request without end, `together` a write, and reads its replies.
fn pipeline<'scope>(
    scope: &'scope Scope<'scope, '_>,
    ground: &'scope Ground,
    words: &[&str],
    together: usize,
) -> io::Result<()> {
    let mut request = Vec::new();
    encode_request(words, &mut request);
    let requests = request.repeat(together);
    let mut stream = ground.connect()?;
    let mut replies = stream.try_clone()?;
    scope.spawn(move || while !ground.is_over() && stream.write_all(&requests).is_ok() {});
    scope.spawn(move || {
        let mut bytes = vec![0; 256 << 10];
        while replies.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    Ok(())
}

/// A client that writes the same request `together` times, reads all replies, and begins again: for replies
/// so long that without end they would fill the server's memory.
fn in_rounds<'scope>(
    scope: &'scope Scope<'scope, '_>,
    ground: &'scope Ground,
    words: &[&str],
    together: usize,
) -> io::Result<()> {
    let mut request = Vec::new();
    encode_request(words, &mut request);
    let mut stream = ground.connect()?;
    stream.write_all(&request)?;
    let mut reply = Vec::new();
    let mut bytes = vec![0; 256 << 10];
    let reply_bytes = loop {
        let count = stream.read(&mut bytes)?;
        reply.extend_from_slice(&bytes[..count]);
        if let Some((_, length)) = decode(&reply).map_err(io::Error::other)? {
            break length;
        }
    };
    let requests = request.repeat(together);
    scope.spawn(move || {
        while !ground.is_over() && stream.write_all(&requests).is_ok() {
            let mut left = reply_bytes * together;
            while left > 0 {
                match stream.read(&mut bytes) {
                    Ok(count @ 1..) => left = left.saturating_sub(count),
                    _ => return,
                }
            }
        }
    });
    Ok(())
}

fn read_slowly<'scope>(scope: &'scope Scope<'scope, '_>, ground: &'scope Ground) -> io::Result<()> {
    let mut request = Vec::new();
    encode_request(&["GET", "middle"], &mut request);
    let requests = request.repeat(20);
    let mut streams = (0..50).map(|_| ground.connect()).collect::<io::Result<Vec<_>>>()?;
    scope.spawn(move || {
        let mut due = vec![0; streams.len()];
        let mut bytes = [0; 4096];
        while !ground.is_over() {
            for (stream, due) in streams.iter_mut().zip(&mut due) {
                if *due <= 0 {
                    let _ = stream.write_all(&requests);
                    // Each reply has its length before it and two bytes behind.
                    *due = 20 * (100_000 + 11);
                }
                *due -= stream.read(&mut bytes).unwrap_or(0) as i64;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    Ok(())
}

fn publish<'scope>(scope: &'scope Scope<'scope, '_>, ground: &'scope Ground) -> io::Result<()> {
    let mut subscribers = (0..200).map(|_| ground.connect()).collect::<io::Result<Vec<_>>>()?;
    for subscriber in &mut subscribers {
        subscriber.write_all(b"*2\r\n$9\r\nSUBSCRIBE\r\n$7\r\nchannel\r\n")?;
    }
    scope.spawn(move || {
        let mut bytes = vec![0; 256 << 10];
        let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        while !ground.is_over() {
            let mut all: Vec<PollFd<'_>> =
                subscribers.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
            if poll(&mut all, Some(&wait)).is_err() {
                return;
            }
            let ready: Vec<bool> = all.iter().map(|one| !one.revents().is_empty()).collect();
            for (stream, _) in subscribers.iter_mut().zip(ready).filter(|(_, is_ready)| *is_ready) {
                let _ = stream.read(&mut bytes);
            }
        }
    });
    pipeline(scope, ground, &["PUBLISH", "channel", &"m".repeat(100)], 100)
}

impl Ground {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        set_socket_send_buffer_size(&stream, SENT_AHEAD_BYTES)?;
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).push(stream.try_clone()?);
        Ok(stream)
    }

    fn reconnect(&self) {
        while !self.is_over() {
            let Ok(mut stream) = TcpStream::connect(self.address) else { continue };
            let _ = stream.write_all(b"*1\r\n$4\r\nPING\r\n");
            let _ = stream.read(&mut [0; 16]);
        }
    }

    fn write_pieces(&self, mut stream: TcpStream) {
        const PIECE: usize = 1_000;
        const PIECES: usize = 100_000;
        let head = format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${}\r\n", PIECE * PIECES);
        let piece = [b'v'; PIECE];
        while !self.is_over() {
            let mut sent = stream.write_all(head.as_bytes());
            for _ in 0..PIECES {
                sent = sent.and_then(|()| stream.write_all(&piece));
                if sent.is_err() {
                    return;
                }
            }
            if stream.write_all(b"\r\n").is_err() || stream.read(&mut [0; 16]).is_err() {
                return;
            }
        }
    }
}
