//! `./x commands-beside-redis`: server CPU per request of every command that the peer has too.
//!
//! Each server runs on one core with one I/O thread, the client on another core; servers take turns. A
//! reading is the server's CPU clock around a payload: a row's requests, pipelined, and an ECHO whose reply
//! ends it. A command that no row measures must be listed with the reason, or nothing is measured.

mod reading;
mod rows;
mod table;

use crate::cost::process::{Measured, pin_load, raise_open_files};
use reading::Pair;
use rows::{GROUPS, UNMEASURED};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use table::Line;
use xtask::run::{Outcome, built, in_root};

/// The table that the repository keeps.
const TABLE: &str = "results/commands-beside-redis.txt";

/// The measurements to take.
#[derive(clap::Args)]
pub struct Options {
    /// Groups of rows, separated by commas; all when absent. `list` prints them and their rows.
    #[arg(long, default_value = "")]
    groups: String,
    /// Rows by prefix of their names, separated by commas; all when absent.
    #[arg(long, default_value = "")]
    rows: String,
    /// Readings of each server in a row.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Our server's program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// Another build of our server, to be measured in the same turns.
    #[arg(long)]
    before: Option<PathBuf>,
    /// The peer's program.
    #[arg(long, default_value = "redis-server")]
    peer: PathBuf,
    /// Core of the servers.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the load.
    #[arg(long, default_value_t = 1)]
    load_core: usize,
    /// Where the table of all rows is written. A table of some rows is only printed.
    #[arg(long, default_value_os_t = in_root(TABLE))]
    output: PathBuf,
}

/// Measures, then writes or prints the table.
pub fn run(options: &Options) -> Outcome {
    if options.groups == "list" {
        for group in GROUPS {
            println!("{}", group.name);
            group.rows.iter().for_each(|row| println!("    {:36} {}", row.name, row.template));
        }
        return Ok(());
    }
    raise_open_files();
    let servers = Servers::of(options)?;
    pin_load(options.load_core)?;
    let probe = servers.start(&[])?;
    let unmeasured = check_coverage(&probe)?;
    let versions: Vec<String> = probe.iter().map(crate::cost::measure::version).collect::<Result<_, _>>()?;
    drop(probe);
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    for group in GROUPS.iter().filter(|group| is_chosen(&options.groups, group.name)) {
        let chosen: Vec<_> = group.rows.iter().filter(|row| is_chosen(&options.rows, row.name)).collect();
        if chosen.is_empty() {
            continue;
        }
        eprintln!("{}", group.name);
        let mut pair = Pair::new(servers.start(group.arguments)?)?;
        pair.fill(group.fill, group.settling_ms)?;
        for row in chosen {
            match pair.measure(row, options.rounds) {
                Ok(readings) => {
                    lines.push(Line::of(row, readings));
                    lines.iter().last().into_iter().for_each(|line| eprintln!("{line}"));
                }
                Err(why) => failed.push(format!("{}: {why}", row.name)),
            }
        }
    }
    let text = table::text(&versions, options.rounds, lines, &unmeasured);
    print!("{text}");
    if !failed.is_empty() {
        return Err(failed.join("\n").into());
    }
    if options.groups.is_empty() && options.rows.is_empty() {
        std::fs::write(&options.output, text)?;
    }
    Ok(())
}

/// Whether a list names it by a prefix, or is empty.
fn is_chosen(list: &str, name: &str) -> bool {
    list.is_empty() || list.split(',').any(|prefix| name.starts_with(prefix))
}

/// The programs of the servers that take turns.
struct Servers {
    peer: PathBuf,
    ours: Vec<PathBuf>,
    core: usize,
}

impl Servers {
    fn of(options: &Options) -> Result<Servers, Box<dyn Error>> {
        let ours = options.before.iter().chain([&options.ours]);
        let ours = ours.map(|program| built(program)).collect::<Result<_, _>>()?;
        Ok(Servers { peer: options.peer.clone(), ours, core: options.server_core })
    }

    /// Starts the peer, then ours.
    fn start(&self, more: &[&str]) -> Result<Vec<Measured>, Box<dyn Error>> {
        const ALL: &[&str] = &[
            "--io-threads",
            "1",
            "--appendonly",
            "no",
            "--maxclients",
            "20000",
            "--enable-debug-command",
            "yes",
        ];
        let peer: Vec<&str> = [ALL, more].concat();
        let ours: Vec<&str> = [&["server"], ALL, more].concat();
        let mut servers = vec![Measured::start("peer", &self.peer, &peer, self.core)?];
        for program in &self.ours {
            servers.push(Measured::start("ours", Path::new(program), &ours, self.core)?);
        }
        Ok(servers)
    }
}

/// Commands without a row, by the reason.
type Unmeasured = Vec<(String, Vec<String>)>;

/// Sees that each command of ours is measured, is missing in the peer, or is listed with the reason why it
/// is not measured. Returns the latter two.
fn check_coverage(servers: &[Measured]) -> Result<Unmeasured, Box<dyn Error>> {
    let [peer, ours, ..] = servers else { return Err("a peer and ours".into()) };
    let theirs = reading::command_names(peer)?;
    let measured: BTreeSet<String> =
        GROUPS.iter().flat_map(|group| group.rows).flat_map(|row| table::commands_of(row.template)).collect();
    let mut unmeasured: Unmeasured =
        UNMEASURED.iter().map(|(reason, _)| ((*reason).to_owned(), Vec::new())).collect();
    let (mut absent, mut forgotten) = (Vec::new(), Vec::new());
    for name in reading::command_names(ours)? {
        let is_container = theirs.iter().any(|other| other.starts_with(&format!("{name}|")));
        if !theirs.contains(&name) {
            absent.push(name);
        } else if let Some(at) = UNMEASURED.iter().position(|(_, names)| names.contains(&name.as_str())) {
            unmeasured[at].1.push(name);
        } else if !measured.contains(&name) && !is_container {
            forgotten.push(name);
        }
    }
    unmeasured.push(("the peer has no such command".to_owned(), absent));
    match forgotten.is_empty() {
        true => Ok(unmeasured),
        false => Err(format!("neither measured nor listed with a reason: {}", forgotten.join(" ")).into()),
    }
}
