//! Texts that nodes announce of themselves, and the check of them.
//!
//! Invariant: an accepted text can stand in `nodes.conf`: it has no space, quote, comma or line end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for an address on the wire, with the zero that ends it.
pub const ADDRESS_BYTES: usize = 46;
/// Longest host name (Redis: `NET_HOST_STR_LEN` less the zero at its end).
pub const HOST_NAME_MAX_BYTES: usize = 255;

/// Whether this may be a node's address: an IP address or a name, as `cluster-announce-ip` takes both.
pub fn is_address(text: &str) -> bool {
    text.len() < ADDRESS_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-_%".contains(&byte))
}

/// Whether this may be a host name: letters, digits, hyphens and dots.
pub fn is_host_name(text: &str) -> bool {
    text.len() <= HOST_NAME_MAX_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
}

/// Whether this may be the value of an auxiliary field of `nodes.conf`, such as a node's name.
pub fn is_auxiliary(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !b"!#$%&()*+;<>?@[]^{|}~,=\"'\\".contains(&byte))
}

/// An address in Redis' spelling; `None` when the text is not an IP address.
pub fn normal_ip(text: &str) -> Option<String> {
    text.parse::<IpAddr>().ok().map(|ip| ip.to_string())
}

/// Whether this is an IPv4 address.
pub fn is_ipv4(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
}

/// Whether this is an IPv6 address.
pub fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}
