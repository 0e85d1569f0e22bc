//! The listening sockets: TCP addresses of `bind`, the unix socket.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::config::Config;
use crate::process::set_socket_owner;

/// Which of the TCP ports.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `port`.
    Plain,
    /// `tls-port`.
    Tls,
}

/// A listening socket and how to name it.
pub struct Listener {
    /// The socket.
    pub socket: OwnedFd,
    /// `address:port`.
    pub name: String,
}

/// How long a start waits for an address that is in use. The kernel takes io_uring's rings apart after a
/// process has ended: a server that was killed holds its address for some milliseconds more.
pub const START_PATIENCE: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(2);

/// The port in INFO: the plain one, unless there is none.
pub fn first_port(config: &Config) -> u16 {
    if config.port == 0 { config.tls_port } else { config.port }
}

/// Listens with that kind's port on every address of `bind`, waiting for each that is in use up to
/// `patience`, but not for those of `replaced`, sockets of this process. An address with `-` in front may be
/// unavailable; a wildcard's family may be unsupported as long as another address is not.
///
/// # Errors
/// The message to log, in Redis' words.
pub fn tcp(
    config: &Config,
    kind: Kind,
    patience: Duration,
    replaced: &[OwnedFd],
) -> Result<Vec<Listener>, String> {
    let (port, kind_name) = match kind {
        Kind::Plain => (config.port, "tcp"),
        Kind::Tls => (config.tls_port, "tls"),
    };
    if port == 0 {
        return Ok(Vec::new());
    }
    listen(config, (&config.bind, port, kind_name), patience, replaced)
}

/// Listens with `metrics-port` on every address of `metrics-bind`, as [`tcp`] does.
///
/// # Errors
/// Those of [`tcp`].
pub fn metrics(config: &Config) -> Result<Vec<Listener>, String> {
    match config.metrics_port {
        0 => Ok(Vec::new()),
        port => listen(config, (&config.metrics_bind, port, "metrics"), START_PATIENCE, &[]),
    }
}

/// Listens with the port of the cluster bus on every address of `bind`, as [`tcp`] does.
///
/// # Errors
/// Those of [`tcp`].
pub fn bus(config: &Config, port: u16) -> Result<Vec<Listener>, String> {
    listen(config, (&config.bind, port, "cluster"), START_PATIENCE, &[])
}

fn listen(
    config: &Config,
    (bind, port, kind_name): (&[String], u16, &str),
    patience: Duration,
    replaced: &[OwnedFd],
) -> Result<Vec<Listener>, String> {
    let failure = || format!("Failed listening on port {port} ({kind_name}), aborting.");
    let backlog = config.tcp_backlog as i32;
    let mut listeners = Vec::new();
    for spec in bind {
        let optional = spec.starts_with('-');
        let host = spec.strip_prefix('-').unwrap_or(spec);
        for address in resolve(host, port).ok_or_else(failure)? {
            match patiently(patience, || martlet_net::listen_tcp_beside(address, backlog, replaced)) {
                Ok(socket) => listeners.push(Listener { socket, name: address.to_string() }),
                Err(error) => {
                    tracing::warn!(
                        "Warning: Could not create server TCP listening socket {host}:{port}: {}",
                        text(&error)
                    );
                    let unsupported = matches!(
                        error.raw_os_error(),
                        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::EADDRNOTAVAIL)
                    );
                    if !(optional && unsupported) {
                        return Err(failure());
                    }
                }
            }
        }
    }
    if listeners.is_empty() && !bind.is_empty() {
        return Err(failure());
    }
    Ok(listeners)
}

/// Tries again while the address is in use, until `patience` is over; at least once.
fn patiently<T>(patience: Duration, mut attempt: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let deadline = martlet_base::clock::monotonic() + patience;
    loop {
        match attempt() {
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && martlet_base::clock::monotonic() < deadline =>
            {
                std::thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}

fn resolve(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    match host {
        "*" => Some(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)]),
        "::*" => Some(vec![SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)]),
        _ => match (host, port).to_socket_addrs() {
            // One socket a name, as Redis: the first address.
            Ok(addresses) => Some(addresses.take(1).collect()),
            Err(error) => {
                tracing::warn!(
                    "Warning: Could not create server TCP listening socket {host}:{port}: {error}"
                );
                None
            }
        },
    }
}

/// Listens on the unix socket, if one is configured.
///
/// # Errors
/// The message to log.
pub fn unix(config: &Config) -> Result<Option<OwnedFd>, String> {
    let Some(path) = &config.unixsocket else { return Ok(None) };
    // A socket that a server left behind is in the way.
    let _ = std::fs::remove_file(path);
    let listen = || {
        let socket = martlet_net::listen_unix(path, config.unixsocketperm, config.tcp_backlog as i32)?;
        set_socket_owner(path, config.unixsocketperm, config.unixsocketgroup.as_deref())?;
        Ok(socket)
    };
    listen().map(Some).map_err(|error: std::io::Error| {
        tracing::warn!("Failed opening Unix socket: bind: {}", text(&error));
        "Failed listening on the Unix socket, aborting.".into()
    })
}

fn text(error: &std::io::Error) -> String {
    let full = error.to_string();
    full.split(" (os error").next().unwrap_or(&full).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How an attempt ends that fails so the first `failures` times, and how many there were.
    fn attempts(patience: Duration, failures: usize, kind: ErrorKind) -> (Result<(), ErrorKind>, usize) {
        let mut made = 0;
        let result = patiently(patience, || {
            made += 1;
            if made > failures { Ok(()) } else { Err(kind.into()) }
        });
        (result.map_err(|error| error.kind()), made)
    }

    #[test]
    fn a_start_waits_for_an_address_that_is_given_up() {
        let hour = Duration::from_secs(3600);
        let (in_use, denied) = (ErrorKind::AddrInUse, ErrorKind::PermissionDenied);
        assert_eq!(attempts(hour, 3, in_use), (Ok(()), 4));
        assert_eq!(attempts(Duration::ZERO, 3, in_use), (Err(in_use), 1));
        assert_eq!(attempts(hour, 3, denied), (Err(denied), 1));
        // The expected error is the kernel's for an address in use.
        let theirs = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let error = martlet_net::listen_tcp(theirs.local_addr().unwrap(), 1).unwrap_err();
        assert_eq!(error.kind(), in_use);
    }
}
