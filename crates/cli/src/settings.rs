//! The settings of a command line, after parsing; the defaults are redis-cli's.

use crate::cluster_settings::ClusterSettings;
use crate::format::{Output, Style};
use martlet_tls::TlsOptions;
use std::path::PathBuf;
use std::time::Duration;

/// The release of redis-cli whose options these are.
pub const AS_REDIS_CLI: &str = "8.0.0";

/// Which protocol a session begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The server's initial protocol: RESP2.
    Default,
    /// `-2`
    Resp2,
    /// `-3`
    Resp3,
    /// RESP3, because the output wants it; a server without it is no error.
    Resp3IfKnown,
}

/// Where an argument comes from standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromStdin {
    /// `-x`: it is the last one.
    Last,
    /// `-X`: it takes the place of this word.
    Tag(Vec<u8>),
}

/// The mode of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Runs the command, or reads commands without one.
    Command,
    /// `--eval`
    Eval(PathBuf),
    /// `--latency`, `--latency-history`
    Latency { history: bool },
    /// `--latency-dist`
    LatencyDistribution,
    /// `--intrinsic-latency`, for this time.
    IntrinsicLatency(Duration),
    /// `--stat`
    Stat,
    /// `--watch`, of a key or a field of INFO.
    Watch(Watched),
    /// `--scan`
    Scan,
    /// `--bigkeys`
    BigKeys,
    /// `--memkeys`
    MemKeys,
    /// `--keystats`
    KeyStats,
    /// `--hotkeys`
    HotKeys,
    /// `--pipe`
    Pipe,
    /// `--rdb`, `--functions-rdb`
    Rdb { file: PathBuf, only_functions: bool },
    /// `--replica`
    Replica,
    /// `--lru-test`, among this number of keys.
    LruTest(u64),
    /// `--cluster`, by the subcommand's name.
    Cluster(String),
    /// `--test_hint`, of a line.
    Hint(String),
    /// `--test_hint_file`
    HintFile(PathBuf),
}

/// What `--watch` looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A key: the number in it, or how long it is.
    Key(Vec<u8>),
    /// A field of INFO, or `FIELD.PART` of one that has parts.
    Field(String),
}

/// How keys are walked through.
#[derive(Clone, Debug)]
pub struct ScanSettings {
    pub pattern: Option<Vec<u8>>,
    /// SCAN's COUNT.
    pub count: u64,
    /// Only keys of this type.
    pub kind: Option<Vec<u8>>,
    /// MEMORY USAGE's SAMPLES; the server's own number without.
    pub samples: Option<u64>,
    /// Where the walk begins.
    pub cursor: u64,
    /// How many of the biggest keys are shown; 0 for all.
    pub top: usize,
}

/// The settings of a command line.
#[derive(Clone, Debug)]
pub struct Settings {
    pub host: String,
    pub port: u16,
    pub socket: Option<PathBuf>,
    /// How long connecting may take; as long as the system lets it without one.
    pub connect_timeout: Option<Duration>,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    /// The password is asked for on the terminal.
    pub asks_password: bool,
    pub warns_of_password: bool,
    pub database: u64,
    pub tls: bool,
    pub tls_options: TlsOptions,
    pub prefers_ipv4: bool,
    pub prefers_ipv6: bool,
    pub protocol: Protocol,
    pub style: Style,
    /// Whether replies longer than the screen go to a pager; at the prompt only, where nothing is said.
    pub pager: Option<bool>,
    /// Whether unrequested pushes are shown.
    pub shows_pushes: bool,
    /// Negative: for ever.
    pub repeat: i64,
    pub interval: Duration,
    /// Follows redirections to other nodes.
    pub cluster: bool,
    /// An error reply ends the program with status 1.
    pub fails_on_error: bool,
    pub from_stdin: Option<FromStdin>,
    /// The words of the command are quoted strings.
    pub quoted_input: bool,
    pub mode: Mode,
    /// The script of `--eval` is debugged; true with `--ldb-sync-mode`.
    pub debugs: Option<bool>,
    pub scan: ScanSettings,
    /// How long `--pipe` waits for the last replies; for ever if zero.
    pub pipe_timeout: Duration,
    /// What `--cluster-…` say.
    pub manager: ClusterSettings,
    /// There is more to say.
    pub is_verbose: bool,
    /// `--latency-percentiles`: each as it was written, and its value.
    pub percentiles: Vec<(String, f64)>,
    /// Spectra are grey.
    pub monochrome: bool,
    /// The command and its arguments, or the mode's words.
    pub words: Vec<Vec<u8>>,
}

impl Settings {
    /// What holds without options, for an output that goes to a terminal or not.
    pub fn new(to_terminal: bool) -> Settings {
        let output = if to_terminal { Output::Standard } else { Output::Raw };
        Settings {
            host: "127.0.0.1".into(),
            port: 6379,
            socket: None,
            connect_timeout: None,
            user: None,
            password: None,
            asks_password: false,
            warns_of_password: true,
            database: 0,
            tls: false,
            tls_options: TlsOptions::default(),
            prefers_ipv4: false,
            prefers_ipv6: false,
            protocol: Protocol::Default,
            style: Style::new(output),
            pager: None,
            shows_pushes: to_terminal,
            repeat: 1,
            interval: Duration::ZERO,
            cluster: false,
            fails_on_error: false,
            from_stdin: None,
            quoted_input: false,
            mode: Mode::Command,
            debugs: None,
            scan: ScanSettings { pattern: None, count: 10, kind: None, samples: None, cursor: 0, top: 10 },
            pipe_timeout: Duration::from_secs(30),
            manager: ClusterSettings::default(),
            is_verbose: false,
            percentiles: Vec::new(),
            monochrome: false,
            words: Vec::new(),
        }
    }
}
