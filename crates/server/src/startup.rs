//! From the program's arguments to a process that is ready to serve.
//!
//! Invariant: [`prepare`] starts no thread, and all work that needs a process without threads (background,
//! title, umask) is done when it returns; [`Prepared`] outlives the server and removes its files (the pid
//! file) with it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use martlet_base::disk::error_text;
use martlet_base::sync::Outside;

use crate::config::{
    Acquired, CommandLine, Config, ConfigStore, Declarations, Effect, Invocation, LoadError, Loaded,
    LogLevel, REDIS_VERSION, Surroundings, USAGE, load, parse_command_line, version_text,
};
use crate::logging::{Log, early_line};
use crate::process::{
    OomScore, PidFile, ProcessTitle, ShutdownSignal, Supervisor, adjust_open_files, backlog_warning,
    find_supervisor, ignore_hangups, process_umask, system_warnings, watch_signals,
};

/// The outcome of the command line.
pub enum Start {
    /// Everything asked for is done, or refused with a message: exit with this status.
    Exit(i32),
    /// Serve.
    Run(Box<Prepared>),
}

/// A process that may start its threads.
pub struct Prepared {
    /// The configuration; its hooks that concern the process are in place.
    pub store: Arc<ConfigStore>,
    /// Commands to rename, with their new name; an empty one removes the command.
    pub renames: Vec<(Vec<u8>, Vec<u8>)>,
    /// Users of the configuration file: name and rules.
    pub declared: Declarations,
    /// The open log.
    pub log: Arc<Log>,
    /// The kernel's score of the process.
    pub(crate) score: Arc<OomScore>,
    /// The supervisor that is notified when the server is ready and when it stops.
    pub supervisor: Supervisor,
    /// Removed when the server is done.
    _pid_file: Option<PidFile>,
}

/// The banner's facts about a server that listens.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// TCP addresses with ports.
    pub addresses: Vec<String>,
    /// The Unix socket.
    pub unixsocket: Option<PathBuf>,
    /// The I/O backend, with the reason when it is not the one asked for first.
    pub backend: String,
    /// I/O threads.
    pub threads: usize,
}

/// Reads the command line and does the work that has to precede the first thread. `arguments` are those after
/// the program's name (and after the tool's); messages go where Redis writes them.
pub fn prepare(program: &str, arguments: &[OsString], surroundings: &dyn Surroundings) -> Start {
    let umask = process_umask();
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let (line, only_check) = match parse_command_line(arguments, &directory) {
        Ok(Invocation::Run(line)) => (line, false),
        Ok(Invocation::CheckConfig(line)) => (line, true),
        Ok(Invocation::Version) => {
            say(&format!("{}\n", version_text()));
            return Start::Exit(0);
        }
        Ok(Invocation::Help) => {
            say(USAGE);
            return Start::Exit(0);
        }
        Err(error) => return refuse(&error.to_string()),
    };
    match read_configuration(&line, surroundings) {
        Err(status) => Start::Exit(status),
        Ok(loaded) if only_check => {
            report_check(&loaded);
            Start::Exit(0)
        }
        Ok(loaded) => match become_server(program, line.file, loaded, umask) {
            Ok(prepared) => Start::Run(Box::new(prepared)),
            Err(message) => {
                tracing::error!("{message}");
                Start::Exit(1)
            }
        },
    }
}

/// Writes to standard output; its reader may have gone.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn refuse(message: &str) -> Start {
    eprintln!("{message}");
    Start::Exit(1)
}

/// Loads the configuration, or says why not and answers the exit status.
fn read_configuration(line: &CommandLine, surroundings: &dyn Surroundings) -> Result<Loaded, i32> {
    if line.stdin {
        say(&early_line(LogLevel::Notice, "Reading config from stdin"));
    }
    let sources = line.sources(std::io::stdin()).map_err(|error| {
        eprintln!("Cannot read standard input: {}", error_text(&error));
        1
    })?;
    load(&sources, surroundings).map_err(|error| {
        match error {
            // Redis logs this one, and its log is standard output so far.
            LoadError::File { .. } => say(&early_line(LogLevel::Warning, &error.to_string())),
            _ => eprintln!("{error}"),
        }
        1
    })
}

/// What `--check-config` prints for a valid configuration.
fn report_check(loaded: &Loaded) {
    let notes = notes(loaded).into_iter().map(|note| format!("{}\n", note.text));
    say(&std::iter::once("The configuration is valid.\n".to_owned()).chain(notes).collect::<String>());
}

