//! Client-side caching: clients that are told when keys that they have read, or keys with a prefix, change.
//!
//! Which client has read which key stands in the key's shard, so that a change finds it while the shard is
//! held and nobody pays for it elsewhere. The notices travel as mail, which a thread reads before it takes in
//! more input.

pub mod table;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::limits::SHARD_COUNT;
use martlet_base::sync::lock;
use martlet_command::{Acl, Flags};
use martlet_engine::{Cause, KeyChanges};
use martlet_keyspace::Key;
use martlet_net::Token;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::clients::{ClientInfo, flag};
use crate::connection::Connection;
use crate::registry::Entry;
use crate::runtime::Mail;
use crate::runtime::Worker;
use crate::slow_path::SessionFlags;
use table::{Notice, Options, Tracker, TrackingState};

/// The channel that a redirection to a RESP2 subscriber uses.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Worker {
    /// Makes a client track, or changes how. With BCAST everything is held.
    pub(crate) fn start_tracking(
        &mut self,
        connection: &mut Connection,
        options: Options,
        prefixes: Vec<Vec<u8>>,
    ) {
        let tracking = &self.shared.tracking;
        let id = connection.info.id;
        // What changed before this request is of no concern to it.
        self.send_broadcasts();
        let mut all = connection.session.tracking.take().map(|state| state.prefixes).unwrap_or_default();
        if options.bcast {
            let mut table = lock(&tracking.prefixes);
            for prefix in prefixes {
                let clients = table.entry(prefix.clone()).or_default();
                if !clients.contains(&id) {
                    clients.push(id);
                    all.push(prefix);
                }
            }
            drop(table);
            all.sort_unstable();
            if !tracking.is_broadcast.swap(true, Ordering::SeqCst) {
                self.keys.broadcast_changes(true);
            }
        }
        let tracker = Arc::new(Tracker { info: connection.info.clone(), options });
        tracking.set(id, Some(tracker.clone()));
        connection.info.prefixes.store(all.len(), Ordering::Relaxed);
        let state = TrackingState { tracker, prefixes: all, caching: false };
        connection.session.tracking = Some(Box::new(state));
        connection.session.flags.set(SessionFlags::TRACKING, true);
        let info = &connection.info;
        info.redirect.store(options.redirect.unwrap_or(0) as i64, Ordering::Relaxed);
        info.flags.fetch_and(!(flag::TRACKING_BROKEN | flag::TRACKING_BCAST), Ordering::Relaxed);
        let bits = flag::TRACKING | if options.bcast { flag::TRACKING_BCAST } else { 0 };
        info.flags.fetch_or(bits, Ordering::Relaxed);
    }

    /// Ends that.
    pub(crate) fn stop_tracking(&mut self, connection: &mut Connection) {
        let Some(state) = connection.session.tracking.take() else { return };
        connection.info.prefixes.store(0, Ordering::Relaxed);
        let tracking = &self.shared.tracking;
        let id = connection.info.id;
        tracking.set(id, None);
        let mut table = lock(&tracking.prefixes);
        for prefix in &state.prefixes {
            if let Some(clients) = table.get_mut(prefix) {
                clients.retain(|client| *client != id);
                if clients.is_empty() {
                    table.remove(prefix);
                }
            }
        }
        connection.session.flags.set(SessionFlags::TRACKING, false);
        let info = &connection.info;
        info.redirect.store(-1, Ordering::Relaxed);
        let bits = flag::TRACKING | flag::TRACKING_BCAST | flag::TRACKING_BROKEN;
        info.flags.fetch_and(!bits, Ordering::Relaxed);
    }

    /// Remembers the keys that a client has just read whose reads are tracked; they are locked.
    #[cold]
    pub(crate) fn remember_read(&mut self, client: u64, entry: &Entry, args: &Args<'_>) {
        // A script's reads are those of its calls.
        let is_script = entry.spec.acl().has(Acl::SCRIPTING);
        let flags = entry.spec.flags;
        if !flags.has(Flags::READONLY) || flags.has(Flags::PUBSUB) || is_script {
            return;
        }
        let mut indexes = Vec::new();
        if entry.spec.data_keys(args, &mut indexes) {
            for index in indexes {
                self.keys.remember_cached(&Key::new(args.at(index)), client);
            }
        }
    }

    /// Begins a tracking client's request: keys above the limit are forgotten, and notices for the client
    /// precede its reply, as in Redis. Nothing is locked.
    pub(crate) fn before_tracked(&mut self, connection: &Connection, reply: &mut Reply) {
        self.limit_tracking();
        for notice in self.pushes.take_notices() {
            write_notice(reply, connection, &notice);
        }
    }

    /// Ends a tracking client's request: CLIENT CACHING was for this one.
    pub(crate) fn after_tracked(&mut self, connection: &mut Connection, entry: &Entry) {
        if let Some(state) = &mut connection.session.tracking
            && connection.session.transaction.is_none()
            && !entry.spec.flags.has(Flags::KEEPS_CACHING)
        {
            state.caching = false;
        }
    }

    /// Forgets keys above `tracking-table-max-keys`, at most one of each shard before other work gets its
    /// turn, telling those who cache them. Nothing is held.
    pub(crate) fn limit_tracking(&mut self) {
        let limit = self.config().tracking_table_max_keys as usize;
        let totals = &self.shared.engine.tracking;
        if limit == 0 || totals.keys.load(Ordering::Relaxed) <= limit || self.is_excluded() {
            return;
        }
        let first = self.keys.random.below(SHARD_COUNT as u64) as usize;
        for i in 0..SHARD_COUNT {
            if totals.keys.load(Ordering::Relaxed) <= limit {
                break;
            }
            let shard = (first + i) % SHARD_COUNT;
            if self.keys.lock_shard_unless_busy(shard) {
                self.keys.evict_cached(shard);
                self.release_keys();
            }
        }
    }

    /// Has the shards stop reporting every change once no client wants that.
    pub(crate) fn end_broadcasting(&mut self) {
        let tracking = &self.shared.tracking;
        if tracking.is_broadcast.load(Ordering::Relaxed) && tracking.prefix_count() == 0 {
            self.keys.broadcast_changes(false);
            tracking.is_broadcast.store(false, Ordering::SeqCst);
        }
    }

    /// Reports changed keys to the clients that have cached them.
    pub(crate) fn tell_trackers(&mut self, news: &KeyChanges) {
        for invalidation in &news.invalidations {
            let mut notice = None;
            for &id in &invalidation.clients {
                let Some(tracker) = self.shared.tracking.get(id) else { continue };
                if tracker.options.bcast || (tracker.options.noloop && id == self.pushes.origin()) {
                    continue;
                }
                let notice =
                    notice.get_or_insert_with(|| array_of([invalidation.key.as_slice()].into_iter()));
                self.tell_tracker(&tracker, notice);
            }
            if invalidation.broadcast {
                // An expiry is nobody's own change: who follows prefixes is told of it under NOLOOP, too.
                let origin = if invalidation.cause == Cause::Expiry { 0 } else { self.pushes.origin() };
                self.pushes.broadcast(&invalidation.key, origin);
            }
        }
        if news.flushed && self.shared.tracking.count.load(Ordering::Relaxed) > 0 {
            let all: Vec<_> = self.shared.tracking.trackers().values().cloned().collect();
            for tracker in all {
                let resp3 = tracker.info.resp.load(Ordering::Relaxed) == 3;
                let null: &[u8] = if resp3 { b"_\r\n" } else { b"$-1\r\n" };
                self.tell_tracker(&tracker, &Arc::new(null.to_vec()));
            }
        }
    }

    /// Tells those who want to know of keys by prefix what has changed since this was done last.
    pub(crate) fn send_broadcasts(&mut self) {
        if !self.pushes.has_broadcasts() {
            return;
        }
        let changed = self.pushes.take_broadcasts();
        // There may be very many prefixes: those are copied for which something has changed.
        let table = lock(&self.shared.tracking.prefixes);
        let is_due = |(prefix, _): &(&Vec<u8>, &Vec<u64>)| with_prefix(&changed, prefix).next().is_some();
        let due: Vec<_> =
            table.iter().filter(is_due).map(|(p, clients)| (p.clone(), clients.clone())).collect();
        drop(table);
        for (prefix, clients) in due {
            let keys: Vec<(&Vec<u8>, &u64)> = with_prefix(&changed, &prefix).collect();
            let all = array_of(keys.iter().map(|(key, _)| key.as_slice()));
            for id in clients {
                let Some(tracker) = self.shared.tracking.get(id) else { continue };
                let own = tracker.options.noloop && keys.iter().any(|(_, origin)| **origin == id);
                if !own {
                    self.tell_tracker(&tracker, &all);
                    continue;
                }
                let others = keys.iter().filter(|(_, origin)| **origin != id);
                if others.clone().next().is_some() {
                    self.tell_tracker(&tracker, &array_of(others.map(|(key, _)| key.as_slice())));
                }
            }
        }
    }

    fn tell_tracker(&mut self, tracker: &Tracker, keys: &Arc<Vec<u8>>) {
        let Some(redirect) = tracker.options.redirect else {
            return self.notify(&tracker.info, Notice::Invalidate(keys.clone()));
        };
        let target = self.shared.clients.get(redirect);
        match target.filter(|info| info.flags.load(Ordering::Relaxed) & flag::CLOSING == 0) {
            Some(info) => self.notify(&info, Notice::Redirected(keys.clone())),
            None => {
                tracker.info.flags.fetch_or(flag::TRACKING_BROKEN, Ordering::Relaxed);
                self.notify(&tracker.info, Notice::RedirectionBroken(redirect));
            }
        }
    }

    fn notify(&mut self, to: &ClientInfo, notice: Notice) {
        if self.pushes.collect(to.id, &notice) {
            return;
        }
        let (thread, token) = (to.thread(), to.token());
        let mail = Mail::Notice { token, client: to.id, notice };
        if thread == self.thread {
            self.shared.leave(self.thread, mail);
            self.inbox.note();
        } else {
            self.shared.send(thread, mail);
        }
    }

    /// Writes a notice into the output of one of this thread's clients.
    pub(crate) fn hand_notice(&mut self, token: Token, client: u64, notice: &Notice) {
        self.push_with(token, client, |connection| {
            let mut reply = Reply::new(std::mem::take(&mut connection.out), connection.session.resp3);
            write_notice(&mut reply, connection, notice);
            connection.out = reply.into_bytes();
        });
    }
}

