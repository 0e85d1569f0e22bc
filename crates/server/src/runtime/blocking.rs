//! Clients that wait for a key: queued under the key's shard, served in the order in which they came.
//!
//! A thread that changes a key with blocked clients runs the first waiter's request for it itself, and mails
//! the reply to the waiter's thread. A wait ends exactly once; see [`Waiter`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_acl::{Denial, Origin, User};
use martlet_base::clock::monotonic;
use martlet_base::sync::lock;
use martlet_command::{Block, Copies, Error, Fieldsets, Flags, Handler, NO_REPLICAS, TimeoutReply, Wait};
use martlet_engine::{ReadyKey, View, Waiter, in_view};
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::{Args, OwnedArgs};

use crate::clients::flag;
use crate::connection::{Blocked, Connection, Suspended};
use crate::containment::{Contained, contain};
use crate::network_threads::NetworkThreads;
use crate::registry::{Entry, Run};
use crate::runtime::demands::{Demands, OF_STALE, OF_WRITE, refusal};
use crate::runtime::dispatch::{Cost, Reader, RequestClient, Terms};
use crate::runtime::{Mail, Shared, Worker};
use crate::waits::{CopyWaiter, WITHOUT_LOG, WaitEnd};
use martlet_persistence::aof::Phase;

/// Clients looked at before the key's shard is held for more: most keys are exhausted by the first.
const WAITERS_AT_ONCE: usize = 8;
/// How soon a request that is due is looked at again where writes are held up.
const AGAIN_MS: i64 = 10;

/// The data to run a blocked client's request.
struct WaitingRequest {
    entry: &'static Entry,
    args: OwnedArgs,
    resp3: bool,
    /// As it was when the client was allowed to wait.
    user: Arc<User>,
    /// The client, if it tracks keys.
    origin: u64,
    client: RequestClient,
}

/// The answer to a waiting client when the server becomes a replica.
const ROLE_CHANGED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// Makes a waiter's reply and answers with it, on whichever thread this is.
fn answer_with(shared: &Shared, waiter: Arc<Waiter>, resp3: bool, write: impl FnOnce(&mut Reply)) {
    let started = monotonic();
    let computed = catch_unwind(AssertUnwindSafe(|| {
        let mut reply = Reply::new(Vec::new(), resp3);
        write(&mut reply);
        reply.into_bytes()
    }));
    if !waiter.serve_begin() {
        return;
    }
    waiter.serve_end(true);
    let thread = waiter.thread;
    let mail = match computed {
        Ok(reply) => {
            let ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            Mail::Served { waiter, reply, ns }
        }
        Err(_) => Mail::Unblock { waiter, end: WaitEnd::Panicked },
    };
    shared.send(thread, mail);
}

impl Worker {
    /// Queues a client on the keys of its request. The keys' shards are held.
    pub(crate) fn block(
        &mut self,
        connection: &mut Connection,
        entry: &'static Entry,
        args: &Args<'_>,
        block: Box<Block>,
    ) {
        let (keys, awaited) = match &block.wait {
            Wait::Keys(indexes, awaited) => (indexes.as_slice(), Some(*awaited)),
            Wait::Freed
            | Wait::Copies(_)
            | Wait::Replicated(_)
            | Wait::Shutdown
            | Wait::ClusterSaved
            | Wait::Computed(_)
            | Wait::Asked => (&[][..], None),
        };
        let keys = keys.iter().map(|&index| args.at(index).to_vec()).collect();
        let request = WaitingRequest {
            entry,
            args: resolved(args, &block.resolved),
            resp3: connection.session.resp3,
            user: connection.session.user.clone(),
            origin: self.pushes.origin(),
            client: RequestClient::of(connection),
        };
        let db = connection.session.db;
        let waiter = Waiter::new(self.thread, connection.token.0, db, keys, awaited, Box::new(request));
        for key in &waiter.keys {
            let key = Key::new(key);
            self.keys.hooks_mut(&key).block(db, key.bytes, &waiter);
        }
        self.await_what(connection, &block.wait, &waiter);
        for at_ms in [block.deadline_ms, block.again_ms].into_iter().flatten() {
            self.timers.deadlines.insert((at_ms, connection.token));
        }
        self.shared.blocked_clients.fetch_add(1, Ordering::Relaxed);
        // The command counts for its client once it is over.
        connection.info.commands.fetch_sub(1, Ordering::Relaxed);
        connection.info.flags.fetch_or(flag::BLOCKED, Ordering::Relaxed);
        // A wait for the cluster's file is for a change that is done already, and one for a computation or
        // for other servers for what was read: whatever the role is now, they end by themselves.
        let ends_by_itself = matches!(block.wait, Wait::ClusterSaved | Wait::Computed(_) | Wait::Asked);
        let is_ended_by_others = !ends_by_itself;
        *lock(&connection.info.waiter) = is_ended_by_others.then(|| waiter.clone());
        if is_ended_by_others && connection.info.killed.load(Ordering::Acquire) {
            // The thread that has killed it may have looked before. The keys are still locked: nothing has
            // been served to it.
            waiter.cancel();
        }
        connection.suspended =
            Some(Suspended::Blocked(Box::new(Blocked { waiter, block, command: entry.id, ns: 0 })));
    }