/// Enters the working directory and the background, opens the log, sets limits, title and scores.
fn become_server(
    program: &str,
    config_file: Option<PathBuf>,
    loaded: Loaded,
    umask: u32,
) -> Result<Prepared, String> {
    let notes = notes(&loaded);
    let Loaded { mut config, renames, declared, .. } = loaded;
    std::env::set_current_dir(&config.dir)
        .map_err(|error| format!("Can't chdir to '{}': {}", config.dir.display(), error_text(&error)))?;
    let title = Arc::new(ProcessTitle::take_over(program.into()));
    let log = Log::open(&config);
    log.install();
    let supervisor = find_supervisor(config.supervised, |name| std::env::var_os(name));
    let is_background = config.daemonize && !supervisor.is_there();
    if is_background {
        martlet_base::background::daemonize()
            .map_err(|error| format!("Can't go to the background: {}", error_text(&error)))?;
    }
    ignore_hangups();
    let pid = std::process::id();
    tracing::info!(
        "Martlet {} is starting (as Redis {REDIS_VERSION}), PID: {pid}",
        env!("CARGO_PKG_VERSION")
    );
    notes.iter().for_each(Note::log);
    config.maxclients = open_files(config.maxclients)?;
    for warning in backlog_warning(config.tcp_backlog).into_iter().chain(system_warnings()) {
        tracing::warn!("{warning}");
    }
    // The allocator has them disabled from the start on, before the configuration is known.
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(config.disable_thp) {
        let verb = if config.disable_thp { "disable" } else { "allow" };
        tracing::warn!("Can't {verb} transparent huge pages: {}", error_text(&error.into()));
    }
    let pid_file = PidFile::create(config.pidfile.as_deref(), is_background);
    if config.set_proc_title {
        title.show(&config, config_file.as_deref())?;
    }
    let score = Arc::new(OomScore::default());
    // It has logged what went wrong, and a score is no reason not to serve.
    let _ = score.apply(&config);
    let store = ConfigStore::with_file(config, config_file, umask);
    install_hooks(&store, &log, title, score.clone());
    Ok(Prepared { store, renames, declared, log, score, supervisor, _pid_file: pid_file })
}

/// Raises the limit of files for this number of clients; logs the outcome.
fn open_files(maxclients: u32) -> Result<u32, String> {
    let files = adjust_open_files(maxclients)?;
    files.notices.iter().for_each(|notice| tracing::info!("{notice}"));
    files.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(files.maxclients)
}

/// Hooks of the parameters whose change concerns the process alone.
fn install_hooks(store: &Arc<ConfigStore>, log: &Arc<Log>, title: Arc<ProcessTitle>, score: Arc<OomScore>) {
    let log = Arc::clone(log);
    store.on_change(
        &["loglevel", "log-format", "log-timestamp-format"],
        Box::new(move |_, new| {
            log.follow(new);
            Ok(())
        }),
    );
    store.on_change(&["oom-score-adj", "oom-score-adj-values"], Box::new(move |_, new| score.apply(new)));
    store.on_read(&["dir"], Box::new(open_directory));
    store.on_change(&["array-sparse-kmax", "array-sparse-kmin"], Box::new(check_sparse_limits));
    store.on_change(&["cf-bucket-size", "cf-initial-size"], Box::new(check_bucket_size));
    store.on_change(&["maxclients"], Box::new(|_, new| allow_clients(new)));
    store.on_change(&["key-memory-histograms"], Box::new(check_histograms));
    let file = store.file().map(Path::to_path_buf);
    store.on_change(
        &["proc-title-template"],
        Box::new(move |_, new| if new.set_proc_title { title.show(new, file.as_deref()) } else { Ok(()) }),
    );
}

/// Redis 8.6 counts from the start on or not at all.
fn check_histograms(old: &Config, new: &Config) -> Result<(), String> {
    match new.accepted.key_memory_histograms && !old.accepted.key_memory_histograms {
        true => Err("memory tracking cannot be enabled at runtime".into()),
        false => Ok(()),
    }
}

/// A slice that has become dense is not to become sparse at once.
fn check_sparse_limits(old: &Config, new: &Config) -> Result<(), String> {
    let is_sound = new.array_sparse_kmax == 0 || new.array_sparse_kmin < new.array_sparse_kmax;
    if is_sound {
        Ok(())
    } else if old.array_sparse_kmax != new.array_sparse_kmax {
        Err("array-sparse-kmax must be greater than array-sparse-kmin when non-zero".into())
    } else {
        Err("array-sparse-kmin must be less than array-sparse-kmax".into())
    }
}

