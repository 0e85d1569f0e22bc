//! Running scripts: with the shards of their declared keys locked, and of others as they come to them.
//!
//! Invariant: a script that is abandoned because it cannot have a shard leaves no change behind before it
//! starts again; see [`martlet_engine::Keys::undo`].

pub mod cache;
pub mod compiled;
pub mod debugging;
pub mod facts;
pub mod functions;
mod host;
pub mod libraries;
pub mod loaded;

use std::sync::Arc;

use martlet_command::{Error, Outcome};
use martlet_engine::in_view;
use martlet_journal::stream::Audience;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_script::{Compiled, Engine, Inputs, Interpreter, Run, RunPath, ScriptFlags};

use crate::connection::Connection;
use crate::pubsub::hub::HeldMessage;
use crate::refusal::Refusal;
use crate::runtime::Worker;
use crate::runtime::call::Call;
use crate::runtime::demands::{self, Demands};
use crate::runtime::request_flags;
use cache::{DIGEST_DIGITS, Digest, Script, parse_digest};
use compiled::{Local, Scripting};
use debugging::state::DebugMode;
use host::{Missing, ScriptHost};

/// The error of a script that is killed.
pub(crate) const KILLED_TEXT: &str = "Script killed by user with SCRIPT KILL...";

/// A script that was abandoned this often runs alone.
const ATTEMPTS_MAX: u32 = 3;
/// Where a script comes from.
#[derive(Copy, Clone)]
pub(crate) enum Source<'a> {
    /// EVAL and SCRIPT LOAD bring it.
    Text(&'a [u8]),
    /// EVALSHA names it.
    Digest(&'a [u8]),
}

const NO_SCRIPT: Error = Error::Fixed("NOSCRIPT No matching script. Please use EVAL.");

impl Worker {
    /// The thread's state for scripts, as of the last SCRIPT FLUSH; [`Worker::put_scripting`] puts it back.
    fn take_scripting(&mut self) -> Box<Scripting> {
        let generation = self.shared.scripts.generation();
        let current = self.scripts.take_scripting().filter(|scripting| scripting.generation == generation);
        current.unwrap_or_else(|| Box::new(Scripting::new(generation, self.presentation())))
    }

    fn put_scripting(&mut self, scripting: Box<Scripting>) {
        self.scripts.set_scripting(Some(scripting));
    }

    /// Drops the thread's state for scripts: they were flushed.
    pub(crate) fn drop_scripting(&mut self) {
        self.scripts.set_scripting(None);
        self.shared.scripts.running(self.thread).end(Engine::Eval, 0);
    }

    /// Publishes the messages that the script which has ended held, and holds no further ones.
    fn publish_held(&mut self) {
        for message in self.scripts.hold(None).into_iter().flatten() {
            let HeldMessage { kind, channel, payload, is_for_all } = message;
            match is_for_all {
                true => self.publish_to_all(kind, &channel, &payload),
                false => self.publish(kind, &channel, &payload),
            };
        }
    }

    /// Puts a script into the cache, and into this thread's state.
    pub(crate) fn load_script(&mut self, source: &[u8]) -> Result<Arc<Script>, Error> {
        let mut scripting = self.take_scripting();
        let digest = self.find_script(&mut scripting, Source::Text(source), true);
        let script = digest.map(|digest| scripting.local[&digest].script.clone());
        self.put_scripting(scripting);
        script
    }

    /// Makes sure that this thread has compiled a script; its digest.
    fn find_script(
        &mut self,
        scripting: &mut Scripting,
        source: Source<'_>,
        loaded: bool,
    ) -> Result<Digest, Error> {
        let digest = match source {
            Source::Text(text) => {
                sha1::Digest::finalize(sha1::Digest::chain_update(sha1::Sha1::default(), text)).into()
            }
            Source::Digest(text) if text == scripting.last.0 => scripting.last.1,
            Source::Digest(text) => {
                let digest = parse_digest(text).ok_or(NO_SCRIPT)?;
                scripting.last.0.copy_from_slice(text);
                scripting.last.1 = digest;
                digest
            }
        };
        if scripting.has(&digest) && !loaded {
            return Ok(digest);
        }
        let cache = &self.shared.scripts;
        let cached = cache.figures().count;
        match (cache.find(&digest), source) {
            (Some(script), _) if scripting.has(&digest) => {
                cache.add(digest, script, loaded);
            }
            (Some(script), _) => {
                cache.add(digest, script.clone(), loaded);
                scripting.compile(digest, script, cached)?;
            }
            (None, Source::Digest(_)) => return Err(NO_SCRIPT),
            (None, Source::Text(text)) => {
                let script = Script::new(&digest, text, self.now_ms)
                    .map_err(|text| Error::Bytes([b"ERR ", text.as_slice()].concat()))?;
                let script = Arc::new(script);
                scripting.compile(digest, script.clone(), cached)?;
                let known = cache.add(digest, script, loaded);
                if let Some(local) = scripting.local.get_mut(&digest) {
                    local.script = known;
                }
            }
        }
        Ok(digest)
    }
}

/// Runs a script that EVAL or EVALSHA calls. Its declared keys are locked.
pub(crate) fn eval(call: &mut Call<'_>, source: Source<'_>, is_read_only: bool) -> Outcome {
    call.worker.show_to_monitors(call.connection, call.entry, &call.args);
    // The length of a digest is checked before all other arguments.
    if matches!(source, Source::Digest(text) if text.len() != DIGEST_DIGITS) {
        return Err(NO_SCRIPT);
    }
    let debug_mode = call.connection.session.debug_mode;
    if debug_mode != DebugMode::Off {
        return match source {
            Source::Text(_) => debugging::debug(call, is_read_only, debug_mode),
            Source::Digest(_) => Err(Error::Fixed("ERR Please use EVAL instead of EVALSHA for debugging")),
        };
    }
    let (inputs, numkeys) = script_inputs(call)?;
    let began = call.worker.mark;
    call.connection.runs_scripts = true;
    let mut scripting = call.worker.take_scripting();
    let outcome = run_found(call, &mut scripting, source, inputs.split_at(numkeys), is_read_only);
    let bytes = scripting.interpreter.used_bytes();
    call.worker.shared.scripts.running(call.worker.thread).end(Engine::Eval, bytes);
    call.worker.put_scripting(scripting);
    // It takes as long as all that it runs.
    call.worker.mark = began;
    outcome
}

/// `KEYS` and `ARGV` of a request together, and how many are keys.
fn script_inputs<'a>(call: &Call<'a>) -> Result<(Vec<&'a [u8]>, usize), Error> {
    let numkeys = call.int(2)?;
    if numkeys > call.argc() as i64 - 3 {
        return Err(Error::Fixed("ERR Number of keys can't be greater than number of args"));
    }
    let Ok(numkeys) = usize::try_from(numkeys) else {
        return Err(Error::Fixed("ERR Number of keys can't be negative"));
    };
    Ok((call.args.iter().skip(3).collect(), numkeys))
}

