//! Reads configuration files, standard input and command line options into a `Config`.
//!
//! Invariant: nothing outside the returned value changes (`dir` is resolved, not entered), and an
//! error names the file, the line and the directive in Redis' words.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use martlet_base::disk::error_text;

use super::index::find;
use super::table::{Effect, MULTI, Parameter};
use super::value::beneath;
use super::{Config, words};

pub use martlet_spec::handshake::{REDIS_VERSION, REDIS_VERSION_NUMBER};

/// How deep `include` may nest.
const MAX_INCLUDE_DEPTH: usize = 32;
/// Directives without effect that Redis still takes, with one argument.
const FORGOTTEN: [&[u8]; 3] =
    [b"list-max-ziplist-entries", b"list-max-ziplist-value", b"lua-replicate-commands"];
/// How the parameters of the modules that Redis 8 ships with begin.
const MODULE_PREFIXES: [&[u8]; 4] = [b"search-", b"ts-", b"bf-", b"cf-"];

/// Facts about the rest of the server that a directive needs.
pub trait Surroundings {
    /// Whether there is a command of that name, as `rename-command` asks; `None` if unknown.
    fn command_exists(&self, name: &[u8]) -> Option<bool>;

    /// Checks the rules of a `user` directive: name, then rules. On error, the place of the wrong rule among
    /// them and its fault.
    fn check_user(&self, words: &[Vec<u8>]) -> Result<(), (usize, String)>;

    /// Checks the name and the rules of a `role` directive. On error, the wrong word's place and its fault.
    fn check_role(&self, words: &[Vec<u8>]) -> Result<(), (usize, String)>;
}

/// Surroundings that know nothing: every command may be renamed, every user and role is valid.
#[derive(Debug)]
pub struct AnySurroundings;

impl Surroundings for AnySurroundings {
    fn command_exists(&self, _: &[u8]) -> Option<bool> {
        None
    }

    fn check_user(&self, _: &[Vec<u8>]) -> Result<(), (usize, String)> {
        Ok(())
    }

    fn check_role(&self, _: &[Vec<u8>]) -> Result<(), (usize, String)> {
        Ok(())
    }
}

/// Where configuration text comes from, in the order in which it is read: a later directive wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The configuration file, absolute.
    pub file: Option<PathBuf>,
    /// What standard input holds.
    pub stdin: Option<Vec<u8>>,
    /// The command line's options, a directive a line.
    pub options: Vec<u8>,
}

/// Users and roles that a configuration declares: name and rules each.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    /// Roles, which users may refer to.
    pub roles: Vec<Vec<Vec<u8>>>,
    /// Users.
    pub users: Vec<Vec<Vec<u8>>>,
}

