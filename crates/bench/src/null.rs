//! The null responder: answers `+OK` to every request and does nothing else, so that what a run against it costs is
//! the client's and the kernel's share. It can delay replies by known times and stall once, for `calibrate`.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the responder does beside answering.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// Delays of replies; each request gets the next, in turn.
    pub delays: Vec<Duration>,
    /// When, after the first request, all replies stop, and for how long.
    pub stall: Option<(Duration, Duration)>,
}

/// Listens on `port` of the loopback address (0: any) and serves until the process ends; gives the port.
/// Each connection has a thread: a responder that shared one could delay others by its own work.
pub fn serve(port: u16, behaviour: Behaviour) -> io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let port = listener.local_addr()?.port();
    let behaviour = Arc::new(behaviour);
    let first = Arc::new(std::sync::OnceLock::new());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (behaviour, first) = (behaviour.clone(), first.clone());
            // A connection that breaks ends its own thread only.
            std::thread::spawn(move || respond(stream, &behaviour, &first));
        }
    });
    Ok(port)
}

/// Number of requests that end in `data`: arrays of bulks, or inline lines; `state` carries over.
#[derive(Default)]
struct Requests {
    arguments_left: usize,
    skip: usize,
    line: Vec<u8>,
}

impl Requests {
    fn feed(&mut self, data: &[u8]) -> usize {
        let (mut found, mut rest) = (0, data);
        while !rest.is_empty() {
            if self.skip > 0 {
                let taken = self.skip.min(rest.len());
                self.skip -= taken;
                rest = rest.get(taken..).unwrap_or_default();
                if self.skip == 0 {
                    self.arguments_left = self.arguments_left.saturating_sub(1);
                    found += usize::from(self.arguments_left == 0);
                }
                continue;
            }
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
            let (line, after) = rest.split_at(end);
            self.line.extend_from_slice(line);
            rest = after;
            if !self.line.ends_with(b"\n") {
                continue;
            }
            let text = std::str::from_utf8(&self.line).unwrap_or_default().trim_end();
            let number = text.get(1..).and_then(|t| t.parse::<usize>().ok());
            match (text.as_bytes().first(), number) {
                (Some(b'*'), Some(count)) => self.arguments_left = count,
                (Some(b'$'), Some(len)) if self.arguments_left > 0 => self.skip = len + 2,
                (Some(_), _) => found += 1,
                (None, _) => {}
            }
            self.line.clear();
        }
        found
    }
}

fn respond(mut stream: TcpStream, behaviour: &Behaviour, first: &std::sync::OnceLock<Instant>) {
    // Without it replies would wait for the peer's acknowledgement.
    let _ = stream.set_nodelay(true);
    // SAFETY: a system call without pointers; the default slack of 50 µs would blur the delays.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let (mut requests, mut buffer, mut replies) = (Requests::default(), vec![0; 64 * 1024], Vec::new());
    let mut served = 0usize;
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let arrived = Instant::now();
        let found = requests.feed(buffer.get(..count).unwrap_or_default());
        let began = *first.get_or_init(|| arrived);
        replies.clear();
        for _ in 0..found {
            if !behaviour.delays.is_empty() {
                let delay =
                    behaviour.delays.get(served % behaviour.delays.len()).copied().unwrap_or_default();
                pause_until(arrived + delay);
            }
            served += 1;
            replies.extend_from_slice(b"+OK\r\n");
        }
        if let Some((after, length)) = behaviour.stall {
            let (start, end) = (began + after, began + after + length);
            if Instant::now() >= start && Instant::now() < end {
                pause_until(end);
            }
        }
        if stream.write_all(&replies).is_err() {
            return;
        }
    }
}

/// Sleeps, and polls the clock for the last part, which a sleep would overshoot.
fn pause_until(instant: Instant) {
    const POLLED: Duration = Duration::from_micros(80);
    let left = instant.saturating_duration_since(Instant::now());
    if left > POLLED {
        std::thread::sleep(left - POLLED);
    }
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
}

/// `martlet bench null [-p PORT]`: serves until it is ended.
pub fn main(arguments: &[String]) -> i32 {
    let port = match arguments {
        [] => 6390,
        [option, port] if option == "-p" => match port.parse() {
            Ok(port) => port,
            Err(_) => {
                eprintln!("-p: '{port}' is no port");
                return 1;
            }
        },
        _ => {
            println!(
                "Usage: martlet bench null [-p PORT]\n\nAnswers +OK to every request; stops with Ctrl-C. Default port 6390."
            );
            return i32::from(arguments.first().is_none_or(|a| a != "--help"));
        }
    };
    match serve(port, Behaviour::default()) {
        Ok(port) => println!("null responder on 127.0.0.1:{port}"),
        Err(error) => {
            eprintln!("port {port}: {error}");
            return 1;
        }
    }
    while !crate::engine::INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_wherever_they_are_cut() {
        let data = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*1\r\n$4\r\nPING\r\n*2\r\n$1\r\na\r\n$0\r\n\r\n";
        for cut in 1..data.len() {
            let mut requests = Requests::default();
            assert_eq!(data.chunks(cut).map(|c| requests.feed(c)).sum::<usize>(), 4, "cut at {cut}");
        }
    }
}
