//! The server as a script sees it: its calls of commands, and their rights.

use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_acl::Origin;
use martlet_base::random::Random;
use martlet_command::{Acl, Error, Flags, Outcome};
use martlet_engine::Keys;
use martlet_journal::stream::Audience;
use martlet_keyspace::shard_of;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_script::host::propagate;
use martlet_script::{Called, Engine, Host, LogLevel, ScriptFlags, Verdict};

use super::cache::{Running, ShownFunction};
use super::libraries::log;
use crate::connection::Connection;
use crate::refusal::Refusal;
use crate::registry::{Entry, Run, names_command, slot_of_keys};
use crate::runtime::Worker;
use crate::runtime::compatibility::ScriptKeys;
use crate::runtime::demands::{self, Demands};
use crate::runtime::request_flags;

/// The need of a script that cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Shards that it has not locked.
    Shards(Vec<usize>),
    /// The whole store.
    All,
}

/// See the [module docs](self).
pub(super) struct ScriptHost<'a> {
    pub worker: &'a mut Worker,
    pub connection: &'a mut Connection,
    pub engine: Engine,
    /// Of the function.
    pub name: &'a str,
    /// What called it.
    pub request: Args<'a>,
    pub flags: ScriptFlags,
    /// It may not write.
    pub is_read_only: bool,
    /// Why it was abandoned.
    pub missing: Option<Missing>,
    /// The slot of its keys, in a cluster, once it is known.
    pub slot: Option<u16>,
    /// Its keys, where requests are looked at for whether a cluster could run them.
    pub checked_keys: ScriptKeys,
    /// A raw reading of the clock: when it began.
    pub began: u64,
    /// FUNCTION STATS names it: a function that has reached its first interrupt.
    pub is_shown: bool,
    /// The keys of clients that are served while the script is busy: it has run for longer than
    /// `busy-reply-threshold`.
    pub guest: Option<Box<Keys>>,
}

const NOT_ALLOWED: Error = Error::Fixed("ERR This Redis command is not allowed from script");
const READ_ONLY: Error = Error::Fixed("ERR Write commands are not allowed from read-only scripts.");

impl ScriptHost<'_> {
    /// The slot of the keys that the request declares.
    pub fn declared_slot(&self) -> Option<u16> {
        let entry = self.worker.shared.registry.resolve(&self.request)?;
        self.worker.routes.as_ref().and_then(|_| slot_of_keys(entry, &self.request))
    }

    /// The error of a script that has been killed.
    fn killed_text(&self) -> &'static str {
        match (self.worker.presentation().is_valkey(), self.engine) {
            (false, _) => super::KILLED_TEXT,
            (true, Engine::Eval) => "Script killed by user with SCRIPT KILL.",
            (true, Engine::Functions) => "Script killed by user with FUNCTION KILL.",
        }
    }

    /// Whether the script's keys may be of several slots.
    pub fn may_cross_slots(&self) -> bool {
        self.flags.has(ScriptFlags::ALLOW_CROSS_SLOT_KEYS) || self.flags.has(ScriptFlags::COMPATIBLE)
    }

    /// The command that is called, if it may be.
    fn permitted(&mut self, args: &Args<'_>) -> Result<&'static Entry, Error> {
        let registry = self.worker.shared.registry;
        let allows_all = self.worker.shared.scripts.allows_all.load(Ordering::Relaxed);
        let entry = registry.resolve(args);
        // Clients see DEBUG as one command: its subcommands, and what they take, count once it may run.
        if entry.is_some_and(|entry| entry.spec.flags.has(Flags::DEBUG)) && args.len() > 1 && !allows_all {
            return Err(NOT_ALLOWED);
        }
        let entry = entry
            .filter(|entry| names_command(entry, args))
            .ok_or(Error::Fixed("ERR Unknown Redis command called from script"))?;
        if !entry.spec.takes(args.len()) {
            return Err(Error::Fixed("ERR Wrong number of args calling Redis command from script"));
        }
        let flags = entry.spec.flags;
        // A script within a script would need a second state.
        let is_script = entry.spec.acl().has(Acl::SCRIPTING);
        if flags.has(Flags::NOSCRIPT) && (is_script || !allows_all) {
            return Err(NOT_ALLOWED);
        }
        let mut demands = Demands::of_flags(flags);
        demands.memory &= !self.flags.has(ScriptFlags::ALLOW_OOM);
        demands.primary &= !request_flags::is_from_primary(self.connection);
        self.refuse_for(demands, demands::OF_STALE)?;
        self.worker.check_access(self.connection, entry, args, Origin::Lua).map_err(|denial| {
            let text = denial.text(&self.connection.session.user.name, self.worker.public_name(entry));
            Error::Bytes([b"ERR ACL failure in script: ", &text[..]].concat())
        })?;
        let may_write = flags.has(Flags::WRITE) || flags.has(Flags::MAY_REPLICATE);
        if self.is_read_only && may_write {
            return Err(READ_ONLY);
        }
        let may_cross_slots = self.may_cross_slots();
        if self.worker.checks_compatibility() {
            self.worker.note_script_call(&mut self.checked_keys, may_cross_slots, entry, args);
        }
        let slot = &mut self.slot;
        self.worker.check_script_route(self.connection, entry, args, may_cross_slots, slot)?;
        // A script that has begun to write is let through to its end.
        if !self.running().writes() {
            self.refuse_for(demands, demands::OF_CALL)?;
        }
        Ok(entry)
    }

    /// Counts a command that is refused, if there is one of this name, whatever else is wrong with the call.
    fn count_rejected(&self, args: &Args<'_>) {
        let entry = self.worker.shared.registry.resolve(args);
        if let Some(entry) = entry.filter(|entry| names_command(entry, args)) {
            self.worker.stats().commands[entry.stats_id].rejected.add(1);
        }
    }

    fn refuse_for(&self, demands: Demands, reasons: &[Refusal]) -> Outcome {
        let why = demands::refusal(self.worker, demands, reasons);
        why.map_or(Ok(()), |why| Err(why.of_call(self.worker)))
    }

    fn running(&self) -> &'static Running {
        self.worker.shared.scripts.running(self.worker.thread)
    }

    /// Lets FUNCTION STATS name a function. One that ends before its first interrupt pays nothing.
    fn show(&mut self) {
        if self.engine == Engine::Functions && !self.is_shown {
            let (name, request) = (self.name.to_owned(), self.request.to_owned());
            self.running().show(Some(ShownFunction { name, request, began: self.began }));
            self.is_shown = true;
        }
    }

    /// Lets other clients see once the script has become busy.
    fn note_time(&mut self) {
        let (shared, threshold_ms) = (self.worker.shared, self.worker.config().busy_reply_threshold_ms);
        let ns = shared.clock.elapsed_ns(self.began, shared.clock.raw());
        if self.guest.is_none() && threshold_ms > 0 && ns / 1_000_000 >= threshold_ms {
            let command = if self.engine == Engine::Eval { "SCRIPT KILL" } else { "FUNCTION KILL" };
            tracing::warn!(
                "Slow script detected: still in execution after {} milliseconds. You can try killing the script using the {command} command. Script name is: {}.",
                ns / 1_000_000,
                self.name
            );
            let worker = &mut *self.worker;
            let random = Random::seeded(worker.keys.random.next_u64());
            self.guest = Some(Box::new(Keys::new(shared.engine, worker.thread, random)));
            shared.set_script_busy(self.engine, true);
        }
    }

    /// Locks the shards that the command needs besides the locked ones; returns its only key, if it has been
    /// hashed on the way.
    fn lock_for(&mut self, entry: &'static Entry, args: &Args<'_>) -> Result<Option<(usize, u64)>, Missing> {
        let keys = &mut self.worker.keys;
        if keys.has_all_shards() {
            return Ok(None);
        }
        if let Some(index) = entry.plain_key
            && entry.spec.follows_links.is_none()
            && let Some(hash) = entry.first_key_hash(args)
            && keys.covers(shard_of(hash))
        {
            return Ok(Some((index, hash)));
        }
        // What works on the server rather than on keys may look at any of them, unless it is soon done.
        let is_quick = matches!(entry.run, Run::Data(_)) || entry.spec.flags.has(Flags::FAST);
        if entry.spec.flags.has(Flags::WALK) || !is_quick {
            return Err(Missing::All);
        }
        let shards = martlet_command::shards(entry.spec, args).ok_or(Missing::All)?;
        if !keys.try_lock_more(&shards) {
            return Err(Missing::Shards(shards));
        }
        let db = self.connection.session.db;
        let needs_all = entry.spec.follows_links.is_some() && self.worker.reaches_beyond(db, entry, args);
        if needs_all { Err(Missing::All) } else { Ok(None) }
    }
}

