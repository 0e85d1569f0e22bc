//! `./x clients`: each client library tours the commands of a server, which must hold nothing of value.
//! Libraries are installed through their package managers into `target/clients/`, at pinned versions. With no
//! port given, Martlet is built and toured in each of its [`CONFIGURATIONS`]. `--cluster` has them tour a
//! Martlet cluster whose slots move during the tour, `--sentinel` servers that fail over.

mod cluster;
mod running;
mod sentinel;

use martlet_testkit::server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::run::{Outcome, Tally, cargo, is_installed, root, step};

/// Which server, which libraries.
#[derive(clap::Args)]
pub struct Options {
    /// The port of a running server; everything on it is flushed.
    #[arg(long)]
    port: Option<u16>,
    /// Tour a Martlet cluster whose slots and roles change during the tour.
    #[arg(long, conflicts_with = "port")]
    cluster: bool,
    /// Tour Martlet servers under Sentinels, which fail over during the tour.
    #[arg(long, conflicts_with_all = ["port", "cluster"])]
    sentinel: bool,
    /// Only these libraries.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(LIBRARIES.iter().map(|l| l.name)))]
    only: Vec<String>,
}

/// A library: its folder under tests/clients, the tool that it needs, and how it is installed and run.
struct Library {
    name: &'static str,
    tool: (&'static str, &'static str),
    prepare: fn(&Path) -> Result<Prepared, Box<dyn std::error::Error>>,
    /// Whether it has a tour of a single server.
    is_single: bool,
}

/// An installed library's tours, ready to be run.
struct Prepared {
    single: Command,
    cluster: Command,
    /// A tour of servers under the Sentinels whose ports `SENTINEL_PORTS` has.
    sentinel: Option<Command>,
    /// A tour of several servers that know nothing of each other, whose ports `REDIS_PORTS` has.
    sharded: Option<Command>,
}

const fn toured(
    name: &'static str,
    tool: (&'static str, &'static str),
    prepare: fn(&Path) -> Result<Prepared, Box<dyn std::error::Error>>,
) -> Library {
    Library { name, tool, prepare, is_single: true }
}

const LIBRARIES: &[Library] = &[
    toured("redis-py", ("python3", "--version"), python),
    toured("node-redis", ("npm", "--version"), node),
    toured("ioredis", ("npm", "--version"), node),
    toured("go-redis", ("go", "version"), go),
    toured("jedis", ("mvn", "--version"), maven),
    Library { is_single: false, ..toured("lettuce", ("mvn", "--version"), maven) },
    toured("redis-rs", ("cargo", "--version"), rust),
];

/// I/O backend and threads: what decides how a request travels.
pub const CONFIGURATIONS: &[[&str; 4]] = &[
    ["--io-backend", "epoll", "--io-threads", "1"],
    ["--io-backend", "epoll", "--io-threads", "2"],
    ["--io-backend", "uring", "--io-threads", "1"],
    ["--io-backend", "uring", "--io-threads", "2"],
];

/// Runs every tour against the given server, or against ours in every configuration.
pub fn run(options: &Options) -> Outcome {
    if options.cluster {
        cargo(&["build", "-p", "martlet"])?;
        return each_library(&options.only, |_, prepared| {
            cluster::tour(prepared.cluster)?;
            prepared.sharded.map_or(Ok(()), shards)
        });
    }
    if options.sentinel {
        cargo(&["build", "-p", "martlet"])?;
        return each_library(&options.only, |_, prepared| prepared.sentinel.map_or(Ok(()), sentinel::tour));
    }
    if let Some(port) = options.port {
        return tour(&port.to_string(), &options.only);
    }
    for_each_configuration(|port| tour(port, &options.only))
}

