//! Actions of the slot migrations' state machine on the data set, by a worker with exclusive access to it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_base::sync::lock;
use martlet_client::resp::encode_request;
use martlet_cluster::slot_migration::{Action, JobId, Message};
use martlet_journal::stream::{Audience, Reader};
use martlet_persistence::background::Receiver;
use martlet_values::payload::dump_libraries;

use super::encoded;
use super::export;
use super::import;
use super::link::ExportLink;
use crate::clients::{ClientInfo, Disconnects as _};
use crate::cluster::node::ClusterNode;
use crate::persistence::settings::settings;
use crate::replication::feed::{Feed, FeedWriter};
use crate::replication::source::Taker;
use crate::runtime::Worker;
use crate::runtime::{Mail, Shared};

/// Unsent bytes of the stream at which an export's writers may be paused, whatever
/// `slot-migration-max-failover-repl-bytes` says: the stream has other slots' changes, too, and sending them
/// takes no longer than an answer is under way.
const UNSENT_BYTES: u64 = 64 << 10;

/// The cut of an export, as the thread that saves sees it.
struct SlotsReceiver {
    shared: &'static Shared,
    link: Arc<ExportLink>,
    begins: Option<(Taker, Reader<'static>)>,
    feed: Arc<Feed>,
    /// For a target that has asked for the slots: its connection for the cut, and the libraries of functions.
    channel: Option<(Arc<ClientInfo>, Vec<u8>)>,
}

impl Receiver for SlotsReceiver {
    fn begin(&mut self, offset: u64, _is_cancelled: &Arc<AtomicBool>) {
        if let Some((taker, mut reader)) = self.begins.take() {
            reader.skip_to(offset);
            let taker = match &self.channel {
                Some((client, _)) => {
                    feed_connection(self.shared, client, taker);
                    None
                }
                None => Some(taker),
            };
            self.link.begin(taker, reader);
        }
    }

    fn writer(&mut self) -> Box<dyn Write + Send> {
        let mut writer = FeedWriter::new(self.feed.clone());
        if let Some((_, libraries)) = &self.channel {
            let mut bytes = b"+SLOTSSNAPSHOT\r\n".to_vec();
            encode_request(&[b"FUNCTION".as_slice(), b"RESTORE", libraries, b"REPLACE"], &mut bytes);
            // A target that is gone is noticed by the next write.
            let _ = writer.write_all(&bytes);
        }
        Box::new(writer)
    }

