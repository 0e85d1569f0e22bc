//! One request, from its arguments to its reply: checks, locking the keys' shards, running, and the work
//! after it.

use std::sync::atomic::Ordering;

use martlet_command::{Block, Control, Error, Fieldsets, Flags, Handler, KeyReader, Request};
use martlet_engine::{Expired, Touch, View, in_view};
use martlet_keyspace::shard_of;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use super::call::Call;
use super::request_flags;
use crate::clients::flag;
use crate::commandlog::{LogBounds, LogKind};
use crate::connection::{Connection, Suspended};
use crate::registry::{Entry, Run, answers_with_messages, names_command};
use crate::runtime::Worker;
use crate::runtime::checks;
use crate::scripting::facts::promises_no_writes;
use crate::slow_path::{SessionFlags, SlowPathReason};

/// After a command that took longer, the requests read ahead with it run at a later time.
const STALE_NS: u64 = 100_000;

/// The time that a request took to run.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Cost {
    /// Its time.
    pub ns: u64,
    /// Its reply.
    pub reply_bytes: usize,
}

/// How a request runs.
#[derive(Copy, Clone)]
pub(crate) struct Terms {
    pub view: View,
    /// The argument that is its only key, and that key's hash, if it is known.
    pub first_key: Option<(usize, u64)>,
    /// Inside MULTI or a script.
    pub deny_blocking: bool,
}

/// A user's rights to keys that the request does not name.
#[derive(Copy, Clone)]
pub(crate) struct Reader<'a> {
    /// See `Context::reads_any_key`.
    pub any_key: bool,
    /// See `Context::may_read_key`.
    pub may_read_key: Option<KeyReader<'a>>,
}

impl Reader<'_> {
    /// A user that may read any key.
    pub const ANY: Reader<'static> = Reader { any_key: true, may_read_key: None };
}

/// A client as its request's run needs to know it: also one that has waited, whose connection another thread
/// has.
#[derive(Copy, Clone)]
pub(crate) struct RequestClient {
    pub flags: SessionFlags,
    /// See [`Connection::tracked_reader`].
    pub tracked: Option<u64>,
    pub is_primary: bool,
}

impl RequestClient {
    pub(crate) fn of(connection: &Connection) -> RequestClient {
        RequestClient {
            flags: connection.session.flags,
            tracked: connection.tracked_reader(),
            is_primary: request_flags::is_from_primary(connection),
        }
    }
}

impl Worker {
    /// Runs one request of a connection and writes its reply. `hash` is that of a plain command's key.
    #[inline]
    pub(crate) fn request(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        args: &Args<'_>,
        entry: Option<&'static Entry>,
        hash: u64,
    ) {
        self.keys.counters().change.begin_request();
        let begin = reply.len();
        let Some(entry) = entry else {
            self.unknown_command(connection, reply, args);
            return self.apply_reply_mode(connection, reply, None, begin);
        };
        if let Some(index) = entry.plain_key
            && connection.session.flags.is_empty_but_for(SessionFlags::RESTRICTED)
            && (self.shared.slow_path_reasons.is_empty()
                || self.serves_slot(hash)
                || self.reads_from_replica(connection, entry))
            && entry.spec.takes(args.len())
            && self.permits(connection, entry, args).is_ok()
            && !(entry.spec.flags.has(Flags::DENYOOM) && self.memory.is_due())
        {
            let view = View { db: connection.session.db, ..self.base_view };
            if !self.keys.lock_shard_unless_busy(shard_of(hash)) {
                return self.request_with_checks(connection, reply, args, entry);
            }
            let terms = Terms { view, first_key: Some((index, hash)), deny_blocking: false };
            self.run_inlined(connection, reply, entry, args, terms);
            self.release_keys();
            self.after_command(connection, entry);
            return;
        }
        let (is_replica, before) = (connection.is_replica(), (reply.len(), reply.total_bytes()));
        self.request_with_checks(connection, reply, args, entry);
        self.apply_reply_mode(connection, reply, Some(entry), begin);
        if is_replica {
            (self.hooks.replicas_request_ended)(self, connection, reply, entry, before);
        }
        if connection.session.flags.has(SessionFlags::ASKING) {
            connection.forget_asking();
        }
    }

