//! Moving slots all at once, where the nodes know CLUSTER MIGRATESLOTS.

use super::node::text_of;
use super::slots::SlotSet;
use super::topology::Cluster;
use super::{Failed, Manager, Outcome, log};
use martlet_client::resp::Reply;
use std::time::Duration;

/// How often it is asked how far a migration is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The state of a migration.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    UnderWay,
    Done,
    Failed(String),
}

impl Manager<'_> {
    /// Whether slots move all at once: that is wanted, and every primary knows how.
    pub fn moves_atomically(&self, cluster: &mut Cluster) -> bool {
        if !self.options.is_atomic {
            return false;
        }
        for index in cluster.primaries() {
            if cluster.nodes[index].ask("CLUSTER GETSLOTMIGRATIONS").is_err() {
                self.log.warning(format_args!(
                    "*** Node {} does not support atomic slot migration: keys are moved one by one.\n",
                    cluster.nodes[index]
                ));
                return false;
            }
        }
        true
    }

    /// Moves slots of some nodes to another one: each node's all at once.
    pub fn move_atomically(
        &self,
        cluster: &mut Cluster,
        moves: &[(usize, u16)],
        to: usize,
        shows_slots: bool,
    ) -> Outcome {
        for part in moves.chunk_by(|(one, _), (other, _)| one == other) {
            let Some((from, _)) = part.first().copied() else { continue };
            let slots: SlotSet = part.iter().map(|(_, slot)| *slot).collect();
            if shows_slots {
                print!("Moving slots {slots} from {} to {}: ", cluster.nodes[from], cluster.nodes[to]);
                log::flush();
            }
            self.migrate_slots(cluster, from, to, &slots)?;
            match shows_slots {
                true => println!("OK"),
                false => print!("{}", "#".repeat(slots.len())),
            }
            log::flush();
        }
        Ok(())
    }

    fn migrate_slots(&self, cluster: &mut Cluster, from: usize, to: usize, slots: &SlotSet) -> Outcome {
        let ranges: Vec<String> =
            slots.ranges().iter().map(|(first, last)| format!("{first} {last}")).collect();
        let target = cluster.nodes[to].id.clone();
        let command = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {} NODE {target}", ranges.join(" "));
        let source = &mut cluster.nodes[from];
        let before = names(&source.demand_line(self.log, "CLUSTER GETSLOTMIGRATIONS")?);
        source.demand_line(self.log, command)?;
        loop {
            let reply = source.demand_line(self.log, "CLUSTER GETSLOTMIGRATIONS")?;
            match progress(&reply, &before) {
                Progress::UnderWay => std::thread::sleep(PROGRESS_INTERVAL),
                Progress::Done => break,
                Progress::Failed(why) => {
                    println!();
                    self.log.error(format_args!("Node {source} failed to migrate slots:\n{why}\n"));
                    return Err(Failed);
                }
            }
        }
        for slot in slots.iter() {
            cluster.nodes[from].slots.remove(slot);
            cluster.nodes[to].slots.insert(slot);
        }
        Ok(())
    }
}

/// A field of a migration, which RESP2 has as a list of names and values.
fn field(migration: &Reply, name: &str) -> Option<String> {
    match migration {
        Reply::Map(pairs) => {
            let (_, value) = pairs.iter().find(|(key, _)| text_of(key) == name)?;
            Some(text_of(value))
        }
        _ => {
            let mut pairs = migration.items()?.chunks_exact(2);
            pairs.find(|pair| text_of(&pair[0]) == name).map(|pair| text_of(&pair[1]))
        }
    }
}

fn names(reply: &Reply) -> Vec<String> {
    reply.items().unwrap_or_default().iter().filter_map(|migration| field(migration, "name")).collect()
}

/// The state of the migrations that were not there before.
fn progress(reply: &Reply, before: &[String]) -> Progress {
    let mut is_done = false;
    for migration in reply.items().unwrap_or_default() {
        if field(migration, "name").is_none_or(|name| before.contains(&name)) {
            continue;
        }
        match field(migration, "state").unwrap_or_default().as_str() {
            "success" => is_done = true,
            state @ ("failed" | "canceled" | "cancelled") => {
                let why = field(migration, "message").filter(|message| !message.is_empty());
                return Progress::Failed(why.unwrap_or_else(|| state.into()));
            }
            _ => return Progress::UnderWay,
        }
    }
    if is_done { Progress::Done } else { Progress::Failed("it is not known any more".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migration(name: &str, state: &str, message: &str) -> Reply {
        let words = ["name", name, "state", state, "message", message];
        Reply::Array(words.iter().map(|word| Reply::Bulk(word.as_bytes().into())).collect())
    }

    #[test]
    fn progress_is_of_the_one_that_has_come() {
        let before = [String::from("old")];
        let of = |migrations: Vec<Reply>| progress(&Reply::Array(migrations), &before);
        let old = || migration("old", "failed", "long ago");
        assert_eq!(of(vec![migration("new", "replicating", ""), old()]), Progress::UnderWay);
        assert_eq!(of(vec![old(), migration("new", "success", "")]), Progress::Done);
        let failed = |why: &str| Progress::Failed(why.into());
        assert_eq!(of(vec![migration("new", "failed", "timeout"), old()]), failed("timeout"));
        assert_eq!(of(vec![migration("new", "canceled", "")]), failed("canceled"));
        assert_eq!(of(vec![old()]), failed("it is not known any more"));
        assert_eq!(names(&Reply::Array(vec![old()])), before);
    }
}
