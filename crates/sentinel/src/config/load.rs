//! Reading the configuration file and the command line.
//!
//! Invariant: a directive that Redis knows and a Sentinel has no use for is accepted, with a line in the log;
//! any other is an error that names its line.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use martlet_base::number::parse_i64;
use martlet_protocol::quote::split;

use super::tls::TlsConfig;
use super::value::{RANGE, text, yes_or_no};
use crate::events::Level;
use crate::limits::CLIENTS_MAX;

/// Files that include each other, at most so deep.
const INCLUDES_MAX: usize = 16;

/// All directives of redis.conf.
const KNOWN_NAMES: &str = include_str!("known_names.txt");

/// The configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub port: u16,
    /// TLS, and its port.
    pub tls: TlsConfig,
    /// Addresses to listen on; all if empty.
    pub bind: Vec<String>,
    /// Where connections to instances come from, if that can be had.
    pub source: Option<IpAddr>,
    /// Only this machine may connect as long as no password is required.
    pub is_protected: bool,
    /// Where to work.
    pub directory: Option<PathBuf>,
    /// The log; standard output if empty.
    pub log_file: PathBuf,
    /// The lowest level that is logged.
    pub log_level: Level,
    /// Run in the background.
    pub is_daemon: bool,
    /// Where to write the process' number.
    pub pid_file: Option<PathBuf>,
    /// The default user's password.
    pub requirepass: Option<Vec<u8>>,
    /// `role` lines: a name and rules.
    pub roles: Vec<Vec<Vec<u8>>>,
    /// `user` lines: a name and rules.
    pub users: Vec<Vec<Vec<u8>>>,
    /// The users' file.
    pub acl_file: Option<PathBuf>,
    /// Entries that the log of refusals keeps.
    pub acl_log_max: usize,
    /// Clients at once.
    pub clients_max: usize,
    /// Seconds after which an idle client is closed; 0 for never.
    pub timeout_s: i64,
    /// `sentinel` directives, the words behind that one.
    pub sentinel: Vec<Vec<Vec<u8>>>,
    /// Where each of them stands.
    pub places: Vec<Place>,
    /// Directives that mean nothing to a Sentinel.
    pub ignored: BTreeSet<String>,
}

/// A line of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its number, from 1.
    pub number: usize,
    /// The text.
    pub text: String,
}

/// A line that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Where.
    pub place: Place,
    /// Why.
    pub message: String,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            port: 26_379,
            tls: TlsConfig::default(),
            bind: Vec::new(),
            source: None,
            is_protected: false,
            directory: None,
            log_file: PathBuf::new(),
            log_level: Level::Notice,
            is_daemon: false,
            pid_file: None,
            requirepass: None,
            roles: Vec::new(),
            users: Vec::new(),
            acl_file: None,
            acl_log_max: 128,
            clients_max: CLIENTS_MAX,
            timeout_s: 0,
            sentinel: Vec::new(),
            places: Vec::new(),
            ignored: BTreeSet::new(),
        }
    }
}

const BAD: &str = "Bad directive or wrong number of arguments";