    /// Whether nothing but the role asks for checks, which a command that reads passes.
    fn reads_from_replica(&self, connection: &Connection, entry: &Entry) -> bool {
        connection.info.flags.load(Ordering::Relaxed) & flag::FOLLOWS_REDIRECTS == 0
            && self.shared.slow_path_reasons.is_only(SlowPathReason::Replica)
            && !entry.spec.flags.has(Flags::WRITE)
            && self.config.current().replica_serve_stale_data
    }

    #[cold]
    fn unknown_command(&mut self, connection: &mut Connection, reply: &mut Reply, args: &Args<'_>) {
        if [b"host:".as_slice(), b"post"].iter().any(|word| args.at(0).eq_ignore_ascii_case(word)) {
            tracing::warn!(
                "Possible SECURITY ATTACK detected: a POST or Host: line of HTTP came from {}. Connection aborted.",
                connection.info.peer
            );
            reply.truncate(0);
            connection.discard_output();
            connection.closing = true;
            return;
        }
        let must_authenticate = connection.session.flags.has(SessionFlags::UNAUTHENTICATED);
        let error = match self.presentation().is_valkey() && must_authenticate {
            true => super::checks::NOT_AUTHENTICATED,
            false => Error::unknown_command(args),
        };
        self.reject(connection, reply, None, &error);
    }

    /// The longer path: every check, transactions, reply modes, commands without a single key.
    fn request_with_checks(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        args: &Args<'_>,
        entry: &'static Entry,
    ) {
        if self.shared.stopping.load(Ordering::Relaxed) {
            // What ran now would be missing from the file that was saved last.
            connection.closing = true;
            return;
        }
        let is_queued =
            connection.session.flags.has(SessionFlags::MULTI) && !entry.spec.flags.has(Flags::NOT_QUEUED);
        // Before the checks, which it passes once, when it runs. An excluded thread refuses it.
        if !is_queued
            && self.is_polling()
            && !self.is_excluded()
            && request_flags::runs_script(connection, entry)
        {
            connection.suspended = Some(Suspended::Deferred);
            return;
        }
        if self.is_excluded() && checks::must_wait_for_gate(self, entry) {
            connection.suspended = Some(Suspended::Deferred);
            return;
        }
        connection.info.last_command.store(entry.stats_id + 1, Ordering::Relaxed);
        self.make_room_before(connection, reply);
        if let Err(error) = checks::before(self, connection, entry, args) {
            if entry.spec.control == Control::ExecuteTransaction {
                // MONITOR shows the end of the transaction even so.
                self.feed_monitors(connection, entry, args);
            }
            self.reject(connection, reply, names_command(entry, args).then_some(entry), &error);
            return;
        }
        if self.must_postpone(connection, entry, args) {
            self.postpone(connection);
            return;
        }
        if self.checks_compatibility() {
            self.note_compatibility(connection, entry, args);
        }
        if self.shared.slow_path_reasons.has(SlowPathReason::HotKeys) {
            // Every command is to be noted.
            self.meter.note_all();
        }
        if connection.session.flags.has(SessionFlags::TRACKING) {
            self.pushes.set_origin(connection.info.id);
        }
        if is_queued {
            self.enqueue(connection, entry, args);
            self.count_queued_for_slot(entry, args);
            reply.simple("QUEUED");
        } else {
            self.execute(connection, reply, entry, args, false);
            if self.left.is_any() {
                self.answer_from_outside(connection, reply);
            }
            self.feed_monitors(connection, entry, args);
            self.after_command(connection, entry);
        }
        reply.set_resp3(connection.session.resp3);
        if self.pushes.set_origin(0) != 0 {
            (self.hooks.tracked_request_ended)(self, connection, entry);
        }
        self.yield_to_mail(connection);
    }

    /// Evicts keys as below for a request that is about to run; what of that concerns a client that caches
    /// keys precedes its reply.
    fn make_room_before(&mut self, connection: &mut Connection, reply: &mut Reply) {
        // What CLIENT REPLY would take away with the reply goes by mail.
        let is_noticed = connection.session.flags.has(SessionFlags::TRACKING)
            && !connection.session.flags.has(SessionFlags::FILTERS_REPLIES);
        if is_noticed {
            self.pushes.collect_notices(connection.info.id);
        }
        self.make_room_if_due();
        if is_noticed {
            (self.hooks.tracked_request_begins)(self, connection, reply);
        }
    }

