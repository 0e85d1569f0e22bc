//! Starting: the command line, the configuration, users, sockets.
//!
//! Invariant: a fault ends the program before it listens, with Redis' words and status 1.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use martlet_acl::Users;
use martlet_base::background::{PidFile, daemonize};
use martlet_base::clock::Clock;
use martlet_base::disk::error_text;
use martlet_base::random::Random;
use rustix::fs::Access as FileAccess;

use super::Program;
use super::children::Children;
use super::clients::{Clients, Listener};
use super::log::Log;
use super::peers::Peers;
use super::poller::Poller;
use super::world::FileWorld;
use crate::commands::{Access, Core, Facts, REDIS_VERSION};
use crate::config::load::{Config, LoadError, Place, parse_command_line};
use crate::events::Level;
use crate::machine::{Sentinel, Settings};

/// Default file of the process id of a Sentinel in the background.
const DEFAULT_PID_FILE: &str = "/var/run/redis-sentinel.pid";

const USAGE: &str = "\
Usage: martlet sentinel /path/to/sentinel.conf [options]
       martlet sentinel -v | --version
       martlet sentinel -h | --help

The file has to be writable: the Sentinel keeps its discoveries there. Options are its directives with two
dashes before the name, as --port 26380.
";

/// Runs the program; gives the exit status.
pub fn main(name: &str, arguments: &[OsString]) -> i32 {
    match arguments.first().and_then(|first| first.to_str()) {
        Some("-h" | "--help") => {
            // Its reader may have gone.
            let _ = std::io::stdout().write_all(USAGE.as_bytes());
            return 0;
        }
        Some("-v" | "--version") => {
            let version = env!("CARGO_PKG_VERSION");
            let _ =
                writeln!(std::io::stdout(), "Redis server v={REDIS_VERSION} (Martlet {version} sentinel)");
            return 0;
        }
        _ => {}
    }
    match start(arguments) {
        Ok(mut program) => program.run().unwrap_or_else(|error| failed(name, &error.to_string())),
        Err(Failure::Said(message)) => failed(name, &message),
        Err(Failure::Logged) => 1,
    }
}

/// Why it does not start.
enum Failure {
    /// The error has not been printed yet.
    Said(String),
    /// It is in the log.
    Logged,
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Said(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::Said(message.into())
    }
}

fn failed(name: &str, message: &str) -> i32 {
    let _ = writeln!(io::stderr(), "{name}: {message}");
    1
}

fn start(arguments: &[OsString]) -> Result<Program, Failure> {
    let directory = std::env::current_dir().map_err(|error| error.to_string())?;
    let words: Vec<Vec<u8>> = arguments.iter().map(|word| word.as_bytes().to_vec()).collect();
    let line = parse_command_line(&words, &directory);
    let path = line.file.ok_or("Sentinel needs config file on disk to save state. Exiting...")?;
    let config = read(&path, &line.options)?;
    if let Some(directory) = &config.directory {
        std::env::set_current_dir(directory)
            .map_err(|error| format!("Can't chdir to '{}': {error}", directory.display()))?;
    }
    rustix::fs::access(&path, FileAccess::WRITE_OK).map_err(|error| {
        format!("Sentinel config file {} is not writable: {error}. Exiting...", path.display())
    })?;
    let log = Log::new(config.log_file.clone());
    let access = access(&config)?;
    let users = Rc::new(RefCell::new(access.config_lines()));
    let sentinel = sentinel(&config, FileWorld::new(path.clone(), users.clone()))?;
    let logged = |why: String| {
        log.write(Level::Warning, &why);
        Failure::Logged
    };
    let listeners = listeners(&config).map_err(logged)?;
    let peers = Peers::new(config.tls.connect().map_err(logged)?, config.source);
    if config.is_daemon {
        daemonize().map_err(|error| format!("Can't go to the background: {error}"))?;
    }
    greet(&log, &config);
    let pid_file = pid_file(&config, &log);
    let mut core = Core::new(sentinel, access, facts(&config, path));
    core.user_lines = users;
    let system = |error: io::Error| error.to_string();
    let poller = Poller::new().map_err(system)?;
    let clients = Clients::new(listeners, config.is_protected, config.timeout_s, &poller).map_err(system)?;
    Ok(Program {
        core,
        clients,
        peers,
        children: Children::default(),
        poller,
        log,
        clock: Clock::real(),
        stop: stop_on_signals().map_err(system)?,
        _pid_file: pid_file,
    })
}

/// Writes the file where one is configured or the process is in the background. As in Redis, a failure does
/// not stop the start.
fn pid_file(config: &Config, log: &Log) -> Option<PidFile> {
    let default = config.is_daemon.then_some(Path::new(DEFAULT_PID_FILE));
    let path = config.pid_file.as_deref().or(default)?;
    let written = PidFile::write(path);
    if let Err(error) = &written {
        log.write(Level::Warning, &format!("Failed to write PID file: {}", error_text(error)));
    }
    written.ok()
}

fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn read(path: &Path, options: &[u8]) -> Result<Config, String> {
    let text = std::fs::read(path).map_err(|error| {
        let why = error_text(&error);
        format!("Fatal error, can't open config file '{}': {why}", path.display())
    })?;
    let mut config = Config::default();
    config.read(&text).map_err(|error| fatal(&error))?;
    config.read(options).map_err(|error| fatal(&error))?;
    Ok(config)
}

