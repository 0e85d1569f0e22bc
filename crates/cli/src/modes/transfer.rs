//! `--rdb`, `--functions-rdb`: a snapshot that a server sends as to a replica. `--replica`: the stream after
//! it.
//!
//! Invariant: of a snapshot, no more than one chunk is in memory.

use super::{connect, lost};
use crate::connection::{Connection, plain};
use crate::format::{Expected, Output};
use crate::session::Session;
use crate::settings::Settings;
use martlet_client::resp::Reply;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The bytes that end a snapshot whose length was not known.
const MARK_BYTES: usize = 40;
const LINE_MAX_BYTES: usize = 4096;
/// Interval of the acknowledgements to a server that sends nothing.
const ACK_INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long a snapshot is.
#[derive(Debug, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    UpTo([u8; MARK_BYTES]),
}

/// REPLCONF; returns whether the server accepts it. Old servers do not know all of it.
fn configure(connection: &mut Connection, name: &str, value: &str) -> Result<bool, String> {
    eprintln!("sending REPLCONF {name} {value}");
    match connection.command(&["REPLCONF", name, value]).map_err(|error| lost(&error))? {
        Reply::Error(text) => {
            eprintln!("REPLCONF {name} error: {}", String::from_utf8_lossy(&text));
            Ok(false)
        }
        _ => Ok(true),
    }
}

/// Asks for a snapshot; gives how long it is.
fn request(connection: &mut Connection) -> Result<Length, String> {
    let failed = |error| format!("Error reading bulk length while SYNCing: {error}");
    connection.send_raw(b"SYNC\r\n").map_err(|error| format!("Error writing to master: {error}"))?;
    loop {
        let line = connection.raw_line(LINE_MAX_BYTES).map_err(failed)?;
        match line.first() {
            // Empty lines say that the server is still there.
            None => {}
            Some(b'+') => eprintln!("PSYNC replied {}", String::from_utf8_lossy(&line)),
            Some(b'$') => {
                let shown = || String::from_utf8_lossy(&line).into_owned();
                return length(&line).ok_or_else(|| format!("SYNC with master failed: {}", shown()));
            }
            Some(_) => {
                return Err(format!("SYNC with master failed: {}", String::from_utf8_lossy(&line)));
            }
        }
    }
}

/// `$123` or `$EOF:` with the mark.
fn length(line: &[u8]) -> Option<Length> {
    let text = line.strip_prefix(b"$")?;
    match text.strip_prefix(b"EOF:") {
        Some(mark) => Some(Length::UpTo(mark.get(..MARK_BYTES)?.try_into().ok()?)),
        None => Some(Length::Bytes(std::str::from_utf8(text).ok()?.parse().ok()?)),
    }
}