    /// Evicts keys if it is time to look at the memory, or the memory was full. Nothing is locked.
    pub(crate) fn make_room_if_due(&mut self) {
        let is_memory_full = self.shared.slow_path_reasons.has(SlowPathReason::MemoryFull);
        if (self.memory.is_due() || is_memory_full) && !self.is_excluded() {
            self.make_room();
        }
    }

    /// Locks the command's shards and runs it in its view.
    pub(crate) fn execute(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: &'static Entry,
        args: &Args<'_>,
        deny_blocking: bool,
    ) {
        let view = self.view_of(connection.session.db, connection.session.flags, entry);
        in_view(self, view, |worker| worker.execute_in_view(connection, reply, entry, args, deny_blocking));
        connection.count_fieldsets();
    }

    fn execute_in_view(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: &'static Entry,
        args: &Args<'_>,
        deny_blocking: bool,
    ) {
        match martlet_command::key_hashes(entry.spec, args) {
            Some(hashes) => {
                self.prefetch_many(self.keys.db(), &hashes);
                let begin = reply.len();
                if self.keys.lock_shards_unless_busy(hashes.into_iter().map(shard_of).collect()) {
                    self.run_if_slot_is_local(connection, reply, entry, args, deny_blocking);
                    self.release_keys();
                } else {
                    self.keys.gave_up = true;
                }
                if std::mem::take(&mut self.keys.gave_up) {
                    reply.truncate(begin);
                    self.reject(connection, reply, Some(entry), &self.busy_error());
                }
            }
            None => {
                let has_run = self.alone_for(connection, |worker, connection| {
                    worker.run_if_slot_is_local(connection, reply, entry, args, deny_blocking);
                });
                if !has_run {
                    self.reject(connection, reply, Some(entry), &self.busy_error());
                }
            }
        }
    }

    /// Runs a request whose keys are locked, unless they have become another node's meanwhile.
    fn run_if_slot_is_local(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: &'static Entry,
        args: &Args<'_>,
        deny_blocking: bool,
    ) {
        if let Err(error) = self.check_locked_route(connection, entry, args, None) {
            return self.reject(connection, reply, Some(entry), &error);
        }
        self.run(connection, reply, entry, args, None, deny_blocking);
        self.before_unlock(&RequestClient::of(connection), entry, args);
    }

    /// Whether expired keys stay when this command meets them: a replica deletes only keys that its primary
    /// deletes, and those that clients overwrite where they may; while data is imported, only a writer
    /// deletes.
    fn keeps_expired(&self, entry: &Entry) -> bool {
        let config = self.config.current();
        let writes = entry.spec.flags.has(Flags::WRITE);
        match config.replicaof.0.is_some() {
            true => !writes || config.replica_read_only,
            false => config.import_mode && !writes,
        }
    }

    /// The view of a command of a client with these flags.
    pub(crate) fn view_of(&self, db: usize, flags: SessionFlags, entry: &Entry) -> View {
        // While writes are postponed, or the disk does not take what would have to be recorded, nothing is
        // deleted.
        let keeps = self.keeps_expired(entry)
            || self.shared.postpones(self.now_ms).is_some()
            || self.shared.persistence.log.refuses_writes.load(Ordering::Relaxed);
        let view = View {
            db,
            expired: if keeps { Expired::Keep } else { Expired::Hide },
            touch: self.touch_of(!flags.has(SessionFlags::NO_TOUCH), entry),
            ..self.base_view
        };
        if flags.has(SessionFlags::IMPORTS_SLOTS) {
            // The source deletes the keys that are due.
            return View { sets_past_times: true, ..view.seeing_expired() };
        }
        let imports = flags.has(SessionFlags::IMPORT_SOURCE) && view.sets_past_times;
        if imports { view.seeing_expired() } else { view }
    }

