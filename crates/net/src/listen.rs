//! Listening sockets, and the options of connected ones.
//!
//! Linux hands `TCP_NODELAY` and the keep-alive options of a listening socket down to the sockets it accepts,
//! so both can be set once on the listener instead of at the price of a system call or four per connection.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
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
    listen_tcp_beside(address, backlog, &[])
}

/// As [`listen_tcp`], also where one of `others`, listening sockets of this process, has the address or a
/// part of it. For this the kernel asks for `SO_REUSEPORT` on both sides, which all have for this call alone:
/// no other process can join them later.
///
/// # Errors
/// Those of [`listen_tcp`].
pub fn listen_tcp_beside(address: SocketAddr, backlog: i32, others: &[OwnedFd]) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = stream_socket(family)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    set_nodelay(&socket)?;
    let shares = |is_shared: bool| {
        let all = others.iter().chain(std::iter::once(&socket)).filter(|_| !others.is_empty());
        all.into_iter().try_for_each(|socket| sockopt::set_socket_reuseport(socket, is_shared))
    };
    let listened =
        shares(true).and_then(|()| bind(&socket, &address)).and_then(|()| listen(&socket, backlog));
    shares(false)?;
    listened?;
    Ok(socket)
}

/// A non-blocking socket that connects to `address`. Once it can be written to it has, or its error
/// (`SO_ERROR`) says why not. It comes from the address `source` if it can, as in Redis: one that is not this
/// machine's, or of the other family, is not used.
///
/// # Errors
/// The kernel's, of `socket`; of `connect`, those that are known at once.
pub fn begin_connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = stream_socket(family)?;
    if let Some(source) = source {
        let _ = bind(&socket, &SocketAddr::new(source, 0));
    }
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

/// For how long a TCP socket has sent no data; `None` if it is none.
pub(crate) fn output_idle(socket: impl AsFd) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes, which is the room there.
    let result = unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut length)
    };
    // SAFETY: it consists of integers, for which zero is a value.
    let info = unsafe { info.assume_init() };
    (result == 0).then(|| Duration::from_millis(info.tcpi_last_data_sent.into()))
}

/// Memory of what the socket's peer has not read yet (a Unix socket), or has not acknowledged (TCP).
pub(crate) fn unread_bytes(socket: impl AsFd) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the kernel writes one integer (unix(7): SIOCOUTQ, which is
    // TIOCOUTQ).
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).ok() } else { None }
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn port_of(socket: &OwnedFd) -> u16 {
        TcpListener::from(socket.try_clone().unwrap()).local_addr().unwrap().port()
    }

    #[test]
    fn an_address_is_listened_on_beside_the_sockets_that_it_replaces_only() {
        let old = listen_tcp("127.0.0.1:0".parse().unwrap(), 10).unwrap();
        let port = port_of(&old);
        let [same, all] = [[127, 0, 0, 1], [0, 0, 0, 0]].map(|host| SocketAddr::from((host, port)));
        for address in [same, all] {
            assert_eq!(listen_tcp(address, 10).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
        let replaced = [old];
        let new = listen_tcp_beside(all, 10, &replaced).unwrap();
        // No third one joins them afterwards.
        assert_eq!(listen_tcp(same, 10).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(replaced);
        TcpStream::connect(("127.0.0.2", port)).unwrap();
        let replaced = [new];
        let narrow = listen_tcp_beside(same, 10, &replaced).unwrap();
        drop(replaced);
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(TcpStream::connect(("127.0.0.2", port)).is_err());
        drop(narrow);
    }

    #[test]
    fn tcp_sockets_say_when_they_last_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"x").unwrap();
        assert!(output_idle(&client).unwrap() < Duration::from_secs(60));
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(output_idle(&unix), None);
        let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(unread_bytes(&ours), Some(0));
        ours.write_all(&[0; 1000]).unwrap();
        assert!(unread_bytes(&ours).unwrap() >= 1000);
        theirs.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(unread_bytes(&ours), Some(0));
    }
}
