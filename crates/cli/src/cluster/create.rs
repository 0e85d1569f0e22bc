//! `create`: a cluster of empty nodes.

use super::node::{BUS_PORT_OFFSET, Node};
use super::plan::spread::{Adding, Spread, spread};
use super::slots::SlotSet;
use super::topology::Cluster;
use super::{Failed, Manager, Outcome, host_and_port, log};
use crate::connection::addresses;
use martlet_base::random::Random;
use std::time::{Duration, Instant};

/// Fewer primaries cannot agree that one of them has failed.
const PRIMARIES_MIN: usize = 3;
/// How long a replica may take to hear of its primary.
const REPLICATE_TIMEOUT: Duration = Duration::from_secs(10);
const REPLICATE_INTERVAL: Duration = Duration::from_millis(100);

/// `create`
pub fn run(manager: &Manager) -> Outcome {
    let mut cluster = Cluster::default();
    for index in 0..manager.arguments.len() {
        let text = manager.text_argument(index)?;
        let Some((host, port)) = host_and_port(text) else {
            return manager.refuse(format_args!("Invalid address format: {text}"));
        };
        let mut node = manager.open(&host, port)?;
        manager.require_empty(&mut node)?;
        cluster.nodes.push(node);
    }
    manager.agree_on_size(cluster.nodes.len())?;
    let (log, count) = (manager.log, cluster.nodes.len());
    log.info(format_args!(">>> Performing hash slots allocation on {count} {}...\n", manager.words.nodes));
    let plan = manager.plan(&cluster);
    manager.show_plan(&mut cluster, &plan);
    if !manager.options.is_confirmed && !log::confirm("Can I set the above configuration?") {
        return Ok(());
    }
    manager.configure(&mut cluster, &plan)
}

/// The words behind CLUSTER MEET: an address, since the command takes no host name.
pub fn meet_address(manager: &Manager, node: &Node) -> Result<String, Failed> {
    let found = addresses(manager.settings, &node.host, node.port).ok();
    let Some(address) = found.and_then(|addresses| addresses.first().copied()) else {
        manager.refuse(format_args!("Invalid IP address or hostname specified: {}", node.host))?;
        return Err(Failed);
    };
    let is_usual = node.bus_port == 0 || node.bus_port == node.port.wrapping_add(BUS_PORT_OFFSET);
    let bus_port = if is_usual { String::new() } else { format!(" {}", node.bus_port) };
    Ok(format!("{} {}{bus_port}", address.ip(), node.port))
}

