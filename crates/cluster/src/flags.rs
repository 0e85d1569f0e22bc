//! Sixteen bits about a node, on the wire and in `nodes.conf`.

/// A node's flags, as they are sent.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeFlags(pub u16);

impl NodeFlags {
    /// It is a primary.
    pub const PRIMARY: NodeFlags = NodeFlags(1);
    /// It is a replica.
    pub const REPLICA: NodeFlags = NodeFlags(1 << 1);
    /// The node that says so cannot reach it.
    pub const PFAIL: NodeFlags = NodeFlags(1 << 2);
    /// Most primaries could not reach it.
    pub const FAIL: NodeFlags = NodeFlags(1 << 3);
    /// It is the node that says so.
    pub const MYSELF: NodeFlags = NodeFlags(1 << 4);
    /// Nothing has been heard of it yet; its id is a made up one.
    pub const HANDSHAKE: NodeFlags = NodeFlags(1 << 5);
    /// Its address is not known.
    pub const NO_ADDRESS: NodeFlags = NodeFlags(1 << 6);
    /// It is to be sent MEET.
    pub const MEET: NodeFlags = NodeFlags(1 << 7);
    /// A primary that replicas may migrate to.
    pub const MIGRATE_TO: NodeFlags = NodeFlags(1 << 8);
    /// A replica that will not try a failover.
    pub const NO_FAILOVER: NodeFlags = NodeFlags(1 << 9);
    /// The node understands extensions after the gossip in a PING (Redis 7.0).
    pub const EXTENSIONS: NodeFlags = NodeFlags(1 << 10);
    /// The node understands light headers of published messages (Valkey 8.0).
    pub const LIGHT_HEADER: NodeFlags = NodeFlags(1 << 11);

    const NAMES: [(NodeFlags, &'static str); 8] = [
        (NodeFlags::MYSELF, "myself"),
        (NodeFlags::PRIMARY, "master"),
        (NodeFlags::REPLICA, "slave"),
        (NodeFlags::PFAIL, "fail?"),
        (NodeFlags::FAIL, "fail"),
        (NodeFlags::HANDSHAKE, "handshake"),
        (NodeFlags::NO_ADDRESS, "noaddr"),
        (NodeFlags::NO_FAILOVER, "nofailover"),
    ];

    /// Whether it has any of the other's.
    pub fn has(self, any: NodeFlags) -> bool {
        self.0 & any.0 != 0
    }

    /// Both's.
    #[must_use]
    pub const fn with(self, other: NodeFlags) -> NodeFlags {
        NodeFlags(self.0 | other.0)
    }

    /// Sets or clears flags.
    pub fn set(&mut self, flags: NodeFlags, is_set: bool) {
        self.0 = if is_set { self.0 | flags.0 } else { self.0 & !flags.0 };
    }

    /// The names that CLUSTER NODES shows, joined by commas; `noflags` without any.
    pub fn names(self) -> String {
        let names: Vec<&str> =
            Self::NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect();
        if names.is_empty() { "noflags".into() } else { names.join(",") }
    }

    /// The flags of such names, in any case, with Valkey's `primary` and `replica`; `None` of an unknown one.
    pub fn parse(names: &str) -> Option<NodeFlags> {
        names.split(',').try_fold(NodeFlags::default(), |flags, name| {
            let name = match name.to_ascii_lowercase().as_str() {
                "primary" => "master".to_owned(),
                "replica" => "slave".to_owned(),
                "noflags" => return Some(flags),
                other => other.to_owned(),
            };
            Self::NAMES.iter().find(|(_, known)| *known == name).map(|(flag, _)| flags.with(*flag))
        })
    }
}

impl std::fmt::Debug for NodeFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:#x})", self.names(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_again() {
        assert_eq!(NodeFlags(0).names(), "noflags");
        assert_eq!(NodeFlags::parse("noflags"), Some(NodeFlags(0)));
        assert_eq!(NodeFlags::MYSELF.with(NodeFlags::PRIMARY).names(), "myself,master");
        assert_eq!(NodeFlags::parse("MYSELF,primary"), NodeFlags::parse("myself,master"));
        assert_eq!(NodeFlags::parse("master,"), None);
        for bits in 0..1 << 10 {
            let named = NodeFlags(bits & !(NodeFlags::MEET.0 | NodeFlags::MIGRATE_TO.0));
            assert_eq!(NodeFlags::parse(&named.names()), Some(named));
        }
    }
}
