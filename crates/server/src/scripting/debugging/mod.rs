//! SCRIPT DEBUG: sessions in which a client debugs its script, line by line.
//!
//! A script that waits for a person has Lua's frames on a stack, so each session has a thread of its own
//! ([`session`]), which asks the client's I/O thread for whatever touches keys or the connection. Redis forks
//! for YES; here such a script sees copies of the keys ([`copy`]), other clients go on, and nothing of what
//! it does is left. With SYNC the I/O thread stands behind the closed gate until the session ends, and what
//! the script does is kept; other clients get BUSY.
//!
//! Invariant: a session's connection closes at the session's end.

pub mod copy;
pub mod input;
pub mod session;
pub mod state;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use martlet_base::random::Random;
use martlet_command::{Error, Flags, Outcome};
use martlet_engine::{Keys, View, in_view};
use martlet_journal::stream::Audience;
use martlet_keyspace::Key;
use martlet_net::Token;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_script::{Called, Engine, Host, ScriptFlags};

use super::cache::Script;
use super::host::ScriptHost;
use super::{check_before, script_inputs};
use crate::connection::{Connection, Suspended};
use crate::registry::{Entry, Run, slot_of_keys};
use crate::runtime::call::Call;
use crate::runtime::compatibility::ScriptKeys;
use crate::runtime::{Mail, Shared, Worker};
use copy::{Copies, KEYS_MAX};
use input::Input;
use session::{Answer, Debuggee, Deliver, End, Request};
use state::{DebugMode, Debugged};

/// Bytes of unread output with which a client counts as one that does not read.
const OUTPUT_MAX_BYTES: usize = 64 << 20;
/// Redis' threshold for a script that is debugged where there is none, milliseconds.
const OVERDUE_MS: u64 = 5_000;
/// How long the I/O thread of a session with SYNC waits for the script, or for its client.
const SCRIPT_WAIT: Duration = Duration::from_millis(1);
const CLIENT_WAIT: Duration = Duration::from_millis(20);

/// Debugs the script that EVAL brings, in place of running it. Its declared keys are locked.
pub(crate) fn debug(call: &mut Call<'_>, is_read_only: bool, mode: DebugMode) -> Outcome {
    if call.deny_blocking {
        return Err(Error::Fixed("ERR a script in a transaction cannot be debugged"));
    }
    let started = start(call, is_read_only, mode);
    if let Err(error) = started {
        // The session ends before it begins, and says so first.
        call.reply.raw().extend_from_slice(b"*1\r\n+<endsession>\r\n");
        call.worker.fail(call.reply, call.entry, &error);
        call.connection.closing = true;
    }
    Ok(())
}

fn start(call: &mut Call<'_>, is_read_only: bool, mode: DebugMode) -> Outcome {
    let (inputs, numkeys) = script_inputs(call)?;
    let (keys, args) = inputs.split_at(numkeys);
    let source = call.arg(1);
    let digest = sha1::Digest::finalize(sha1::Digest::chain_update(sha1::Sha1::default(), source)).into();
    let script = Script::new(&digest, source, call.worker.now_ms)
        .map_err(|text| Error::Bytes([b"ERR ", text.as_slice()].concat()))?;
    check_before(call, script.flags, is_read_only)?;
    let shared = call.worker.shared;
    let input = Arc::new(Input::default());
    let slot = call.worker.routes.as_ref().and_then(|_| slot_of_keys(call.entry, &call.args));
    let mut debugged = Debugged {
        input: input.clone(),
        entry: call.entry,
        request: call.args.to_owned(),
        name: script.name.clone(),
        flags: script.flags,
        is_read_only: is_read_only || script.flags.has(ScriptFlags::NO_WRITES),
        slot,
        db: call.connection.session.db,
        writes: false,
        copy: None,
    };
    let debuggee = Debuggee {
        name: script.name,
        source: script.source,
        first_line_len: script.first_line_len,
        keys: keys.iter().map(|key| key.to_vec()).collect(),
        args: args.iter().map(|arg| arg.to_vec()).collect(),
        resp3: call.connection.session.resp3,
        presentation: call.worker.presentation(),
        overdue_ms: match call.worker.config().busy_reply_threshold_ms {
            0 => OVERDUE_MS,
            threshold_ms => threshold_ms,
        },
        input,
        clock: &shared.clock,
    };
    if mode == DebugMode::Sync {
        return debug_alone(call, debugged, debuggee);
    }
    let copies: &'static Copies = shared.slots.of();
    let mut copy = copies.begin().ok_or(Error::Fixed("ERR too many debugging sessions: can't run EVAL"))?;
    debuggee.keys.iter().for_each(|name| copy.add(&call.worker.keys, &Key::new(name)));
    debugged.copy = Some(copy);
    let (thread, token, client) = (call.worker.thread, call.connection.token, call.connection.info.id);
    let deliver: Deliver = Box::new(move |request| {
        let serve = move |worker: &mut Worker| worker.serve_debugger(token, client, request);
        shared.send(thread, Mail::Run(Box::new(serve)));
    });
    start_thread(debuggee, deliver)?;
    tracing::info!("Lua debugging session started on a copy of the keys");
    call.connection.suspended = Some(Suspended::Debugging(Box::new(debugged)));
    Ok(())
}

