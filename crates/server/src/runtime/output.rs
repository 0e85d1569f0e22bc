//! Replies on their way out: one send per connection and loop, and the limits on what may wait.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use martlet_journal::Position;
use martlet_net::{Backend, Token};

use super::Worker;
use crate::config::OutputClass;
use crate::connection::{Connection, InFlight};
use crate::slow_path::SlowPathReason;

/// Output that waits for the disk, or for replicas.
pub(super) struct UnconfirmedOutput {
    /// The end of the journal when it was there.
    position: Position,
    token: Token,
    /// Up to where it is that, in all that the client is sent.
    place: u64,
    /// Once the disk has it, it waits for replicas.
    for_replicas: bool,
}

impl Worker {
    /// Has output wait that has to, for the disk (`appendfsync always`) or for replicas
    /// (`martlet-sync-replicas`), and puts back connections of which some need not any more.
    ///
    /// All output waits for all that was recorded before it left, whoever wrote it: what a client reads is
    /// not lost either. For replicas only replies of data commands wait.
    #[cold]
    fn wait_for_copies(&mut self) {
        let shared = self.shared;
        let (journal, sync) = (&shared.engine.journal, &shared.replication.sync_replicas);
        let end = journal.end();
        // Before the look at what is durable: whoever makes more of it durable then wakes this thread.
        shared.wait_for_copies(self.thread);
        let (for_disk, for_replicas) = (journal.holds_replies(), sync.is_on());
        let on_disk = if for_disk { journal.durable() } else { Position::MAX };
        let confirmed = if for_replicas { sync.confirmed() } else { Position::MAX };
        if self.config.current().replicaof.0.is_some() && !self.is_excluded() {
            self.drop_unconfirmed(sync.confirmed());
        }
        if on_disk.min(confirmed) < end {
            for token in std::mem::take(&mut self.outbox.dirty) {
                let Some(mut connection) = self.take(token) else { continue };
                let for_replicas = for_replicas && connection.awaits_replicas();
                if for_disk || for_replicas {
                    connection.is_dirty = false;
                    connection.held = connection.output_end();
                    connection.reads_data = false;
                    let place = connection.held;
                    let held = UnconfirmedOutput { position: end, token, place, for_replicas };
                    self.outbox.awaiting_fsync.push_back(held);
                } else {
                    self.outbox.dirty.push(token);
                }
                self.put(connection);
            }
        }
        let refuses = shared.persistence.log.refuses_writes.load(Ordering::Relaxed);
        let mut awaiting = std::mem::take(&mut self.outbox.awaiting_fsync);
        let on_disk = self.take_covered(&mut awaiting, on_disk, refuses);
        self.outbox.awaiting_fsync = awaiting;
        for held in on_disk {
            match held.for_replicas {
                true => self.outbox.awaiting_replicas.push_back(held),
                false => self.release_output(held),
            }
        }
        let are_few = shared.slow_path_reasons.has(SlowPathReason::FewReplicas);
        let mut awaiting = std::mem::take(&mut self.outbox.awaiting_replicas);
        let with_replicas = self.take_covered(&mut awaiting, confirmed, are_few);
        self.outbox.awaiting_replicas = awaiting;
        with_replicas.into_iter().for_each(|held| self.release_output(held));
        if !self.outbox.awaiting_fsync.is_empty() {
            journal.nudge();
        }
        // A thread outside the gate records nothing.
        if !self.outbox.awaiting_replicas.is_empty() && !self.is_excluded() {
            sync.ask(journal);
        }
        if !self.outbox.has_held() && !self.waits.awaits_copies() {
            shared.cancel_copy_wakeup(self.thread);
        }
    }

