//! Where a server is: a TCP address or the path of a unix socket; and the sockets that lead there.
//! Names are resolved once, before a run, so that no lookup happens while time is measured.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// A resolved server address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP endpoint.
    Tcp(SocketAddr),
    /// The path of a unix stream socket.
    Unix(PathBuf),
}

impl Address {
    /// Resolves `host` (a name or a literal) to its first address.
    pub fn resolve(host: &str, port: u16) -> io::Result<Address> {
        (host, port)
            .to_socket_addrs()?
            .next()
            .map(Address::Tcp)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")))
    }

    /// Whether the server can only be on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }

    /// The `n`-th loopback address to connect from, when the server is on the loopback network.
    /// One source address has some 28,000 ports towards one server; more connections need more addresses.
    pub fn loopback_source(&self, n: usize) -> Option<IpAddr> {
        match self {
            Address::Tcp(SocketAddr::V4(address)) if address.ip().is_loopback() && n > 0 => {
                let low = u16::try_from(n + 1).unwrap_or(u16::MAX);
                let [high, low] = low.to_be_bytes();
                Some(IpAddr::from([127, 0, high, low]))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A socket address as the kernel takes it.
pub(crate) struct RawAddress {
    storage: Box<libc::sockaddr_storage>,
    len: libc::socklen_t,
}

impl RawAddress {
    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const *self.storage).cast()
    }

    pub(crate) fn len(&self) -> libc::socklen_t {
        self.len
    }
}

fn raw_ip(address: SocketAddr) -> RawAddress {
    // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
    let mut storage: Box<libc::sockaddr_storage> = Box::new(unsafe { std::mem::zeroed() });
    let target = &raw mut *storage;
    let len = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is large enough and aligned for every socket address.
            unsafe { target.cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: the same holds for the larger address.
            unsafe { target.cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    RawAddress { storage, len: len as libc::socklen_t }
}

/// The kernel's form of `address`; an error when a socket path is longer than the kernel takes.
pub(crate) fn raw_address(address: &Address) -> io::Result<RawAddress> {
    use std::os::unix::ffi::OsStrExt;
    let path = match address {
        Address::Tcp(address) => return Ok(raw_ip(*address)),
        Address::Unix(path) => path.as_os_str().as_bytes(),
    };
    // SAFETY: plain data, zeroes are valid.
    let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() >= raw.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket's path is too long"));
    }
    for (to, from) in raw.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    // SAFETY: plain data, zeroes are valid.
    let mut storage: Box<libc::sockaddr_storage> = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: sockaddr_storage is large enough and aligned for every socket address.
    unsafe { (&raw mut *storage).cast::<libc::sockaddr_un>().write(raw) };
    Ok(RawAddress { storage, len: size_of::<libc::sockaddr_un>() as libc::socklen_t })
}

/// Makes a socket fit for `address`, bound to `source` where one is given; `TCP_NODELAY` is set.
pub(crate) fn socket_for(
    address: &Address,
    source: Option<IpAddr>,
    nonblocking: bool,
) -> io::Result<OwnedFd> {
    let family = match address {
        Address::Tcp(SocketAddr::V4(_)) => libc::AF_INET,
        Address::Tcp(SocketAddr::V6(_)) => libc::AF_INET6,
        Address::Unix(_) => libc::AF_UNIX,
    };
    let flags = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    // SAFETY: a system call without pointers.
    let fd = check(unsafe { libc::socket(family, flags, 0) })?;
    // SAFETY: the kernel has just given us this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if matches!(address, Address::Tcp(_)) {
        set_option(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        if let Some(ip) = source {
            set_option(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
            let raw = raw_ip(SocketAddr::new(ip, 0));
            // SAFETY: the address is valid for its length during the call.
            check(unsafe { libc::bind(fd.as_raw_fd(), raw.as_ptr(), raw.len()) })?;
        }
    }
    Ok(fd)
}

/// Sets a socket's option whose value is an integer.
pub(crate) fn set_option(fd: &impl AsFd, level: i32, name: i32, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the option's value is an int that lives during the call.
    check(unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// A system call's result as `io::Result`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_sources_differ_and_other_addresses_have_none() {
        let local = Address::resolve("127.0.0.1", 1).expect("a literal");
        assert_eq!(local.loopback_source(0), None);
        assert_eq!(local.loopback_source(1), Some(IpAddr::from([127, 0, 0, 2])));
        assert_eq!(local.loopback_source(300), Some(IpAddr::from([127, 0, 1, 45])));
        let remote = Address::resolve("192.0.2.1", 1).expect("a literal");
        assert_eq!(remote.loopback_source(1), None);
        assert!(local.is_local() && !remote.is_local());
    }

    #[test]
    fn a_socket_path_that_is_too_long_is_refused() {
        let address = Address::Unix("x".repeat(200).into());
        assert!(raw_address(&address).is_err());
    }
}
