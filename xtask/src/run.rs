//! Running other programs: the command is shown before it runs, and a failure names it.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// Where cargo builds.
pub fn target_dir() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()))
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

/// A command that runs at the lowest priority beside other steps; its output is kept until it is joined.
pub struct Beside {
    line: String,
    log: PathBuf,
    thread: JoinHandle<(std::io::Result<ExitStatus>, Duration)>,
}

impl Beside {
    /// Starts it; `name` is that of its log below `target/`.
    pub fn start(name: &str, command: Command) -> Self {
        let (line, log) = (shown(&command), in_root("target").join(format!("beside-{name}.log")));
        eprintln!("$ {line}   (beside the next steps)");
        let path = log.clone();
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let run = || {
                let file = std::fs::File::create(path)?;
                let mut nice = Command::new("nice");
                nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
                nice.current_dir(command.get_current_dir().unwrap_or(&root()));
                nice.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).status()
            };
            (run(), began.elapsed())
        });
        Self { line, log, thread }
    }

    /// Waits for its end, shows its output and how long it took, and fails when it did.
    ///
    /// # Errors
    /// It could not be started, or ended badly.
    pub fn join(self) -> Outcome {
        let Self { line, log, thread } = self;
        let (status, time) = thread.join().map_err(|_| format!("{line}: its thread panicked"))?;
        let output = std::fs::read(log).unwrap_or_default();
        eprint!("{}", String::from_utf8_lossy(&output));
        eprintln!("x: {} s for {line}   (beside other steps)", time.as_secs());
        let status = status.map_err(|error| format!("{line}: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("{line}: {status}").into()) }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_beside_others_fails_when_it_is_joined() {
        let run = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            Beside::start("test", command).join().map_err(|error| error.to_string())
        };
        assert_eq!(run("exit 0"), Ok(()));
        assert!(run("exit 3").is_err_and(|error| error.contains("exit 3") && error.contains("status: 3")));
    }
}