/// A cuckoo filter has two buckets at least.
fn check_bucket_size(old: &Config, new: &Config) -> Result<(), String> {
    const CAPACITY_MAX: i64 = martlet_command::sketch::CuckooOptions::CAPACITY_MAX;
    let (size, capacity) = (i64::from(new.cf_bucket_size), new.cf_initial_size);
    if 2 * size <= capacity {
        Ok(())
    } else if old.cf_initial_size != capacity {
        let least = 2 * size;
        Err(format!("Value for `cf-initial-size` must be in the range [{least}, {CAPACITY_MAX}]"))
    } else {
        let most = capacity / 2;
        Err(format!("Value for `cf-bucket-size` must be in the range [1, {most}]"))
    }
}

/// Opens the directory to be entered, and the present one.
fn open_directory(_: &Outside, _: &Config, new: &Config) -> Result<Acquired, String> {
    let open = |path: &Path| File::open(path).map_err(|error| error_text(&error));
    let (next, present) = (open(&new.dir)?, open(Path::new("."))?);
    // Entering an open directory needs nothing of the disk.
    let enter = |directory: &File| rustix::process::fchdir(directory);
    Ok(Acquired {
        apply: Box::new(move || enter(&next).map_err(|error| error_text(&error.into()))),
        undo: Box::new(move || {
            // It was the process' directory a moment ago.
            let _ = enter(&present);
        }),
    })
}

/// Refuses more clients than the operating system allows files for.
fn allow_clients(config: &Config) -> Result<(), String> {
    let allowed = open_files(config.maxclients)?;
    if allowed < config.maxclients {
        return Err(format!(
            "The operating system is not able to handle the specified number of clients, try with {allowed}"
        ));
    }
    Ok(())
}

/// A line about directives that do nothing here.
struct Note {
    is_warning: bool,
    text: String,
}

impl Note {
    fn log(&self) {
        match self.is_warning {
            true => tracing::warn!("{}", self.text),
            false => tracing::info!("{}", self.text),
        }
    }
}

/// One line for directives that were set and do nothing here, one more as a warning for those on which an
/// operator may rely.
fn notes(loaded: &Loaded) -> Vec<Note> {
    let mut quiet: Vec<&str> = loaded.ignored.iter().map(|(name, _)| name.as_str()).collect();
    let mut misleading = Vec::new();
    for (name, parameter) in &loaded.without_effect {
        match parameter.effect {
            Effect::Absent(reason) | Effect::Moot(reason) if parameter.misleads(&loaded.config) => {
                misleading.push(format!("{name} ({reason})"));
            }
            _ => quiet.push(name),
        }
    }
    let mut notes = Vec::new();
    if !quiet.is_empty() {
        let text = format!("Accepted without effect (docs/configuration.md says why): {}", quiet.join(", "));
        notes.push(Note { is_warning: false, text });
    }
    if !misleading.is_empty() {
        let text = format!("WARNING: set, but without effect: {}", misleading.join("; "));
        notes.push(Note { is_warning: true, text });
    }
    notes
}

impl Prepared {
    /// Says that clients are served: the banner, then the supervisor.
    pub fn ready(&self, serving: &Serving) {
        for line in banner(&self.store.snapshot(), self.store.file(), serving) {
            tracing::info!("{line}");
        }
        self.supervisor.ready();
    }

    /// Calls `handler`, on a separate thread, for each signal to stop. Starts that thread.
    ///
    /// # Errors
    /// The thread or the handlers cannot be set up.
    pub fn on_shutdown_signal(
        &self,
        handler: impl FnMut(ShutdownSignal) + Send + 'static,
    ) -> std::io::Result<()> {
        watch_signals(handler)
    }

    /// Says that the server is about to exit, and removes the pid file.
    pub fn finish(self) {
        self.supervisor.stopping();
        drop(self);
        tracing::warn!("Redis is now ready to exit, bye bye...");
    }
}