    /// How a command records its accesses for a client that wants so (CLIENT NO-TOUCH).
    fn touch_of(&self, touches: bool, entry: &Entry) -> Touch {
        let policy = self.base_view.touch;
        let marks =
            touches || entry.spec.flags.has(Flags::IGNORES_NO_TOUCH) || matches!(policy, Touch::Lrm(_));
        if marks { policy } else { Touch::Nothing }
    }

    /// Runs a command of EXEC or a script, whose keys are locked, and all that follows but telling monitors.
    pub(crate) fn run_nested(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: &'static Entry,
        args: &Args<'_>,
        first_key: Option<(usize, u64)>,
    ) {
        let session = &connection.session;
        let touch = self.touch_of(!session.flags.has(SessionFlags::NO_TOUCH), entry);
        // The time of the transaction, which a busy script within it has moved on; 0 in a primary's stream.
        let now_ms = if self.keys.now_ms() == 0 { 0 } else { self.now_ms };
        let mut view = View { db: session.db, now_ms, touch, ..self.keys.view() };
        let began = self.mark;
        let reasons = &self.shared.slow_path_reasons;
        let decides = reasons.has(SlowPathReason::Replica) || reasons.has(SlowPathReason::Importing);
        if view.expired == Expired::Keep && decides && self.keys.now_ms() != 0 && !self.keeps_expired(entry) {
            view.expired = Expired::Hide;
        }
        in_view(self, view, |worker| {
            worker.run(connection, reply, entry, args, first_key, true);
            worker.stats().nested_ns.add(worker.shared.clock.elapsed_ns(began, worker.mark));
            worker.before_unlock(&RequestClient::of(connection), entry, args);
        });
        if self.keys.effects.has_news() {
            self.publish_changes();
        }
    }

    /// Runs a command whose keys are locked in the view that its caller has opened; statistics, slow log,
    /// errors. `first_key` is the argument that is its only key, and that key's hash, if it is known.
    pub(crate) fn run(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: &'static Entry,
        args: &Args<'_>,
        first_key: Option<(usize, u64)>,
        deny_blocking: bool,
    ) {
        let terms = Terms { view: self.keys.view(), first_key, deny_blocking };
        self.run_inlined(connection, reply, entry, args, terms);
    }

    /// As [`Worker::run`], made part of the caller: once, where most requests come by.
    #[inline(always)]
    fn run_inlined(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: &'static Entry,
        args: &Args<'_>,
        terms: Terms,
    ) {
        let Terms { first_key, deny_blocking, .. } = terms;
        let (begin, begin_bytes) = (reply.len(), reply.total_bytes());
        let error = match entry.run {
            Run::Data(handler) => {
                connection.reads_data = true;
                let reads_any_key = first_key.is_some() || self.may_read_all_keys(connection, entry, args);
                let is_restricted = connection.session.flags.has(SessionFlags::RESTRICTED);
                let session = &mut connection.session;
                let (user, fieldsets) = (&session.user, &mut session.fieldsets);
                let may_read = |key: &[u8]| user.may_read_key(key);
                let may_read_key: Option<KeyReader<'_>> = if is_restricted { Some(&may_read) } else { None };
                let reader = Reader { any_key: reads_any_key, may_read_key };
                match self.run_handler(handler, reply, args, terms, reader, fieldsets) {
                    Ok(None) => None,
                    Ok(Some(block)) => {
                        self.block(connection, entry, args, block);
                        None
                    }
                    Err(error) => Some(error),
                }
            }
            Run::Server(place) => {
                if !entry.is_unwindable() {
                    self.keys.counters().change.set();
                }
                let mut call = Call { worker: self, connection, reply, args: *args, entry, deny_blocking };
                (call.worker.hooks.handlers[place])(&mut call).err().map(Box::new)
            }
            Run::Nothing => Some(Box::new(checks::unknown_subcommand(entry, args))),
        };
        let ns = self.end_run(reply, begin, entry, error.as_deref(), deny_blocking);
        match &mut connection.suspended {
            // It has not run yet: it counts once the wait is over.
            Some(Suspended::Blocked(blocked)) => blocked.ns = ns,
            Some(Suspended::Migrating { ns: so_far }) => *so_far = ns,
            Some(Suspended::Paused | Suspended::Debugging(_)) => {}
            _ => {
                let reply_bytes = reply.total_bytes().saturating_sub(begin_bytes);
                self.count_run(connection, entry, args, Cost { ns, reply_bytes });
            }
        }
    }

