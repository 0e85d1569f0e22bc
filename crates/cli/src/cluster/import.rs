//! `import`: the keys of a server that is in no cluster.

use super::node::{Node, Refusal, text_of};
use super::topology::Cluster;
use super::{Failed, Manager, Outcome, host_and_port};
use crate::settings::Settings;
use martlet_base::slot::slot_of;
use martlet_client::resp::Reply;
use std::io::{self, Write};

/// Keys of one step of the walk.
const SCAN_COUNT: usize = 1000;

/// `import`
pub fn run(manager: &Manager) -> Outcome {
    let (host, port) = manager.given_address(manager.arguments)?;
    let Some(from) = &manager.options.from else {
        return manager.refuse("[ERR] Option '--cluster-from' is required for subcommand 'import'.");
    };
    let Some((source_host, source_port)) = host_and_port(from) else {
        return manager.refuse(
            "[ERR] Invalid --cluster-from host. You need to pass a valid address (ie. 120.0.0.1:7000).",
        );
    };
    manager
        .log
        .info(format_args!(">>> Importing data from {source_host}:{source_port} to cluster {host}:{port}\n"));
    let mut cluster = manager.load(&host, port)?;
    manager.check(&mut cluster, true)?;
    let mut source = manager.open_source(Node::new(&source_host, source_port))?;
    let imported = manager.import(&cluster, &mut source);
    imported.map_err(|refusal| {
        match refusal {
            Refusal::Error(text) => {
                manager.log.error(format_args!("Source {source} replied with error:\n{text}\n"))
            }
            Refusal::Lost(text) => eprintln!("Error: {source}: {text}"),
        }
        Failed
    })
}

impl Manager<'_> {
    /// Connects to the source with the source's credentials.
    fn open_source(&self, mut source: Node) -> Result<Node, Failed> {
        let settings = Settings {
            user: self.options.from_user.clone(),
            password: self.options.from_password.clone(),
            ..self.settings.clone()
        };
        source.connect(&settings, self.log)?;
        match source.info_number("cluster_enabled") {
            Ok(0) => Ok(source),
            Ok(_) => {
                self.log.error(format_args!("[ERR] The source node should not be a cluster node.\n"));
                Err(Failed)
            }
            Err(refusal) => {
                self.log.error(format_args!("Source {source} replied with error:\n{}\n", refusal.text()));
                Err(Failed)
            }
        }
    }

    fn import(&self, cluster: &Cluster, source: &mut Node) -> Result<(), Refusal> {
        let count = source.ask("DBSIZE")?.integer().unwrap_or(0);
        self.log.warning(format_args!("*** Importing {count} keys from DB 0\n"));
        let mut cursor = "0".to_string();
        loop {
            let reply = source.ask(format!("SCAN {cursor} COUNT {SCAN_COUNT}"))?;
            let (next, keys) = match reply.items() {
                Some([next, keys]) => (text_of(next), keys.items().unwrap_or_default()),
                _ => return Err(Refusal::Lost("invalid SCAN reply".into())),
            };
            for key in keys.iter().filter_map(Reply::text) {
                self.import_key(cluster, source, key)?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    fn import_key(&self, cluster: &Cluster, source: &mut Node, key: &[u8]) -> Result<(), Refusal> {
        let slot = slot_of(key);
        let owner = cluster.nodes.iter().find(|node| !node.is_replica && node.slots.contains(slot));
        let target = owner.ok_or_else(|| Refusal::Lost(format!("slot {slot} has no owner")))?;
        let line = [b"Migrating ", key, format!(" to {target}: ").as_bytes()].concat();
        // A standard output that is gone ends the program by its signal.
        let _ = io::stdout().write_all(&line);
        let (port, timeout) = (target.port.to_string(), self.options.timeout_ms.to_string());
        let mut words: Vec<&[u8]> =
            vec![b"MIGRATE", target.host.as_bytes(), port.as_bytes(), key, b"0", timeout.as_bytes()];
        if self.options.copies {
            words.push(b"COPY");
        }
        if self.options.replaces {
            words.push(b"REPLACE");
        }
        words.extend(self.migrate_credentials());
        source.command(&words)?;
        self.log.ok(format_args!("OK\n"));
        Ok(())
    }
}
