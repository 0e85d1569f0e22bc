//! Imports in the stream for replicas and in the files.
//!
//! Invariant: wherever keys of incoming slots are written, the mark of their import precedes them, and its
//! outcome follows them.

use martlet_client::resp::encode_request;
use martlet_journal::{Follower, REPLICAS};

use crate::runtime::Worker;

impl Worker {
    /// Has replicas run a command that is about this node.
    pub(crate) fn tell_replicas<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        let journal = &self.shared.engine.journal;
        if journal.is_followed_by(Follower::Replicas) && !journal.relays() {
            // Earlier effects precede the mark.
            self.keys.record_pending();
            let mut bytes = Vec::new();
            encode_request(words, &mut bytes);
            journal.append(REPLICAS, &bytes);
        }
    }

    /// Has replicas run a command about this node's imports, and records it in the append-only file; only
    /// there if the command is the primary's, whose stream replicas get.
    pub(crate) fn record_import<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        let journal = &self.shared.engine.journal;
        if journal.is_on() {
            self.keys.record_pending();
            let mut bytes = Vec::new();
            encode_request(words, &mut bytes);
            // As an effect in the first database.
            journal.append(0, &bytes);
        }
    }
}
