//! `martlet metrics`: the metrics of a server elsewhere, Redis and Valkey included.

use std::ffi::OsString;
use std::io;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser};
use martlet_client::address::Address;
use martlet_client::stream::Stream;
use martlet_client::uri::Uri;
use martlet_tls::{TlsOptions, TlsSettings};

use crate::http::{Rules, serve};
use crate::source::Source;

/// Where a server is unless it is said.
const HOST: &str = "127.0.0.1";
const PORT: u16 = 6379;
/// How long connecting to it may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Serve metrics of a Martlet, Redis or Valkey server over HTTP: /metrics for Prometheus, / for people. A
/// request that sends a user and a password by HTTP's basic authentication is shown what that user may see.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Options {
    /// The server: redis://user:password@host:port, rediss:// for TLS
    #[arg(long, env = "REDIS_ADDR", default_value = "redis://127.0.0.1:6379")]
    server: String,
    /// Where to listen; 9121 is redis_exporter's port
    #[arg(long, default_value = "127.0.0.1:9121")]
    listen: SocketAddr,
    /// Certificates of the authorities to trust, for TLS
    #[arg(long)]
    cacert: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long)]
    insecure: bool,
    /// Let the page send commands that change something
    #[arg(long)]
    allow_writes: bool,
}

/// Every client that reaches the address is answered.
struct Given {
    allows_writes: bool,
}

impl Rules for Given {
    fn admits(&self, _: IpAddr) -> bool {
        true
    }

    fn allows_writes(&self) -> bool {
        self.allows_writes
    }
}

/// Runs the tool under the program name `name`. Returns the exit status.
pub fn main(name: &str, arguments: &[OsString]) -> i32 {
    let command = Options::command().bin_name(name).version(env!("CARGO_PKG_VERSION"));
    let parsed = command.try_get_matches_from(arguments);
    let options = match parsed.and_then(|matches| Options::from_arg_matches(&matches)) {
        Ok(options) => options,
        Err(error) => {
            // Help goes to the standard output, and is no failure.
            let _ = error.print();
            return error.exit_code();
        }
    };
    match run(options) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{name}: {why}");
            1
        }
    }
}

fn run(options: Options) -> Result<(), String> {
    let mut uri = Uri::parse(&options.server)?;
    let host = uri.host.take().unwrap_or_else(|| HOST.into());
    let address = (host.clone(), uri.port.unwrap_or(PORT));
    let trust = TlsOptions { ca_file: options.cacert, insecure: options.insecure, ..TlsOptions::default() };
    let tls =
        uri.tls.then(|| TlsSettings::new(&trust, &host)).transpose().map_err(|why| format!("TLS: {why}"))?;
    let connect = move || -> io::Result<Stream> {
        // Names are looked up again each time: a server may have moved.
        let address = Address::resolve(&address.0, address.1)?;
        let mut stream = Stream::connect(&address, Some(CONNECT_MAX))?;
        if let Some(tls) = &tls {
            stream.secure(tls)?;
        }
        Ok(stream)
    };
    let source = Source::new(Box::new(connect)).with_login(uri.user, uri.password);
    let listener = TcpListener::bind(options.listen)
        .map_err(|why| format!("cannot listen on {}: {why}", options.listen))?;
    let address = listener.local_addr().map_err(|why| why.to_string())?;
    // Its reader may have gone.
    let _ = writeln!(std::io::stdout(), "Serving http://{address}/ and http://{address}/metrics");
    serve(vec![listener], source, Given { allows_writes: options.allow_writes })
        .map_err(|why| why.to_string())
}
