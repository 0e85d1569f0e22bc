//! The settings of a command line, after parsing; the defaults are redis-benchmark's. Arguments for the
//! server are bytes, as on the command line.

use crate::template::DIMENSION;
use martlet_tls::TlsOptions;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `-h`.
    pub host: String,
    /// `-p`.
    pub port: u16,
    /// The address was named on the command line.
    pub address_given: bool,
    /// `-s`: a unix socket instead of host and port.
    pub socket: Option<PathBuf>,
    /// `-a`.
    pub password: Option<Vec<u8>>,
    /// `--user`.
    pub user: Option<Vec<u8>>,
    /// `--tls`.
    pub tls: bool,
    /// Certificates and names of TLS.
    pub tls_options: TlsOptions,
    /// `-c`: connections over all threads.
    pub clients: usize,
    /// `-c` was on the command line.
    pub clients_given: bool,
    /// `-n`: requests after which a run ends.
    pub requests: Option<u64>,
    /// `-d`: bytes of a value.
    pub data_bytes: usize,
    /// `--dimension`: components of a vector.
    pub dimension: usize,
    /// `--dbnum`.
    pub database: u64,
    /// `-3`.
    pub resp3: bool,
    /// `--threads`.
    pub threads: Option<usize>,
    /// `--cluster`.
    pub cluster: bool,
    /// `--enable-tracking`.
    pub tracking: bool,
    /// `-k`: false opens a connection per request.
    pub keep_alive: bool,
    /// `-r`: number of different keys.
    pub keyspace: Option<u64>,
    /// `-P`: requests in flight per connection.
    pub pipeline: usize,
    /// `-q`.
    pub quiet: bool,
    /// `--precision`: decimal places of latencies.
    pub precision: u8,
    /// `--csv`.
    pub csv: bool,
    /// `-l`.
    pub repeat: bool,
    /// `-t`.
    pub tests: Option<Vec<String>>,
    /// `-I`.
    pub idle: bool,
    /// `-x`.
    pub last_from_stdin: bool,
    /// `--seed`.
    pub seed: Option<u64>,
    // valkey-benchmark's.
    /// Called by its name: durations and warm-ups leave the classic report as it is.
    pub valkey: bool,
    /// `--sequential`.
    pub sequential: bool,
    /// `--rps`: requests per second in total.
    pub limit: Option<f64>,
    /// `;` in the command separates several.
    pub sequence: bool,
    // Ours.
    /// `--command`s, with their weights.
    pub templates: Vec<Vec<u8>>,
    /// `--load`: requests that fill the server first.
    pub load: Vec<Vec<u8>>,
    /// `--workload`: a file.
    pub workload: Option<PathBuf>,
    /// `--replay`: a capture.
    pub replay: Option<PathBuf>,
    /// `--speed` of a replay; 0 sends without gaps.
    pub speed: Option<f64>,
    /// `--duration`.
    pub duration: Option<Duration>,
    /// `--warmup`.
    pub warmup: Duration,
    /// `--rate`: requests per second in open loop.
    pub rate: Option<f64>,
    /// `--poisson`.
    pub poisson: bool,
    /// `--spin`.
    pub spin: Option<Duration>,
    /// `--cores`: cores to pin threads to.
    pub cores: Vec<usize>,
    /// `--source`: addresses to connect from.
    pub sources: Vec<std::net::IpAddr>,
    /// `--epoll`.
    pub epoll: bool,
    /// `--churn`: requests after which a connection is opened again; 0: never.
    pub churn: u64,
    /// `--survive`.
    pub survive: bool,
    /// `--give-up`.
    pub give_up: Option<Duration>,
    /// `--vs`: address of a second server.
    pub vs: Option<String>,
    /// `--vs-start`: command line of a second server.
    pub vs_start: Option<String>,
    /// `--rounds` of a comparison.
    pub rounds: Option<usize>,
    /// `--require`: conditions of a comparison.
    pub require: Vec<String>,
    /// `--sweep`.
    pub sweeps: Vec<String>,
    /// `--slo`.
    pub slo: Vec<String>,
    /// `--verify`.
    pub verify: bool,
    /// `--hot-key`.
    pub hot_key: bool,
    /// `--json FILE`.
    pub json: Option<PathBuf>,
    /// `--csv-file FILE`.
    pub csv_file: Option<PathBuf>,
    /// `--hgrm FILE`.
    pub hgrm: Option<PathBuf>,
    /// `--html FILE`.
    pub html: Option<PathBuf>,
    /// `--live`.
    pub live: bool,
    /// `--server-pid`.
    pub server_pid: Option<u32>,
    /// The command to test, and its arguments.
    pub command: Vec<Vec<u8>>,
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
            dimension: DIMENSION,
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
