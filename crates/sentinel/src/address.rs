//! Addresses of instances: the configured or announced one, and the IP address that it resolves to.
//!
//! Invariant: two addresses are the same if ports and either IP addresses or host names are.

use std::net::IpAddr;

/// Where an instance is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The host as it was given: a name, or an IP address.
    pub host: String,
    /// The IP address; empty when the name could not be resolved yet.
    pub ip: String,
    /// The port; 0 says that the address is not valid.
    pub port: u16,
}

impl Address {
    /// Whether both are of one instance.
    pub fn is_same(&self, other: &Address) -> bool {
        self.port == other.port && (self.ip == other.ip || self.host.eq_ignore_ascii_case(&other.host))
    }

    /// The announced host.
    pub fn announced(&self, as_host_name: bool) -> &str {
        if as_host_name { &self.host } else { &self.ip }
    }

    /// `host:port`, with brackets around an IPv6 address: the name of a replica.
    pub fn announced_with_port(&self, as_host_name: bool) -> String {
        let host = self.announced(as_host_name);
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }
}

/// The text of an IP address in its usual form; `None` for a name.
pub fn literal_ip(host: &str) -> Option<String> {
    host.parse::<IpAddr>().ok().map(|ip| ip.to_string())
}

/// Why an instance cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The host name does not resolve.
    #[error("Can't resolve instance hostname.")]
    Unresolved,
    /// The port is no port.
    #[error("Invalid port number.")]
    InvalidPort,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, ip: &str, port: u16) -> Address {
        Address { host: host.into(), ip: ip.into(), port }
    }

    #[test]
    fn addresses_are_the_same_by_ip_or_by_name() {
        let first = address("a.example", "10.0.0.1", 6379);
        assert!(first.is_same(&address("10.0.0.1", "10.0.0.1", 6379)));
        assert!(first.is_same(&address("A.example", "", 6379)));
        assert!(!first.is_same(&address("a.example", "10.0.0.1", 6380)));
        assert!(!first.is_same(&address("b.example", "10.0.0.2", 6379)));
    }

    #[test]
    fn an_ipv6_address_has_brackets_before_its_port() {
        assert_eq!(address("::1", "::1", 7).announced_with_port(false), "[::1]:7");
        assert_eq!(address("h", "10.0.0.1", 7).announced_with_port(true), "h:7");
        assert_eq!(literal_ip("0:0::1").as_deref(), Some("::1"));
        assert_eq!(literal_ip("localhost"), None);
    }
}
