//! Socket addresses as Redis writes them.

use std::os::fd::AsFd;

use rustix::net::{SocketAddrAny, getpeername, getsockname};
use std::net::SocketAddr;

use crate::config::Config;

fn text(address: Option<SocketAddr>) -> String {
    match address {
        Some(SocketAddr::V6(v6)) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => format!("{v4}:{}", v6.port()),
            None => format!("[{}]:{}", v6.ip(), v6.port()),
        },
        Some(SocketAddr::V4(v4)) => format!("{}:{}", v4.ip(), v4.port()),
        None => "?:0".into(),
    }
}

fn inet(address: rustix::io::Result<SocketAddrAny>) -> Option<SocketAddr> {
    SocketAddr::try_from(address.ok()?).ok()
}

/// The peer's and the own address of a connection.
pub fn names(socket: impl AsFd, is_unix: bool, config: &Config) -> (String, String) {
    if is_unix {
        let path = config.unixsocket.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
        let name = format!("{path}:0");
        return (name.clone(), name);
    }
    let peer = getpeername(&socket).ok().flatten().and_then(|a| SocketAddr::try_from(a).ok());
    (text(peer), text(inet(getsockname(&socket))))
}

/// The host of an address with a port.
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// The peer's address, without its port.
pub fn peer_ip(socket: impl AsFd) -> Option<std::net::IpAddr> {
    let peer = getpeername(&socket).ok().flatten()?;
    SocketAddr::try_from(peer).ok().map(|address| address.ip())
}

/// Whether the peer is this host.
pub fn is_loopback(socket: impl AsFd) -> bool {
    let peer = getpeername(&socket).ok().flatten().and_then(|a| SocketAddr::try_from(a).ok());
    match peer {
        Some(SocketAddr::V4(v4)) => v4.ip().is_loopback(),
        Some(SocketAddr::V6(v6)) => {
            v6.ip().is_loopback() || v6.ip().to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
        None => true,
    }
}