fn run_found(
    call: &mut Call<'_>,
    scripting: &mut Scripting,
    source: Source<'_>,
    (keys, args): (&[&[u8]], &[&[u8]]),
    is_read_only: bool,
) -> Outcome {
    let digest = call.worker.find_script(scripting, source, false)?;
    let Scripting { interpreter, local, .. } = scripting;
    let Some(Local { script, compiled }) = local.get(&digest) else { return Err(NO_SCRIPT) };
    script.touch(call.worker.now_ms);
    check_before(call, script.flags, is_read_only)?;
    let mut run = ScriptRun {
        engine: Engine::Eval,
        interpreter,
        compiled,
        inputs: Inputs { name: &script.name, keys, args },
        request: call.args,
        flags: script.flags,
        is_read_only: is_read_only || script.flags.has(ScriptFlags::NO_WRITES),
    };
    let outcome = run.until_done(call)?;
    reply_to(call, outcome)
}

/// Answers with the error that a script has ended with, if it has.
fn reply_to(call: &mut Call<'_>, run: Run) -> Outcome {
    match run {
        Run::Failed(error) if !error.is_counted => Err(Error::Bytes(error.text)),
        Run::Failed(error) => {
            call.reply.error(error.text);
            call.worker.stats().commands[call.entry.stats_id].failed.add(1);
            Ok(())
        }
        Run::Replied | Run::Abandoned => Ok(()),
    }
}

/// Checks whether a script may begin, and counts it if it says that it does not run in a cluster.
fn check_before(call: &mut Call<'_>, flags: ScriptFlags, is_read_only: bool) -> Outcome {
    may_begin(call, flags, is_read_only)?;
    if flags.has(ScriptFlags::NO_CLUSTER) {
        call.worker.note_no_cluster();
    }
    Ok(())
}

/// Checks whether a script may begin, by its first line or a function's flags. By itself it is refused as any
/// command with such flags; within a transaction, whose EXEC was not refused, in words of its own.
fn may_begin(call: &Call<'_>, flags: ScriptFlags, is_read_only: bool) -> Outcome {
    let worker = &*call.worker;
    let first = |demands, reasons: &[Refusal]| demands::refusal(worker, demands, reasons);
    let writes = !flags.has(ScriptFlags::NO_WRITES);
    let demands = Demands::of_script(flags, request_flags::is_from_primary(call.connection));
    if flags.has(ScriptFlags::COMPATIBLE) {
        // Without flags it runs, and its calls are refused; but not for stale data, whatever it calls.
        let why = first(Demands { link: true, ..demands }, demands::OF_STALE);
        return why.map_or(Ok(()), |why| Err(why.of_command(worker)));
    }
    if !call.deny_blocking
        && let Some(why) = first(demands, demands::OF_WRITE).or_else(|| first(demands, demands::OF_STALE))
    {
        return Err(why.of_command(worker));
    }
    if worker.config().cluster_enabled && flags.has(ScriptFlags::NO_CLUSTER) {
        return Err(Error::Fixed("ERR Can not run script on cluster, 'no-cluster' flag is set."));
    }
    let refuse_for = |reasons| first(demands, reasons).map_or(Ok(()), |why| Err(why.of_script(worker)));
    refuse_for(BEFORE_READ_ONLY)?;
    if writes && is_read_only {
        return Err(Error::Fixed("ERR Can not execute a script with write flag using *_ro command."));
    }
    refuse_for(AFTER_READ_ONLY)
}