/// Builds our server and runs `work` with the port of one that has each of the configurations; all are run,
/// whatever fails.
pub fn for_each_configuration(mut work: impl FnMut(&str) -> Outcome) -> Outcome {
    cargo(&["build", "-p", "martlet"])?;
    let program = root().join("target/debug/martlet");
    let mut failed = Vec::new();
    for configuration in CONFIGURATIONS {
        let arguments = [&["server"], &configuration[..], &["--enable-debug-command", "yes"]].concat();
        println!("== {}", configuration.join(" "));
        let server = Server::start(&program, &arguments)?;
        if let Err(error) = work(&server.address().port().to_string()) {
            failed.push(format!("{}: {error}", configuration.join(" ")));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// Runs the tours of a single server.
fn tour(port: &str, only: &[String]) -> Outcome {
    each_library(
        only,
        |library, mut prepared| {
            if library.is_single { step(prepared.single.env("REDIS_PORT", port)) } else { Ok(()) }
        },
    )
}

/// Has a library spread keys over three servers by itself.
fn shards(mut program: Command) -> Outcome {
    let start = |_| Server::start(&root().join("target/debug/martlet"), &["server"]);
    let servers = (0..3).map(start).collect::<std::io::Result<Vec<_>>>()?;
    let ports: Vec<String> = servers.iter().map(|server| server.address().port().to_string()).collect();
    step(program.env("REDIS_PORTS", ports.join(",")))
}

/// Installs each library and has it run; one that fails does not keep the others from running.
fn each_library(only: &[String], run: impl Fn(&Library, Prepared) -> Outcome) -> Outcome {
    let mut tally = Tally::default();
    for library in LIBRARIES {
        if !only.is_empty() && !only.iter().any(|name| name == library.name) {
            continue;
        }
        if !is_installed(library.tool.0, library.tool.1) {
            eprintln!("x: {} is NOT installed; {} is left out", library.tool.0, library.name);
            continue;
        }
        let prepared = workspace(library.name).and_then(|folder| (library.prepare)(&folder));
        tally.note(library.name, prepared.and_then(|prepared| run(library, prepared)));
    }
    tally.outcome()
}

/// A fresh copy of the library's sources, so that installing leaves nothing in the repository.
fn workspace(name: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let folder = root().join("target/clients").join(name);
    std::fs::create_dir_all(&folder)?;
    step(Command::new("cp").arg("-r").arg(root().join("tests/clients").join(name).join(".")).arg(&folder))?;
    Ok(folder)
}

/// A program with its arguments, run in a folder.
fn program(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder);
    command
}

fn python(folder: &Path) -> Result<Prepared, Box<dyn std::error::Error>> {
    if !folder.join("environment/bin/python").exists() {
        step(&mut program(folder, &["python3", "-m", "venv", "environment"]))?;
    }
    let python = folder.join("environment/bin/python");
    let python = python.to_string_lossy();
    step(&mut program(folder, &[&python, "-m", "pip", "install", "-q", "-r", "requirements.txt"]))?;
    let run = |file| program(folder, &[&python, file]);
    Ok(Prepared {
        single: run("tour.py"),
        cluster: run("cluster.py"),
        sentinel: Some(run("sentinel.py")),
        sharded: None,
    })
}

fn node(folder: &Path) -> Result<Prepared, Box<dyn std::error::Error>> {
    step(&mut program(folder, &["npm", "install", "--silent", "--no-audit", "--no-fund"]))?;
    let run = |file| program(folder, &["node", file]);
    let sentinel = folder.join("sentinel.mjs").exists().then(|| run("sentinel.mjs"));
    Ok(Prepared { single: run("tour.mjs"), cluster: run("cluster.mjs"), sentinel, sharded: None })
}

fn go(folder: &Path) -> Result<Prepared, Box<dyn std::error::Error>> {
    step(&mut program(folder, &["go", "mod", "tidy"]))?;
    step(&mut program(folder, &["go", "build", "./..."]))?;
    let run = |package| program(folder, &["go", "run", package]);
    Ok(Prepared {
        single: run("."),
        cluster: run("./cluster"),
        sentinel: Some(run("./sentinel")),
        sharded: None,
    })
}

fn maven(folder: &Path) -> Result<Prepared, Box<dyn std::error::Error>> {
    step(&mut program(folder, &["mvn", "-q", "-B", "compile"]))?;
    let run = |class: &str| program(folder, &["mvn", "-q", "-B", "exec:java", &format!("-Dtour={class}")]);
    let java = folder.join("src/main/java");
    let run_if_there = |class| java.join(class).with_extension("java").exists().then(|| run(class));
    let (sentinel, sharded) = (run_if_there("SentinelTour"), run_if_there("ShardedTour"));
    Ok(Prepared { single: run("Tour"), cluster: run("ClusterTour"), sentinel, sharded })
}

fn rust(folder: &Path) -> Result<Prepared, Box<dyn std::error::Error>> {
    step(&mut program(folder, &["cargo", "build", "-q", "--bins"]))?;
    let run = |name| program(folder, &["cargo", "run", "-q", "--bin", name]);
    Ok(Prepared { single: run("tour"), cluster: run("cluster"), sentinel: None, sharded: None })
}