    /// Has whatever a client waits for besides keys know of it.
    fn await_what(&mut self, connection: &Connection, wait: &Wait, waiter: &Arc<Waiter>) {
        match wait {
            Wait::Freed => self.shared.engine.lazy_free.when_freed(self.say_ok(waiter.clone())),
            Wait::ClusterSaved => {
                if let Some(node) = self.shared.cluster() {
                    node.when_saved(self.say_ok(waiter.clone()));
                }
            }
            // A client that is due is served at the end of this loop, when the connection is in its place
            // again.
            Wait::Copies(copies) => {
                let (waiter, copies, recorded) = (waiter.clone(), *copies, connection.recorded);
                self.waits.await_copies(CopyWaiter { waiter, copies, runs_again: false, recorded });
            }
            Wait::Replicated(copies) => {
                let (waiter, copies, recorded) = (waiter.clone(), *copies, copies.position);
                self.waits.await_copies(CopyWaiter { waiter, copies, runs_again: true, recorded });
            }
            Wait::Shutdown => self.shared.pending_shutdown.add(waiter.clone()),
            Wait::Computed(computation) => {
                let (shared, waiter, computation) = (self.shared, waiter.clone(), computation.clone());
                let resp3 = connection.session.resp3;
                shared.computations.run(Box::new(move |computing| {
                    answer_with(shared, waiter, resp3, |reply| computation.write(computing, reply));
                }));
            }
            // The thread is started once the client waits.
            Wait::Keys(..) | Wait::Asked => {}
        }
    }

    /// Has a thread make the reply of what other servers answer, for which the client waits. `write` gets
    /// `false` if there is no such thread: then it must not wait.
    pub(crate) fn ask_others(
        &mut self,
        connection: &mut Connection,
        entry: &'static Entry,
        args: &Args<'_>,
        threads: &'static NetworkThreads,
        write: impl FnOnce(bool, &mut Reply) + Send + 'static,
    ) {
        self.block(connection, entry, args, Box::new(Block::new(Wait::Asked, None, TimeoutReply::Null)));
        let Some(Suspended::Blocked(blocked)) = &connection.suspended else { return };
        let (shared, waiter, resp3) = (self.shared, blocked.waiter.clone(), connection.session.resp3);
        threads.run("ask-nodes", move |has_thread| {
            answer_with(shared, waiter, resp3, |reply| write(has_thread, reply));
        });
    }

    /// What answers a waiter with OK, on whichever thread it is called.
    fn say_ok(&self, waiter: Arc<Waiter>) -> Box<dyn FnOnce() + Send> {
        let shared = self.shared;
        Box::new(move || {
            if waiter.serve_begin() {
                waiter.serve_end(true);
                let reply = b"+OK\r\n".to_vec();
                shared.send(waiter.thread, Mail::Served { waiter, reply, ns: 0 });
            }
        })
    }

    /// Serves clients that wait for changed keys, until none is left. Nothing is locked.
    pub(crate) fn serve_ready(&mut self) {
        while !self.keys.ready.is_empty() {
            let mut left = Vec::new();
            for ready in self.keys.ready.take() {
                if !self.serve_key(&ready) {
                    left.push(ready);
                }
            }
            self.count_changes();
            if !left.is_empty() {
                // At the end of the busy script that has their shards.
                return self.keys.ready.put_back(left);
            }
        }
    }