    fn end(self: Box<Self>, result: io::Result<()>) {
        self.link.has_snapshot.store(false, Ordering::SeqCst);
        let result = result.and_then(|()| match self.channel {
            Some(_) => {
                let mut writer = FeedWriter::new(self.feed.clone());
                writer.write_all(&encoded(Message::SnapshotEof)).and_then(|()| writer.flush())
            }
            None => Ok(()),
        });
        self.feed.end(result.is_ok());
        let (job, is_task) = (self.link.job, self.channel.is_some());
        let Some(node) = self.shared.cluster() else { return };
        match result {
            Ok(()) if is_task => {
                node.migration_event(self.shared, |machine, now| machine.snapshot_sent(now, job));
            }
            Ok(()) => {}
            Err(_) => {
                let why = if is_task {
                    "RDB channel - Failed to send slots snapshot"
                } else {
                    "Failed to perform snapshot"
                };
                node.migration_event(self.shared, |machine, now| machine.fail(now, job, why));
            }
        }
    }
}

/// Has a target's connection take its output from a feed.
fn feed_connection(shared: &'static Shared, client: &ClientInfo, taker: Taker) {
    let (token, id) = (client.token(), client.id);
    let begin = move |worker: &mut Worker| worker.feed_slots(token, id, taker);
    shared.send(client.thread(), Mail::Run(Box::new(begin)));
}

/// Ends a connection, unless it is ending.
fn disconnect(shared: &Shared, client: &ClientInfo) {
    if !client.killed.swap(true, Ordering::AcqRel) {
        shared.disconnect(client);
    }
}

/// All libraries of functions, as FUNCTION DUMP returns them, but never compressed.
fn dumped_libraries(shared: &Shared) -> Vec<u8> {
    let list = shared.libraries.list();
    dump_libraries(list.libraries.iter().map(|library| &*library.code), false)
}

/// The slots of a job that is known.
fn slots_of(node: &ClusterNode, job: JobId) -> Option<Vec<u16>> {
    node.migrate(|machine, _| machine.job(job).map(|job| job.slots().collect()))
}

impl Worker {
    /// Carries out one action.
    pub(in crate::cluster) fn migration_action(&mut self, node: &'static ClusterNode, action: Action) {
        let shared = self.shared;
        match action {
            Action::Connect(job) => export::start(shared, node, job),
            Action::Mark(job) => self.mark_import(node, job),
            Action::Pull(job) => import::start(shared, node, job),
            Action::Retry => node.read(|cluster| node.migrate(|machine, now| machine.retry(now, cluster))),
            Action::Send(job, message) => self.send_message(node, job, message),
            Action::Snapshot(job) => self.begin_slots(node, job),
            Action::TryPause(job) => self.pause_for(node, job),
            Action::Resume => self.resume_for(node),
            Action::TakeSlots(job) => {
                // In one step: a task is cancelled before it, and takes nothing, or it is over.
                node.with(|cluster, now| {
                    node.migrate(|machine, _| {
                        if let Some(slots) = machine.slots_to_take(job) {
                            cluster.claim_slots(now, slots);
                            machine.taken(now, job);
                        }
                    });
                });
            }
            Action::CleanUp(job) => {
                self.delete_others_slots(node, job);
                node.migrate(|machine, now| machine.cleaned(now, job));
            }
            Action::Hide => shared.engine.hidden.set(node.migrate(|machine, _| machine.importing())),
            Action::TellEnd { name, is_success, message } => {
                let state = if is_success { "SUCCESS" } else { "FAILED" };
                let mut words = vec!["CLUSTER", "SYNCSLOTS", "FINISH", "STATE", state, "NAME", name.as_str()];
                message.iter().for_each(|message| words.extend(["MESSAGE", message]));
                self.record_import(&words);
            }
            Action::Close(job) => {
                let link = lock(&node.migrations.exports).remove(&job);
                if let Some(link) = link {
                    // The stream that it had begun is kept for as long as after a replica.
                    let alone_since_ms = &shared.replication.primary.alone_since_ms;
                    alone_since_ms.store(self.now_ms, Ordering::Relaxed);
                    link.close();
                    let clients = std::mem::take(&mut lock(&link.orders).clients);
                    clients.into_iter().flatten().for_each(|client| disconnect(shared, &client));
                    if link.has_snapshot.load(Ordering::SeqCst) {
                        shared.persistence.background.cancel();
                    }
                }
                if let Some(pull) = lock(&node.migrations.pulls).remove(&job) {
                    pull.close();
                }
                let client = lock(&node.migrations.imports).remove(&job);
                client.into_iter().for_each(|client| disconnect(shared, &client));
            }
            Action::Log { is_warning: true, text } => tracing::warn!("{text}"),
            Action::Log { text, .. } => tracing::info!("{text}"),
        }
    }

    /// Deletes the keys of a job's slots that are not this node's.
    fn delete_others_slots(&mut self, node: &ClusterNode, job: JobId) {
        let slots = slots_of(node, job).unwrap_or_default();
        let is_other = |slot: &u16| node.read(|cluster| cluster.owner(*slot) != Some(cluster.my_key()));
        slots.into_iter().filter(is_other).for_each(|slot| {
            self.keys.delete_slot(slot);
        });
    }

