//! Listening sockets, and the options of connected ones.
//!
//! Linux hands `TCP_NODELAY` and the keep-alive options of a listening socket down to the sockets it accepts,
//! so both can be set once on the listener instead of at the price of a system call or four per connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};

/// The longest time the kernel takes for `TCP_KEEPIDLE` and `TCP_KEEPINTVL`.
const KEEPALIVE_MAX_SECS: u32 = 32_767;
/// Unanswered probes before the peer is given up, as Redis has it.
const KEEPALIVE_PROBES: u32 = 3;

/// A non-blocking socket that listens on `address`; IPv6 ones take IPv6 alone, and accepted sockets have
/// `TCP_NODELAY`.
///
/// # Errors
/// The kernel's, of `socket`, `bind` or `listen`.
pub fn listen_tcp(address: SocketAddr, backlog: i32) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = stream_socket(family)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    set_nodelay(&socket)?;
    bind(&socket, &address)?;
    listen(&socket, backlog)?;
    Ok(socket)
}

/// A non-blocking socket that connects to `address`. Once it can be written to it has, or its error
/// (`SO_ERROR`) says why not.
///
/// # Errors
/// The kernel's, of `socket`; of `connect`, those that are known at once.
pub fn begin_connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = stream_socket(family)?;
    match connect(&socket, &address) {
        Ok(()) => Ok(socket),
        Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// A non-blocking socket that listens at `path`, whose file gets the permission bits `mode` (0: as the umask
/// has it).
///
/// A file that is there already is an error; removing a stale one is the caller's decision.
///
/// # Errors
/// The kernel's; `InvalidInput` or `ENAMETOOLONG` for a path over 107 bytes.
pub fn listen_unix(path: &Path, mode: u32, backlog: i32) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = stream_socket(AddressFamily::UNIX)?;
    bind(&socket, &address)?;
    if mode != 0 {
        chmod(path, Mode::from_raw_mode(mode))?;
    }
    listen(&socket, backlog)?;
    Ok(socket)
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

/// Sends small replies at once instead of waiting for an acknowledgement (`TCP_NODELAY`).
///
/// # Errors
/// The kernel's; on anything but a TCP socket, that is.
pub fn set_nodelay(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, true)?)
}

/// Has the kernel gather small pieces that are sent (no `TCP_NODELAY`), which takes fewer packets. It fails
/// on anything but a TCP socket, which does no harm.
pub(crate) fn gather(socket: impl AsFd) {
    let _ = sockopt::set_tcp_nodelay(socket, false);
}

/// Probes an idle peer after `seconds`, then three times at a third of that; 0 turns probing off.
///
/// # Errors
/// The kernel's; on anything but a TCP socket, that is.
pub fn set_keepalive(socket: impl AsFd, seconds: u32) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, seconds != 0)?;
    if seconds == 0 {
        return Ok(());
    }
    let seconds = seconds.min(KEEPALIVE_MAX_SECS);
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(seconds.into()))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs((seconds / 3).max(1).into()))?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    Ok(())
}
