//! The server's command line: a configuration file, then options, in Redis 7's grammar.
//!
//! Invariant: an option becomes a configuration line after the file's, so both have the same meaning
//! and messages.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::load::{REDIS_VERSION, Sources};
use super::value::quote;
use super::words;

/// The request of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Start the server.
    Run(CommandLine),
    /// Check the configuration and exit.
    CheckConfig(CommandLine),
    /// Print [`version_text`] and exit.
    Version,
    /// Print [`USAGE`] and exit.
    Help,
}

/// A command line that names configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The configuration file, absolute.
    pub file: Option<PathBuf>,
    /// Whether standard input holds configuration too.
    pub stdin: bool,
    /// The options, a configuration line each.
    pub options: Vec<u8>,
}

impl CommandLine {
    /// The texts to load; reads `stdin` to its end when the command line asks for it.
    pub fn sources(&self, mut stdin: impl Read) -> io::Result<Sources> {
        let mut text = None;
        if self.stdin {
            stdin.read_to_end(text.insert(Vec::new()))?;
        }
        Ok(Sources { file: self.file.clone(), stdin: text, options: self.options.clone() })
    }

    /// Whether nothing at all was given, so that the defaults hold.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a command line was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    /// It asks for a Sentinel, which is another program.
    #[error("This is the server: a Sentinel is started by martlet sentinel /path/to/sentinel.conf")]
    Sentinel,
}

/// The text of `--version`, in the form that tools look for.
pub fn version_text() -> String {
    let bits = usize::BITS;
    format!(
        "Redis server v={REDIS_VERSION} sha=00000000:0 malloc=mimalloc bits={bits} build=martlet-{}",
        env!("CARGO_PKG_VERSION")
    )
}

/// The text of `--help`.
pub const USAGE: &str = "\
Usage: martlet [server] [/path/to/redis.conf] [options] [-]
       martlet [server] -                      read the configuration from standard input
       martlet [server] -v | --version
       martlet [server] -h | --help
       martlet [server] --check-config [/path/to/redis.conf] [options]

Options are the directives of redis.conf with two dashes before the name; they are read after the file, and the last one wins.

Examples:
       martlet                                 the defaults: port 6379 of every address, this machine only
       martlet /etc/redis/redis.conf
       martlet --port 7777 --io-threads 4
       martlet /etc/redis/redis.conf --save \"\" --loglevel verbose
       echo 'maxclients 100' | martlet -
";

/// Reads the arguments after the program's name (and after the tool's). Relative paths are found from
/// `directory`.
pub fn parse_command_line(arguments: &[OsString], directory: &Path) -> Result<Invocation, CommandLineError> {
    let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
    let (check, arguments) = match arguments.as_slice() {
        [b"--check-config", rest @ ..] => (true, rest),
        all => (false, all),
    };
    match arguments {
        [b"-v" | b"--version", ..] => return Ok(Invocation::Version),
        [b"-h" | b"--help", ..] => return Ok(Invocation::Help),
        _ => {}
    }
    let mut line = CommandLine::default();
    let rest = match arguments {
        [file, rest @ ..] if !file.starts_with(b"-") => {
            line.file = Some(directory.join(OsStr::from_bytes(file)));
            rest
        }
        all => all,
    };
    let mut options = Options { line, check, name_is_complete: true };
    for (index, argument) in rest.iter().enumerate() {
        let is_edge = index + 1 == rest.len() || (index == 0 && options.line.file.is_none());
        options.argument(argument, rest.get(index + 1).copied(), is_edge)?;
    }
    Ok(match options.check {
        true => Invocation::CheckConfig(options.line),
        false => Invocation::Run(options.line),
    })
}

/// The state of reading options.
struct Options {
    line: CommandLine,
    check: bool,
    /// Whether the last option has a value, so that `--` begins the next one.
    name_is_complete: bool,
}

impl Options {
    /// Takes one argument; `is_edge` is true for the first and the last, where `-` means standard input.
    fn argument(
        &mut self,
        argument: &[u8],
        next: Option<&[u8]>,
        is_edge: bool,
    ) -> Result<(), CommandLineError> {
        match argument.strip_prefix(b"--") {
            _ if argument == b"-" && is_edge => self.line.stdin = true,
            Some(b"check-config") if self.name_is_complete => self.check = true,
            Some(name) if self.name_is_complete => self.name(name, next)?,
            _ => {
                self.line.options.extend(quote(argument));
                self.line.options.push(b' ');
                self.name_is_complete = true;
            }
        }
        Ok(())
    }

    /// Begins a configuration line.
    fn name(&mut self, name: &[u8], next: Option<&[u8]>) -> Result<(), CommandLineError> {
        if !self.line.options.is_empty() {
            self.line.options.push(b'\n');
        }
        self.line.options.extend(name);
        self.line.options.push(b' ');
        // `--port 6380` may come as one argument; then the next one begins a new option.
        let is_bare = words::split(&[b"--", name].concat()).is_some_and(|words| words.len() == 1);
        self.name_is_complete = !is_bare;
        if name.eq_ignore_ascii_case(b"sentinel") {
            return Err(CommandLineError::Sentinel);
        }
        // A program that builds its arguments from an empty list of save points leaves `--save` without a
        // value.
        if is_bare && name.eq_ignore_ascii_case(b"save") && next.is_none_or(|next| next.starts_with(b"--")) {
            self.line.options.extend(b"\"\"");
            self.name_is_complete = true;
        }
        Ok(())
    }
}