    /// Serves clients that wait for a key; false if a busy script is in the way.
    fn serve_key(&mut self, ready: &ReadyKey) -> bool {
        let key = Key::new(&ready.key);
        let mut after = 0;
        loop {
            if !self.keys.lock_shard_unless_busy(key.shard()) {
                return false;
            }
            let view = View { db: ready.db, ..self.base_view };
            let kind = in_view(&mut self.keys, view, |keys| keys.kind(&key));
            let hooks = self.keys.hooks_mut(&key);
            let waiters = hooks.waiters(ready.db, key.bytes, kind.is_some(), after, WAITERS_AT_ONCE);
            self.keys.release();
            let Some(last) = waiters.last() else { return true };
            after = last.number();
            for waiter in waiters {
                // All keys of one that waits for another type may be many, and need not be held to see that.
                if waiter.is_met_by(kind) {
                    match self.serve(&waiter, ready) {
                        Some(true) => return true,
                        Some(false) => {}
                        None => return false,
                    }
                }
            }
        }
    }

    /// Runs a waiter's request and sends it the reply, if it could be served; returns whether the key has
    /// nothing more to give. `None` if a busy script is in the way.
    ///
    /// The waiter is claimed and returned while the shards of all its keys are locked. So a thread that
    /// changes another of its keys in that time finds it unclaimed once it has that key's shard, and no
    /// change goes unseen.
    fn serve(&mut self, waiter: &Arc<Waiter>, ready: &ReadyKey) -> Option<bool> {
        let Some(request) = waiter.request.downcast_ref::<WaitingRequest>() else { return Some(false) };
        let (Run::Data(handler), args) = (request.entry.run, request.args.view()) else {
            return Some(false);
        };
        let Some(shards) = martlet_command::shards(request.entry.spec, &args) else { return Some(false) };
        if request.entry.spec.flags.has(Flags::DENYOOM) {
            self.make_room_if_due();
        }
        if !self.keys.lock_shards_unless_busy(shards) {
            return None;
        }
        if !waiter.serve_begin() {
            self.keys.release();
            return Some(false);
        }
        let view = self.view_of(waiter.db, request.client.flags, request.entry);
        let is_done =
            in_view(self, view, |worker| worker.serve_locked(waiter, ready, handler, request, &args));
        Some(is_done)
    }

    /// As [`Worker::serve`] with the waiter claimed, its keys locked, and its view set.
    fn serve_locked(
        &mut self,
        waiter: &Arc<Waiter>,
        ready: &ReadyKey,
        handler: Handler,
        request: &WaitingRequest,
        args: &Args<'_>,
    ) -> bool {
        let key = Key::new(&ready.key);
        let kind = self.keys.kind(&key);
        if !waiter.is_met_by(kind) {
            waiter.serve_end(false);
            self.keys.release();
            return false;
        }
        if let Some(end) = self.may_not_run(request, waiter.db) {
            waiter.serve_end(true);
            self.keys.release();
            self.shared.send(waiter.thread, Mail::Unblock { waiter: waiter.clone(), end });
            return false;
        }
        let mut reply = Reply::new(Vec::new(), request.resp3);
        let outcome = match self.run_waiting(handler, args, &mut reply) {
            Ok(outcome) => outcome,
            Err(panic) => {
                self.give_up_waiter(waiter, panic);
                return false;
            }
        };
        let blocks = matches!(outcome, Ok(Some(_)));
        let again_ms = outcome.as_ref().ok().and_then(|block| block.as_ref()?.again_ms);
        let error = outcome.as_ref().err().map(|error| &**error);
        let ns = self.end_run(&mut reply, 0, request.entry, error, false);
        if !blocks {
            for key in &waiter.keys {
                let key = Key::new(key);
                self.keys.hooks_mut(&key).unblock(waiter.db, key.bytes, waiter);
            }
        }
        // Others may wait for the removal of one that is not there.
        let exhausted = kind.is_some() && self.keys.get(&key).is_none();
        waiter.serve_end(!blocks);
        if !blocks {
            // The reply precedes the news of the request's changes.
            let served = Mail::Served { waiter: waiter.clone(), reply: reply.into_bytes(), ns };
            self.shared.send(waiter.thread, served);
        } else if let Some(at_ms) = again_ms {
            self.shared.send(waiter.thread, Mail::RunAgain { waiter: waiter.clone(), at_ms });
        }
        self.count_stream_for_slot(request.entry, args);
        self.before_unlock(&request.client, request.entry, args);
        let (origin, recorded) = (self.pushes.set_origin(request.origin), self.keys.recorded);
        self.release_keys();
        self.pushes.set_origin(origin);
        // It is no write of this thread's client.
        self.keys.recorded = recorded;
        exhausted
    }