    /// Begins an import that this node has asked for: without keys that were left here earlier, and with the
    /// mark by which replicas and files know it.
    fn mark_import(&mut self, node: &ClusterNode, job: JobId) {
        self.delete_others_slots(node, job);
        let Some(of) = node.migrate(|machine, _| machine.job(job).cloned()) else { return };
        let mut words: Vec<String> = ["CLUSTER", "SYNCSLOTS", "ESTABLISH"].map(str::to_owned).to_vec();
        if let Some((source, _)) = of.nodes {
            words.extend(["SOURCE".into(), source.to_string()]);
        }
        words.extend(["NAME".into(), of.name.to_string(), "SLOTSRANGE".into()]);
        words.extend(of.ranges.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]));
        self.record_import(&words);
    }

    fn send_message(&mut self, node: &ClusterNode, job: JobId, message: Message) {
        if let Some(link) = lock(&node.migrations.exports).get(&job) {
            return link.send(message);
        }
        let Some(client) = lock(&node.migrations.imports).get(&job).cloned() else { return };
        let thread = client.thread();
        let push = move |worker: &mut Worker| {
            worker.push_with(client.token(), client.id, |connection| {
                connection.out.extend_from_slice(&encoded(message));
            });
        };
        self.shared.send(thread, Mail::Run(Box::new(push)));
    }

    /// Makes the cut of an export's slots, unless a snapshot is under way.
    fn begin_slots(&mut self, node: &'static ClusterNode, job: JobId) {
        let shared = self.shared;
        let Some(link) = lock(&node.migrations.exports).get(&job).cloned() else { return };
        let Some(slots) = slots_of(node, job).filter(|_| !shared.storage().has_snapshot()) else { return };
        let config = self.config().clone();
        let attached = self.keep_stream().map_err(|error| error.to_string()).and_then(|()| {
            let most_behind = Some(self.most_behind());
            let reader = shared.engine.journal.attach(Audience::Replicas, None, most_behind);
            reader.map_err(|error| error.to_string())
        });
        let begun = attached.and_then(|reader| {
            let woken = link.clone();
            let held = shared.engine.snapshot.hold(0);
            let (channel, writer) = {
                let mut orders = lock(&link.orders);
                (orders.clients[1].clone(), orders.feed.take())
            };
            let feed = Arc::new(match channel {
                Some(_) => Feed::new(1, held, || shared.wake_feeders()),
                None => Feed::new(1, held, move || woken.wake()),
            });
            if let Some(writer) = writer {
                let started = export::start_for_target(shared, node, link.clone(), writer);
                started.map_err(|error| error.to_string())?;
            }
            let channel = channel.map(|client| (client, dumped_libraries(shared)));
            let begins = Some((Taker::new(feed.clone(), 0), reader));
            link.has_snapshot.store(true, Ordering::SeqCst);
            let receiver = Box::new(SlotsReceiver { shared, link: link.clone(), begins, feed, channel });
            shared.storage().start_slots_for(&self.keys, &settings(&config), slots, receiver).map_err(|_| {
                link.has_snapshot.store(false, Ordering::SeqCst);
                "a snapshot is under way".to_owned()
            })
        });
        node.migrate(|machine, now| match begun {
            Ok(()) => machine.snapshot_begun(now, job),
            Err(why) => {
                tracing::warn!("A slot migration's snapshot cannot begin: {why}");
                machine.fail(now, job, "Failed to start snapshot");
            }
        });
    }

    /// Has writes wait, if few changes are left to be sent.
    fn pause_for(&mut self, node: &ClusterNode, job: JobId) {
        let shared = self.shared;
        let Some(link) = lock(&node.migrations.exports).get(&job).cloned() else { return };
        let end = shared.replication_offset();
        let unsent = end.saturating_sub(link.sent());
        let limit = self.config().slot_migration_max_failover_repl_bytes;
        let is_task = lock(&link.orders).clients[0].is_some();
        let is_too_much = match is_task {
            true => {
                let limit = self.config().cluster_slot_migration_handoff_max_lag_bytes;
                link.lag() > limit || unsent > limit.max(UNSENT_BYTES)
            }
            false => u64::try_from(limit).is_ok_and(|limit| unsent > limit.max(UNSENT_BYTES)),
        };
        if is_too_much || node.migrate(|machine, _| machine.may_not_pause()) {
            return node.migrate(|machine, now| machine.paused(now, job, false));
        }
        if !node.migrations.holds_writes.swap(true, Ordering::SeqCst) {
            shared.hold_writes();
        }
        // All that ran before has ended, as the gate is closed.
        link.pause_at(end);
        node.migrate(|machine, now| machine.paused(now, job, true));
        // It may have ended since it asked for this.
        self.resume_for(node);
    }

    /// Resumes writes, if no export needs the pause.
    fn resume_for(&mut self, node: &ClusterNode) {
        let is_held = node.migrate(|machine, _| machine.holds_writes());
        if !is_held && node.migrations.holds_writes.swap(false, Ordering::SeqCst) {
            self.shared.release_writes();
        }
    }
}