/// The lines that tell an operator what serves where.
fn banner(config: &Config, file: Option<&Path>, serving: &Serving) -> Vec<String> {
    let mut places = serving.addresses.clone();
    places.extend(serving.unixsocket.iter().map(|path| path.display().to_string()));
    let file = file.map_or("the defaults (no file given)".into(), |file| file.display().to_string());
    let threads =
        if serving.threads == 1 { "1 I/O thread".into() } else { format!("{} I/O threads", serving.threads) };
    let mut lines = vec![
        format!("Listening on {}", if places.is_empty() { "nothing".into() } else { places.join(", ") }),
        format!("{threads} over {}", serving.backend),
        format!("Data in {}, configuration from {file}", config.dir.display()),
    ];
    // Tools wait for these words.
    if !serving.addresses.is_empty() {
        lines.push("Ready to accept connections tcp".into());
    }
    if serving.unixsocket.is_some() {
        lines.push("Ready to accept connections unix".into());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AnySurroundings, Sources};

    fn loaded(text: &str) -> Loaded {
        let sources = Sources { stdin: Some(text.into()), ..Sources::default() };
        load(&sources, &AnySurroundings).unwrap()
    }

    #[test]
    fn notes_name_what_does_nothing() {
        let notes = |text: &str| -> Vec<_> {
            notes(&loaded(text)).into_iter().map(|note| (note.is_warning, note.text)).collect()
        };
        assert_eq!(notes("port 1\n"), []);
        let quiet = "Accepted without effect (docs/configuration.md says why): loadmodule, activerehashing, \
             prefetch-batch-max-size";
        assert_eq!(notes("prefetch-batch-max-size 1\n activerehashing no\n loadmodule x\n").len(), 1);
        assert_eq!(
            notes("activerehashing no\nprefetch-batch-max-size 1\nloadmodule x\n"),
            [(false, quiet.into())]
        );
        assert_eq!(notes("cluster-enabled yes\n"), []);
        assert_eq!(notes("cluster-enabled yes\ntls-cluster yes\n"), []);
        let lacking =
            "WARNING: set, but without effect: socket-mark-id (this version does not mark its sockets)";
        assert_eq!(notes("socket-mark-id 7\n"), [(true, lacking.into())]);
        let quiet = "Accepted without effect (docs/configuration.md says why): prefetch-batch-max-size";
        assert_eq!(notes("prefetch-batch-max-size 1\n"), [(false, quiet.into())]);
    }

    #[test]
    fn the_banner_tells_where_everything_is() {
        let config = Config { dir: "/data".into(), ..Config::default() };
        let serving = Serving {
            addresses: vec!["127.0.0.1:6379".into(), "[::1]:6379".into()],
            unixsocket: Some("/run/m.sock".into()),
            backend: "io_uring".into(),
            threads: 2,
        };
        assert_eq!(
            banner(&config, Some(Path::new("/etc/m.conf")), &serving),
            [
                "Listening on 127.0.0.1:6379, [::1]:6379, /run/m.sock",
                "2 I/O threads over io_uring",
                "Data in /data, configuration from /etc/m.conf",
                "Ready to accept connections tcp",
                "Ready to accept connections unix",
            ]
        );
        let alone = Serving {
            addresses: vec!["*:1".into()],
            threads: 1,
            backend: "epoll".into(),
            ..Serving::default()
        };
        assert_eq!(banner(&config, None, &alone)[1], "1 I/O thread over epoll");
    }

    #[test]
    fn hooks_of_the_process_can_refuse() {
        let config =
            Config { enable_protected_configs: crate::config::ProtectedAction::Yes, ..Config::default() };
        let store = ConfigStore::new(config);
        let log = Log::open(&store.snapshot());
        store.on_change(&["maxclients"], Box::new(|_, new| allow_clients(new)));
        install_hooks(&store, &log, Arc::new(ProcessTitle::take_over("t".into())), Arc::default());
        let set = |name: &str, value: &str| {
            store.set(&[(name.as_bytes(), value.as_bytes())], Default::default()).map(|_| ())
        };
        assert!(set("loglevel", "verbose").is_ok());
        assert!(set("proc-title-template", "{title}").is_ok());
        let refused = set("maxclients", "4294967295").unwrap_err().to_string();
        let start = "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle \
                     the specified number of clients, try with ";
        assert!(refused.starts_with(start), "{refused}");
    }

    #[test]
    fn prepare_exits_where_nothing_is_to_be_served() {
        let status = |arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            match prepare("martlet", &arguments, &AnySurroundings) {
                Start::Exit(status) => status,
                Start::Run(_) => panic!("{arguments:?} served"),
            }
        };
        assert_eq!(status(&["--version"]), 0);
        assert_eq!(status(&["--help"]), 0);
        assert_eq!(status(&["--check-config", "--port", "7000"]), 0);
        assert_eq!(status(&["--check-config", "--port", "x"]), 1);
        assert_eq!(status(&["/nonexistent.conf"]), 1);
        assert_eq!(status(&["--sentinel"]), 1);
    }
}
