//! What a command line says, after parsing; the defaults are redis-benchmark's.

use martlet_client::tls::TlsOptions;
use std::path::PathBuf;
use std::time::Duration;

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Settings {
    pub host: String,
    pub port: u16,
    /// The address was named on the command line.
    pub address_given: bool,
    pub socket: Option<PathBuf>,
    pub password: Option<String>,
    pub user: Option<String>,
    pub tls: bool,
    pub tls_options: TlsOptions,
    pub clients: usize,
    /// `-c` was on the command line.
    pub clients_given: bool,
    pub requests: Option<u64>,
    pub data_bytes: usize,
    pub database: u64,
    pub resp3: bool,
    pub threads: Option<usize>,
    pub cluster: bool,
    pub tracking: bool,
    pub keep_alive: bool,
    pub keyspace: Option<u64>,
    pub pipeline: usize,
    pub quiet: bool,
    pub precision: u8,
    pub csv: bool,
    pub repeat: bool,
    pub tests: Option<Vec<String>>,
    pub idle: bool,
    pub last_from_stdin: bool,
    pub seed: Option<u64>,
    // valkey-benchmark's.
    /// Called by its name: durations and warm-ups leave the classic report as it is.
    pub valkey: bool,
    pub sequential: bool,
    /// `--rps`: requests per second in total.
    pub limit: Option<f64>,
    /// `;` in the command separates several.
    pub sequence: bool,
    // Ours.
    pub templates: Vec<String>,
    pub load: Vec<String>,
    pub workload: Option<PathBuf>,
    pub replay: Option<PathBuf>,
    pub speed: Option<f64>,
    pub duration: Option<Duration>,
    pub warmup: Duration,
    pub rate: Option<f64>,
    pub poisson: bool,
    pub spin: Option<Duration>,
    pub cores: Vec<usize>,
    pub sources: Vec<std::net::IpAddr>,
    pub epoll: bool,
    pub churn: u64,
    pub survive: bool,
    pub give_up: Option<Duration>,
    pub vs: Option<String>,
    pub vs_start: Option<String>,
    pub rounds: Option<usize>,
    pub require: Vec<String>,
    pub sweeps: Vec<String>,
    pub slo: Vec<String>,
    pub verify: bool,
    pub hot_key: bool,
    pub json: Option<PathBuf>,
    pub csv_file: Option<PathBuf>,
    pub hgrm: Option<PathBuf>,
    pub html: Option<PathBuf>,
    pub live: bool,
    pub server_pid: Option<u32>,
    /// The command to test, and its arguments.
    pub command: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            host: "127.0.0.1".into(),
            port: 6379,
            address_given: false,
            socket: None,
            password: None,
            user: None,
            tls: false,
            tls_options: TlsOptions::default(),
            clients: 50,
            clients_given: false,
            requests: None,
            data_bytes: 3,
            database: 0,
            resp3: false,
            threads: None,
            cluster: false,
            tracking: false,
            keep_alive: true,
            keyspace: None,
            pipeline: 1,
            quiet: false,
            precision: 3,
            csv: false,
            repeat: false,
            tests: None,
            idle: false,
            last_from_stdin: false,
            seed: None,
            valkey: false,
            sequential: false,
            limit: None,
            sequence: false,
            templates: Vec::new(),
            load: Vec::new(),
            workload: None,
            replay: None,
            speed: None,
            duration: None,
            warmup: Duration::ZERO,
            rate: None,
            poisson: false,
            spin: None,
            cores: Vec::new(),
            sources: Vec::new(),
            epoll: false,
            churn: 0,
            survive: false,
            give_up: None,
            vs: None,
            vs_start: None,
            rounds: None,
            require: Vec::new(),
            sweeps: Vec::new(),
            slo: Vec::new(),
            verify: false,
            hot_key: false,
            json: None,
            csv_file: None,
            hgrm: None,
            html: None,
            live: false,
            server_pid: None,
            command: Vec::new(),
        }
    }
}

impl Settings {
    /// Whether anything asks for more than redis-benchmark has: then the report is ours, too.
    pub fn is_own(&self) -> bool {
        !self.templates.is_empty()
            || !self.load.is_empty()
            || (!self.valkey && (self.duration.is_some() || !self.warmup.is_zero()))
            || self.survive
            || self.workload.is_some()
            || self.replay.is_some()
            || self.rate.is_some()
            || self.vs.is_some()
            || self.vs_start.is_some()
            || !self.sweeps.is_empty()
            || !self.slo.is_empty()
            || self.verify
            || self.hot_key
            || self.live
            || [&self.json, &self.csv_file, &self.hgrm, &self.html].iter().any(|f| f.is_some())
    }
}
