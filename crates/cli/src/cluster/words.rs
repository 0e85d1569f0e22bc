//! The words in which redis-cli and valkey-cli differ.

/// What things are called in messages.
#[derive(Debug)]
pub struct Words {
    pub product: &'static str,
    pub program: &'static str,
    pub primary: &'static str,
    /// At the beginning of a line.
    pub primary_title: &'static str,
    pub primaries: &'static str,
    pub replica: &'static str,
    pub replicas: &'static str,
    pub nodes: &'static str,
    pub backup_prefix: &'static str,
    /// A cluster of one or two primaries is created if that is confirmed.
    pub allows_few_primaries: bool,
}

pub const REDIS: Words = Words {
    product: "Redis",
    program: "redis-cli",
    primary: "master",
    primary_title: "Master",
    primaries: "masters",
    replica: "slave",
    replicas: "slaves",
    nodes: "nodes",
    backup_prefix: "redis-node",
    allows_few_primaries: false,
};

pub const VALKEY: Words = Words {
    product: "Valkey",
    program: "valkey-cli",
    primary: "primary",
    primary_title: "Primary",
    primaries: "primaries",
    replica: "replica",
    replicas: "replicas",
    nodes: "node(s)",
    backup_prefix: "valkey-node",
    allows_few_primaries: true,
};
