//! Modes besides commands: the program watches, measures, walks through the keys, moves data.
//!
//! Invariant: a mode holds one connection and memory that does not grow with the number of keys, unless
//! `--top 0` asks for all of them.

mod hints;
mod hotkeys;
mod keys;
mod keystats;
mod latency;
mod lru;
mod pipe;
mod scan;
mod screen;
mod stat;
mod transfer;
mod walk;
mod watch;

use crate::connection::{Connection, Lost};
use crate::format::readable_bytes;
use crate::session::Session;
use crate::settings::{Mode, Settings};
use martlet_client::resp::Reply;
use std::time::Duration;

pub use transfer::save_snapshot;

/// Between two attempts to reach a server that is gone.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the mode that the settings name; gives the exit status.
pub fn run(settings: &Settings) -> Result<i32, String> {
    match &settings.mode {
        Mode::Command | Mode::Eval(_) | Mode::Cluster(_) => Ok(0),
        Mode::Latency { history } => latency::run(settings, *history),
        Mode::LatencyDistribution => latency::distribution(settings),
        Mode::IntrinsicLatency(time) => latency::intrinsic(*time),
        Mode::Stat => stat::run(settings),
        Mode::Watch(watched) => watch::run(settings, watched),
        Mode::Hint(line) => hints::show(settings, line),
        Mode::HintFile(file) => hints::compare(settings, file),
        Mode::Scan => scan::run(settings),
        Mode::BigKeys => keys::run(settings, keys::Measure::Length),
        Mode::MemKeys => keys::run(settings, keys::Measure::Memory),
        Mode::KeyStats => keystats::run(settings),
        Mode::HotKeys => hotkeys::run(settings),
        Mode::Pipe => pipe::run(settings),
        Mode::Rdb { file, only_functions } => transfer::save(settings, file, *only_functions),
        Mode::Replica => transfer::follow(settings),
        Mode::LruTest(keys) => lru::run(settings, *keys),
    }
}

/// Connects; a server that cannot be reached is the end.
fn connect(settings: &Settings) -> Result<Session<'_>, String> {
    let mut session = Session::new(settings);
    session.connect().map_err(|failure| failure.to_string())?;
    Ok(session)
}

/// Connects, for a mode that needs no session.
fn open(settings: &Settings) -> Result<Connection, String> {
    connect(settings)?.into_connection().ok_or_else(|| lost(&Lost::Closed))
}

/// A mode's message when its connection is lost.
fn lost(lost: &Lost) -> String {
    format!("Error: {lost}")
}

/// Asks; makes a new connection for as long as there is none.
fn ask_for_ever<A: AsRef<[u8]>>(session: &mut Session, words: &[A]) -> Reply {
    let mut attempts = 0;
    loop {
        if let Some(Ok(reply)) = session.connection().map(|connection| connection.command(words)) {
            return reply;
        }
        attempts += 1;
        screen::show(&format!("\r\x1b[0KReconnecting... {attempts}\r"));
        std::thread::sleep(RECONNECT_INTERVAL);
        if session.connect().is_ok() {
            screen::show("\r\x1b[0K");
        }
    }
}