impl Config {
    /// Takes in a text.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn read(&mut self, text: &[u8]) -> Result<(), LoadError> {
        self.read_nested(text, 0)
    }

    fn read_nested(&mut self, text: &[u8], depth: usize) -> Result<(), LoadError> {
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let place = Place { number: index + 1, text: String::from_utf8_lossy(line).into_owned() };
            let failed = |message: String| LoadError { place: place.clone(), message };
            let words =
                split(line).ok_or_else(|| failed("Unbalanced quotes in configuration line".into()))?;
            let Some((name, arguments)) = words.split_first() else { continue };
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            match (name.as_str(), arguments) {
                ("sentinel", [_, ..]) => {
                    self.sentinel.push(arguments.to_vec());
                    self.places.push(place.clone());
                }
                ("sentinel", []) => {}
                ("include", [path]) if depth < INCLUDES_MAX => {
                    let path = String::from_utf8_lossy(path).into_owned();
                    let text = std::fs::read(&path).map_err(|error| {
                        let why = martlet_base::disk::error_text(&error);
                        failed(format!("Fatal error, can't open config file '{path}': {why}"))
                    })?;
                    self.read_nested(&text, depth + 1)?;
                }
                _ => self.directive(&name, arguments).map_err(|message| failed(message.into()))?,
            }
        }
        Ok(())
    }

    fn directive(&mut self, name: &str, arguments: &[Vec<u8>]) -> Result<(), &'static str> {
        match (name, arguments) {
            ("user", [_, ..]) => self.users.push(arguments.to_vec()),
            ("role", [_, ..]) => self.roles.push(arguments.to_vec()),
            ("bind", [_, ..]) => self.bind = arguments.iter().map(|word| text(word)).collect(),
            (_, [value]) if self.single(name, value)? => {}
            _ if KNOWN_NAMES.lines().any(|known| known == name) && !arguments.is_empty() => {
                self.ignored.insert(name.into());
            }
            _ => return Err(BAD),
        }
        Ok(())
    }

    /// A directive of one value; false if it is not one of these.
    fn single(&mut self, name: &str, value: &[u8]) -> Result<bool, &'static str> {
        let number = |least: i64, most: i64| {
            parse_i64(value).filter(|number| (least..=most).contains(number)).ok_or(RANGE)
        };
        let path = || Some(PathBuf::from(text(value))).filter(|path| !path.as_os_str().is_empty());
        match name {
            "port" => self.port = number(0, 65_535)? as u16,
            "protected-mode" => self.is_protected = yes_or_no(value)?,
            "bind-source-addr" => self.source = text(value).parse().ok(),
            "dir" => self.directory = path(),
            "logfile" => self.log_file = path().unwrap_or_default(),
            "loglevel" => {
                self.log_level = Level::named(value).ok_or(
                    "argument(s) must be one of the following: debug, verbose, notice, warning, nothing",
                )?;
            }
            "daemonize" => self.is_daemon = yes_or_no(value)?,
            "pidfile" => self.pid_file = path(),
            "requirepass" => self.requirepass = Some(value.to_vec()).filter(|pass| !pass.is_empty()),
            "aclfile" => self.acl_file = path(),
            "acllog-max-len" => self.acl_log_max = number(0, i64::from(i32::MAX))? as usize,
            "maxclients" => self.clients_max = number(1, i64::from(u32::MAX))? as usize,
            "timeout" => self.timeout_s = number(0, i64::from(i32::MAX))?,
            _ => return self.tls.directive(name, value),
        }
        Ok(true)
    }
}

/// A command line: the configuration file, and options as lines of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The file, absolute.
    pub file: Option<PathBuf>,
    /// The options.
    pub options: Vec<u8>,
}

/// Reads `[file] [--option value …]`; `--sentinel` alone means nothing, as this is a Sentinel.
pub fn parse_command_line(arguments: &[Vec<u8>], directory: &Path) -> CommandLine {
    let mut line = CommandLine::default();
    let mut rest = arguments;
    if let Some((file, after)) = rest.split_first().filter(|(file, _)| !file.starts_with(b"-")) {
        line.file = Some(directory.join(text(file)));
        rest = after;
    }
    for argument in rest {
        match argument.strip_prefix(b"--") {
            Some(name) => {
                line.options.push(b'\n');
                line.options.extend_from_slice(name);
            }
            None => {
                line.options.push(b' ');
                martlet_protocol::quote::append_quoted(&mut line.options, argument);
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_redis_is_read() {
        let mut config = Config::default();
        let text = b"# x\nport 26001\nbind 127.0.0.1 -::1\nrepl-diskless-sync-delay 0\nlatency-tracking-info-percentiles 50 99\n\
            sentinel monitor a 127.0.0.1 1 2\nuser default on nopass\nloglevel verbose\nsentinel\n";
        config.read(text).unwrap();
        assert_eq!((config.port, config.bind.len(), config.log_level), (26_001, 2, Level::Verbose));
        assert_eq!((config.sentinel.len(), config.places[0].number, config.users.len()), (1, 6, 1));
        assert!(config.ignored.contains("repl-diskless-sync-delay"));
        for (bad, number) in [("prot 1", 1), ("\nport x", 2), ("port \"1", 1), ("tls-port x", 1)] {
            assert_eq!(Config::default().read(bad.as_bytes()).unwrap_err().place.number, number, "{bad}");
        }
    }

    #[test]
    fn options_are_lines() {
        let words = ["s.conf", "--sentinel", "--port", "26001", "--sentinel", "deny-scripts-reconfig", "no"];
        let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let line = parse_command_line(&words, Path::new("/d"));
        assert_eq!(line.file.as_deref(), Some(Path::new("/d/s.conf")));
        let mut config = Config::default();
        config.read(&line.options).unwrap();
        assert_eq!((config.port, config.sentinel.len()), (26_001, 1));
        assert_eq!(parse_command_line(&words[1..], Path::new("/d")).file, None);
    }
}
