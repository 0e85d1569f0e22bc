//! Moving a slot: its keys one MIGRATE after the other, then its owner.
//!
//! Invariant: until the target has heard that it owns the slot, both ends know that it is under way; wherever
//! this is cut off, `fix` continues.

use super::node::{Node, Refusal, text_of};
use super::topology::Cluster;
use super::{Manager, Outcome, log};
use martlet_client::resp::Reply;

/// The digest of a key that is not there.
const NO_DIGEST: &[u8] = b"0000000000000000000000000000000000000000";

/// How a slot is moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// It is said which slot moves, and a dot for each key.
    pub shows_keys: bool,
    /// Keys only: the new owner is not announced.
    pub is_cold: bool,
}

/// A move that came to nothing.
#[derive(Debug)]
pub struct MoveFailure {
    pub text: String,
    /// The node that refused, where nothing has been said of that yet.
    unsaid: Option<(usize, Refusal)>,
}

impl MoveFailure {
    fn said(text: &str) -> MoveFailure {
        MoveFailure { text: text.into(), unsaid: None }
    }

    fn of(index: usize, refusal: Refusal) -> MoveFailure {
        MoveFailure { text: refusal.text().into(), unsaid: Some((index, refusal)) }
    }

    /// Prints the part of the progress that has not been printed.
    pub fn say(&self, manager: &Manager, cluster: &Cluster) {
        if let Some((index, refusal)) = &self.unsaid {
            refusal.report(manager.log, &cluster.nodes[*index]);
        }
    }
}

/// Possible answers of a former owner to the announcement: with its last slot gone it is a replica already,
/// or its own replicas follow others already. The target has informed the cluster.
const HARMLESS: &[&str] = &[
    "ERR Please use SETSLOT only with masters.",
    "ERR Please use SETSLOT only with primaries.",
    "UNBLOCKED",
    "NOREPLICAS",
];

fn is_harmless(refusal: &Refusal) -> bool {
    HARMLESS.iter().any(|text| refusal.text().starts_with(text))
}

/// CLUSTER SETSLOT at one node, about another.
fn set_slot(at: &mut Node, slot: u16, state: &str, id: &str) -> Result<(), Refusal> {
    at.ask(format!("CLUSTER SETSLOT {slot} {state} {id}")).map(drop)
}