fn start_thread(debuggee: Debuggee, deliver: Deliver) -> Outcome {
    session::start(debuggee, deliver)
        .map_err(|why| Error::Text(format!("ERR no thread for the debugger: can't run EVAL: {why}")))
}

/// Runs a session with SYNC to its end.
fn debug_alone(call: &mut Call<'_>, mut debugged: Debugged, debuggee: Debuggee) -> Outcome {
    let (requests, wait) = channel();
    let deliver: Deliver = Box::new(move |request| drop(requests.send(request)));
    start_thread(debuggee, deliver)?;
    tracing::info!("Redis synchronous debugging eval session started");
    call.worker.release_keys();
    let view = call.worker.freeze_time();
    let mut end = None;
    let has_run = in_view(call, view, |call| {
        let Call { worker, connection, .. } = call;
        worker.alone_for(connection, |worker, connection| {
            end = worker.debug_to_end(connection, &mut debugged, &wait);
        })
    });
    tracing::info!("Redis synchronous debugging eval session ended");
    if !has_run {
        return Err(call.worker.busy_error());
    }
    call.connection.closing = true;
    if let Some(End { reply, has_failed }) = end {
        call.reply.raw().extend_from_slice(&reply);
        call.worker.stats().commands[call.entry.stats_id].failed.add(u64::from(has_failed));
    }
    Ok(())
}

/// The time in which a session with SYNC has other clients get BUSY: while its client is there, and then as
/// any script, once it has run for longer than `busy-reply-threshold`. A client that begins its next session
/// behind the end of this one (`restart` of redis-cli) finds the server ready.
struct BusyPeriod {
    shared: &'static Shared,
    is_shown: bool,
    /// By the fine clock.
    client_lost: Option<u64>,
}

impl BusyPeriod {
    fn begin(shared: &'static Shared) -> BusyPeriod {
        shared.set_script_busy(Engine::Eval, true);
        BusyPeriod { shared, is_shown: true, client_lost: None }
    }

    fn has_client(&self) -> bool {
        self.client_lost.is_none()
    }

    fn lose_client(&mut self) {
        if self.client_lost.is_none() {
            self.client_lost = Some(self.shared.clock.raw());
            self.show(false);
        }
    }

    /// Whether others see the script as busy now.
    fn shows(&mut self, threshold_ms: u64) -> bool {
        if let Some(lost) = self.client_lost {
            let clock = &self.shared.clock;
            let is_slow = clock.elapsed_ns(lost, clock.raw()) / 1_000_000 >= threshold_ms;
            self.show(threshold_ms > 0 && is_slow);
        }
        self.is_shown
    }

    fn show(&mut self, is_shown: bool) {
        if std::mem::replace(&mut self.is_shown, is_shown) != is_shown {
            self.shared.set_script_busy(Engine::Eval, is_shown);
        }
    }
}

impl Drop for BusyPeriod {
    fn drop(&mut self) {
        self.show(false);
    }
}

impl Worker {
    /// Runs the requests of a session's script, whose client waits.
    pub(crate) fn serve_debugger(&mut self, token: Token, client: u64, request: Request) {
        let Some(mut connection) = self.take_client(token, client) else { return };
        let Some(Suspended::Debugging(mut debugged)) = connection.suspended.take() else {
            return self.put(connection);
        };
        if connection.closing {
            // It gets nothing more.
            debugged.input.kill();
        }
        self.follow_user(&mut connection);
        let end = self.serve_request(&mut connection, &mut debugged, request, |_, connection, bytes| {
            if !connection.closing {
                connection.out.extend_from_slice(&bytes);
            }
        });
        if let Some(End { reply, has_failed }) = end {
            tracing::info!("Lua debugging session ended");
            self.stats().commands[debugged.entry.stats_id].failed.add(u64::from(has_failed));
            connection.out.extend_from_slice(&reply);
            connection.closing = true;
        } else {
            connection.suspended = Some(Suspended::Debugging(debugged));
        }
        self.check_output_limit(&mut connection);
        if connection.output_bytes() > OUTPUT_MAX_BYTES {
            self.end_for_good(&mut connection);
        }
        self.finish(connection);
    }