/// Appends a notice in the form that the client reads, if it can.
fn write_notice(reply: &mut Reply, connection: &Connection, notice: &Notice) {
    let resp3 = connection.session.resp3;
    match notice {
        Notice::Invalidate(keys) if resp3 && connection.session.tracking.is_some() => {
            write_invalidation(reply, keys);
        }
        Notice::Redirected(keys) if resp3 => write_invalidation(reply, keys),
        Notice::Redirected(keys) if connection.is_subscriber() => {
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(CHANNEL);
            reply.raw().extend_from_slice(keys);
        }
        Notice::RedirectionBroken(redirect) if resp3 => {
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.int(*redirect as i64);
        }
        _ => {}
    }
}

/// The changed keys that begin so.
fn with_prefix<'a>(
    changed: &'a BTreeMap<Vec<u8>, u64>,
    prefix: &'a [u8],
) -> impl Iterator<Item = (&'a Vec<u8>, &'a u64)> {
    let behind = changed.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
    behind.take_while(move |(key, _)| key.starts_with(prefix))
}

fn write_invalidation(reply: &mut Reply, keys: &[u8]) {
    reply.push(2);
    reply.bulk(b"invalidate");
    reply.raw().extend_from_slice(keys);
}

fn array_of<'a>(keys: impl Iterator<Item = &'a [u8]> + Clone) -> Arc<Vec<u8>> {
    let mut reply = Reply::default();
    reply.array(keys.clone().count());
    keys.for_each(|key| reply.bulk(key));
    Arc::new(reply.into_bytes())
}
