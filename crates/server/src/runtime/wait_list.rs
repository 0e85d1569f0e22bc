//! A thread's clients that wait, but for those in keys' queues: for copies, or until postponed work goes on.

use martlet_net::Token;

use crate::migration::exchange::Answers;
use crate::migration::state::Migration;
use crate::waits::CopyWaiter;

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct WaitList {
    /// Clients that WAIT or WAITAOF.
    copies: Vec<CopyWaiter>,
    /// Connections whose request is to run again: see [`Worker::postpone`](super::Worker::postpone).
    paused: Vec<Token>,
    /// Migrated keys whose deletion waits for CLIENT PAUSE to end.
    migrations: Vec<(Box<Migration>, Answers)>,
}

impl WaitList {
    /// A client waits for copies.
    pub fn await_copies(&mut self, waiter: CopyWaiter) {
        self.copies.push(waiter);
    }

    /// Whether a client does.
    pub fn awaits_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Takes those clients.
    pub fn take_copies(&mut self) -> Vec<CopyWaiter> {
        std::mem::take(&mut self.copies)
    }

    /// A connection's request is to run again.
    pub fn pause(&mut self, token: Token) {
        self.paused.push(token);
    }

    /// Takes those connections.
    pub fn take_paused(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.paused)
    }

    /// How many those are.
    #[cfg(test)]
    pub fn paused_count(&self) -> usize {
        self.paused.len()
    }

    /// A MIGRATE waits with its answers.
    pub fn pause_migration(&mut self, migration: Box<Migration>, answers: Answers) {
        self.migrations.push((migration, answers));
    }

    /// Takes those.
    pub fn take_migrations(&mut self) -> Vec<(Box<Migration>, Answers)> {
        std::mem::take(&mut self.migrations)
    }
}
