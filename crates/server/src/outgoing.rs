//! Connections of this server to others: a replica's to its primary, slots' to their next node.

use std::io;
use std::time::Duration;

use martlet_client::address::Address;
use martlet_client::stream::Stream;

use crate::config::Config;
use crate::tls;

/// Connects to the server at `address`, which is `host`'s, as `bind-source-addr`, `repl-timeout` and
/// `tls-replication` say. Writing waits no longer than `repl-timeout`, and with TLS reading neither.
///
/// # Errors
/// Those of the connection and of TLS' handshake.
pub fn connect(config: &Config, address: &Address, host: &str) -> io::Result<Stream> {
    let timeout = Duration::from_secs(u64::from(config.repl_timeout_s));
    let source = config.bind_source_addr.as_deref().and_then(|source| source.parse().ok());
    let mut stream = match (address, source) {
        (Address::Tcp(target), Some(source)) => Stream::connect_from(source, *target, timeout)?,
        _ => Stream::connect(address, Some(timeout))?,
    };
    stream.set_write_timeout(Some(timeout))?;
    if config.tls_replication {
        stream.set_read_timeout(Some(timeout))?;
        stream.secure(&tls::outgoing(config, host)?)?;
    }
    Ok(stream)
}