/// Hands the snapshot's bytes to `sink`, without the mark; gives how many there were.
fn receive(
    connection: &mut Connection,
    length: &Length,
    mut sink: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<u64, String> {
    let (mut count, mut held) = (0u64, Vec::new());
    loop {
        let left = match length {
            Length::Bytes(bytes) if count == *bytes => return Ok(count),
            Length::Bytes(bytes) => usize::try_from(bytes - count).unwrap_or(usize::MAX),
            Length::UpTo(_) => usize::MAX,
        };
        let chunk = connection
            .raw_bytes(left)
            .map_err(|error| format!("I/O Error reading RDB payload from socket: {error}"))?;
        let Length::UpTo(mark) = length else {
            count += chunk.len() as u64;
            sink(chunk)?;
            continue;
        };
        // The last bytes may be the mark: they wait for the next chunk.
        held.extend_from_slice(chunk);
        if held.ends_with(mark) {
            let bytes = held.len() - MARK_BYTES;
            sink(held.get(..bytes).unwrap_or_default())?;
            return Ok(count + bytes as u64);
        }
        let passed = held.len().saturating_sub(MARK_BYTES);
        sink(held.get(..passed).unwrap_or_default())?;
        held.drain(..passed);
        count += passed as u64;
    }
}

/// Writes a snapshot to a file, or to standard output if that is `-`.
pub fn save(settings: &Settings, path: &Path, only_functions: bool) -> Result<i32, String> {
    let mut connection = super::open(settings)?;
    announce(&mut connection)?;
    if only_functions && !configure(&mut connection, "rdb-filter-only", "functions")? {
        return Err("Failed requesting functions only RDB from server, aborting".into());
    }
    receive_file(&mut connection, path)?;
    Ok(0)
}

/// Writes a snapshot of the server at the other end to a file.
pub fn save_snapshot(connection: &mut Connection, path: &Path) -> Result<(), String> {
    announce(connection)?;
    receive_file(connection, path)
}

/// Announces the capabilities of a client that wants a snapshot.
fn announce(connection: &mut Connection) -> Result<(), String> {
    configure(connection, "capa", "eof")?;
    configure(connection, "rdb-only", "1").map(drop)
}

fn receive_file(connection: &mut Connection, path: &Path) -> Result<(), String> {
    let length = request(connection)?;
    let name = path.display();
    match &length {
        Length::Bytes(bytes) => eprintln!("SYNC sent to master, writing {bytes} bytes to '{name}'"),
        Length::UpTo(_) => {
            eprintln!("SYNC sent to master, writing bytes of bulk transfer until EOF marker to '{name}'");
        }
    }
    let failed = |error: std::io::Error| format!("Error writing data to file: {}", plain(&error));
    let count = if path == Path::new("-") {
        let mut out = std::io::stdout().lock();
        let count = receive(connection, &length, |bytes| out.write_all(bytes).map_err(failed))?;
        out.flush().map_err(failed)?;
        count
    } else {
        let opened = File::create(path);
        let mut file = opened.map_err(|error| format!("Error opening '{name}': {}", plain(&error)))?;
        let count = receive(connection, &length, |bytes| file.write_all(bytes).map_err(failed))?;
        file.sync_all().map_err(|error| format!("Fail to fsync '{name}': {}", plain(&error)))?;
        count
    };
    match length {
        Length::Bytes(_) => eprintln!("Transfer finished with success."),
        Length::UpTo(_) => eprintln!("Transfer finished with success after {count} bytes"),
    }
    Ok(())
}

/// Takes a snapshot without keeping it, and prints the commands that follow.
pub fn follow(settings: &Settings) -> Result<i32, String> {
    let mut session = connect(settings)?;
    session.style.output = Output::Csv;
    let Some(connection) = session.connection() else { return Ok(1) };
    configure(connection, "capa", "eof")?;
    configure(connection, "rdb-filter-only", "")?;
    let length = request(connection)?;
    match &length {
        Length::Bytes(bytes) => {
            eprintln!("Full resync with master, discarding {bytes} bytes of bulk transfer...");
        }
        Length::UpTo(_) => {
            eprintln!("Full resync with master, discarding bytes of bulk transfer until EOF marker...");
        }
    }
    let count = receive(connection, &length, |_| Ok(()))?;
    match length {
        Length::Bytes(_) => eprintln!("Full resync done. Logging commands from master."),
        Length::UpTo(_) => {
            eprintln!("Full resync done after {count} bytes. Logging commands from master.");
        }
    }
    loop {
        acknowledge_until_sent(&mut session)?;
        session.print_reply(Expected::default()).map_err(|failure| failure.to_string())?;
    }
}

/// Waits for the next command. Until the server has an acknowledgement, it does not count this replica as
/// online, and it may not read yet: so the acknowledgement is repeated.
fn acknowledge_until_sent(session: &mut Session) -> Result<(), String> {
    let Some(connection) = session.connection() else { return Ok(()) };
    while !connection.has_received() {
        let polled = poll(&mut [PollFd::new(connection, PollFlags::IN)], Some(&ACK_INTERVAL));
        if polled != Ok(0) {
            return Ok(());
        }
        connection.send(&["REPLCONF", "ACK", "0"]).map_err(|error| lost(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_a_number_or_a_mark() {
        assert_eq!(length(b"$0"), Some(Length::Bytes(0)));
        assert_eq!(length(b"$18446744073709551615"), Some(Length::Bytes(u64::MAX)));
        let mark = [b'm'; MARK_BYTES];
        assert_eq!(length(&[b"$EOF:", &mark[..]].concat()), Some(Length::UpTo(mark)));
        for bad in [&b"$"[..], b"$-1", b"$x", b"$EOF:short", b"12"] {
            assert_eq!(length(bad), None);
        }
    }
}
