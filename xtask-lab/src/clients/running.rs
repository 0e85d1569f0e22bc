//! A tour that runs while its servers change, and questions to these.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use xtask::run::Outcome;

/// A condition that does not come true in this time never will.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(50);

pub type Error = Box<dyn std::error::Error>;

/// A library's program, which runs until the file that `TOUR_END` names exists.
pub struct Tour {
    program: Child,
    folder: tempfile::TempDir,
}

impl Tour {
    /// Starts it; a variable has the servers' addresses.
    pub fn start(mut program: Command, variable: &str, servers: &str) -> Result<Tour, Error> {
        let folder = tempfile::tempdir()?;
        let program = program.env(variable, servers).env("TOUR_END", folder.path().join("end")).spawn()?;
        Ok(Tour { program, folder })
    }

    /// Waits for a condition that must become true while it runs.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut() -> Result<bool, Error>) -> Outcome {
        until(what, || match self.program.try_wait()? {
            Some(status) => Err(format!("the tour ended early: {status}").into()),
            None => holds(),
        })
    }

    /// Has it come to its end, whether the changes under it were made or not.
    pub fn end(mut self, changed: Outcome) -> Outcome {
        std::fs::write(self.folder.path().join("end"), "")?;
        let status = self.program.wait()?;
        changed?;
        if status.success() { Ok(()) } else { Err(format!("the tour: {status}").into()) }
    }
}

/// Waits for a condition that must become true.
pub fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) -> Outcome {
    let end = Instant::now() + PATIENCE;
    while !holds()? {
        if Instant::now() > end {
            return Err(format!("never: {what}").into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// A server's reply as one line.
///
/// # Errors
/// The reply, where it is one.
pub fn ask(address: SocketAddr, words: &[&str]) -> Result<String, Error> {
    let reply = Client::connect(address)?.command(words)?;
    told(&reply).map_err(|error| format!("{words:?}: {error}").into())
}

fn told(reply: &Reply) -> Result<String, String> {
    match reply {
        Reply::Error(text) => Err(String::from_utf8_lossy(text).into_owned()),
        Reply::Int(number) => Ok(number.to_string()),
        Reply::Array(parts) => Ok(parts.iter().map(told).collect::<Result<Vec<_>, _>>()?.join(" ")),
        other => Ok(other.text().map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned())),
    }
}

/// How many commands a server has processed.
pub fn commands(address: SocketAddr) -> Result<u64, Error> {
    let info = ask(address, &["INFO", "stats"])?;
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    Ok(line.ok_or("no such field")?.trim().parse()?)
}
