//! `./x clients`: each client library tours the commands of a server, which must hold nothing of value.
//! Libraries are installed through their package managers into `target/clients/`, at pinned versions.
//! With no port given, our own server is built and toured in each of its [`CONFIGURATIONS`].

use crate::run::{Outcome, Tally, cargo, is_installed, root, step};
use martlet_testkit::server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which server, which libraries.
#[derive(clap::Args)]
pub struct Options {
    /// The port of a running server; everything on it is flushed.
    #[arg(long)]
    port: Option<u16>,
    /// Only these libraries.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(LIBRARIES.iter().map(|l| l.name)))]
    only: Vec<String>,
}

/// A library: its folder under tests/clients, the tool that it needs, and how it is installed and run.
struct Library {
    name: &'static str,
    tool: (&'static str, &'static str),
    run: fn(&Path, &str) -> Outcome,
}

const LIBRARIES: &[Library] = &[
    Library { name: "redis-py", tool: ("python3", "--version"), run: python },
    Library { name: "node-redis", tool: ("npm", "--version"), run: node },
    Library { name: "ioredis", tool: ("npm", "--version"), run: node },
    Library { name: "go-redis", tool: ("go", "version"), run: go },
    Library { name: "jedis", tool: ("mvn", "--version"), run: maven },
    Library { name: "redis-rs", tool: ("cargo", "--version"), run: rust },
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

/// Runs the tours; one that fails does not keep the others from running.
fn tour(port: &str, only: &[String]) -> Outcome {
    let mut tally = Tally::default();
    for library in LIBRARIES {
        if !only.is_empty() && !only.iter().any(|name| name == library.name) {
            continue;
        }
        if !is_installed(library.tool.0, library.tool.1) {
            eprintln!("x: {} is NOT installed; {} is left out", library.tool.0, library.name);
            continue;
        }
        let outcome = workspace(library.name).and_then(|folder| (library.run)(&folder, port));
        tally.note(library.name, outcome);
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

fn python(folder: &Path, port: &str) -> Outcome {
    let environment = folder.join("environment");
    if !environment.join("bin/python").exists() {
        step(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    let python = environment.join("bin/python");
    step(
        Command::new(&python)
            .args(["-m", "pip", "install", "-q", "-r", "requirements.txt"])
            .current_dir(folder),
    )?;
    step(Command::new(&python).arg("tour.py").current_dir(folder).env("REDIS_PORT", port))
}

fn node(folder: &Path, port: &str) -> Outcome {
    step(Command::new("npm").args(["install", "--silent", "--no-audit", "--no-fund"]).current_dir(folder))?;
    step(Command::new("node").arg("tour.mjs").current_dir(folder).env("REDIS_PORT", port))
}

fn go(folder: &Path, port: &str) -> Outcome {
    step(Command::new("go").args(["mod", "tidy"]).current_dir(folder))?;
    step(Command::new("go").args(["run", "."]).current_dir(folder).env("REDIS_PORT", port))
}

fn maven(folder: &Path, port: &str) -> Outcome {
    step(
        Command::new("mvn")
            .args(["-q", "-B", "compile", "exec:java"])
            .current_dir(folder)
            .env("REDIS_PORT", port),
    )
}

fn rust(folder: &Path, port: &str) -> Outcome {
    step(Command::new("cargo").args(["run", "-q"]).current_dir(folder).env("REDIS_PORT", port))
}
