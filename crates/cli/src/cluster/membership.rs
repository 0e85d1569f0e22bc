//! `add-node` and `del-node`.

use super::create::meet_address;
use super::node::{Node, Refusal, text_of};
use super::topology::Cluster;
use super::{Failed, Manager, Outcome};
use martlet_client::resp::Reply;

/// `add-node`
pub fn add(manager: &Manager) -> Outcome {
    let (reference_host, reference_port) = manager.given_address(&manager.arguments[1..])?;
    let (host, port) = manager.given_address(&manager.arguments[..1])?;
    let log = manager.log;
    log.info(format_args!(">>> Adding node {host}:{port} to cluster {reference_host}:{reference_port}\n"));
    let mut cluster = manager.load(&reference_host, reference_port)?;
    manager.check(&mut cluster, true)?;
    let primary = manager.primary_of_new_replica(&cluster)?;
    let mut node = manager.open_new(&host, port)?;
    if primary.is_none() {
        manager.copy_functions(&mut cluster.nodes[0], &mut node)?;
    }
    log.info(format_args!(">>> Send CLUSTER MEET to node {node} to make it join the cluster.\n"));
    let meet = format!("CLUSTER MEET {}", meet_address(manager, &cluster.nodes[0])?);
    node.demand_line(log, meet)?;
    cluster.nodes.push(node);
    if let Some(primary) = primary {
        manager.wait_until_joined(&mut cluster, false);
        log.info(format_args!(">>> Configure node as replica of {}.\n", cluster.nodes[primary]));
        let replicate = format!("CLUSTER REPLICATE {}", cluster.nodes[primary].id);
        let Some(node) = cluster.nodes.last_mut() else { return Err(Failed) };
        node.demand_line(log, replicate)?;
    }
    log.ok(format_args!("[OK] New node added correctly.\n"));
    Ok(())
}

/// `del-node`
pub fn remove(manager: &Manager) -> Outcome {
    let (host, port) = manager.given_address(&manager.arguments[..1])?;
    let (id, log) = (manager.text_argument(1)?, manager.log);
    log.info(format_args!(">>> Removing node {id} from cluster {host}:{port}\n"));
    let mut cluster = manager.load(&host, port)?;
    let Some(removed) = cluster.by_id(id) else {
        log.error(format_args!("[ERR] No such node ID {id}\n"));
        return Err(Failed);
    };
    if !cluster.nodes[removed].slots.is_empty() {
        let node = &cluster.nodes[removed];
        log.error(format_args!("[ERR] Node {node} is not empty! Reshard data away and try again.\n"));
        return Err(Failed);
    }
    let id = cluster.nodes[removed].id.clone();
    log.info(format_args!(">>> Sending CLUSTER FORGET messages to the cluster...\n"));
    for index in (0..cluster.nodes.len()).filter(|index| *index != removed) {
        if cluster.nodes[index].primary.as_ref() == Some(&id) {
            let Some(primary) = cluster.with_fewest_replicas(Some(removed)) else { return Err(Failed) };
            log.info(format_args!(">>> {} as replica of {}\n", cluster.nodes[index], cluster.nodes[primary]));
            let replicate = format!("CLUSTER REPLICATE {}", cluster.nodes[primary].id);
            cluster.nodes[index].demand_line(log, replicate)?;
            cluster.nodes[primary].replicas += 1;
        }
        cluster.nodes[index].demand_line(log, format!("CLUSTER FORGET {id}"))?;
    }
    log.info(format_args!(">>> Sending CLUSTER RESET SOFT to the deleted node.\n"));
    cluster.nodes[removed].demand_line(log, "CLUSTER RESET SOFT").map(drop)
}

impl Manager<'_> {
    /// Whose replica the new node becomes; none if it becomes a primary.
    fn primary_of_new_replica(&self, cluster: &Cluster) -> Result<Option<usize>, Failed> {
        if !self.options.adds_replica {
            return Ok(None);
        }
        let found = match &self.options.primary_id {
            Some(id) => cluster.by_id(id),
            None => cluster.with_fewest_replicas(None),
        };
        match (found, &self.options.primary_id) {
            (Some(index), None) => {
                let word = self.words.primary;
                println!("Automatically selected {word} {}", cluster.nodes[index]);
            }
            (Some(_), Some(_)) => {}
            (None, id) => {
                let id = id.as_deref().unwrap_or_default();
                self.log.error(format_args!("[ERR] No such {} ID {id}\n", self.words.primary));
                return Err(Failed);
            }
        }
        Ok(found)
    }

    /// Connects to a node that is in no cluster yet, and has no keys.
    fn open_new(&self, host: &str, port: u16) -> Result<Node, Failed> {
        let mut node = Node::new(host, port);
        if node.connect(self.settings, self.log).is_err() {
            self.log.error(format_args!("[ERR] Sorry, can't connect to node {node}\n"));
            return Err(Failed);
        }
        self.require_cluster(&mut node)?;
        self.require_empty(&mut node)?;
        Ok(node)
    }

    /// Gives the new node the cluster's functions; a replica gets them from its primary.
    fn copy_functions(&self, from: &mut Node, to: &mut Node) -> Outcome {
        let log = self.log;
        log.info(format_args!(">>> Getting functions from cluster\n"));
        let dump = match from.ask("FUNCTION DUMP") {
            Ok(Reply::Bulk(dump)) => dump,
            Ok(reply) => text_of(&reply).into_bytes(),
            Err(refusal) => {
                log.info(format_args!(
                    ">>> Failed retrieving Functions from the cluster, skip this step as {} version do not \
                    support function command (error = '{}')\n",
                    self.words.product,
                    refusal.text()
                ));
                return Ok(());
            }
        };
        log.info(format_args!(">>> Send FUNCTION LIST to {to} to verify there is no functions in it\n"));
        let failed = |what: &str, refusal: Refusal| {
            log.error(format_args!(">>> {what} (error = '{}')\r\n", refusal.text()));
            Failed
        };
        let list = to.ask("FUNCTION LIST").map_err(|refusal| failed("Failed on CLUSTER LIST", refusal))?;
        if list.items().is_some_and(|libraries| !libraries.is_empty()) {
            log.error(format_args!(
                ">>> New node already contains functions and can not be added to the cluster. Use FUNCTION \
                FLUSH and try again.\r\n"
            ));
            return Err(Failed);
        }
        log.info(format_args!(">>> Send FUNCTION RESTORE to {to}\n"));
        to.command(&[&b"FUNCTION"[..], b"RESTORE", &dump])
            .map(drop)
            .map_err(|refusal| failed("Failed loading functions to the new node", refusal))
    }
}