    /// Runs a waiter's request, whose keys are locked. A panic before it changes anything is its client's
    /// alone, not that of the client which served it.
    fn run_waiting(
        &mut self,
        handler: Handler,
        args: &Args<'_>,
        reply: &mut Reply,
    ) -> Result<Result<Option<Box<Block>>, Box<Error>>, Contained> {
        let change = &self.keys.counters().change;
        contain(change, || {
            change.begin_request();
            let terms = Terms { view: self.keys.view(), first_key: None, deny_blocking: false };
            self.run_handler(handler, reply, args, terms, Reader::ANY, &mut Fieldsets::default())
        })
    }

    /// Unlocks the shards of a waiter's request that panicked, and has its thread close its client.
    #[cold]
    fn give_up_waiter(&mut self, waiter: &Arc<Waiter>, panic: Contained) {
        waiter.serve_end(true);
        self.keys.abandon();
        panic.report("It had waited for a key.");
        let (waiter, end) = (waiter.clone(), WaitEnd::Panicked);
        self.shared.send(waiter.thread, Mail::Unblock { waiter, end });
    }

    /// The end of a wait whose request may not run any more, as a request that came now might not: its user's
    /// rights or the server's state have changed.
    fn may_not_run(&self, request: &WaitingRequest, db: usize) -> Option<WaitEnd> {
        if let Err(denial) = self.still_permits(request, db) {
            return Some(WaitEnd::Denied(denial));
        }
        let mut demands = Demands::of_flags(request.entry.spec.flags);
        demands.primary &= !request.client.is_primary;
        let why = refusal(self, demands, OF_WRITE).or_else(|| refusal(self, demands, OF_STALE));
        why.map(WaitEnd::Refused)
    }

    /// Whether a waiter's user may still run its request.
    fn still_permits(&self, request: &WaitingRequest, db: usize) -> Result<(), Denial> {
        match self.users.get(&request.user.name) {
            Some(user) if Arc::ptr_eq(user, &request.user) => Ok(()),
            Some(user) => {
                let (args, databases) = (request.args.view(), self.settings.databases);
                user.check(&crate::access::request(request.entry, &args, db, databases))
            }
            None => Err(Denial::Command),
        }
    }

    /// Whether the writes are on this server's disk, and how many replicas have them.
    pub(crate) fn copies(&self, copies: &Copies) -> (bool, i64) {
        let phase = self.shared.persistence.log.facts().phase;
        let durable = if copies.on_disk { self.shared.storage().durable_in(phase) } else { None };
        let replicas = self.shared.replication.primary.count_with(copies.offset, copies.on_disk);
        (durable.is_some_and(|durable| copies.position <= durable), replicas as i64)
    }

    /// Answers the clients that wait for copies that there are, and all that wait for this server's disk if
    /// there is no append-only file any more.
    pub(crate) fn serve_copy_waiters(&mut self) {
        // Before the check of present copies: a thread that makes more of them then wakes this one.
        self.shared.wait_for_copies(self.thread);
        // Before it, too: a file that is switched off counts as durable.
        let is_off = self.shared.persistence.log.facts().phase == Phase::Off;
        let mut due = Vec::new();
        for mut of in self.waits.take_copies() {
            of.copies.offset = of.copies.offset.or_else(|| self.shared.offset_of(of.recorded));
            let (is_on_disk, replicas) = self.copies(&of.copies);
            let is_met = is_on_disk >= of.copies.local && replicas >= of.copies.replicas as i64;
            if is_met || is_off && of.copies.local {
                due.push((of, is_on_disk, replicas));
            } else if !of.waiter.has_ended() {
                self.waits.await_copies(of);
            }
        }
        for (CopyWaiter { waiter, copies, runs_again, .. }, is_on_disk, replicas) in due {
            if runs_again {
                self.run_replicated(&waiter);
            } else if waiter.serve_begin() {
                waiter.serve_end(true);
                let mut reply = Reply::new(Vec::new(), false);
                if is_off && copies.local {
                    reply.error(WITHOUT_LOG);
                    self.count_error(WITHOUT_LOG);
                } else {
                    TimeoutReply::Copies(copies).write(&mut reply, |_| (is_on_disk, replicas));
                }
                self.enter();
                self.served(&waiter, &reply.into_bytes(), 0);
            }
        }
    }

