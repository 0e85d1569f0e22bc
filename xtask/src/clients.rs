//! `./x clients`: each client library tours the commands of a running server, which must hold nothing of value.
//! Libraries are installed through their package managers into `target/clients/`, at pinned versions.

use crate::run::{Outcome, is_installed, root, step};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which server, which libraries.
#[derive(clap::Args)]
pub struct Options {
    /// The server's port; everything on it is flushed.
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// Only these libraries.
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

/// Runs every tour; one that fails does not keep the others from running.
pub fn run(options: &Options) -> Outcome {
    let port = options.port.to_string();
    let mut failed = Vec::new();
    for library in LIBRARIES {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == library.name) {
            continue;
        }
        if !is_installed(library.tool.0, library.tool.1) {
            eprintln!("x: {} is NOT installed; {} is left out", library.tool.0, library.name);
            continue;
        }
        let outcome = workspace(library.name).and_then(|folder| (library.run)(&folder, &port));
        match outcome {
            Ok(()) => println!("{}: passed", library.name),
            Err(error) => {
                println!("{}: FAILED: {error}", library.name);
                failed.push(library.name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
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