    /// Runs a data command's handler for a client that has sent the request, or that has waited.
    ///
    /// # Errors
    /// As of [`martlet_command::run`].
    #[inline(always)]
    pub(crate) fn run_handler(
        &mut self,
        handler: Handler,
        reply: &mut Reply,
        args: &Args<'_>,
        terms: Terms,
        reader: Reader<'_>,
        fieldsets: &mut Fieldsets,
    ) -> Result<Option<Box<Block>>, Box<Error>> {
        let Terms { view, first_key, deny_blocking } = terms;
        let settings = &*self.settings;
        let Reader { any_key: reads_any_key, may_read_key } = reader;
        let request = Request {
            args: *args,
            settings,
            first_key,
            reads_any_key,
            may_read_key,
            deny_blocking,
            fieldsets,
        };
        martlet_command::run(handler, &mut self.keys, view, reply, request)
    }

    /// Whether a command of several that run under the same locks may need shards besides those.
    pub(crate) fn reaches_beyond(&mut self, db: usize, entry: &Entry, args: &Args<'_>) -> bool {
        let view = View { db, ..self.base_view };
        in_view(self, view, |worker| {
            martlet_command::reaches_beyond(&worker.keys, &worker.settings, entry.spec, args)
        })
    }

    /// Ends a run: writes its error, if it has one, in the place of its reply from `begin` on. Returns the
    /// time that it took, in nanoseconds.
    #[inline(always)]
    pub(crate) fn end_run(
        &mut self,
        reply: &mut Reply,
        begin: usize,
        entry: &Entry,
        error: Option<&Error>,
        deny_blocking: bool,
    ) -> u64 {
        let end = self.shared.clock.raw();
        let ns = self.shared.clock.elapsed_ns(self.mark, end);
        self.mark = end;
        // In a transaction the time stands still.
        if ns >= STALE_NS && !deny_blocking {
            self.advance_time();
        }
        if let Some(error) = error {
            reply.truncate(begin);
            self.fail(reply, entry, error);
        }
        ns
    }

    /// Counts a request that has run.
    #[inline(always)]
    pub(crate) fn count_run(&mut self, connection: &Connection, entry: &Entry, args: &Args<'_>, cost: Cost) {
        let stats = self.stats();
        stats.total_commands.add(1);
        stats.commands[entry.stats_id].record(cost.ns, self.meter.tracks_latency());
        if self.meter.may_note(cost.ns, cost.reply_bytes as u64, || args.encoded_bytes_at_most() as u64) {
            self.note_run(connection, entry, args, cost);
        }
    }

    /// Answers with an error, and counts it.
    #[cold]
    pub(crate) fn fail(&mut self, reply: &mut Reply, entry: &Entry, error: &Error) {
        let busy = matches!(error, Error::ShardBusy).then(|| self.busy_error());
        let error = busy.as_ref().unwrap_or(error);
        reply.error(self.presentation().error_text(Some(entry.spec), error));
        self.stats().commands[entry.stats_id].failed.add(1);
        self.count_error(&error.to_string());
    }

    /// Counts an error reply.
    pub(crate) fn count_error(&self, text: &str) {
        self.stats().error_replies.add(1);
        let Some(codes) = self.shared.stats.count_error(text.split(' ').next().unwrap_or("ERR")) else {
            return;
        };
        tracing::warn!(
            "Errorstats stopped adding new errors because the number of errors reached the limit ({}).",
            codes.len()
        );
        let list: Vec<&str> = codes.keys().map(String::as_str).collect();
        tracing::warn!("Current errors code list: {}", list.join(", "));
        self.shared.engine.lazy_free.free(codes.len(), Box::new(codes));
    }

