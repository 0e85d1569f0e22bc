//! `backup`: a snapshot of each primary, and a file that says which node had which slots.

use super::node::Node;
use super::{Failed, Manager, Outcome, log};
use crate::modes;
use std::fmt::Write;
use std::path::Path;

/// `backup`
pub fn run(manager: &Manager) -> Outcome {
    let (host, port) = manager.given_address(&manager.arguments[..1])?;
    let (directory, say) = (manager.text_argument(1)?, manager.log);
    let mut cluster = manager.load(&host, port)?;
    let is_well = manager.check(&mut cluster, true).is_ok();
    let problems = if is_well { 0 } else { cluster.problems };
    let descriptions: Vec<String> = cluster.nodes.iter().map(|node| json(node, problems)).collect();
    for node in cluster.nodes.iter_mut().filter(|node| node.primary.is_none()) {
        say.info(format_args!(">>> Node {node} -> Saving RDB...\n"));
        log::flush();
        let name = format!("{}-{}-{}-{}.rdb", manager.words.backup_prefix, node.host, node.port, node.id);
        let Some(mut connection) = node.take_connection() else { return Err(Failed) };
        if let Err(message) = modes::save_snapshot(&mut connection, &Path::new(directory).join(name)) {
            return manager.refuse(message);
        }
    }
    let slash = if directory.ends_with('/') { "" } else { "/" };
    let path = format!("{directory}{slash}nodes.json");
    say.info(format_args!("Saving cluster configuration to: {path}\n"));
    if std::fs::write(&path, format!("[\n{}\n]", descriptions.join(",\n"))).is_err() {
        say.error(format_args!("Could not save nodes to: {path}\n"));
        say.ok(format_args!("[ERR] Failed to back cluster!\n"));
        return Err(Failed);
    }
    if !is_well {
        say.warning(format_args!(
            "*** Cluster seems to have some problems, please be aware of it if you're going to restore this \
            backup.\n"
        ));
    }
    say.ok(format_args!("[OK] Backup created into: {directory}\n"));
    Ok(())
}

/// The record that is kept of a node.
fn json(node: &Node, problems: usize) -> String {
    let slots: Vec<String> =
        node.slots.ranges().into_iter().map(|(first, last)| bounds(first, last)).collect();
    let primary = node.primary.as_ref().map_or("null".into(), |id| format!("\"{id}\""));
    let mut out = format!(
        "  {{\n    \"name\": \"{}\",\n    \"host\": \"{}\",\n    \"port\": {},\n    \"replicate\": {primary},\n    \
        \"slots\": [{}],\n    \"slots_count\": {},\n    \"flags\": \"{}\",\n    \"current_epoch\": {}",
        node.id,
        node.host,
        node.port,
        slots.join(","),
        node.slots.len(),
        node.flags_text(),
        node.epoch
    );
    if problems > 0 {
        let _ = write!(out, ",\n    \"cluster_errors\": {problems}");
    }
    for (name, open) in [("migrating", &node.migrating), ("importing", &node.importing)] {
        if !open.is_empty() {
            let pairs: Vec<String> = open.iter().map(|(slot, id)| format!("\"{slot}\": \"{id}\"")).collect();
            let _ = write!(out, ",\n    \"{name}\": {{{}}}", pairs.join(","));
        }
    }
    out + "\n  }"
}

fn bounds(first: u16, last: u16) -> String {
    if first == last { format!("[{first}]") } else { format!("[{first},{last}]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_kept_as_redis_cli_does() {
        let mut node = Node::new("10.0.0.1", 7000);
        node.id = "aa".into();
        node.flags = vec!["myself".into(), "master".into()];
        node.slots = [0, 1, 2, 9].into_iter().collect();
        node.migrating = vec![(9, "bb".into())];
        let expected = r#"  {
    "name": "aa",
    "host": "10.0.0.1",
    "port": 7000,
    "replicate": null,
    "slots": [[0,2],[9]],
    "slots_count": 4,
    "flags": "master",
    "current_epoch": 0,
    "cluster_errors": 2,
    "migrating": {"9": "bb"}
  }"#;
        assert_eq!(json(&node, 2), expected);
    }
}