/// A configuration and the directives that are no parameters.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The parameters.
    pub config: Config,
    /// Commands to rename, with their new name; an empty one removes the command.
    pub renames: Vec<(Vec<u8>, Vec<u8>)>,
    /// Users and roles.
    pub declared: Declarations,
    /// Parameters that were set although they do nothing here, each with the name used, in the order of their
    /// first appearance.
    pub without_effect: Vec<(String, &'static Parameter)>,
    /// Further directives that were accepted without effect, lower case, with the reason.
    pub ignored: Vec<(String, &'static str)>,
}

/// Why the configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A directive is wrong.
    Directive {
        /// A file's path, or `standard input` or `command line`.
        source: String,
        /// Counted from one.
        line: usize,
        /// The line's text.
        text: String,
        /// The fault.
        message: String,
    },
    /// The directives do not go together.
    Whole(String),
    /// A file cannot be read.
    File {
        /// Its path.
        path: PathBuf,
        /// The operating system's message.
        message: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = format!("\n*** FATAL CONFIG FILE ERROR (Redis {REDIS_VERSION}) ***");
        match self {
            Self::Directive { source, line, text, message } => {
                writeln!(f, "{heading}\nReading the configuration file, at line {line} ({source})")?;
                write!(f, ">>> '{text}'\n{message}")
            }
            Self::Whole(message) => write!(f, "{heading}\n{message}"),
            Self::File { path, message } => {
                write!(f, "Fatal error, can't open config file '{}': {message}", path.display())
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// Reads all sources over the defaults.
pub fn load(sources: &Sources, surroundings: &dyn Surroundings) -> Result<Loaded, LoadError> {
    let mut loader = Loader {
        loaded: Loaded::default(),
        surroundings,
        listed: HashSet::new(),
        noted: HashSet::new(),
        depth: 0,
    };
    let mut lines = 0;
    if let Some(path) = &sources.file {
        let text = read(path)?;
        loader.text(&path.display().to_string(), &text, 0)?;
        lines = text.split(|&byte| byte == b'\n').count();
    }
    if let Some(text) = &sources.stdin {
        loader.text("standard input", text, 0)?;
        lines = lines.saturating_sub(1) + text.split(|&byte| byte == b'\n').count();
    }
    // Redis appends the options to the text, and counts their lines from its end.
    loader.text("command line", &sources.options, lines.max(1))?;
    loader.finish()
}

fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    std::fs::read(path).map_err(|error| LoadError::File { path: path.into(), message: error_text(&error) })
}

struct Loader<'a> {
    loaded: Loaded,
    surroundings: &'a dyn Surroundings,
    /// Parameters whose lists were begun: further directives add to them.
    listed: HashSet<&'static str>,
    /// Names that stand in `without_effect` or `ignored`.
    noted: HashSet<Vec<u8>>,
    depth: usize,
}

impl Loader<'_> {
    /// Executes every line of a text; `before` lines came before it.
    fn text(&mut self, source: &str, text: &[u8], before: usize) -> Result<(), LoadError> {
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = words::trim(line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            self.line(line).map_err(|problem| match problem {
                Problem::Included(error) => error,
                Problem::Here(message) => LoadError::Directive {
                    source: source.into(),
                    line: before + index + 1,
                    text: String::from_utf8_lossy(line).into_owned(),
                    message,
                },
            })?;
        }
        Ok(())
    }

    /// Executes a line that holds a directive.
    fn line(&mut self, line: &[u8]) -> Result<(), Problem> {
        let words = words::split(line).ok_or("Unbalanced quotes in configuration line")?;
        let Some((name, arguments)) = words.split_first() else { return Ok(()) };
        let name = name.to_ascii_lowercase();
        match find(&name) {
            Some(parameter) => Ok(self.parameter(&name, parameter, arguments)?),
            None if FORGOTTEN.contains(&name.as_slice()) && arguments.len() == 1 => {
                self.ignore(&name, "Redis dropped it long ago")
            }
            None => self.directive(&name, arguments),
        }
    }

    fn parameter(
        &mut self,
        name: &[u8],
        parameter: &'static Parameter,
        arguments: &[Vec<u8>],
    ) -> Result<(), String> {
        let split;
        let arguments = match arguments {
            // A list may also be given as one word: `save "900 1 300 10"`. An unbalanced quote in it leaves
            // no words.
            [whole] if parameter.has(MULTI) && !whole.is_empty() => {
                split = words::split(whole).unwrap_or_default();
                split.as_slice()
            }
            [_] => arguments,
            _ if parameter.has(MULTI) => arguments,
            _ => return Err("wrong number of arguments".into()),
        };
        let append = self.listed.contains(parameter.name);
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        (parameter.parse)(&mut self.loaded.config, &parameter.kind, &arguments, append)?;
        self.listed.insert(parameter.name);
        if parameter.effect != Effect::Honoured && self.noted.insert(parameter.name.into()) {
            self.loaded.without_effect.push((String::from_utf8_lossy(name).into_owned(), parameter));
        }
        Ok(())
    }

    /// Executes a directive that is no parameter.
    fn directive(&mut self, name: &[u8], arguments: &[Vec<u8>]) -> Result<(), Problem> {
        match (name, arguments) {
            (b"include", [path]) => self.include(path),
            (b"rename-command", [command, target]) => Ok(self.rename(command, target)?),
            (b"user", [_, ..]) => {
                self.surroundings.check_user(arguments).map_err(|(index, message)| {
                    // Redis names the word that has this place counted from the directive on.
                    let before = index.checked_sub(1).and_then(|index| arguments.get(index));
                    declaration_error("user", before.map_or(b"user", |word| word), &message)
                })?;
                Ok(declare("user", &mut self.loaded.declared.users, arguments)?)
            }
            (b"role", [_, ..]) => {
                let checked = self.surroundings.check_role(arguments);
                checked.map_err(|(index, message)| {
                    let word = arguments.get(index).or(arguments.first()).map_or(&[][..], Vec::as_slice);
                    declaration_error("role", word, &message)
                })?;
                Ok(declare("role", &mut self.loaded.declared.roles, arguments)?)
            }
            (b"loadmodule", [_, ..]) => self.ignore(name, "this server loads no modules"),
            (b"sentinel", []) => self.ignore(name, "this server is no sentinel"),
            (b"sentinel", _) => Err("sentinel directive while not in sentinel mode".into()),
            _ if name.contains(&b'.') && arguments.is_empty() => {
                Err("Module config specified without value".into())
            }
            _ if name.contains(&b'.') || is_module_parameter(name, arguments) => {
                self.ignore(name, "this server loads no modules")
            }
            _ => Err("Bad directive or wrong number of arguments".into()),
        }
    }

    /// Accepts a directive that does nothing here.
    fn ignore(&mut self, name: &[u8], reason: &'static str) -> Result<(), Problem> {
        if self.noted.insert(name.into()) {
            self.loaded.ignored.push((String::from_utf8_lossy(name).into_owned(), reason));
        }
        Ok(())
    }

    /// Reads another file, or every file that a pattern names; a pattern may name none.
    fn include(&mut self, path: &[u8]) -> Result<(), Problem> {
        if self.depth == MAX_INCLUDE_DEPTH {
            return Err("Too many nested include directives".into());
        }
        let path = beneath(&self.loaded.config.dir, path);
        let is_pattern = path.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte));
        let files = if is_pattern { matching_files(&path) } else { vec![path] };
        self.depth += 1;
        for file in files {
            let text = read(&file).map_err(Problem::Included)?;
            self.text(&file.display().to_string(), &text, 0).map_err(Problem::Included)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn rename(&mut self, command: &[u8], target: &[u8]) -> Result<(), String> {
        if self.exists(command) == Some(false) {
            return Err("No such command in rename-command".into());
        }
        // The command gives its own name up first, so that it may be renamed to itself.
        self.loaded.renames.push((command.into(), Vec::new()));
        if !target.is_empty() && self.exists(target) == Some(true) {
            return Err("Target command name already exists".into());
        }
        if let Some(last) = self.loaded.renames.last_mut() {
            last.1 = target.into();
        }
        Ok(())
    }

    /// Whether a command of that name exists after the renames so far.
    fn exists(&self, name: &[u8]) -> Option<bool> {
        let touched = self.loaded.renames.iter().rev().find_map(|(from, to)| match () {
            _ if to.eq_ignore_ascii_case(name) => Some(true),
            _ if from.eq_ignore_ascii_case(name) => Some(false),
            _ => None,
        });
        touched.or_else(|| self.surroundings.command_exists(name))
    }

    /// Checks what only the whole configuration shows.
    fn finish(mut self) -> Result<Loaded, LoadError> {
        let config = &mut self.loaded.config;
        config.normalise();
        if !config.logfile.as_os_str().is_empty() {
            can_append(&config.dir.join(&config.logfile)).map_err(|error| {
                LoadError::Whole(format!("Can't open the log file: {}", error_text(&error)))
            })?;
        }
        if config.cluster_enabled && config.replicaof.0.is_some() {
            return Err(LoadError::Whole("replicaof directive not allowed in cluster mode".into()));
        }
        if config.cluster_enabled {
            // As Redis: CONFIG GET and a rewritten file have the count that is in force.
            config.databases = config.cluster_databases;
        }
        Ok(self.loaded)
    }
}

/// Adds a user or a role to those declared before it.
fn declare(kind: &str, known: &mut Vec<Vec<Vec<u8>>>, words: &[Vec<u8>]) -> Result<(), String> {
    if known.iter().any(|other| other.first() == words.first()) {
        let message = format!("Duplicate {kind} found. A {kind} can only be defined once in config files");
        return Err(declaration_error(kind, words.first().map_or(&[], Vec::as_slice), &message));
    }
    known.push(words.into());
    Ok(())
}

/// The fault of a `user` or `role` line.
fn declaration_error(kind: &str, word: &[u8], message: &str) -> String {
    format!("Error in {kind} declaration '{}': {message}", String::from_utf8_lossy(word))
}

/// Whether a file could be opened or made to append to, without making it.
fn can_append(path: &Path) -> std::io::Result<()> {
    use rustix::fs::{Access, access};
    match std::fs::OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(access(path.parent().unwrap_or(path), Access::WRITE_OK | Access::EXEC_OK)?)
        }
        opened => opened.map(|_| ()),
    }
}

/// The files that a pattern names, by name; hidden ones only where the pattern says so.
fn matching_files(pattern: &Path) -> Vec<PathBuf> {
    let options = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let files = glob::glob_with(&pattern.to_string_lossy(), options);
    files.map_or_else(|_| Vec::new(), |files| files.filter_map(Result::ok).collect())
}

/// Whether it is a parameter of one of the modules that Redis 8 ships with.
fn is_module_parameter(name: &[u8], arguments: &[Vec<u8>]) -> bool {
    !arguments.is_empty() && MODULE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Why a line was refused.
enum Problem {
    /// The line itself.
    Here(String),
    /// A line in a file that it includes, or that file.
    Included(LoadError),
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self::Here(message)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Self {
        Self::Here(message.into())
    }
}