    /// Runs the request that replicas have by now. It may wait again, for something else.
    fn run_replicated(&mut self, waiter: &Arc<Waiter>) {
        let Some(mut connection) = self.take(martlet_net::Token(waiter.token)) else { return };
        let is_its =
            matches!(&connection.suspended, Some(Suspended::Blocked(b)) if Arc::ptr_eq(&b.waiter, waiter));
        if is_its && waiter.cancel() {
            self.run_after_copies(&mut connection, waiter);
        }
        self.finish(connection);
    }

    /// Runs the request whose wait has ended as if replicas had it.
    fn run_after_copies(&mut self, connection: &mut Connection, waiter: &Arc<Waiter>) {
        let Some(WaitingRequest { entry, args, .. }) = waiter.request.downcast_ref() else { return };
        self.forget_wait(connection);
        connection.info.commands.fetch_add(1, Ordering::Relaxed);
        connection.session.is_replicated = true;
        let mut reply = Reply::new(std::mem::take(&mut connection.out), connection.session.resp3);
        let begin = reply.len();
        self.execute(connection, &mut reply, entry, &args.view(), false);
        connection.session.is_replicated = false;
        if !connection.session.shows_reply() {
            reply.truncate(begin);
        }
        connection.out = reply.into_bytes();
        self.mark_ready(connection);
    }

    /// A client's wait was ended by the thread that served it, which took `ns`.
    pub(crate) fn served(&mut self, waiter: &Arc<Waiter>, reply: &[u8], ns: u64) {
        let token = martlet_net::Token(waiter.token);
        let Some(mut connection) = self.take(token) else { return };
        let is_its =
            matches!(&connection.suspended, Some(Suspended::Blocked(b)) if Arc::ptr_eq(&b.waiter, waiter));
        if is_its {
            if connection.session.shows_reply() {
                martlet_base::copy::extend(&mut connection.out, reply);
            }
            connection.recorded = self.shared.engine.journal.end();
            connection.reads_data = true;
            self.stop_waiting(&mut connection, Cost { ns, reply_bytes: reply.len() });
            self.check_output_limit(&mut connection);
        }
        self.finish(connection);
    }

    /// Ends waits whose time is up, and looks again whether those can be served that are served by time.
    pub(crate) fn time_out_blocked(&mut self) {
        let mut due = Vec::new();
        while let Some(&(at_ms, token)) = self.timers.deadlines.first() {
            if at_ms > self.now_ms {
                break;
            }
            self.timers.deadlines.pop_first();
            let Some(mut connection) = self.take(token) else { continue };
            if let Some(Suspended::Blocked(blocked)) = &mut connection.suspended {
                if blocked.block.deadline_ms == Some(at_ms) {
                    self.end_wait(&mut connection, WaitEnd::Timeout);
                } else if blocked.block.again_ms == Some(at_ms) {
                    blocked.block.again_ms = None;
                    due.push(blocked.waiter.clone());
                }
            }
            self.finish(connection);
        }
        due.into_iter().for_each(|waiter| self.run_again(waiter));
    }