    /// Answers a request that may not run; inside MULTI, EXEC will refuse.
    fn reject(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: Option<&Entry>,
        error: &Error,
    ) {
        let mut text = self.presentation().error_text(entry.map(|entry| entry.spec), error);
        if entry.is_some_and(|e| e.spec.control == Control::ExecuteTransaction) {
            crate::runtime::transaction::end_transaction(connection);
            self.unwatch_all(connection);
            if !matches!(error, Error::Redirect(_)) {
                text = crate::runtime::transaction::discarded_because(&Error::Bytes(text)).to_bytes();
            }
        } else if let Some(transaction) = &mut connection.session.transaction {
            transaction.aborted = true;
        }
        reply.error(&text);
        self.count_error(&String::from_utf8_lossy(&text));
        if let Some(entry) = entry {
            self.stats().commands[entry.stats_id].rejected.add(1);
        }
    }

    /// The work after a command once its keys are released: counters, events, blocked clients that it can
    /// serve.
    #[inline]
    pub(crate) fn after_command(&mut self, connection: &mut Connection, entry: &Entry) {
        let info = &connection.info;
        info.last_command.store(entry.stats_id + 1, Ordering::Relaxed);
        info.commands.store(info.commands.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.count_changes();
        if self.keys.recorded != 0 {
            connection.recorded = std::mem::take(&mut self.keys.recorded);
        }
        if !self.keys.ready.is_empty() {
            self.serve_ready();
        }
    }

    /// Adds up the changes.
    #[inline]
    pub(crate) fn count_changes(&mut self) {
        if self.keys.dirty != 0 {
            self.keys.counters().dirty.add(self.keys.dirty);
            self.keys.dirty = 0;
        }
    }

    /// The work while a command's keys are still locked, besides [`Worker::release_keys`].
    pub(crate) fn before_unlock(&mut self, client: &RequestClient, entry: &Entry, args: &Args<'_>) {
        if self.works_on_copy() {
            return;
        }
        if let Some(id) = client.tracked {
            (self.hooks.keys_read)(self, id, entry, args);
        }
        if self.shared.slow_path_reasons.has(SlowPathReason::Replica) && !client.is_primary {
            (self.hooks.ran_on_replica)(self, entry, args);
        }
    }

    /// Whether the keys at hand are a copy, of which clients see nothing: a script is debugged.
    pub(crate) fn works_on_copy(&self) -> bool {
        !std::ptr::eq(self.keys.engine(), self.shared.engine)
    }

    /// Publishes the changes of the locked keys, and then releases them: so all followers see one key's
    /// changes in their order.
    #[inline]
    pub(crate) fn release_keys(&mut self) {
        if self.keys.effects.has_news() {
            return self.publish_and_unlock();
        }
        self.keys.release();
    }

    #[cold]
    fn publish_and_unlock(&mut self) {
        self.publish_changes();
        self.keys.release();
        // The log may wait for the disk.
        self.keys.effects.take_warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    }

    /// Notifies clients that cache keys, and publishes key events.
    #[cold]
    pub(crate) fn publish_changes(&mut self) {
        let news = self.keys.effects.take_news();
        (self.hooks.keys_changed)(self, news);
    }

    /// CLIENT REPLY: removes a request's output, from `begin`, that the client does not want. Every reply
    /// passes here once, errors included; messages, which are not replies, stay.
    fn apply_reply_mode(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: Option<&Entry>,
        begin: usize,
    ) {
        if !connection.session.flags.has(SessionFlags::FILTERS_REPLIES) {
            return;
        }
        if connection.session.flags.has(SessionFlags::IMPORTS_SLOTS) {
            let answer = reply.as_bytes().get(begin..).unwrap_or_default();
            if (self.hooks.import_answered)(self, connection, answer) {
                reply.truncate(begin);
            }
            return;
        }
        let output = reply.as_bytes().get(begin..).unwrap_or_default();
        let is_message = entry.is_some_and(answers_with_messages) && output.first() != Some(&b'-');
        if !connection.awaits_reply() && !connection.session.shows_reply() && !is_message {
            reply.truncate(begin);
        }
    }

    /// Whether the request is to run at another time: CLIENT PAUSE is on, the journal is full, or it may
    /// change a key that is under way to another server.
    fn must_postpone(&self, connection: &Connection, entry: &Entry, args: &Args<'_>) -> bool {
        let flags = entry.spec.flags;
        let may_change = flags.has(Flags::WRITE)
            || flags.has(Flags::MAY_REPLICATE)
            || request_flags::executed(connection, entry).is_some_and(|queue| queue.writes);
        if connection.session.flags.has(SessionFlags::IMPORTS_SLOTS) {
            // As a primary's stream: only the disk has it wait.
            return may_change && self.shared.engine.journal.is_full();
        }
        self.shared
            .postpones(self.now_ms)
            .is_some_and(|all| all || may_change && !promises_no_writes(self.shared, entry, args))
            || may_change && self.touches_migrating(connection, entry, args)
    }

    fn touches_migrating(&self, connection: &Connection, entry: &Entry, args: &Args<'_>) -> bool {
        let is_migrating = |entry: &Entry, args: &Args<'_>| {
            self.shared.is_migrating(self.thread, connection.session.db, entry, args)
        };
        match request_flags::executed(connection, entry) {
            Some(transaction) => transaction.queue.iter().any(|(entry, args)| is_migrating(entry, &args)),
            None => is_migrating(entry, args),
        }
    }