impl Host for ScriptHost<'_> {
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called {
        let entry = match self.permitted(args) {
            Ok(entry) => entry,
            Err(error) => {
                let text = self.worker.presentation().error_text(None, &error);
                self.worker.count_error(&String::from_utf8_lossy(&text));
                self.count_rejected(args);
                reply.error(text);
                return Called::Refused;
            }
        };
        let first_key = match self.lock_for(entry, args) {
            Ok(first_key) => first_key,
            Err(missing) => {
                self.missing = Some(missing);
                return Called::Abandon;
            }
        };
        if entry.spec.flags.has(Flags::WRITE) && !self.running().write() {
            // It has just been killed, and must not begin to write.
            reply.error(format!("ERR {}", self.killed_text()));
            return Called::Refused;
        }
        let (worker, connection) = (&mut *self.worker, &mut *self.connection);
        worker.run_nested(connection, reply, entry, args, first_key);
        worker.feed_monitors_from_script(connection, entry, args);
        Called::Replied
    }

    fn may_call(&mut self, args: &Args<'_>) -> Option<bool> {
        let entry = self.worker.shared.registry.resolve(args)?;
        let is_known = names_command(entry, args);
        is_known.then(|| self.worker.permits(self.connection, entry, args).is_ok())
    }

    fn interrupt(&mut self) -> Verdict {
        self.show();
        self.note_time();
        if let Some(guest) = &mut self.guest {
            self.worker.serve_others(self.connection.token, guest, Duration::ZERO);
        }
        let shared = self.worker.shared;
        let is_ending = shared.scripts.is_ending.load(Ordering::Relaxed);
        if self.running().is_killed() || is_ending || shared.stopping.load(Ordering::Relaxed) {
            Verdict::Kill(self.killed_text())
        } else {
            Verdict::Continue
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        log(level, text);
    }

    fn set_propagation(&mut self, targets: i64) {
        let is_for = |target: i64| targets & target != 0;
        let audience = match (is_for(propagate::LOG), is_for(propagate::REPLICAS)) {
            (true, true) => Some(Audience::All),
            (true, false) => Some(Audience::File),
            (false, true) => Some(Audience::Replicas),
            (false, false) => None,
        };
        self.worker.keys.effects.pending().set_audience(audience);
    }
}
