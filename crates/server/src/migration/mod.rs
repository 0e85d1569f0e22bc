//! MIGRATE under way: DUMPs of keys here are sent, portion by portion, and RESTOREd by another server.
//!
//! Invariant: nothing is locked while the network is used. The client's own thread encodes a portion with the
//! keys' shards locked and unlocks them; a thread of [`Exchangers`] sends it and waits for the answers; then
//! the client's thread deletes, under the locks again, the keys that have arrived.
//!
//! Keys under way are marked, and commands that would change them wait (`must_postpone`); those that read are
//! served. A change that names no such key (FLUSHALL, a blocked client that is served, a script) raises the
//! key's [`WatchFlag`]: then its newer state is sent, too, as RESTORE or as DEL, before anything is deleted
//! here. So no change is lost.

mod exchange;
mod marks;

use std::collections::VecDeque;
use std::sync::Arc;

use martlet_client::resp::encode_request;
use martlet_command::Error;
use martlet_engine::{EventClass, Keys, WatchFlag};
use martlet_keyspace::{Key, StrValue};
use martlet_net::Token;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::{Args, OwnedArgs};
use martlet_values::payload;

use crate::connection::{Connection, Suspended};
use crate::dispatch::Cost;
use crate::registry::Entry;
use crate::shared::{Mail, Shared};
use crate::slow_path::SlowPathReason;
use crate::worker::Worker;

pub use exchange::{Answers, Destination};
use exchange::{Exchange, Exchangers, KeptTargets, Target};
use marks::Marks;

/// Bytes of a portion of keys, about; each is answered before the next.
const PORTION_BYTES: usize = 1024 * 1024;
/// Most attempts for a key that is changed again each time.
const TRIES_MAX: u32 = 3;

const CHANGED: Error = Error::Fixed("IOERR key was changed each time that it was sent to target instance");

/// What all threads share of it.
#[derive(Default)]
pub struct Migrations {
    /// Connections that may be used again.
    pub kept: KeptTargets,
    exchangers: Exchangers,
    marks: Marks,
}

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

/// A key to be sent.
struct Waiting {
    key: Vec<u8>,
    /// How often it has been sent.
    tries: u32,
}

/// A key that has been sent.
struct Sent {
    key: Vec<u8>,
    tries: u32,
    /// Raised when it has been changed here since.
    flag: Arc<WatchFlag>,
    /// It was gone here, and is to be deleted there as well.
    is_gone: bool,
}

/// A MIGRATE under way. It continues if its client leaves.
pub struct Migration {
    token: Token,
    client: u64,
    /// The client, if it tracks keys.
    origin: u64,
    entry: &'static Entry,
    args: OwnedArgs,
    destination: Arc<Destination>,
    /// The database here.
    db: usize,
    copy: bool,
    replace: bool,
    is_in_cluster: bool,
    rest: VecDeque<Waiting>,
    sent: Vec<Sent>,
    /// The connection, between two portions.
    target: Option<Target>,
    /// The first key's that was refused.
    refusal: Option<Error>,
    /// How long this thread has worked for it, but for the request itself, in nanoseconds.
    ns: u64,
}

/// The next step of a MIGRATE that waits until no script is busy.
pub enum MigrationStep {
    /// Encoding the next portion.
    Send(Box<Migration>),
    /// Taking up the answers to the last one.
    Settle(Box<Migration>, Answers),
}