    /// Runs a waiter's request again though nothing has changed. Its reply, or the time of the next attempt,
    /// comes by mail.
    fn run_again(&mut self, waiter: Arc<Waiter>) {
        let (first, db) = (waiter.keys.first().cloned(), waiter.db);
        let Some(key) = first else { return };
        if self.shared.postpones(self.now_ms).is_some()
            || self.shared.persistence.log.refuses_writes.load(Ordering::Relaxed)
        {
            let at_ms = self.now_ms + AGAIN_MS;
            return self.shared.send(waiter.thread, Mail::RunAgain { waiter, at_ms });
        }
        if self.serve(&waiter, &ReadyKey { db, key }).is_none() {
            // A busy script has its keys.
            let at_ms = self.now_ms + AGAIN_MS;
            return self.shared.send(waiter.thread, Mail::RunAgain { waiter, at_ms });
        }
        self.serve_ready();
    }

    /// Has a waiter's request run again at a time.
    pub(crate) fn schedule_again(&mut self, waiter: &Arc<Waiter>, at_ms: i64) {
        let Some(mut connection) = self.take(martlet_net::Token(waiter.token)) else { return };
        if let Some(Suspended::Blocked(blocked)) = &mut connection.suspended
            && Arc::ptr_eq(&blocked.waiter, waiter)
        {
            let before = blocked.block.again_ms.replace(at_ms);
            if let Some(before) = before.filter(|before| blocked.block.deadline_ms != Some(*before)) {
                self.timers.deadlines.remove(&(before, connection.token));
            }
            self.timers.deadlines.insert((at_ms, connection.token));
        }
        self.put(connection);
    }

    /// Ends a wait without service, as a timeout or with UNBLOCKED; does nothing if it has just been served.
    pub(crate) fn end_wait(&mut self, connection: &mut Connection, end: WaitEnd) {
        let Some(Suspended::Blocked(blocked)) = &connection.suspended else { return };
        let waiter = blocked.waiter.clone();
        let on_timeout = blocked.block.on_timeout;
        if waiter.cancel() {
            self.conclude_wait(connection, &waiter, on_timeout, end);
        }
    }

    /// A client's wait was ended by CLIENT UNBLOCK, or because its user's rights have changed.
    pub(crate) fn unblocked(&mut self, waiter: &Arc<Waiter>, end: WaitEnd) {
        let Some(mut connection) = self.take(martlet_net::Token(waiter.token)) else { return };
        if let Some(Suspended::Blocked(blocked)) = &connection.suspended
            && Arc::ptr_eq(&blocked.waiter, waiter)
        {
            match (blocked.block.on_timeout, end) {
                // It refuses itself, in words that managers of clusters know.
                (TimeoutReply::NoReplicas, WaitEnd::RoleChanged) => {
                    self.run_after_copies(&mut connection, waiter)
                }
                (on_timeout, end) => self.conclude_wait(&mut connection, waiter, on_timeout, end),
            }
        }
        self.finish(connection);
    }

