//! Connections move from thread to thread as the number of threads that serve follows the load.
//!
//! Only a connection at rest moves: nothing of it is received, under way or waited for, and no table knows it
//! by its thread, as those of subscribers, monitors and replicas do. Its thread asks the backend for the
//! socket; bytes that arrive before the socket comes are answered as ever, those behind them wait in the
//! socket for the next thread. Mail that is sent to a client's old thread follows it by the client's id.
//! Clients that are silent stay where they are until they send something.

use std::os::fd::OwnedFd;

use martlet_net::Token;

use super::outbox::Action;
use super::{Mail, Worker};
use crate::connection::Connection;
use crate::scripting::debugging::state::DebugMode;

/// A client that sent something within this time is worth moving.
const ACTIVE_MS: i64 = 1000;
/// Connections that one tick gives up at most: some hundred microseconds.
const MOVES_PER_TICK: usize = 64;
/// Ticks beyond those that all need in which a thread asks again for sockets that it has not got: something
/// was under way on them.
const MORE_TICKS: usize = 20;

/// A thread's part in the moves.
#[derive(Default)]
pub(crate) struct Relocation {
    /// The number of active threads as this thread last saw it.
    seen_active: usize,
    /// Connections to give up, and for how many more ticks this thread asks for their sockets.
    leaving: Vec<Token>,
    ticks_left: usize,
    /// The threads that get them, and which gets the next one.
    targets: std::ops::Range<usize>,
    next: usize,
    /// Commands that the thread had run when it last chose.
    commands: u64,
}

/// How many of `count` connections thread `thread` gives away when the first `to` threads serve, where the
/// first `from` did, and to which threads.
fn share_to_give(thread: usize, count: usize, from: usize, to: usize) -> (usize, std::ops::Range<usize>) {
    if thread >= to {
        (count, 0..to)
    } else if thread < from && from < to {
        (count - (count * from).div_ceil(to), from..to)
    } else {
        (0, 0..to)
    }
}

/// Whether no table knows the connection by its thread.
fn may_move(connection: &Connection) -> bool {
    !connection.is_handshaking
        && !connection.is_monitor
        && !connection.is_subscriber()
        && !connection.moves_slots()
        && connection.replica.is_none()
        && connection.slot_feed.is_none()
        && connection.session.debug_mode == DebugMode::Off
}

/// Whether nothing of the connection is under way in its thread.
fn is_at_rest(connection: &Connection) -> bool {
    connection.suspended.is_none()
        && connection.parsed.is_none()
        && connection.query.is_empty()
        && !connection.partial.is_apart()
        && connection.output_bytes() == 0
        && connection.held <= connection.released
        && !connection.is_ready
        && !connection.is_dirty
        && !connection.is_throttled
        && !connection.is_flooding
        && !connection.closing
        && !connection.input_ended
}

impl Worker {
    /// Looks whether the load has changed, if that is due.
    pub(super) fn follow_load(&mut self) {
        let fixed = self.config.current().active_threads;
        if self.shared.scaling.look_if_due(self.timers.looked_ms, fixed) {
            tracing::debug!("{} threads serve clients", self.shared.scaling.active());
            self.shared.wake_all();
        }
    }

    /// Whether the number of threads that serve has changed.
    #[inline]
    pub(super) fn must_relocate(&self) -> bool {
        self.relocation.seen_active != self.shared.scaling.active()
    }

    /// Chooses the connections that this thread has to give up.
    pub(super) fn begin_relocation(&mut self) {
        let active = self.shared.scaling.active();
        let from = std::mem::replace(&mut self.relocation.seen_active, active);
        let since_ms = self.timers.looked_ms - ACTIVE_MS;
        let moves = |one: &&Connection| one.last_active_ms >= since_ms && may_move(one);
        let mut leaving: Vec<_> = self.connections.iter().filter(moves).map(|one| one.token).collect();
        let (count, targets) = share_to_give(self.thread, leaving.len(), from, active);
        // Now these, now those: the busiest had better not be chosen together each time.
        let first = self.timers.looked_ms.unsigned_abs() as usize % leaving.len().max(1);
        leaving.rotate_left(first);
        leaving.truncate(count);
        let ticks_left = leaving.len().div_ceil(MOVES_PER_TICK) + MORE_TICKS;
        let (next, commands) = (self.thread, self.stats().total_commands.get());
        self.relocation = Relocation { seen_active: active, leaving, ticks_left, targets, next, commands };
    }

