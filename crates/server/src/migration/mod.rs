//! MIGRATE under way: DUMPs of keys here are sent, portion by portion, and RESTOREd by another server.
//!
//! Invariant: nothing is locked while the network is used. The client's own thread encodes a portion with the
//! keys' shards locked and unlocks them; a thread of [`exchange::Exchangers`] sends it and waits for the
//! answers; then the client's thread deletes, under the locks again, the keys that have arrived.
//!
//! Keys under way are marked, and commands that would change them wait (`must_postpone`); those that read are
//! served. A change that names no such key (FLUSHALL, a blocked client that is served, a script) raises the
//! key's [`martlet_engine::WatchFlag`]: then its newer state is sent, too, as RESTORE or as DEL, before
//! anything is deleted here. So no change is lost.

pub mod exchange;
pub mod marks;
pub mod state;

use std::sync::Arc;

use martlet_command::Error;
use martlet_engine::{View, in_view};
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::connection::{Connection, Suspended};
use crate::registry::Entry;
use crate::runtime::dispatch::Cost;
use crate::runtime::{Mail, Worker};
use crate::slow_path::SlowPathReason;
use exchange::{Answers, Destination, Exchange};
use state::{Migration, MigrationStep, Waiting};

/// Bytes of a portion of keys, about; each is answered before the next.
const PORTION_BYTES: usize = 1024 * 1024;
/// The request of a MIGRATE.
pub struct Request {
    /// Where the keys go.
    pub destination: Destination,
    /// They stay here, too.
    pub copy: bool,
    /// Keys that exist there are replaced.
    pub replace: bool,
    /// The keys.
    pub keys: Vec<Vec<u8>>,
}

impl Worker {
    /// Begins a MIGRATE. The shards of its keys, which exist, are locked. Its client waits for the end of it,
    /// or of another one that has one of these keys.
    pub(crate) fn begin_migration(
        &mut self,
        connection: &mut Connection,
        entry: &'static Entry,
        args: &Args<'_>,
        request: Request,
    ) {
        let (shared, db) = (self.shared, self.keys.db());
        if !request.copy && !shared.migrations.marks.set(self.thread, db, &request.keys) {
            return self.postpone(connection);
        }
        shared.slow_path_reasons.hold(SlowPathReason::Migrating);
        connection.suspended = Some(Suspended::Migrating { ns: 0 });
        self.send_portion(Box::new(Migration {
            token: connection.token,
            client: connection.info.id,
            origin: self.pushes.origin(),
            entry,
            args: args.to_owned(),
            destination: Arc::new(request.destination),
            db,
            copy: request.copy,
            replace: request.replace,
            is_in_cluster: shared.cluster().is_some(),
            rest: request.keys.into_iter().map(|key| Waiting { key, tries: 0 }).collect(),
            sent: Vec::new(),
            target: None,
            refusal: None,
            ns: 0,
        }));
    }

    /// Encodes the next keys and has them sent. If it would have to wait for a busy script before the first,
    /// the rest is postponed.
    fn send_portion(&mut self, mut migration: Box<Migration>) {
        let mut portion = Vec::new();
        let compress = self.settings.rdb_compression;
        let view = View { db: migration.db, ..self.base_view };
        while portion.len() < PORTION_BYTES
            && let Some(waiting) = migration.rest.pop_front()
        {
            let shard = Key::new(&waiting.key).shard();
            let is_locked = self.keys.covers(shard);
            if !is_locked && !self.keys.lock_shard_unless_busy(shard) {
                migration.rest.push_front(waiting);
                break;
            }
            in_view(&mut self.keys, view, |keys| migration.encode(keys, waiting, compress, &mut portion));
            if !is_locked {
                self.release_keys();
            }
        }
        if migration.sent.is_empty() && !migration.rest.is_empty() {
            return self.postpone_migration(MigrationStep::Send(migration));
        }
        let exchange = Exchange {
            destination: migration.destination.clone(),
            target: migration.target.take(),
            portion,
            requests: migration.sent.len(),
        };
        let (shared, thread) = (self.shared, self.thread);
        let migrations = &shared.migrations;
        migrations.exchangers.run(exchange, &migrations.kept, move |answers| {
            let go_on = move |worker: &mut Worker| worker.go_on_with(migration, answers);
            shared.send(thread, Mail::Run(Box::new(go_on)));
        });
    }

    /// Takes a step of a MIGRATE that was postponed.
    pub(crate) fn resume_migration(&mut self, step: MigrationStep) {
        match step {
            MigrationStep::Send(migration) => self.send_portion(migration),
            MigrationStep::Settle(migration, answers) => self.go_on_with(migration, answers),
        }
    }

    /// Continues a MIGRATE whose portion has been answered. While CLIENT PAUSE lasts, nothing is deleted, nor
    /// while a busy script has one of the keys' shards.
    pub(crate) fn go_on_with(&mut self, mut migration: Box<Migration>, mut answers: Answers) {
        if self.shared.postpones(self.now_ms).is_some() {
            return self.waits.pause_migration(migration, answers);
        }
        let clock = &self.shared.clock;
        let began = clock.raw();
        let shards = migration.sent.iter().map(|sent| Key::new(&sent.key).shard()).collect();
        if !self.keys.lock_shards_unless_busy(shards) {
            return self.postpone_migration(MigrationStep::Settle(migration, answers));
        }
        let view = View { db: migration.db, ..self.base_view };
        let settled = in_view(&mut self.keys, view, |keys| migration.settle(keys, &mut answers));
        let origin = self.pushes.set_origin(migration.origin);
        self.release_keys();
        self.pushes.set_origin(origin);
        if !migration.copy {
            self.shared.clear_marks(migration.db, settled.iter().map(Vec::as_slice));
        }
        self.count_changes();
        self.serve_ready();
        migration.ns += clock.elapsed_ns(began, clock.raw());
        migration.target = answers.target;
        if migration.rest.is_empty() {
            self.end_migration(*migration, answers.failure);
        } else {
            self.send_portion(migration);
        }
    }

    /// Answers the client of a MIGRATE that has ended.
    fn end_migration(&mut self, mut migration: Migration, failure: Option<Error>) {
        let recorded = std::mem::take(&mut self.keys.recorded);
        self.shared.slow_path_reasons.release(SlowPathReason::Migrating);
        if let Some(target) = migration.target.take() {
            self.shared.migrations.kept.keep(target, self.now_ms);
        }
        let Some(mut connection) = self.take_client(migration.token, migration.client) else { return };
        let Some(Suspended::Migrating { ns }) = connection.suspended.take() else {
            return self.put(connection);
        };
        let mut reply = Reply::new(std::mem::take(&mut connection.out), connection.session.resp3);
        let begin = reply.len();
        match failure.or(migration.refusal) {
            None => reply.ok(),
            Some(error) => self.fail(&mut reply, migration.entry, &error),
        }
        let cost = Cost { ns: ns + migration.ns, reply_bytes: reply.len() - begin };
        self.count_run(&connection, migration.entry, &migration.args.view(), cost);
        if !connection.session.shows_reply() {
            reply.truncate(begin);
        }
        connection.out = reply.into_bytes();
        connection.recorded = connection.recorded.max(recorded);
        self.mark_ready(&mut connection);
        self.finish(connection);
    }
}
