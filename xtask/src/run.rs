//! Running other programs: the command is shown before it runs, and a failure names it.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The result of a chore: nothing, or why it failed.
pub type Outcome = Result<(), Box<dyn Error>>;

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Where a path of the repository is, wherever `x` was started: what options default to. One that is given
/// stands for itself.
pub fn in_root(path: &str) -> PathBuf {
    root().join(path)
}

/// The program that an option names, by a path that needs no search and holds in any directory.
pub fn built(program: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let program = std::path::absolute(program)?;
    if program.exists() {
        return Ok(program);
    }
    Err(format!("{} is not built: cargo build --release", program.display()).into())
}

/// Appends a line to a file of readings, which is made if it is not there.
pub fn append_line(path: &Path, line: &str) -> Outcome {
    let append = || {
        std::fs::create_dir_all(std::path::absolute(path)?.parent().unwrap_or(path))?;
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{line}")
    };
    append().map_err(|error: std::io::Error| format!("{}: {error}", path.display()).into())
}

/// The text of a file; a failure names it.
pub fn text_of(path: &Path) -> Result<String, Box<dyn Error>> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Runs cargo in the root.
pub fn cargo(arguments: &[&str]) -> Outcome {
    step(Command::new("cargo").args(arguments).current_dir(root()))
}

/// Shows a command, runs it, shows how long it took, and fails when it does.
pub fn step(command: &mut Command) -> Outcome {
    let line = shown(command);
    eprintln!("$ {line}");
    let began = Instant::now();
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
    eprintln!("x: {} s for {line}", began.elapsed().as_secs());
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}").into()) }
}

/// Whether a program can be started at all.
pub fn is_installed(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

/// How the parts of a chore went, when one that fails shall not keep the others from running.
#[derive(Default)]
pub struct Tally {
    failed: Vec<&'static str>,
}

impl Tally {
    /// Says how a part went.
    pub fn note(&mut self, part: &'static str, outcome: Outcome) {
        match outcome {
            Ok(()) => println!("{part}: passed"),
            Err(error) => {
                println!("{part}: FAILED: {error}");
                self.failed.push(part);
            }
        }
    }

    /// Fails when a part did.
    pub fn outcome(self) -> Outcome {
        if self.failed.is_empty() {
            Ok(())
        } else {
            Err(format!("failed: {}", self.failed.join(", ")).into())
        }
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