impl Manager<'_> {
    /// Refuses a cluster of too few primaries; Valkey leaves the decision to the user.
    fn agree_on_size(&self, nodes: usize) -> Outcome {
        let replicas = self.options.replicas;
        let primaries = nodes / (replicas + 1);
        if primaries >= PRIMARIES_MIN {
            return Ok(());
        }
        if self.words.allows_few_primaries && primaries > 0 {
            self.log.info(format_args!(
                "Requested to create a cluster with {primaries} primaries and {replicas} replicas per primary.\n"
            ));
            let question =
                "Valkey cluster requires at least 3 primary nodes for automatic failover. Are you sure?";
            let agrees = self.options.is_confirmed || log::confirm(question);
            return if agrees { Ok(()) } else { Err(Failed) };
        }
        self.log.error(format_args!(
            "*** ERROR: Invalid configuration for cluster creation.\n\
            *** {} Cluster requires at least 3 {} nodes.\n\
            *** This is not possible with {nodes} nodes and {replicas} replicas per node.",
            self.words.product, self.words.primary
        ));
        self.log
            .error(format_args!("\n*** At least {} nodes are required.\n", PRIMARIES_MIN * (replicas + 1)));
        Err(Failed)
    }

    /// Primaries with their slots, and the primary of each replica. Prints its plan.
    fn plan(&self, cluster: &Cluster) -> Spread {
        let hosts: Vec<&str> = cluster.nodes.iter().map(|node| node.host.as_str()).collect();
        let mut plan = spread(&hosts, self.options.replicas);
        for (index, (_, (first, last))) in plan.primaries.iter().enumerate() {
            println!("{}[{index}] -> Slots {first} - {last}", self.words.primary_title);
        }
        for adding in &plan.additions {
            match adding {
                Adding::Extra => println!("Adding extra replicas..."),
                Adding::Replica { replica, primary } => {
                    println!("Adding replica {} to {}", cluster.nodes[*replica], cluster.nodes[*primary]);
                }
            }
        }
        let mut random = Random::from_entropy();
        if plan.affinity(&hosts) > 0 {
            self.log.info(format_args!(
                ">>> Trying to optimize {} allocation for anti-affinity\n",
                self.words.replicas
            ));
            let affinity = plan.optimize(&hosts, |bound| random.below(bound as u64) as usize);
            self.say_affinity(affinity);
        }
        plan
    }

    fn say_affinity(&self, affinity: usize) {
        let (replicas, primary) = (self.words.replicas, self.words.primary);
        if affinity == 0 {
            self.log.ok(format_args!("[OK] Perfect anti-affinity obtained!\n"));
        } else if affinity >= super::plan::spread::WITH_PRIMARY {
            self.log
                .warning(format_args!("[WARNING] Some {replicas} are in the same host as their {primary}\n"));
        } else {
            self.log.warning(format_args!(
                "[WARNING] Some {replicas} of the same {primary} are in the same host\n"
            ));
        }
    }

    fn show_plan(&self, cluster: &mut Cluster, plan: &Spread) {
        for (primary, (first, last)) in &plan.primaries {
            cluster.nodes[*primary].slots = (*first..=*last).collect::<SlotSet>();
        }
        for (index, node) in cluster.nodes.iter().enumerate() {
            match plan.primary_of[index] {
                // It says of itself that it is a primary of nothing, still.
                Some(primary) => {
                    println!("S: {} {node}\n   replicates {}", node.id, cluster.nodes[primary].id);
                }
                None => println!("{}", node.description(0)),
            }
        }
    }

    fn configure(&self, cluster: &mut Cluster, plan: &Spread) -> Outcome {
        let log = self.log;
        for (primary, (first, last)) in &plan.primaries {
            let slots: Vec<String> = (*first..=*last).map(|slot| slot.to_string()).collect();
            let add = format!("CLUSTER ADDSLOTS {}", slots.join(" "));
            cluster.nodes[*primary].demand_line(log, add)?;
        }
        log.info(format_args!(">>> Nodes configuration updated\n"));
        log.info(format_args!(">>> Assign a different config epoch to each node\n"));
        for (index, node) in cluster.nodes.iter_mut().enumerate() {
            // A node that has an epoch already keeps it.
            let _ = node.ask(format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
        }
        log.info(format_args!(">>> Sending CLUSTER MEET messages to join the cluster\n"));
        let meet = format!("CLUSTER MEET {}", meet_address(self, &cluster.nodes[0])?);
        for node in cluster.nodes.iter_mut().skip(1) {
            node.demand_line(log, &meet)?;
        }
        self.wait_until_joined(cluster, true);
        for (replica, primary) in plan.primary_of.iter().enumerate() {
            let Some(primary) = primary else { continue };
            let replicate = format!("CLUSTER REPLICATE {}", cluster.nodes[*primary].id);
            self.replicate(&mut cluster.nodes[replica], &replicate)?;
        }
        let (host, port) = (cluster.nodes[0].host.clone(), cluster.nodes[0].port);
        let mut created = self.load(&host, port)?;
        // Its findings are printed; the cluster is there.
        let _ = self.check(&mut created, true);
        Ok(())
    }

    /// Makes a node a replica, once it knows its primary as one.
    fn replicate(&self, node: &mut Node, replicate: &str) -> Outcome {
        let begin = Instant::now();
        while node.ask(replicate).is_err() {
            if begin.elapsed() > REPLICATE_TIMEOUT {
                return node.demand_line(self.log, replicate).map(drop);
            }
            std::thread::sleep(REPLICATE_INTERVAL);
        }
        Ok(())
    }
}
