//! `metrics-port`: the server's metrics over HTTP, asked for over connections that do not leave the process.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixStream;

use martlet_client::stream::Stream;
use martlet_metrics::{Rules, Source};

use crate::config::Config;
use crate::listeners;
use crate::runtime::UNIX;
use crate::runtime::{Mail, Shared};

/// The server's own rules about accepted clients and allowed requests.
struct Configured(&'static Shared);

impl Rules for Configured {
    fn admits(&self, peer: IpAddr) -> bool {
        let is_open = self.0.access.users().default_user().needs_no_password;
        peer.to_canonical().is_loopback() || !(self.0.config.snapshot().protected_mode && is_open)
    }

    fn allows_writes(&self) -> bool {
        self.0.config.snapshot().metrics_allow_writes
    }
}

/// Serves metrics, if that is configured, until the process ends.
///
/// # Errors
/// What to log when it cannot listen or begin.
pub fn start(shared: &'static Shared, config: &Config) -> Result<(), String> {
    let listeners: Vec<TcpListener> =
        listeners::metrics(config)?.into_iter().map(|l| l.socket.into()).collect();
    if listeners.is_empty() {
        return Ok(());
    }
    let source = Source::new(Box::new(|| connect(shared)));
    let serve = move || {
        if let Err(error) = martlet_metrics::serve(listeners, source, Configured(shared)) {
            tracing::warn!("Metrics are not served: {error}");
        }
    };
    std::thread::Builder::new().name("metrics".into()).spawn(serve).map_err(|e| e.to_string())?;
    Ok(())
}

/// Becomes a client of this server, on the thread that has the fewest.
fn connect(shared: &Shared) -> io::Result<Stream> {
    let (ours, theirs) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let thread = shared.clients.least_loaded(shared.thread_count());
    shared.clients.assigned(thread, 1);
    shared.send(thread, Mail::Adopt { socket: theirs.into(), listener: UNIX });
    Ok(Stream::from_unix(ours))
}