    /// As [`Worker::begin_relocation`] for a thread that is not to serve, and has done so.
    pub(super) fn keep_away(&mut self) {
        let has_served = self.stats().total_commands.get() != self.relocation.commands;
        if has_served && self.thread >= self.relocation.seen_active && self.relocation.leaving.is_empty() {
            self.begin_relocation();
        }
    }

    /// Asks for the sockets of some connections that leave.
    pub(super) fn relocate(&mut self) {
        let Relocation { leaving, ticks_left, .. } = &mut self.relocation;
        if leaving.is_empty() {
            return;
        }
        let connections = &self.connections;
        leaving.retain(|token| connections.at_place_of(*token).is_some_and(|one| one.token == *token));
        let asked = leaving.len().min(MOVES_PER_TICK);
        self.outbox.actions.extend(leaving.iter().take(asked).map(|token| Action::Release(*token)));
        leaving.rotate_left(asked);
        *ticks_left = ticks_left.saturating_sub(1);
        if *ticks_left == 0 {
            leaving.clear();
        }
        // The next tick is soon where something was done.
        self.timers.has_worked |= !leaving.is_empty();
    }

    /// Sends a connection whose socket has come to another thread; it stays if it is not at rest any more.
    pub(super) fn send_connection(&mut self, token: Token, socket: OwnedFd) {
        let Some(connection) = self.take(token) else { return };
        let Relocation { targets, next, .. } = &mut self.relocation;
        // Fewer may serve than when it was chosen.
        let is_wanted = targets.start < targets.end && targets.end <= self.shared.scaling.active();
        if !is_wanted || !may_move(&connection) || !is_at_rest(&connection) {
            self.put(connection);
            return self.outbox.actions.push(Action::Adopt(socket, token));
        }
        let to = targets.start + *next % targets.len();
        *next += 1;
        self.uncount_memory(&connection);
        self.connections.release(token);
        self.stats().moved_connections.add(1);
        let clients = &self.shared.clients;
        clients.assigned(self.thread, -1);
        clients.assigned(to, 1);
        let info = connection.info.clone();
        self.shared.send_client(to, &info, Mail::Move { connection, socket });
    }

    /// Takes over a connection that another thread has given up.
    pub(super) fn take_connection(&mut self, mut connection: Box<Connection>, socket: OwnedFd) {
        let token = self.connections.reserve();
        connection.token = token;
        let is_killed = connection.info.arrive_as(token);
        self.count_memory(&connection, 0);
        self.outbox.actions.push(Action::Adopt(socket, token));
        self.connections.put(connection);
        if is_killed {
            self.forget(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_after_each_change() {
        for (from, to) in [(1, 2), (2, 4), (3, 7), (8, 1), (7, 3), (4, 4), (1, 64)] {
            let mut counts = vec![0_usize; 64];
            counts[..from].fill(1000);
            let before = counts.clone();
            for (thread, count) in before.into_iter().enumerate() {
                let (given, targets) = share_to_give(thread, count, from, to);
                counts[thread] -= given;
                for at in 0..given {
                    counts[targets.start + (thread + at) % targets.len()] += 1;
                }
            }
            let (fewest, most) = (counts[..to].iter().min().unwrap(), counts[..to].iter().max().unwrap());
            assert!(most - fewest <= from.max(to), "{from} to {to}: {counts:?}");
            assert_eq!(counts[to..].iter().sum::<usize>(), 0);
        }
    }
}