    /// Serves a session with SYNC until its script has ended. All shards are locked.
    fn debug_to_end(
        &mut self,
        connection: &mut Connection,
        debugged: &mut Debugged,
        requests: &Receiver<Request>,
    ) -> Option<End> {
        let (shared, thread) = (self.shared, self.thread);
        let running = shared.scripts.running(thread);
        let mut guest =
            Box::new(Keys::new(shared.engine, thread, Random::seeded(self.keys.random.next_u64())));
        running.begin(Engine::Eval);
        let mut busy = BusyPeriod::begin(shared);
        self.scripts.hold(Some(Vec::new()));
        let end = loop {
            // All requests that the thread made before it waits for its client are here by then.
            let is_awaited = debugged.input.is_awaited() && busy.has_client();
            let wait = if is_awaited { Duration::ZERO } else { SCRIPT_WAIT };
            match requests.recv_timeout(wait) {
                Ok(request) => {
                    let end = self.serve_request(connection, debugged, request, Worker::send_aside);
                    if end.is_some() {
                        break end;
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if busy.shows(self.config().busy_reply_threshold_ms) {
                let turn = if is_awaited { CLIENT_WAIT } else { SCRIPT_WAIT };
                self.serve_others(connection.token, &mut guest, turn);
                if self.take_input_aside(|bytes| debugged.input.receive(bytes)) {
                    debugged.input.end();
                    busy.lose_client();
                }
            }
            let is_ending = shared.scripts.is_ending.load(Ordering::Relaxed);
            if running.is_killed() || is_ending || shared.stopping.load(Ordering::Relaxed) {
                debugged.input.kill();
            }
        };
        drop(busy);
        running.end(Engine::Eval, 0);
        self.keys.effects.pending().set_audience(Some(Audience::All));
        self.publish_held();
        end
    }

    /// Runs a script's request; returns how the script has ended, if it has. `send` sends bytes to its client
    /// at once.
    fn serve_request(
        &mut self,
        connection: &mut Connection,
        debugged: &mut Debugged,
        request: Request,
        send: impl FnOnce(&mut Worker, &mut Connection, Vec<u8>),
    ) -> Option<End> {
        // The thread may be gone: it gets no answer then.
        match request {
            Request::Send(bytes) => send(self, connection, bytes),
            Request::Call(args, resp3, answer) => {
                let _ = answer.send(self.call_for_debugger(connection, debugged, &args.view(), resp3));
            }
            Request::MayCall(args, answer) => {
                let mut reply = Reply::default();
                let may_call = self.with_script_host(connection, debugged, &mut reply, |host, _| {
                    host.may_call(&args.view())
                });
                let _ = answer.send(may_call);
            }
            Request::Copy(shards, answer) => {
                let _ = answer.send(self.copy_for_debugger(debugged, shards));
            }
            Request::Propagate(targets) => {
                if debugged.copy.is_none() {
                    let mut reply = Reply::default();
                    self.with_script_host(connection, debugged, &mut reply, |host, _| {
                        host.set_propagation(targets);
                    });
                }
            }
            Request::End(end) => return Some(end),
        }
        None
    }

    fn copy_for_debugger(&mut self, debugged: &mut Debugged, shards: Range<usize>) -> bool {
        let Some(copy) = &mut debugged.copy else { return true };
        let is_copied = copy.add_shards(&mut self.keys, shards);
        self.keys.gave_up = false;
        is_copied
    }

    /// Runs a command of a script that is debugged.
    fn call_for_debugger(
        &mut self,
        connection: &mut Connection,
        debugged: &mut Debugged,
        args: &Args<'_>,
        resp3: bool,
    ) -> Answer {
        let mut reply = Reply::new(Vec::new(), resp3);
        let Some(mut copy) = debugged.copy.take() else {
            return self.call_by_host(connection, debugged, args, reply);
        };
        let answer = match self.copy_keys_of(&mut copy, args) {
            Ok(true) => {
                let held = self.scripts.hold(Some(Vec::new()));
                let running = self.shared.scripts.running(self.thread);
                running.begin(Engine::Eval);
                if debugged.writes {
                    running.write();
                }
                reply = Reply::new(Vec::new(), resp3);
                let now = self.freeze_time().now_ms;
                let answer = copy.swapped(self, |worker| {
                    let view = View { db: debugged.db, now_ms: now, ..worker.base_view };
                    in_view(worker, view, |worker| worker.call_by_host(connection, debugged, args, reply))
                });
                debugged.writes = running.writes();
                running.end(Engine::Eval, 0);
                self.scripts.hold(held);
                answer
            }
            Ok(false) => Answer::NeedsAll,
            Err(error) => Answer::Refused(error.to_bytes()),
        };
        debugged.copy = Some(copy);
        answer
    }

    fn call_by_host(
        &mut self,
        connection: &mut Connection,
        debugged: &mut Debugged,
        args: &Args<'_>,
        mut reply: Reply,
    ) -> Answer {
        let called =
            self.with_script_host(connection, debugged, &mut reply, |host, reply| host.call(args, reply));
        let bytes = reply.into_bytes();
        match called {
            Called::Replied => Answer::Replied(bytes),
            Called::Refused => {
                let text = bytes.strip_prefix(b"-").unwrap_or(&bytes);
                Answer::Refused(text.strip_suffix(b"\r\n").unwrap_or(text).to_vec())
            }
            // All shards are locked: it lacks nothing.
            Called::Abandon => Answer::Refused(b"ERR the script cannot continue".to_vec()),
        }
    }

    /// Lets `work` use the host of the script: its selected database is the session's for that time.
    fn with_script_host<R>(
        &mut self,
        connection: &mut Connection,
        debugged: &mut Debugged,
        reply: &mut Reply,
        work: impl FnOnce(&mut ScriptHost<'_>, &mut Reply) -> R,
    ) -> R {
        let db = std::mem::replace(&mut connection.session.db, debugged.db);
        let fieldsets = std::mem::take(&mut connection.session.fieldsets);
        let was_nested = self.meter.slot_use.begin_nested();
        let mut host = ScriptHost {
            began: self.shared.clock.raw(),
            worker: self,
            connection,
            engine: Engine::Eval,
            name: &debugged.name,
            request: debugged.request.view(),
            flags: debugged.flags,
            is_read_only: debugged.is_read_only,
            missing: None,
            slot: debugged.slot,
            checked_keys: ScriptKeys::Unchecked,
            is_shown: false,
            guest: None,
        };
        let result = work(&mut host, reply);
        let slot = host.slot;
        self.meter.slot_use.end_nested(was_nested);
        debugged.slot = slot;
        debugged.db = std::mem::replace(&mut connection.session.db, db);
        connection.session.fieldsets = fieldsets;
        result
    }

    /// Copies the keys that a command names; false if it needs all of them, which are not there.
    fn copy_keys_of(&mut self, copy: &mut copy::Copy, args: &Args<'_>) -> Result<bool, Error> {
        let Some(entry) = self.shared.registry.resolve(args).filter(|entry| entry.spec.takes(args.len()))
        else {
            return Ok(true);
        };
        let allows_all = self.shared.scripts.allows_all.load(Ordering::Relaxed);
        if acts_on_server(entry, allows_all) {
            return Err(Error::Fixed(
                "ERR This Redis command is not allowed from a script that is debugged without effect: use SCRIPT DEBUG SYNC",
            ));
        }
        if copy.is_whole() {
            return Ok(true);
        }
        let Some(indexes) = keys_of(entry, args) else {
            let count: usize = (0..self.settings.databases).map(|db| self.keys.count(db)).sum();
            self.keys.gave_up = false;
            return if count > KEYS_MAX { Err(TOO_MANY) } else { Ok(false) };
        };
        if copy.key_count() + indexes.len() > KEYS_MAX {
            return Err(TOO_MANY);
        }
        let keys: Vec<Key<'_>> = indexes.iter().map(|index| Key::new(args.at(*index))).collect();
        if !self.keys.lock_shards_unless_busy(keys.iter().map(Key::shard).collect()) {
            return Err(self.busy_error());
        }
        keys.iter().for_each(|key| copy.add(&self.keys, key));
        self.release_keys();
        Ok(true)
    }
}

const TOO_MANY: Error =
    Error::Fixed("ERR too many keys to copy for a script that is debugged: use SCRIPT DEBUG SYNC");

/// Whether a command does more to the server than to its keys, unless no script may call it anyway.
fn acts_on_server(entry: &Entry, allows_all: bool) -> bool {
    let flags = entry.spec.flags;
    let may_act = match flags.has(Flags::NOSCRIPT) {
        true => allows_all,
        false => flags.has(Flags::WRITE) || flags.has(Flags::ADMIN),
    };
    matches!(entry.run, Run::Server(_)) && may_act
}

/// The arguments that name a command's keys; `None` if it may look at any.
fn keys_of(entry: &Entry, args: &Args<'_>) -> Option<Vec<usize>> {
    let flags = entry.spec.flags;
    let is_quick = matches!(entry.run, Run::Data(_)) || flags.has(Flags::FAST);
    if flags.has(Flags::WALK) || !is_quick {
        return None;
    }
    martlet_command::key_hashes(entry.spec, args)?;
    let mut indexes = Vec::new();
    entry.spec.key_indexes(args, &mut indexes);
    Some(indexes)
}