    /// Passes a run to the latency monitor and the command log.
    #[cold]
    fn note_run(&mut self, connection: &Connection, entry: &Entry, args: &Args<'_>, cost: Cost) {
        let at_s = self.now_ms / 1000;
        self.count_for_keys(entry, args, cost);
        self.count_for_slot(connection, entry, args, cost);
        if self.meter.is_latency(cost.ns) && !entry.spec.flags.has(Flags::BLOCKING) {
            let event = if entry.spec.flags.has(Flags::FAST) { "fast-command" } else { "command" };
            self.shared.latency.add(event, at_s, cost.ns / 1_000_000);
        }
        if entry.spec.flags.has(Flags::SKIP_SLOWLOG) {
            return;
        }
        let (limits, config) = (self.meter.limits(), self.config.current().clone());
        // A script's call is not a request, and unwanted output not a reply.
        let is_request = !self.shared.scripts.running(self.thread).is_running();
        let is_shown = !connection.session.flags.has(SessionFlags::REPLY_MODE);
        if cost.ns >= limits.slow_ns {
            let bounds = LogBounds::of(&config, config.slowlog_max_len);
            self.log_command(LogKind::Slow, connection, entry, args, cost.ns / 1000, bounds);
        }
        let request_bytes = if is_request { args.encoded_bytes() as u64 } else { 0 };
        if request_bytes >= limits.request_bytes {
            let bounds = LogBounds::of(&config, config.commandlog_large_request_max_len);
            self.log_command(LogKind::LargeRequest, connection, entry, args, request_bytes, bounds);
        }
        let reply_bytes = if is_shown { cost.reply_bytes as u64 } else { 0 };
        if reply_bytes >= limits.reply_bytes {
            let bounds = LogBounds::of(&config, config.commandlog_large_reply_max_len);
            self.log_command(LogKind::LargeReply, connection, entry, args, reply_bytes, bounds);
        }
    }

    /// HOTKEYS: shares out a command's cost among its keys. A script's calls count with the script.
    fn count_for_keys(&mut self, entry: &Entry, args: &Args<'_>, cost: Cost) {
        let hotkeys = &self.shared.hotkeys;
        if !hotkeys.is_active() {
            return self.meter.reset();
        }
        let mut indexes = Vec::new();
        if self.shared.scripts.running(self.thread).is_running() || !entry.spec.data_keys(args, &mut indexes)
        {
            return;
        }
        let keys: Vec<&[u8]> = indexes.iter().filter_map(|index| args.get(*index)).collect();
        let bytes = (args.encoded_bytes() + cost.reply_bytes) as u64;
        hotkeys.count(self.thread, &keys, cost.ns, bytes);
    }

    fn log_command(
        &self,
        kind: LogKind,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
        value: u64,
        bounds: LogBounds,
    ) {
        let name = martlet_base::sync::lock(&connection.info.details).name.clone();
        let peer = connection.info.peer.clone();
        let shown = checks::redacted(entry, args);
        let args = shown.as_ref().map_or(*args, |owned| owned.view());
        let at_s = self.now_ms / 1000;
        self.shared.command_log.of(kind).add(&args, value, at_s, peer, name, bounds);
    }
}