    /// Takes out what need not wait any more, as copies have everything before `safe`. While there can be no
    /// copies (the disk refuses, there are too few replicas) only what acknowledges a client's own writes
    /// waits: everybody else is served, and told of it.
    fn take_covered(
        &mut self,
        awaiting: &mut VecDeque<UnconfirmedOutput>,
        safe: Position,
        are_no_copies: bool,
    ) -> Vec<UnconfirmedOutput> {
        let (mut covered, mut waiting) = (Vec::new(), Vec::new());
        while let Some(held) = awaiting.pop_front_if(|held| are_no_copies || held.position <= safe) {
            if self.is_aside(held.token) {
                waiting.push(held);
                continue;
            }
            let recorded =
                self.connections.at_place_of(held.token).map_or(0, |connection| connection.recorded);
            let position = held.position.min(if are_no_copies { recorded } else { Position::MAX });
            if position > safe { &mut waiting } else { &mut covered }.push(held);
        }
        awaiting.extend(waiting);
        covered
    }

    /// Lets output leave.
    fn release_output(&mut self, held: UnconfirmedOutput) {
        let Some(mut connection) = self.take(held.token) else { return };
        connection.released = connection.released.max(held.place);
        self.outbox.note(&mut connection);
        self.put(connection);
    }

    /// This server follows another one, which may not have what clients still wait to be told: they are told
    /// nothing, as if the link to them had broken.
    fn drop_unconfirmed(&mut self, confirmed: Position) {
        for mut awaiting in [
            std::mem::take(&mut self.outbox.awaiting_fsync),
            std::mem::take(&mut self.outbox.awaiting_replicas),
        ] {
            awaiting.retain(|held| {
                let is_lost = held.for_replicas && held.position > confirmed;
                if is_lost && let Some(mut connection) = self.take(held.token) {
                    self.end_for_good(&mut connection);
                    self.finish(connection);
                }
                !is_lost
            });
            // Whatever replicas have waits for the disk at most.
            self.outbox.awaiting_fsync.extend(awaiting);
        }
    }

    /// Hands every connection's output to the backend.
    pub(super) fn flush(&mut self, backend: &mut dyn Backend) {
        let shared = self.shared;
        if shared.engine.journal.holds_replies()
            || shared.replication.sync_replicas.is_on()
            || self.outbox.has_held()
        {
            self.wait_for_copies();
        }
        self.outbox.has_closing = false;
        self.outbox.has_pieces = false;
        let mut dirty = std::mem::take(&mut self.outbox.dirty);
        for token in dirty.drain(..) {
            let Some(mut connection) = self.take(token) else { continue };
            connection.is_dirty = false;
            self.hand_over(backend, &mut connection);
            self.outbox.has_closing |= connection.closing;
            self.put(connection);
        }
        // The list's memory is used again; nothing was added meanwhile.
        self.outbox.dirty = dirty;
    }

    /// Hands a connection's output to the backend. After several pieces the next poll does not sleep: the
    /// backend sends one after the other.
    #[inline]
    fn hand_over(&mut self, backend: &mut dyn Backend, connection: &mut Connection) {
        let token = connection.token;
        let (mut pieces, mut bytes) = (0, 0);
        connection.take_output(|buffer| {
            pieces += 1;
            bytes += buffer.len();
            backend.send(token, buffer);
        });
        if bytes > 0 {
            self.outbox.has_pieces |= pieces > 1;
            self.stats().net_output_bytes.add(bytes as u64);
            connection.info.net_output_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            connection.info.output_bytes.store(connection.output_bytes(), Ordering::Relaxed);
        }
    }

    /// Says whether the next poll must not sleep, since a connection has more to send.
    pub(crate) fn outbox_has_more(&mut self, has_more: bool) {
        self.outbox.has_pieces |= has_more;
    }

    /// Bytes of output above which the connection will be closed at once; 0 for no limit.
    pub(super) fn hard_limit(&self, connection: &Connection) -> usize {
        self.config.current().client_output_buffer_limits[output_class(connection)].hard_bytes as usize
    }

