//! Connections of this server to others: a replica's to its primary, slots' to their next node, MIGRATE's,
//! and the cluster bus'.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use martlet_client::address::Address;
use martlet_client::blocking::Client;
use martlet_client::stream::Stream;
use martlet_engine::Outside;
use martlet_tls::{TlsSession, TlsSettings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::Config;
use crate::tls::{self, Tls};

/// Connects to the server at `address`, which is `host`'s, as `bind-source-addr`, `repl-timeout` and
/// `tls-replication` say. Writing waits no longer than `repl-timeout`, and with TLS reading neither.
///
/// # Errors
/// Those of the connection and of TLS' handshake.
pub fn connect(config: &Config, address: &Address, host: &str) -> io::Result<Stream> {
    let timeout = Duration::from_secs(u64::from(config.repl_timeout_s));
    let source = source(config);
    let mut stream = match (address, source) {
        (Address::Tcp(target), Some(source)) => Stream::connect_from(source, *target, timeout)?,
        _ => Stream::connect(address, Some(timeout))?,
    };
    stream.set_write_timeout(Some(timeout))?;
    if config.tls_replication {
        stream.set_read_timeout(Some(timeout))?;
        stream.secure(&tls::outgoing(&Outside::of_background_thread(), config, host)?)?;
    }
    Ok(stream)
}

/// The address that connections to other servers come from, if it is set.
fn source(config: &Config) -> Option<IpAddr> {
    config.bind_source_addr.as_deref().and_then(|source| source.parse().ok())
}

/// A client of the server at a host and port, where no step takes longer than `timeout`: over TLS, if there
/// are settings for it.
///
/// # Errors
/// Those of the connection and of TLS' handshake.
pub fn client((host, port): (&str, u16), timeout: Duration, tls: Option<&TlsSettings>) -> io::Result<Client> {
    let mut client = Client::connect_within((host, port), timeout)?;
    if let Some(settings) = tls {
        client.secure(&settings.for_host(host)?)?;
    }
    Ok(client)
}

/// A client of another node of the cluster at its host and port, over TLS as `tls-replication` says; see
/// [`client`].
///
/// # Errors
/// Those of [`client`], and of TLS' files.
pub fn node_client(config: &Config, address: (&str, u16), timeout: Duration) -> io::Result<Client> {
    let outside = Outside::of_background_thread();
    let settings = config.tls_replication.then(|| tls::outgoing(&outside, config, address.0)).transpose()?;
    client(address, timeout, settings.as_ref())
}

/// Begins to connect to another node's bus, as `bind-source-addr` says, with the preparation of TLS, if
/// `tls-cluster` is set.
///
/// # Errors
/// Those of the address, and of the system.
pub fn begin_bus(
    config: &Config,
    tls: &Tls,
    host: &str,
    port: u16,
) -> io::Result<(TcpStream, Option<TlsSession>)> {
    let address: IpAddr = host.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let session = tls.bus().map(|bus| bus.connect(host)).transpose()?;
    let socket = martlet_net::begin_connect(SocketAddr::new(address, port), source(config))?;
    Ok((TcpStream::from(socket), session))
}

/// Whether something can be read without waiting, be it the end.
pub fn is_readable(socket: &impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0)
}
