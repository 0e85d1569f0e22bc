//! Replies on their way out: one send per connection and loop, and the limits on what may wait.

use std::sync::atomic::Ordering;

use martlet_journal::Position;
use martlet_net::Backend;

use super::Worker;
use crate::connection::Connection;

impl Worker {
    /// Takes connections whose output has to wait for the disk out of those to flush, and puts back those whose output need not any more.
    ///
    /// All output waits for all that was recorded before it left, whoever wrote it: what a client reads is not lost either. While the disk
    /// refuses, only what acknowledges a client's own writes waits: everybody else is served, and told of it.
    #[cold]
    fn wait_for_disk(&mut self) {
        let journal = &self.shared.engine.journal;
        let end = journal.end();
        // Before the look at what is durable: whoever makes more of it durable then wakes this thread.
        self.shared.wait_for_disk(self.thread);
        let durable = if journal.holds_replies() { journal.durable() } else { Position::MAX };
        let refuses = self.shared.persistence.log.refuses_writes.load(Ordering::Relaxed);
        let mut waiting = if durable < end { std::mem::take(&mut self.dirty) } else { Vec::new() };
        while let Some(&(position, token)) = self.held.front().filter(|(at, _)| refuses || *at <= durable) {
            self.held.pop_front();
            // Its later output, if there is some, is held at a later position, or about to be: it has to wait for that then, since all of it
            // leaves at once.
            let is_last = |c: &Connection| c.token == token && c.held_until == position && !c.is_dirty;
            if self.connections.get(token.index()).and_then(Option::as_deref).is_some_and(is_last) {
                if position <= durable { self.dirty.push(token) } else { waiting.push(token) }
            }
        }
        for token in waiting {
            let Some(mut connection) = self.take(token) else { continue };
            let until = if refuses { connection.recorded } else { end };
            if until <= durable {
                self.dirty.push(token);
            } else {
                connection.is_dirty = false;
                connection.held_until = until;
                self.held.push_back((until, token));
            }
            self.put(connection);
        }
        if !self.held.is_empty() {
            journal.nudge();
        } else if self.disk_waiters.is_empty() {
            self.shared.wait_no_more(self.thread);
        }
    }

    /// Hands every connection's output to the backend.
    pub(super) fn flush(&mut self, backend: &mut dyn Backend) {
        if self.shared.engine.journal.holds_replies() || !self.held.is_empty() {
            self.wait_for_disk();
        }
        self.has_closing = false;
        let mut dirty = std::mem::take(&mut self.dirty);
        for token in dirty.drain(..) {
            let Some(mut connection) = self.take(token) else { continue };
            connection.is_dirty = false;
            if !connection.out.is_empty() {
                let buffer = std::mem::take(&mut connection.out);
                let bytes = buffer.len();
                connection.in_flight.push_back(bytes);
                connection.in_flight_bytes += bytes;
                self.stats().net_output_bytes.add(bytes as u64);
                connection.info.net_output_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                connection.info.output_bytes.store(connection.in_flight_bytes, Ordering::Relaxed);
                backend.send(token, buffer);
            }
            self.has_closing |= connection.closing;
            self.put(connection);
        }
        // The list's memory is used again; nothing was added meanwhile.
        self.dirty = dirty;
    }

    /// Bytes of output above which the connection will be closed at once; 0 for no limit.
    pub(super) fn hard_limit(&self, connection: &Connection) -> usize {
        self.config.current().client_output_buffer_limits[output_class(connection)].hard_bytes as usize
    }

    /// Ends a connection whose unread replies exceed `client-output-buffer-limit`.
    pub(crate) fn check_output_limit(&mut self, connection: &mut Connection) {
        let bytes = connection.output_bytes() as u64;
        let limit = &self.config.current().client_output_buffer_limits[output_class(connection)];
        if bytes <= limit.soft_bytes || limit.soft_bytes == 0 {
            connection.soft_limit_since_ms = None;
        }
        let hard = limit.hard_bytes > 0 && bytes > limit.hard_bytes;
        let soft = limit.soft_bytes > 0 && bytes > limit.soft_bytes && {
            let since_ms = *connection.soft_limit_since_ms.get_or_insert(self.now_ms);
            self.now_ms - since_ms > limit.soft_seconds as i64 * 1000
        };
        if hard || soft {
            tracing::warn!(
                "Client id={} addr={} (omem={bytes}) scheduled to be closed ASAP for overcoming of output buffer limits.",
                connection.info.id,
                connection.info.peer
            );
            self.shared.stats.output_buffer_disconnections.fetch_add(1, Ordering::Relaxed);
            connection.out = Vec::new();
            connection.in_flight_bytes = 0;
            connection.in_flight.clear();
            connection.closing = true;
        }
    }
}

/// The class of `client-output-buffer-limit` that a connection is in.
fn output_class(connection: &Connection) -> usize {
    match (connection.is_monitor, connection.is_subscriber()) {
        (true, _) => 1,
        (_, true) => 2,
        _ => 0,
    }
}