impl Manager<'_> {
    /// CLUSTER SETSLOT at one node, about another; a refusal is said.
    pub fn set_slot(&self, cluster: &mut Cluster, at: usize, slot: u16, state: &str, of: usize) -> Outcome {
        let id = cluster.nodes[of].id.clone();
        set_slot(&mut cluster.nodes[at], slot, state, &id).map_err(|refusal| {
            refusal.report(self.log, &cluster.nodes[at]);
            super::Failed
        })
    }

    /// Moves a slot and its keys from one node to another.
    pub fn move_slot(
        &self,
        cluster: &mut Cluster,
        from: usize,
        to: usize,
        slot: u16,
        how: How,
    ) -> Result<(), MoveFailure> {
        if how.shows_keys {
            print!("Moving slot {slot} from {} to {}: ", cluster.nodes[from], cluster.nodes[to]);
            log::flush();
        }
        let (from_id, to_id) = (cluster.nodes[from].id.clone(), cluster.nodes[to].id.clone());
        if !how.is_cold {
            let mut set = |at: usize, state: &str, id: &str| {
                set_slot(&mut cluster.nodes[at], slot, state, id)
                    .map_err(|refusal| MoveFailure::of(at, refusal))
            };
            set(to, "IMPORTING", &from_id)?;
            set(from, "MIGRATING", &to_id)?;
        }
        let migrated = self.migrate_keys(cluster, from, to, slot, how);
        if how.shows_keys {
            println!();
        }
        migrated?;
        if !how.is_cold {
            self.announce_owner(cluster, from, to, slot)?;
        }
        cluster.nodes[from].slots.remove(slot);
        cluster.nodes[to].slots.insert(slot);
        Ok(())
    }

    /// Announces the owner of a slot to all primaries: the target first, so that the slot is never without an
    /// owner, then the source, then the others, which would hear of it later.
    fn announce_owner(
        &self,
        cluster: &mut Cluster,
        from: usize,
        to: usize,
        slot: u16,
    ) -> Result<(), MoveFailure> {
        let id = cluster.nodes[to].id.clone();
        let others = cluster.primaries().into_iter().filter(|index| *index != from && *index != to);
        for index in [to, from].into_iter().chain(others) {
            match set_slot(&mut cluster.nodes[index], slot, "NODE", &id) {
                Err(refusal) if index == from && is_harmless(&refusal) => {}
                told => told.map_err(|refusal| MoveFailure::of(index, refusal))?,
            }
        }
        Ok(())
    }

    /// Moves the keys of a slot, some at a time, until none is left.
    fn migrate_keys(
        &self,
        cluster: &mut Cluster,
        from: usize,
        to: usize,
        slot: u16,
        how: How,
    ) -> Result<(), MoveFailure> {
        loop {
            let list = format!("CLUSTER GETKEYSINSLOT {slot} {}", self.options.pipeline);
            let keys = cluster.nodes[from].ask(list).map_err(|refusal| {
                refusal.report(self.log, &cluster.nodes[from]);
                MoveFailure::said(refusal.text())
            })?;
            let keys: Vec<Vec<u8>> =
                keys.items().unwrap_or_default().iter().filter_map(Reply::text).map(Into::into).collect();
            if keys.is_empty() {
                return Ok(());
            }
            if let Err(refusal) = self.migrate(cluster, from, to, &keys, false) {
                self.migrate_anyhow(cluster, from, to, slot, &keys, refusal)?;
            }
            if how.shows_keys {
                print!("{}", ".".repeat(keys.len()));
                log::flush();
            }
        }
    }

    fn migrate(
        &self,
        cluster: &mut Cluster,
        from: usize,
        to: usize,
        keys: &[Vec<u8>],
        replaces: bool,
    ) -> Result<(), Refusal> {
        let (host, port) = (cluster.nodes[to].host.clone(), cluster.nodes[to].port.to_string());
        let timeout = self.options.timeout_ms.to_string();
        let mut words: Vec<&[u8]> =
            vec![b"MIGRATE", host.as_bytes(), port.as_bytes(), b"", b"0", timeout.as_bytes()];
        if replaces {
            words.push(b"REPLACE");
        }
        words.extend(self.migrate_credentials());
        words.push(b"KEYS");
        words.extend(keys.iter().map(Vec::as_slice));
        cluster.nodes[from].command(&words).map(drop)
    }

    /// AUTH or AUTH2 of MIGRATE: the source is to authenticate at the target as the user does.
    pub fn migrate_credentials(&self) -> Vec<&[u8]> {
        match (&self.settings.user, &self.settings.password) {
            (Some(user), Some(password)) => vec![b"AUTH2", user, password],
            (None, Some(password)) => vec![b"AUTH", password],
            (_, None) => Vec::new(),
        }
    }

    /// Tries a MIGRATE that was refused once more: keys that the target has already are replaced if that is
    /// wanted or nothing is lost by it.
    fn migrate_anyhow(
        &self,
        cluster: &mut Cluster,
        from: usize,
        to: usize,
        slot: u16,
        keys: &[Vec<u8>],
        refusal: Refusal,
    ) -> Result<(), MoveFailure> {
        let is_busy = refusal.text().contains("BUSYKEY");
        let is_lost = matches!(refusal, Refusal::Lost(_));
        let is_unserved = !is_busy && !is_lost && self.is_unserved(cluster, from, slot);
        if !is_busy && !is_unserved {
            return Err(self.migration_failure(&cluster.nodes[from], &refusal));
        }
        if is_unserved && self.fixes {
            self.log.warning(format_args!(
                "*** Slot was not served, setting owner to node {}.\n",
                cluster.nodes[to]
            ));
            // If it is refused the next MIGRATE is, too.
            let _ = self.set_slot(cluster, from, slot, "NODE", to);
        }
        if is_busy {
            self.log.warning(format_args!("\n*** Target key exists\n"));
            if !self.options.replaces {
                self.compare(cluster, from, to, keys)?;
            }
            self.log.warning(format_args!("*** Replacing target keys...\n"));
        }
        self.migrate(cluster, from, to, keys, is_busy)
            .map_err(|refusal| self.migration_failure(&cluster.nodes[from], &refusal))
    }

    fn migration_failure(&self, from: &Node, refusal: &Refusal) -> MoveFailure {
        println!();
        refusal.report(self.log, from);
        MoveFailure::said(refusal.text())
    }

    /// Whether a node knows no owner of a slot; false after a refusal, which is printed.
    fn is_unserved(&self, cluster: &mut Cluster, at: usize, slot: u16) -> bool {
        let Ok(reply) = cluster.nodes[at].demand_line(self.log, "CLUSTER SLOTS") else { return false };
        let covers = |range: &Reply| {
            let bound = |index: usize| range.items()?.get(index)?.integer();
            let (first, last) = (bound(0)?, bound(1)?);
            Some((first..=last).contains(&i64::from(slot)))
        };
        !reply.items().unwrap_or_default().iter().any(|range| covers(range).unwrap_or(false))
    }

    /// Fails if a key has one value at the source and another at the target.
    fn compare(
        &self,
        cluster: &mut Cluster,
        from: usize,
        to: usize,
        keys: &[Vec<u8>],
    ) -> Result<(), MoveFailure> {
        self.log.warning(format_args!("*** Checking key values on both nodes...\n"));
        let words: Vec<&[u8]> =
            [&b"DEBUG"[..], b"DIGEST-VALUE"].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
        let digests = [from, to].map(|index| {
            let reply = cluster.nodes[index].command(&words);
            if let Err(refusal) = &reply {
                refusal.report(self.log, &cluster.nodes[index]);
            }
            reply
        });
        let [Ok(source), Ok(target)] = &digests else {
            self.log.error(format_args!("*** Value check failed!\n"));
            let refusals = digests.iter().filter_map(|digest| digest.as_ref().err());
            let texts: Vec<&str> = refusals.map(Refusal::text).collect();
            return Err(self.no_digests(&texts));
        };
        let (source, target) = (source.items().unwrap_or_default(), target.items().unwrap_or_default());
        let differs = |one: &Reply, other: &Reply| {
            let is_there = |digest: &Reply| digest.text() != Some(NO_DIGEST);
            is_there(one) && is_there(other) && text_of(one) != text_of(other)
        };
        let pairs = source.iter().zip(target);
        let differing: Vec<&Vec<u8>> = keys
            .iter()
            .zip(pairs)
            .filter(|(_, (source, target))| differs(source, target))
            .map(|(key, _)| key)
            .collect();
        if differing.is_empty() {
            return Ok(());
        }
        self.log.error(format_args!(
            "*** Found {} key(s) in both source node and target node having different values.\n    \
            Source node: {}\n    Target node: {}\n    Keys(s):\n",
            differing.len(),
            cluster.nodes[from],
            cluster.nodes[to]
        ));
        for key in differing {
            self.log.error(format_args!("    - {}\n", String::from_utf8_lossy(key)));
        }
        self.log.error(format_args!(
            "Please fix the above key(s) manually and try again or relaunch the command \n\
            with --cluster-replace option to force key overriding.\n"
        ));
        Err(MoveFailure::said("keys with different values"))
    }

    /// Says what helps where DEBUG does not.
    fn no_digests(&self, texts: &[&str]) -> MoveFailure {
        let is_forbidden = texts.iter().any(|text| text.starts_with("ERR DEBUG command not allowed."));
        let advice = match is_forbidden {
            true => {
                "DEBUG command is not allowed.\nYou can turn on the enable-debug-command option.\nOr you can \
                relaunch the command with --cluster-replace option to force key overriding.\n"
            }
            false => {
                "DEBUG DIGEST-VALUE command is not supported.\nYou can relaunch the command with \
                --cluster-replace option to force key overriding.\n"
            }
        };
        self.log.error(format_args!("{advice}"));
        MoveFailure::said(texts.first().copied().unwrap_or_default())
    }
}
