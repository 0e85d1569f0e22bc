//! The node's imports as files and the append-only file tell of them.

use martlet_cluster::id::NodeId;
use martlet_cluster::machine::CommandError;
use martlet_cluster::slot_migration::{Job, parse_establish, parse_finish};
use martlet_engine::HiddenSlots;
use martlet_protocol::request::Args;
use martlet_values::file::SlotImport;

use crate::cluster::node::ClusterNode;

impl ClusterNode {
    /// The imports that are under way, as files tell of them.
    pub(crate) fn imports(&self) -> Vec<SlotImport> {
        let import =
            |job: &Job| SlotImport { name: job.name.as_bytes().to_vec(), ranges: job.ranges.clone() };
        self.migrate(|machine, _| machine.imports().map(import).collect())
    }

    /// The loaded data has keys of these imports, which are hidden from here on. No client has seen it yet.
    pub(crate) fn take_imports(&self, hidden: &HiddenSlots, imports: &[SlotImport]) {
        if imports.is_empty() {
            return;
        }
        let importing = self.migrate(|machine, now| {
            for SlotImport { name, ranges } in imports {
                match NodeId::parse(name) {
                    Some(name) => machine.found(now, name, ranges.clone()),
                    None => tracing::warn!("A slot import has no name: its keys are taken for this node's"),
                }
            }
            machine.importing()
        });
        hidden.set(importing);
    }

    /// Runs a command of the append-only file.
    ///
    /// # Errors
    /// As its reply.
    pub(crate) fn replay_import(&self, hidden: &HiddenSlots, args: &Args<'_>) -> Result<(), String> {
        let (what, words) = (args.at(2), args.iter().skip(3).collect::<Vec<_>>());
        let replayed = if what.eq_ignore_ascii_case(b"establish") {
            self.read(|cluster| {
                self.migrate(|machine, now| {
                    let import = parse_establish(cluster, machine, &words, true)?;
                    machine.found(now, import.name, import.ranges);
                    Ok(())
                })
            })
        } else if what.eq_ignore_ascii_case(b"finish") {
            self.migrate(|machine, now| {
                // It may have begun before the file did.
                let finish = parse_finish(&words, |_| true)?;
                machine.end_found(now, &finish);
                Ok(())
            })
        } else {
            Ok(())
        };
        hidden.set(self.migrate(|machine, _| machine.importing()));
        replayed.map_err(|error: CommandError| format!("ERR {error}"))
    }
}