    /// Ends a connection whose unread replies exceed `client-output-buffer-limit`, or what one may have
    /// before it has authenticated.
    #[inline]
    pub(crate) fn check_output_limit(&mut self, connection: &mut Connection) {
        let bytes = connection.output_bytes() as u64;
        if bytes > self.output_free_bytes
            || connection.soft_limit_since_ms.is_some()
            || !connection.session.authenticated
        {
            self.compare_with_output_limit(connection, bytes);
        }
    }

    #[inline(never)]
    pub(crate) fn compare_with_output_limit(&mut self, connection: &mut Connection, bytes: u64) {
        let limit = &self.config.current().client_output_buffer_limits[output_class(connection)];
        if bytes <= limit.soft_bytes || limit.soft_bytes == 0 {
            connection.soft_limit_since_ms = None;
        }
        let hard_bytes = if connection.replica.is_some() { self.most_behind() } else { limit.hard_bytes };
        let hard = hard_bytes > 0 && bytes > hard_bytes
            || !connection.session.authenticated && bytes > UNAUTHENTICATED_MAX_BYTES;
        let soft = limit.soft_bytes > 0 && bytes > limit.soft_bytes && {
            let since_ms = *connection.soft_limit_since_ms.get_or_insert(self.now_ms);
            self.outbox.has_soft_limited = true;
            self.now_ms - since_ms > limit.soft_seconds as i64 * 1000
        };
        if hard || soft {
            self.end_for_output(connection);
        }
    }

    /// Ends a connection that has too much output, which it does not get.
    #[cold]
    pub(super) fn end_for_output(&mut self, connection: &mut Connection) {
        tracing::warn!(
            "Client id={} addr={} (omem={}) scheduled to be closed ASAP for overcoming of output buffer limits.",
            connection.info.id,
            connection.info.peer,
            connection.output_bytes()
        );
        self.shared.stats.output_buffer_disconnections.fetch_add(1, Ordering::Relaxed);
        self.end_for_good(connection);
    }

    /// Ends a connection, which gets nothing more.
    pub(crate) fn end_for_good(&mut self, connection: &mut Connection) {
        connection.discard_output();
        connection.in_flight = InFlight::default();
        connection.closing = true;
        self.outbox.note(connection);
    }
}

/// Most bytes of replies that may wait for who has not authenticated: in Redis, too, a reply buffer (16 KB)
/// and 1,024 bytes.
const UNAUTHENTICATED_MAX_BYTES: u64 = 17 << 10;

/// The class of `client-output-buffer-limit` that a connection is in: replicas, slot migration links and the
/// channel that carries a replica's RDB file in the second, clients with subscriptions in the third, all
/// others in the first. A monitor, a client that tracks keys or waits, and the link to the primary are such
/// others (Redis: `getClientType`).
fn output_class(connection: &Connection) -> usize {
    match (connection.replica.is_some(), connection.is_subscriber()) {
        (true, _) => 1,
        (_, true) => 2,
        _ => 0,
    }
}

impl Worker {
    /// Bytes of the stream that are kept beyond the backlog, for replicas that are behind. To evict keys for
    /// them would make it worse: each of these is a command, too.
    pub(crate) fn stream_bytes_beyond_backlog(&self) -> u64 {
        if !self.shared.replication.primary.is_active.load(Ordering::Relaxed) {
            return 0;
        }
        let kept = self.shared.engine.journal.stream_bytes();
        kept.saturating_sub(self.config().repl_backlog_size_bytes)
    }

    /// Most bytes that a replica may be behind before its connection ends: `client-output-buffer-limit`, but
    /// no less than the backlog that is kept anyhow.
    pub(crate) fn most_behind(&self) -> u64 {
        let config = self.config.current();
        match config.client_output_buffer_limits[OutputClass::Replica as usize].hard_bytes {
            0 => u64::MAX,
            hard => hard.max(config.repl_backlog_size_bytes),
        }
    }
}

#[cfg(test)]
mod tests;
