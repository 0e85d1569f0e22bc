//! `--pipe`: requests that are RESP already, from standard input to the server as fast as both can.
//!
//! A last ECHO with random bytes marks the end of the replies.

use super::{lost, open};
use crate::connection::{Connection, Lost, plain};
use crate::settings::Settings;
use martlet_client::parts::{Part, Text};
use martlet_client::resp::encode_request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

const MARK_BYTES: usize = 20;
const CHUNK_BYTES: usize = 64 * 1024;
/// How often it is looked whether the server still answers.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Replies that have come.
struct Replies {
    mark: [u8; MARK_BYTES],
    depth: usize,
    in_text: bool,
    /// A string that may be the mark.
    candidate: Vec<u8>,
    is_error: bool,
    error: Vec<u8>,
    count: u64,
    errors: u64,
    is_last: bool,
}

impl Replies {
    fn part(&mut self, part: Part) {
        let at_top = self.depth == 0 && !self.in_text;
        match part {
            Part::Error(text) if at_top => {
                self.is_error = true;
                self.error.extend_from_slice(text);
            }
            Part::Text(kind, _) => {
                self.in_text = true;
                self.is_error = at_top && kind == Text::Error;
                self.candidate.clear();
            }
            Part::Bytes(bytes) if self.depth == 0 && self.is_error => self.error.extend_from_slice(bytes),
            Part::Bytes(bytes) if self.depth == 0 => {
                let room = (MARK_BYTES + 1).saturating_sub(self.candidate.len());
                self.candidate.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            }
            Part::EndText => {
                self.in_text = false;
                self.is_last = self.depth == 0 && self.candidate == self.mark;
            }
            Part::Open(..) => self.depth += 1,
            Part::Close(_) => self.depth -= 1,
            _ => {}
        }
    }

    /// After a whole reply.
    fn end(&mut self) {
        if std::mem::take(&mut self.is_error) {
            eprintln!("{}", String::from_utf8_lossy(&self.error));
            self.error.clear();
            self.errors += 1;
        }
        if !self.is_last {
            self.count += 1;
        }
    }
}

/// Sends, and counts the replies.
pub fn run(settings: &Settings) -> Result<i32, String> {
    let mut connection = open(settings)?;
    connection.set_nonblocking().map_err(|error| plain(&error))?;
    let mut mark = [0; MARK_BYTES];
    martlet_base::random::fill_secret(&mut mark).map_err(|error| plain(&error))?;
    let mut replies = Replies {
        mark,
        depth: 0,
        in_text: false,
        candidate: Vec::new(),
        is_error: false,
        error: Vec::new(),
        count: 0,
        errors: 0,
        is_last: false,
    };
    transfer(&mut connection, &mut replies, settings.pipe_timeout)?;
    println!("errors: {}, replies: {}", replies.errors, replies.count);
    Ok(i32::from(replies.errors > 0))
}

/// Until the last reply has come, or none has for too long.
fn transfer(connection: &mut Connection, replies: &mut Replies, timeout: Duration) -> Result<(), String> {
    let (mut chunk, mut unsent, mut sent) = (vec![0; CHUNK_BYTES], Vec::new(), 0);
    let (mut at_end, mut last_reply) = (false, Instant::now());
    while !replies.is_last {
        let wants_input = !at_end && sent == unsent.len();
        let ready = wait(connection, wants_input, !wants_input && sent < unsent.len())?;
        if ready.socket_in && receive(connection, replies)? {
            last_reply = Instant::now();
        }
        if wants_input && ready.input {
            let count = io::stdin().lock().read(&mut chunk);
            let count = count.map_err(|error| format!("Error reading from stdin: {}", plain(&error)))?;
            (unsent, sent) = (chunk.get(..count).unwrap_or_default().to_vec(), 0);
            if count == 0 {
                at_end = true;
                // An end of a line closes what garbage before it may have begun.
                unsent.extend_from_slice(b"\r\n");
                encode_request(&[b"ECHO", &replies.mark[..]], &mut unsent);
                println!("All data transferred. Waiting for the last reply...");
                last_reply = Instant::now();
            }
        }
        if sent < unsent.len() {
            sent += connection
                .send_some(unsent.get(sent..).unwrap_or_default())
                .map_err(|error| format!("Error writing to the server: {error}"))?;
        }
        if at_end && !timeout.is_zero() && last_reply.elapsed() > timeout {
            eprintln!("No replies for {} seconds: exiting.", timeout.as_secs());
            replies.errors += 1;
            return Ok(());
        }
    }
    println!("Last reply received from server.");
    Ok(())
}

/// The sides that are ready.
struct Ready {
    socket_in: bool,
    input: bool,
}

fn wait(connection: &Connection, wants_input: bool, wants_output: bool) -> Result<Ready, String> {
    let stdin = io::stdin();
    let socket = if wants_output { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut watched = vec![PollFd::new(connection, socket)];
    if wants_input {
        watched.push(PollFd::new(&stdin, PollFlags::IN));
    }
    match poll(&mut watched, Some(&TICK)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(plain(&error.into())),
    }
    let has_events = |index: usize| watched.get(index).map(PollFd::revents).unwrap_or(PollFlags::empty());
    let ends = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
    Ok(Ready { socket_in: has_events(0).intersects(ends), input: !has_events(1).is_empty() })
}

/// Takes the received bytes; returns whether there were any.
fn receive(connection: &mut Connection, replies: &mut Replies) -> Result<bool, String> {
    let mut has_come = false;
    loop {
        match connection.read_some(&mut |part| replies.part(part)) {
            Ok(is_whole) => {
                has_come = true;
                if is_whole {
                    replies.end();
                    if replies.is_last {
                        return Ok(true);
                    }
                }
            }
            Err(Lost::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(has_come),
            Err(error) if error.is_interrupt() => {}
            Err(Lost::Protocol(_)) => return Err("Error reading replies from server".into()),
            Err(error) => return Err(lost(&error)),
        }
    }
}
