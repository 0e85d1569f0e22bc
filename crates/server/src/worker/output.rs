//! Replies on their way out: one send per connection and loop, and the limits on what may wait.

use std::sync::atomic::Ordering;

use martlet_journal::Position;
use martlet_net::{Backend, Token};

use super::Worker;
use crate::connection::{Connection, InFlight};

/// Output that waits for the disk.
pub(super) struct AwaitingFsync {
    /// The end of the journal when it was there.
    position: Position,
    token: Token,
    /// Up to where it is that, in all that the client is sent.
    place: u64,
}

impl Worker {
    /// Has output wait for the disk that has to, and puts back connections of which some need not any more.
    ///
    /// All output waits for all that was recorded before it left, whoever wrote it: what a client reads is
    /// not lost either. While the disk refuses, only what acknowledges a client's own writes waits: everybody
    /// else is served, and told of it.
    #[cold]
    fn wait_for_disk(&mut self) {
        let journal = &self.shared.engine.journal;
        let end = journal.end();
        // Before the look at what is durable: whoever makes more of it durable then wakes this thread.
        self.shared.wait_for_disk(self.thread);
        let durable = if journal.holds_replies() { journal.durable() } else { Position::MAX };
        let refuses = self.shared.persistence.log.refuses_writes.load(Ordering::Relaxed);
        if durable < end {
            for token in std::mem::take(&mut self.outbox.dirty) {
                let Some(mut connection) = self.take(token) else { continue };
                connection.is_dirty = false;
                connection.held = connection.output_end();
                self.outbox.awaiting_fsync.push_back(AwaitingFsync {
                    position: end,
                    token,
                    place: connection.held,
                });
                self.put(connection);
            }
        }
        let mut waiting = Vec::new();
        while let Some(held) =
            self.outbox.awaiting_fsync.pop_front_if(|held| refuses || held.position <= durable)
        {
            if self.is_aside(held.token) {
                waiting.push(held);
                continue;
            }
            let Some(mut connection) = self.take(held.token) else { continue };
            if held.position.min(if refuses { connection.recorded } else { Position::MAX }) > durable {
                waiting.push(held);
            } else {
                connection.released = connection.released.max(held.place);
                self.outbox.note(&mut connection);
            }
            self.put(connection);
        }
        self.outbox.awaiting_fsync.extend(waiting);
        if !self.outbox.awaiting_fsync.is_empty() {
            journal.nudge();
        } else if self.copy_waiters.is_empty() {
            self.shared.wait_no_more(self.thread);
        }
    }

    /// Hands every connection's output to the backend.
    pub(super) fn flush(&mut self, backend: &mut dyn Backend) {
        if self.shared.engine.journal.holds_replies() || !self.outbox.awaiting_fsync.is_empty() {
            self.wait_for_disk();
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
        connection.discard_output();
        connection.in_flight = InFlight::default();
        connection.closing = true;
    }
}

/// Most bytes of replies that may wait for who has not authenticated: in Redis, too, a reply buffer (16 KB)
/// and 1,024 bytes.
const UNAUTHENTICATED_MAX_BYTES: u64 = 17 << 10;

/// The class of `client-output-buffer-limit` that a connection is in.
fn output_class(connection: &Connection) -> usize {
    match (connection.is_monitor || connection.replica.is_some(), connection.is_subscriber()) {
        (true, _) => 1,
        (_, true) => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