fn fatal(error: &LoadError) -> String {
    let LoadError { place: Place { number, text }, message } = error;
    format!(
        "\n*** FATAL CONFIG FILE ERROR (Redis {REDIS_VERSION}) ***\nReading the configuration file, at line {number}\n>>> '{text}'\n{message}"
    )
}

fn sentinel(config: &Config, world: FileWorld) -> Result<Sentinel, String> {
    let settings = Settings {
        port: config.port,
        tls_port: config.tls.port,
        is_tls_outgoing: config.tls.is_outgoing,
        requirepass: config.requirepass.clone(),
        log_level: config.log_level,
        ..Settings::default()
    };
    let now_ms = Clock::real().unix_ms();
    let mut sentinel = Sentinel::new(settings, Random::from_entropy(), now_ms, Box::new(world));
    sentinel.configure(&config.sentinel).map_err(|(place, message)| {
        let place = config.places.get(place).cloned().unwrap_or_default();
        fatal(&LoadError { place, message })
    })?;
    Ok(sentinel)
}

fn access(config: &Config) -> Result<Access, String> {
    let mut access = Access::new(config.requirepass.as_deref());
    access.log_max = config.acl_log_max;
    access.file = config.acl_file.clone();
    if let Some(path) = &config.acl_file {
        if !config.users.is_empty() || !config.roles.is_empty() {
            return Err(
                "Users or roles are declared in the configuration and in an ACL file: only one is possible."
                    .into(),
            );
        }
        let text = std::fs::read(path)
            .map_err(|error| format!("Error loading ACLs, opening file '{}': {error}", path.display()))?;
        let users = Users::from_text(&text, &path.display().to_string(), &access.rules());
        access.users = users.map_err(|why| String::from_utf8_lossy(&why).into_owned())?;
    }
    let mut users = access.users.clone();
    for words in &config.roles {
        users.declare_role(&access.rules(), words)?;
    }
    for words in &config.users {
        users.declare_user(&access.rules(), words)?;
    }
    access.users = users;
    Ok(access)
}

/// Listens for plain connections and for those with TLS.
fn listeners(config: &Config) -> Result<Vec<Listener>, String> {
    let mut all = Vec::new();
    for (port, tls) in [(config.port, None), (config.tls.port, config.tls.accept()?)] {
        all.extend(listen(config, port)?.into_iter().map(|socket| Listener { socket, tls: tls.clone() }));
    }
    Ok(all)
}

/// Listens on the configured addresses, or on all. One that begins with `-` need not be there.
fn listen(config: &Config, port: u16) -> Result<Vec<TcpListener>, String> {
    let mut listeners = Vec::new();
    if port == 0 {
        return Ok(listeners);
    }
    if config.bind.is_empty() || config.bind.iter().any(|host| host == "*") {
        let any = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        let any = any.or_else(|_| TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))));
        listeners.push(any.map_err(|error| refused(port, "*", &error))?);
        return Ok(listeners);
    }
    for host in &config.bind {
        let (name, is_optional) = match host.strip_prefix('-') {
            Some(name) => (name, true),
            None => (host.as_str(), false),
        };
        let name = if name == "::*" { "::" } else { name };
        match TcpListener::bind((name, port)) {
            Ok(listener) => listeners.push(listener),
            Err(_) if is_optional => {}
            Err(error) => return Err(refused(port, name, &error)),
        }
    }
    if listeners.is_empty() {
        return Err(format!("Failed listening on port {port}, aborting."));
    }
    Ok(listeners)
}

fn refused(port: u16, host: &str, error: &io::Error) -> String {
    let why = martlet_base::disk::error_text(error);
    format!("Could not create server TCP listening socket {host}:{port}: bind: {why}")
}

fn greet(log: &Log, config: &Config) {
    let say = |text: String| {
        if config.log_level <= Level::Notice {
            log.write(Level::Notice, &text);
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    say(format!(
        "Martlet version={version}, as Redis {REDIS_VERSION}, pid={}, just started",
        std::process::id()
    ));
    for name in &config.ignored {
        say(format!("'{name}' means nothing to a Sentinel, and is left as it is"));
    }
    say(format!(
        "Running mode=sentinel, port={}.",
        if config.port == 0 { config.tls.port } else { config.port }
    ));
}

fn facts(config: &Config, config_file: PathBuf) -> Facts {
    let mut random = Random::from_entropy();
    Facts {
        config_file,
        executable: std::env::current_exe().unwrap_or_default(),
        pid: std::process::id(),
        started_ms: Clock::real().unix_ms(),
        run_id: (0..5).map(|_| format!("{:08x}", random.next_u64() as u32)).collect(),
        clients_max: config.clients_max,
        cpu_seconds,
    }
}

/// Seconds in the kernel and outside, as Linux counts them.
fn cpu_seconds() -> [f64; 2] {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, which may have spaces, ends with the last parenthesis; 12 and 13 fields behind it.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let seconds = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    [seconds(12) / ticks, seconds(11) / ticks]
}