impl Migration {
    /// The command that creates a key over there; in a cluster the slot is still being imported.
    fn restore(&self) -> &'static [u8] {
        if self.is_in_cluster { b"RESTORE-ASKING" } else { b"RESTORE" }
    }

    /// Appends the request that brings the key over there to its state here, unless there is nothing to do.
    /// The key's shard is locked.
    fn encode(&mut self, keys: &mut Keys, waiting: Waiting, compress: bool, portion: &mut Vec<u8>) {
        let Waiting { key: name, tries } = waiting;
        let key = Key::new(&name);
        let entry = keys.get(&key);
        let is_gone = entry.is_none();
        match entry.map(|entry| (entry.view(), entry.expiry_ms())) {
            Some((value, expiry_ms)) => {
                let ttl = expiry_ms.map_or(0, |at_ms| (at_ms - keys.now_ms).max(1)).to_string();
                let payload = payload::dump(value, compress);
                let mut words: Vec<&[u8]> = vec![self.restore(), &name, ttl.as_bytes(), &payload];
                if self.replace || tries > 0 {
                    words.push(b"REPLACE");
                }
                encode_request(&words, portion);
            }
            // In a slot under way a missing key is not asked for there: an expired key is treated as absent.
            None if tries > 0 && self.is_in_cluster => {
                let payload = payload::dump(StrValue::Int(0).into(), compress);
                let words: [&[u8]; 6] = [self.restore(), &name, b"1", &payload, b"REPLACE", b"ABSTTL"];
                encode_request(&words, portion);
            }
            None if tries > 0 => encode_request(&[b"DEL".as_slice(), &name], portion),
            None => return,
        }
        let flag = Arc::<WatchFlag>::default();
        if !self.copy {
            keys.hooks_mut(&key).watch(self.db, &name, &flag, false);
        }
        self.sent.push(Sent { key: name, tries: tries + 1, flag, is_gone });
    }

    /// Takes up a portion's answers, with the shards of its keys locked; the keys that need no mark any more.
    fn settle(&mut self, keys: &mut Keys, answers: &mut Answers) -> Vec<Vec<u8>> {
        let (mut moved, mut settled) = (Vec::new(), Vec::new());
        let mut each = answers.each.drain(..);
        for Sent { key: name, tries, flag, is_gone } in self.sent.drain(..) {
            let key = Key::new(&name);
            if !self.copy {
                keys.hooks_mut(&key).unwatch(self.db, &name, &flag);
            }
            match each.next() {
                Some(Ok(())) if flag.is_raised() && tries < TRIES_MAX => {
                    self.rest.push_back(Waiting { key: name, tries });
                    continue;
                }
                Some(Ok(())) if flag.is_raised() => self.refusal = self.refusal.take().or(Some(CHANGED)),
                Some(Ok(())) if !self.copy && !is_gone && keys.delete(&key) => {
                    keys.changed(&key, EventClass::GENERIC, "del");
                    moved.push(name.clone());
                }
                Some(Err(error)) => self.refusal = self.refusal.take().or(Some(error)),
                Some(Ok(())) | None => {}
            }
            settled.push(name);
        }
        if answers.failure.is_some() {
            settled.extend(self.rest.drain(..).map(|waiting| waiting.key));
        }
        if !moved.is_empty() {
            let words = || [b"DEL".as_slice()].into_iter().chain(moved.iter().map(Vec::as_slice));
            keys.effects.replace(self.db, words);
        }
        keys.effects.request_ended(self.db, &self.args.view(), false);
        settled
    }
}

impl Shared {
    /// Whether a request that may change its keys has to wait because one of them is under way to another
    /// server. If so, the thread is noted for a wake-up.
    pub(crate) fn is_migrating(&self, thread: usize, db: usize, entry: &Entry, args: &Args<'_>) -> bool {
        let marks = &self.migrations.marks;
        let mut indexes = Vec::new();
        marks.is_any()
            && entry.spec.data_keys(args, &mut indexes)
            && marks.is_any_of(thread, db, indexes.into_iter().map(|index| args.at(index)))
    }

    fn clear_marks<'k>(&self, db: usize, keys: impl Iterator<Item = &'k [u8]>) {
        for thread in self.migrations.marks.clear(db, keys) {
            self.send(thread, Mail::Recheck);
        }
    }
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
        let (shared, db) = (self.shared, self.keys.db);
        if !request.copy && !shared.migrations.marks.set(self.thread, db, &request.keys) {
            return self.postpone(connection);
        }
        shared.slow_path_reasons.hold(SlowPathReason::Migrating);
        connection.suspended = Some(Suspended::Migrating { ns: 0 });
        self.send_portion(Box::new(Migration {
            token: connection.token,
            client: connection.info.id,
            origin: self.origin,
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
        self.keys.db = migration.db;
        while portion.len() < PORTION_BYTES
            && let Some(waiting) = migration.rest.pop_front()
        {
            let shard = Key::new(&waiting.key).shard();
            let is_locked = self.keys.covers(shard);
            if !is_locked && !self.keys.lock_shard_unless_busy(shard) {
                migration.rest.push_front(waiting);
                break;
            }
            migration.encode(&mut self.keys, waiting, compress, &mut portion);
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
            return self.paused_migrations.push((migration, answers));
        }
        let clock = &self.shared.clock;
        let began = clock.raw();
        self.keys.db = migration.db;
        let shards = migration.sent.iter().map(|sent| Key::new(&sent.key).shard()).collect();
        if !self.keys.lock_shards_unless_busy(shards) {
            return self.postpone_migration(MigrationStep::Settle(migration, answers));
        }
        let settled = migration.settle(&mut self.keys, &mut answers);
        let origin = std::mem::replace(&mut self.origin, migration.origin);
        self.release_keys();
        self.origin = origin;
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
