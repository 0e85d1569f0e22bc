//! Which of a thread's connections are replicas', and how much of the journal was shown to other threads.

use martlet_journal::Position;
use martlet_net::Token;

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct ReplicaFeeder {
    /// Replicas' connections.
    replicas: Vec<Token>,
    /// The end of the journal when this thread last had others look at it for replicas.
    seen: Position,
}

impl ReplicaFeeder {
    /// One more connection is a replica's.
    pub fn add(&mut self, token: Token) {
        self.replicas.push(token);
    }

    /// A connection is no replica's any more.
    pub fn remove(&mut self, token: Token) {
        self.replicas.retain(|known| *known != token);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.replicas.len()
    }

    /// The connection of this number.
    pub fn get(&self, index: usize) -> Option<Token> {
        self.replicas.get(index).copied()
    }

    /// Takes note of the journal's end; whether it was another the last time.
    pub fn see(&mut self, end: Position) -> bool {
        std::mem::replace(&mut self.seen, end) != end
    }
}