/// The reasons to refuse a script in a transaction, in Redis' order, up to the check of EVAL_RO and its kin.
const BEFORE_READ_ONLY: &[Refusal] =
    &[Refusal::Stale, Refusal::ReadOnlyReplica, Refusal::SaveFailed, Refusal::AofFailed];
/// And from there on.
const AFTER_READ_ONLY: &[Refusal] = &[Refusal::FewReplicas, Refusal::OutOfMemory];

/// A script that is about to run.
struct ScriptRun<'a, 'k> {
    engine: Engine,
    interpreter: &'a mut Interpreter,
    compiled: &'a Compiled,
    inputs: Inputs<'a, 'k>,
    /// What called it.
    request: Args<'a>,
    flags: ScriptFlags,
    is_read_only: bool,
}

impl ScriptRun<'_, '_> {
    /// Runs the script at one time, until it is not abandoned.
    fn until_done(&mut self, call: &mut Call<'_>) -> Result<Run, Error> {
        let view = match call.deny_blocking {
            true => call.worker.keys.view(),
            false => call.worker.freeze_time(),
        };
        in_view(call, view, |call| self.attempt_until_done(call))
    }

    fn attempt_until_done(&mut self, call: &mut Call<'_>) -> Result<Run, Error> {
        let mut attempts = 1;
        loop {
            let (run, missing) = self.once(call.worker, call.connection, call.reply);
            let Some(missing) = missing else { return Ok(run) };
            let locked = call.worker.keys.locked_shards();
            call.worker.release_keys();
            match missing {
                Missing::Shards(shards) if attempts < ATTEMPTS_MAX => {
                    if !call.worker.keys.lock_shards_unless_busy([locked, shards].concat()) {
                        return Err(call.worker.busy_error());
                    }
                }
                _ => return self.alone(call),
            }
            attempts += 1;
        }
    }

    fn alone(&mut self, call: &mut Call<'_>) -> Result<Run, Error> {
        let Call { worker, connection, reply, .. } = call;
        let mut run = Run::Abandoned;
        let has_run =
            worker.alone_for(connection, |worker, connection| run = self.once(worker, connection, reply).0);
        if has_run { Ok(run) } else { Err(worker.busy_error()) }
    }

    /// Runs the script with the locked shards; returns its further needs, if it was abandoned.
    fn once(
        &mut self,
        worker: &mut Worker,
        connection: &mut Connection,
        reply: &mut Reply,
    ) -> (Run, Option<Missing>) {
        let (begin, db) = (reply.len(), connection.session.db);
        // A script has its own, and has none when it begins.
        let fieldsets = std::mem::take(&mut connection.session.fieldsets);
        if !worker.keys.has_all_shards() {
            worker.keys.begin_undo();
        }
        worker.scripts.hold(Some(Vec::new()));
        worker.shared.scripts.running(worker.thread).begin(self.engine);
        let began = worker.shared.clock.raw();
        let checked_keys = worker.script_keys(&self.request);
        let incompatible = worker.keys.counters().incompatible.get();
        let mut host = ScriptHost {
            worker,
            connection,
            engine: self.engine,
            name: self.inputs.name,
            request: self.request,
            flags: self.flags,
            is_read_only: self.is_read_only,
            missing: None,
            slot: None,
            checked_keys,
            began,
            is_shown: false,
            guest: None,
        };
        host.slot = host.declared_slot();
        let was_nested = host.worker.meter.slot_use.begin_nested();
        self.interpreter.allow_native(host.worker.config().native_scripts);
        let run = self.interpreter.run(self.compiled, self.inputs, &mut host, reply);
        let stats = host.worker.stats();
        let counter = match self.interpreter.run_path() {
            RunPath::Lua => &stats.scripts_in_lua,
            RunPath::Native => &stats.scripts_native,
            RunPath::Left => &stats.scripts_left_to_lua,
        };
        counter.add(1);
        let slot = host.slot.filter(|_| !host.may_cross_slots());
        let ScriptHost { worker, connection, missing, guest, is_shown, .. } = host;
        worker.meter.slot_use.end_nested(was_nested);
        worker.meter.slot_use.set_slot(slot);
        if is_shown {
            worker.shared.scripts.running(worker.thread).show(None);
        }
        if guest.is_some() {
            worker.shared.set_script_busy(self.engine, false);
        }
        connection.session.db = db;
        connection.session.fieldsets = fieldsets;
        worker.keys.effects.pending().set_audience(Some(Audience::All));
        if missing.is_some() {
            worker.keys.counters().incompatible.set(incompatible);
            worker.scripts.hold(None);
            reply.truncate(begin);
            worker.keys.undo();
        } else {
            worker.keys.end_undo();
            worker.publish_held();
        }
        (run, missing)
    }
}
