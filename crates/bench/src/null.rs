//! The null responder: answers `+OK` to every request and does nothing else, so that the cost of a run
//! against it is the client's and the kernel's share. It can delay replies by known times and stall once, for
//! `calibrate`, and then records the real instants: when the kernel had each request, and when its reply
//! left.

use crate::{errln, outln};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use martlet_base::sync::lock;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// When the kernel received it, whether or not the responder ran then.
    pub arrived: Instant,
    /// When its reply was handed to the kernel.
    pub replied: Instant,
}

/// The answered requests, unordered.
pub type Log = Arc<Mutex<Vec<Served>>>;

/// The responder's behaviour beside answering.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// Delays of replies; each request gets the next, in turn.
    pub delays: Vec<Duration>,
    /// When, after the first request, all replies stop, and for how long.
    pub stall: Option<(Duration, Duration)>,
    /// Where requests are written down; none are without.
    pub log: Option<Log>,
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
    if behaviour.log.is_some() {
        stamp_arrivals(&stream);
    }
    while let Ok((count @ 1.., arrived)) = receive(&stream, &mut buffer) {
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
        let replied = Instant::now();
        if stream.write_all(&replies).is_err() {
            return;
        }
        if let Some(log) = &behaviour.log {
            let mut log = lock(log);
            log.extend(std::iter::repeat_n(Served { arrived, replied }, found));
        }
    }
}

/// Has the kernel note when data arrives. Where it cannot, requests count from when the responder reads them.
fn stamp_arrivals(stream: &TcpStream) {
    let on: libc::c_int = 1;
    // SAFETY: the option's value lives during the call and has the size that is given.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
}

/// Reads once; gives the number of bytes and the instant at which the last of them arrived.
fn receive(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Instant)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // Aligned as the kernel's control messages want it.
    let mut control = [0u64; 16];
    // SAFETY: msghdr is plain data, zeroes are valid; all that it points to lives and is writable during the
    // call.
    let (count, header) = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        header.msg_control = control.as_mut_ptr().cast();
        // Of musl the length is a u32.
        header.msg_controllen = size_of_val(&control) as _;
        (libc::recvmsg(stream.as_raw_fd(), &raw mut header, 0), header)
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    let (now, today) = (Instant::now(), std::time::SystemTime::now());
    // SAFETY: the header was filled by recvmsg; a message of this kind holds a timespec.
    let stamp = unsafe {
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (!message.is_null() && (*message).cmsg_type == libc::SCM_TIMESTAMPNS)
            .then(|| libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned())
    };
    let age = stamp.and_then(|stamp| {
        let arrived = std::time::UNIX_EPOCH + Duration::new(stamp.tv_sec as u64, stamp.tv_nsec as u32);
        today.duration_since(arrived).ok()
    });
    Ok((count, now.checked_sub(age.unwrap_or_default()).unwrap_or(now)))
}

/// Sleeps, and polls the clock for the last part, which a sleep would overshoot.
pub fn pause_until(instant: Instant) {
    const POLLED: Duration = Duration::from_micros(80);
    let left = instant.saturating_duration_since(Instant::now());
    if left > POLLED {
        std::thread::sleep(left - POLLED);
    }
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
}

const HELP: &str = "Usage: martlet bench null [-p PORT]

Answers +OK to every request; stops with Ctrl-C. Default port 6390.";

/// `martlet bench null [-p PORT]`: serves until it is ended.
pub fn main(arguments: &[String]) -> i32 {
    let port = match arguments {
        [] => 6390,
        [option, port] if option == "-p" => match port.parse() {
            Ok(port) => port,
            Err(_) => {
                errln!("-p: '{port}' is no port");
                return 1;
            }
        },
        arguments => return crate::cli::help::answer_help(arguments, HELP),
    };
    match serve(port, Behaviour::default()) {
        Ok(port) => outln!("null responder on 127.0.0.1:{port}"),
        Err(error) => {
            errln!("port {port}: {error}");
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
