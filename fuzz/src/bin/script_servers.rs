//! Runs programs of `script_calls` on a Martlet server, beside a real one, for the given time: findings are
//! written with their seeds, and the run continues with fresh servers.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use martlet_fuzz::mutate::Mutator;
use martlet_fuzz::script_calls::peer::{OWN, Outcome, Server, outcomes, reason, without_addresses};
use martlet_fuzz::script_calls::program::program;

const USAGE: &str =
    "script_servers [--seconds N] [--seed N] [--victim PATH] [--peer PATH | --no-peer] [--folder PATH]";

/// The options of the command line.
struct Options {
    seconds: u64,
    seed: u64,
    victim: PathBuf,
    peer: Option<PathBuf>,
    folder: PathBuf,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64);
        let mut options = Options {
            seconds: 60,
            seed: now,
            victim: "target/debug/martlet".into(),
            peer: Some("redis-server".into()),
            folder: std::env::temp_dir().join(format!("script_servers-{}", std::process::id())),
        };
        while let Some(word) = words.next() {
            if word == "--no-peer" {
                options.peer = None;
                continue;
            }
            let value = words.next().ok_or(USAGE)?;
            let number = || value.parse::<u64>().map_err(|_| format!("{word} wants a number"));
            match word.as_str() {
                "--seconds" => options.seconds = number()?,
                "--seed" => options.seed = number()?,
                "--victim" => options.victim = value.into(),
                "--peer" => options.peer = Some(value.into()),
                "--folder" => options.folder = value.into(),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(options)
    }
}

/// Counts of a run.
#[derive(Default)]
struct Counts {
    programs: u64,
    compared: u64,
    explained: u64,
    killed: u64,
    peer_ended: u64,
    findings: u64,
}

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("script_servers: {error}");
            ExitCode::from(2)
        }
    }
}

/// The number of findings.
fn run(options: &Options) -> io::Result<u64> {
    println!("--seed {} --seconds {}", options.seed, options.seconds);
    let mut victim =
        Server::start(options.victim.clone(), vec!["server".into()], options.folder.join("victim"))?;
    let mut peer = match &options.peer {
        None => None,
        Some(path) => Some(Server::start(path.clone(), Vec::new(), options.folder.join("peer"))?),
    };
    let ours = victim.names()?;
    let shared = match &mut peer {
        None => ours.clone(),
        Some(peer) => {
            let theirs = peer.names()?;
            let absent = theirs.iter().filter(|name| !ours.contains(name));
            absent.for_each(|name| println!("the real server alone has {name}"));
            let is_shared = |name: &&String| theirs.contains(name) && !OWN.contains(&name.as_str());
            ours.iter().filter(is_shared).cloned().collect()
        }
    };
    println!("{} functions, {} of which are compared", ours.len(), shared.len());
    let mut counts = Counts::default();
    let mut seeds = Mutator::new(options.seed);
    let (begin, mut last_report) = (Instant::now(), Instant::now());
    while begin.elapsed() < Duration::from_secs(options.seconds) {
        let input = (seeds.below(usize::MAX) as u64).to_le_bytes();
        // What only ours has cannot be compared.
        let names = if counts.programs % 8 == 7 { &ours } else { &shared };
        let text = program(names, &input);
        let beside = peer.as_mut().filter(|_| std::ptr::eq(names, &shared));
        one(&input, &text, &mut victim, beside, &mut counts)?;
        if last_report.elapsed() > Duration::from_secs(60) {
            last_report = Instant::now();
            report(&counts, begin);
        }
    }
    report(&counts, begin);
    Ok(counts.findings)
}

fn report(counts: &Counts, begin: Instant) {
    println!(
        "{} s: {} programs, {} compared, {} outcomes differ for a known reason, {} killed, \
         the real server ended {} times, {} findings",
        begin.elapsed().as_secs(),
        counts.programs,
        counts.compared,
        counts.explained,
        counts.killed,
        counts.peer_ended,
        counts.findings
    );
}

fn finding(counts: &mut Counts, input: &[u8], what: &str, program: &str) {
    counts.findings += 1;
    let body = program.split_once("local out = {}\n").map_or(program, |(_, body)| body);
    println!("FINDING of input {input:02x?}: {what}\n{body}\n");
}

/// Runs one program on both.
fn one(
    input: &[u8],
    program: &str,
    victim: &mut Server,
    peer: Option<&mut Server>,
    counts: &mut Counts,
) -> io::Result<()> {
    counts.programs += 1;
    let ours = match victim.run(program)? {
        Outcome::Answer(text) => without_addresses(&text),
        Outcome::Killed => {
            counts.killed += 1;
            return Ok(());
        }
        outcome => {
            finding(counts, input, &format!("{outcome:?}: {}", victim.last_words()), program);
            return victim.replace();
        }
    };
    // Without a bound on memory a real server would try to do what ours has refused.
    let Some(peer) = peer.filter(|_| !ours.contains("not enough memory")) else { return Ok(()) };
    let theirs = match peer.run(program)? {
        Outcome::Answer(text) => without_addresses(&text),
        Outcome::Killed => return Ok(()),
        Outcome::Hangs | Outcome::Ended(_) => {
            counts.peer_ended += 1;
            return peer.replace();
        }
    };
    counts.compared += 1;
    let (all_ours, all_theirs) = (outcomes(&ours), outcomes(&theirs));
    if all_ours.len() != all_theirs.len() {
        finding(counts, input, &format!("\n  ours   {ours}\n  theirs {theirs}"), program);
        return Ok(());
    }
    let statements = program.lines().filter(|line| line.starts_with("out[#out + 1]"));
    let statements = statements.chain(std::iter::repeat(program));
    for ((ours, theirs), statement) in all_ours.into_iter().zip(all_theirs).zip(statements) {
        if ours == theirs {
            continue;
        }
        match reason(ours, theirs, statement) {
            Some(_) => counts.explained += 1,
            None => finding(counts, input, &format!("\n  ours   {ours}\n  theirs {theirs}"), statement),
        }
    }
    Ok(())
}
