//! Atomic slot migration: the code that carries out the state machine's actions.
//!
//! The machine stands behind its own lock. Commands, the threads of exports, time and the cluster's table
//! give it inputs; a worker with exclusive access to the data set carries out the actions
//! ([`Worker::follow_migrations`]). An export has a thread ([`export`]), which sees bytes and no keys. An
//! import is an ordinary connection, whose commands run as all others do, on keys that are hidden.
//!
//! Invariant: no thread waits for the network with a lock or inside the gate.

mod actions;
pub(crate) mod export;
mod files;
mod filter;
pub(crate) mod import;
pub mod imports;
pub mod link;
mod requests;
pub mod state;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_client::resp::encode_request;
use martlet_cluster::machine::Time;
use martlet_cluster::slot_migration::{JobId, Message, SlotMigrations};
use martlet_net::Token;

use crate::clients::flag;
use crate::cluster::node::ClusterNode;
use crate::connection::Connection;
use crate::replication::source::Taker;
use crate::runtime::{Mail, Shared, UNIX, Worker};
use crate::slow_path::SessionFlags;
use state::Import;

impl ClusterNode {
    /// Gives the machine an input from a thread that does nothing to the data set itself.
    pub(crate) fn migration_event(
        &self,
        shared: &'static Shared,
        input: impl FnOnce(&mut SlotMigrations, Time),
    ) {
        let has_actions = self.migrate(|machine, now| {
            input(machine, now);
            machine.has_actions()
        });
        if has_actions {
            let follow = |worker: &mut Worker| {
                worker.alone(Worker::follow_migrations);
                worker.serve_ready();
            };
            shared.send(0, Mail::Run(Box::new(follow)));
        }
    }

    /// Time passes.
    pub(super) fn migration_tick(&self, shared: &'static Shared) {
        if !self.migrations.is_active() {
            return;
        }
        let imports = lock(&self.migrations.imports).clone();
        let heard_s = |job: JobId| {
            imports.get(&job).map(|client| client.last_active_ms.load(Ordering::Relaxed) / 1_000)
        };
        self.migration_event(shared, |machine, now| machine.tick(now, heard_s));
    }
}

/// A message as it goes over the wire.
pub(super) fn encoded(message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(&["CLUSTER", "SYNCSLOTS", message.name()], &mut bytes);
    bytes
}

impl Worker {
    /// Makes a connection that of an import.
    pub(crate) fn become_import(&self, connection: &mut Connection, job: JobId) {
        connection.session.import = Some(Import { job, is_established: false });
        connection.session.flags.set(SessionFlags::IMPORTS_SLOTS, true);
        connection.info.flags.fetch_or(flag::SLOT_IMPORT, Ordering::Relaxed);
        if let Some(node) = self.shared.cluster() {
            node.migrations.add_import(job, connection.info.clone());
        }
    }

    /// Makes a socket the connection which runs what a job's source sends.
    pub(super) fn adopt_import(&mut self, socket: OwnedFd, job: JobId) {
        let (shared, adopted) = (self.shared, self.adopt(socket, UNIX));
        let Some(node) = shared.cluster() else { return };
        let Some(mut connection) = adopted.and_then(|token| self.take(token)) else {
            let why = "Main channel - Failed to stream into the DB: max number of clients reached";
            return node.migration_event(shared, |machine, now| machine.fail(now, job, why));
        };
        let session = &mut connection.session;
        session.become_user(shared.access.superuser(&shared.config.snapshot()));
        session.authenticated = true;
        session.flags.set(SessionFlags::UNAUTHENTICATED, false);
        session.peer = Some(Box::default());
        self.become_import(&mut connection, job);
        if let Some(import) = &mut connection.session.import {
            import.is_established = true;
        }
        self.finish(connection);
    }

    /// Has a connection of another node take its output from a feed from here on.
    pub(super) fn feed_slots(&mut self, token: Token, client: u64, taker: Taker) {
        let Some(mut connection) = self.take_client(token, client) else { return };
        self.feed_slots_to(&mut connection, taker);
        self.finish(connection);
    }

    /// The same of the connection at hand.
    pub(crate) fn feed_slots_to(&mut self, connection: &mut Connection, taker: Taker) {
        connection.slot_feed = Some(taker);
        self.feeder.add(connection.token);
    }

    /// Ends another node's part of a connection that ends.
    pub(crate) fn stop_exporting(&mut self, connection: &mut Connection) {
        if connection.slot_feed.take().is_some() {
            self.feeder.remove(connection.token);
        }
        let Some(peer) = connection.session.peer.take() else { return };
        if let (Some(node), Some(job)) = (self.shared.cluster(), peer.export.filter(|_| !peer.is_channel)) {
            node.migration_event(self.shared, |machine, now| machine.lost(now, job));
        }
    }

    /// Replies to an import's requests are dropped; an error ends the import.
    pub(crate) fn note_imported(&self, connection: &mut Connection, answer: &[u8]) -> bool {
        let Some(import) = &mut connection.session.import else { return false };
        if !std::mem::replace(&mut import.is_established, true) {
            return false;
        }
        let job = import.job;
        if let (Some(b'-'), Some(node)) = (answer.first(), self.shared.cluster()) {
            let text = String::from_utf8_lossy(answer).trim_end().to_owned();
            tracing::warn!("A command of a slot migration's source was answered with '{text}'");
            let is_out_of_memory = answer.starts_with(b"-OOM ");
            node.migration_event(self.shared, |machine, now| match is_out_of_memory {
                true => machine.out_of_memory(now, job),
                false => machine.command_failed(now, job),
            });
        }
        true
    }

    /// An import's connection ends.
    pub(crate) fn stop_importing(&self, connection: &mut Connection) {
        let Some(import) = connection.session.import.take() else { return };
        if let Some(node) = self.shared.cluster() {
            let bytes = connection.info.net_input_bytes.load(Ordering::Relaxed);
            lock(&node.migrations.imports).remove(&import.job);
            node.migrations.imported_bytes.fetch_add(bytes, Ordering::Relaxed);
            node.migration_event(self.shared, |machine, now| machine.lost(now, import.job));
        }
    }
}
