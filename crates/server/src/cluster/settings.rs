//! Settings of the bus from the configuration.

use martlet_cluster::machine::Settings;
use martlet_cluster::node::Announced;

use crate::config::Config;
use crate::runtime::Shared;

/// Between the port for clients and that of the bus, unless `cluster-port` says another.
const BUS_PORT_DISTANCE: u32 = 10_000;

/// The port on which the bus listens; `None` if there is no such port.
pub fn bus_port(config: &Config) -> Option<u16> {
    if config.cluster_port != 0 {
        return Some(config.cluster_port);
    }
    let port = match config.tls_cluster && config.tls_port != 0 {
        true => config.tls_port,
        false => crate::listeners::first_port(config),
    };
    u16::try_from(u32::from(port) + BUS_PORT_DISTANCE).ok()
}

/// The machine's settings.
pub fn of(config: &Config) -> Settings {
    let or = |announced: u16, own: u16| if announced == 0 { own } else { announced };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX / 8).min(i64::MAX / 8);
    Settings {
        node_timeout_ms: ms(config.cluster_node_timeout_ms),
        ping_interval_ms: ms(config.cluster_ping_interval_ms),
        requires_full_coverage: config.cluster_require_full_coverage,
        replica_validity_factor: i64::from(config.cluster_replica_validity_factor),
        replication_ping_ms: i64::from(config.repl_ping_replica_period_s) * 1_000,
        migration_barrier: config.cluster_migration_barrier as usize,
        allows_replica_migration: config.cluster_allow_replica_migration,
        has_no_failover: config.cluster_replica_no_failover,
        manual_failover_timeout_ms: i64::from(config.cluster_manual_failover_timeout_ms),
        blacklist_ms: ms(config.cluster_blacklist_ttl_s.saturating_mul(1_000)),
        announced_host: text(&config.cluster_announce_ip),
        tcp_port: or(config.cluster_announce_port, config.port),
        tls_port: or(config.cluster_announce_tls_port, config.tls_port),
        bus_port: or(config.cluster_announce_bus_port, bus_port(config).unwrap_or(0)),
        has_tls_bus: config.tls_cluster,
        has_tls_replication: config.tls_replication,
        announced: Announced {
            host_name: text(&config.cluster_announce_hostname),
            node_name: text(&config.cluster_announce_human_nodename),
            client_ipv4: text(&config.cluster_announce_client_ipv4),
            client_ipv6: text(&config.cluster_announce_client_ipv6),
            client_port: config.cluster_announce_client_port,
            client_tls_port: config.cluster_announce_client_tls_port,
            availability_zone: config.availability_zone.clone(),
        },
    }
}

/// The parameters that [`of`] reads and CONFIG SET changes.
const NAMES: &[&str] = &[
    "port",
    "tls-port",
    "tls-cluster",
    "tls-replication",
    "repl-ping-replica-period",
    "cluster-node-timeout",
    "cluster-ping-interval",
    "cluster-require-full-coverage",
    "cluster-replica-validity-factor",
    "cluster-migration-barrier",
    "cluster-allow-replica-migration",
    "cluster-replica-no-failover",
    "cluster-manual-failover-timeout",
    "cluster-blacklist-ttl",
    "cluster-slot-migration-log-max-len",
    "repl-timeout",
    "cluster-slot-migration-write-pause-timeout",
    "cluster-slot-migration-sync-buffer-drain-timeout",
    "cluster-slot-migration-max-archived-tasks",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-announce-tls-port",
    "cluster-announce-client-port",
    "cluster-announce-client-tls-port",
    "cluster-announce-bus-port",
    "cluster-announce-hostname",
    "cluster-announce-human-nodename",
    "cluster-announce-client-ipv4",
    "cluster-announce-client-ipv6",
    "availability-zone",
];

/// Has the machine take up what CONFIG SET changes.
pub fn install(shared: &'static Shared) {
    let change = move |_: &Config, new: &Config| {
        if let Some(node) = shared.cluster() {
            node.with(|cluster, now| cluster.set_settings(now, of(new)));
            node.migrate(|machine, _| machine.set_limits(super::slot_migration::state::limits(new)));
        }
        Ok(())
    };
    shared.config.on_change(NAMES, Box::new(change));
}