    /// Answers a client whose wait was ended without service, and lets it continue.
    fn conclude_wait(
        &mut self,
        connection: &mut Connection,
        waiter: &Arc<Waiter>,
        on_timeout: TimeoutReply,
        end: WaitEnd,
    ) {
        self.remove_waiter(waiter);
        let mut reply = Reply::new(std::mem::take(&mut connection.out), connection.session.resp3);
        let begin = reply.len();
        match end {
            WaitEnd::Timeout if on_timeout == TimeoutReply::NoReplicas => {
                self.fail_wait(connection, &mut reply, NO_REPLICAS);
            }
            WaitEnd::Timeout => {
                on_timeout.write(&mut reply, |copies| self.copies(copies));
            }
            WaitEnd::Unblocked => {
                self.fail_wait(connection, &mut reply, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
            }
            WaitEnd::RoleChanged => {
                self.fail_wait(connection, &mut reply, ROLE_CHANGED);
                connection.closing = true;
            }
            WaitEnd::Panicked => connection.closing = true,
            WaitEnd::ShutdownFailed => {
                self.fail_wait(connection, &mut reply, crate::shutdown::pending::FAILED)
            }
            WaitEnd::Redirected(why) => {
                let text = self.redirection(connection, why);
                self.fail_wait(connection, &mut reply, &text);
            }
            WaitEnd::Denied(denial) => self.deny_waiter(connection, &mut reply, waiter, denial),
            WaitEnd::Refused(why) => self.reject_waiter(&mut reply, waiter, &why.of_command(self)),
        }
        let reply_bytes = reply.len() - begin;
        if !connection.session.shows_reply() {
            reply.truncate(begin);
        }
        connection.out = reply.into_bytes();
        if let WaitEnd::Denied(_) | WaitEnd::Refused(_) = end {
            // It has not run.
            self.forget_wait(connection);
            self.mark_ready(connection);
        } else {
            self.stop_waiting(connection, Cost { ns: 0, reply_bytes });
        }
    }

    /// Answers a client whose wait has failed, and counts that.
    fn fail_wait(&self, connection: &Connection, reply: &mut Reply, error: &str) {
        reply.error(error);
        if let Some(Suspended::Blocked(blocked)) = &connection.suspended {
            self.stats().commands[blocked.command].failed.add(1);
        }
        self.count_error(error);
    }

    /// Answers a client whose user may no longer run the request that has waited.
    fn deny_waiter(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        waiter: &Waiter,
        denial: Denial,
    ) {
        let Some(WaitingRequest { entry, args, user, .. }) = waiter.request.downcast_ref() else { return };
        self.note_denial(connection, entry, &args.view(), denial, Origin::Toplevel);
        let text = [b"NOPERM ", &denial.text(&user.name, self.public_name(entry))[..]].concat();
        self.reject_waiter(reply, waiter, &Error::Bytes(text));
    }

    /// Answers a client whose request has waited and does not run.
    fn reject_waiter(&self, reply: &mut Reply, waiter: &Waiter, error: &Error) {
        let Some(WaitingRequest { entry, .. }) = waiter.request.downcast_ref() else { return };
        let text = self.presentation().error_text(Some(entry.spec), error);
        reply.error(&text);
        self.count_error(&String::from_utf8_lossy(&text));
        self.stats().commands[entry.stats_id].rejected.add(1);
    }

    fn remove_waiter(&mut self, waiter: &Arc<Waiter>) {
        for key in &waiter.keys {
            self.remove_hook_of_waiter(key, waiter);
        }
    }

    /// Lets a client continue after its wait, at whose end its request took `cost`. Only now has the command
    /// been run.
    fn stop_waiting(&mut self, connection: &mut Connection, cost: Cost) {
        connection.info.commands.fetch_add(1, Ordering::Relaxed);
        if let Some(Suspended::Blocked(blocked)) = &connection.suspended {
            let (waiter, cost) = (blocked.waiter.clone(), Cost { ns: blocked.ns + cost.ns, ..cost });
            if let Some(WaitingRequest { entry, args, .. }) = waiter.request.downcast_ref() {
                self.count_run(connection, entry, &args.view(), cost);
            }
        }
        self.forget_wait(connection);
        self.mark_ready(connection);
    }

    fn forget_wait(&mut self, connection: &mut Connection) {
        if let Some(Suspended::Blocked(blocked)) = connection.suspended.take() {
            for at_ms in [blocked.block.deadline_ms, blocked.block.again_ms].into_iter().flatten() {
                self.timers.deadlines.remove(&(at_ms, connection.token));
            }
            self.shared.blocked_clients.fetch_sub(1, Ordering::Relaxed);
            connection.info.flags.fetch_and(!flag::BLOCKED, Ordering::Relaxed);
            *lock(&connection.info.waiter) = None;
        }
    }

    /// Takes a connection that ends out of all queues.
    pub(crate) fn abandon_session(&mut self, connection: &mut Connection) {
        if let Some(Suspended::Blocked(blocked)) = &connection.suspended {
            let waiter = blocked.waiter.clone();
            // CLIENT KILL has cancelled it already; removing an absent waiter does no harm.
            waiter.cancel();
            self.remove_waiter(&waiter);
            self.forget_wait(connection);
        }
        self.end_postponement(connection);
        self.unwatch_all(connection);
        self.stop_monitoring(connection);
        (self.hooks.before_close)(self, connection);
    }
}

/// Arguments, some of them resolved.
fn resolved(args: &Args<'_>, resolved: &[(usize, Vec<u8>)]) -> OwnedArgs {
    if resolved.is_empty() {
        return args.to_owned();
    }
    let new = |at: usize| resolved.iter().find(|(index, _)| *index == at).map(|(_, text)| text.as_slice());
    OwnedArgs::from_slices(args.iter().enumerate().map(|(at, argument)| new(at).unwrap_or(argument)))
}
