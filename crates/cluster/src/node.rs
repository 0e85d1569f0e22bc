//! The addresses of a node and its announcements of itself.

/// Where a node is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// IP address or name; empty when it is not known.
    pub host: String,
    /// Port for clients; 0 for none.
    pub tcp_port: u16,
    /// Port for clients with TLS; 0 for none.
    pub tls_port: u16,
    /// Port of its bus.
    pub bus_port: u16,
}

/// A node's announcements besides its address; empty texts and 0 mean "nothing".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Host name (`cluster-announce-hostname`).
    pub host_name: String,
    /// Name for people (`cluster-announce-human-nodename`).
    pub node_name: String,
    /// IPv4 address for clients.
    pub client_ipv4: String,
    /// IPv6 address for clients.
    pub client_ipv6: String,
    /// Port for clients.
    pub client_port: u16,
    /// Port for clients with TLS.
    pub client_tls_port: u16,
    /// Availability zone.
    pub availability_zone: String,
}

impl Announced {
    /// The host that clients see: the address for their family if there is one.
    pub fn client_host<'a>(&'a self, address: &'a Address, is_ipv6: bool) -> &'a str {
        let announced = if is_ipv6 { &self.client_ipv6 } else { &self.client_ipv4 };
        if announced.is_empty() { &address.host } else { announced }
    }

    /// The port that clients see.
    pub fn client_port(&self, address: &Address, has_tls: bool) -> u16 {
        let (announced, own) = match has_tls {
            true => (self.client_tls_port, address.tls_port),
            false => (self.client_port, address.tcp_port),
        };
        if announced == 0 { own } else { announced }
    }
}
