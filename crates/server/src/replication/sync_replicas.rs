//! `martlet-sync-replicas`: replies wait until the wanted number of replicas have all earlier records.
//!
//! ```text
//! recorded   │ W1 │ GETACK │ W2 │ W3 │            one question at a time: later records
//! question   └ position, offset ┘                 share the next one
//! answered   the N-th furthest ACK ≥ offset  ──▶  confirmed = position
//! ```
//!
//! Invariant: `confirmed` only grows, and N replicas have acknowledged everything before it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use martlet_base::sync::lock;
use martlet_journal::{Journal, Position, REPLICAS};
use martlet_replication::acks::{Getack, GetackRound};

use super::failover_state::GETACK;
use super::offset::offset_of;
use super::primary::Primary;

/// See the [module docs](self).
#[derive(Default)]
pub struct SyncReplicas {
    /// How many replicas replies wait for; 0 for none.
    wanted: AtomicUsize,
    confirmed: AtomicU64,
    /// The one that is under way. The stream's lock is taken while it is locked.
    getack_round: Mutex<GetackRound>,
}

impl SyncReplicas {
    /// Whether replies wait for replicas.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.wanted() > 0
    }

    /// How many they wait for.
    #[inline]
    pub fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Says how many; whether it was another number.
    pub fn set_wanted(&self, wanted: usize) -> bool {
        if self.wanted() == wanted {
            return false;
        }
        let mut getack_round = lock(&self.getack_round);
        // Offsets may restart, and more replicas may have to answer.
        getack_round.forget();
        self.wanted.swap(wanted, Ordering::SeqCst) != wanted
    }

    /// The wanted number of replicas have everything before this.
    #[inline]
    pub fn confirmed(&self) -> Position {
        self.confirmed.load(Ordering::Acquire)
    }

    /// Asks replicas whether they have all present records, unless a question is under way: a waiting client
    /// is woken by the answer, and asks again if it needs more.
    pub fn ask(&self, journal: &Journal) {
        let mut getack_round = lock(&self.getack_round);
        let position = journal.end();
        if !getack_round.may_ask(self.wanted(), self.confirmed(), position) {
            return;
        }
        // Unknown while the append-only file's disk is far behind: a waiting client is woken when it catches
        // up.
        let Some(offset) = offset_of(journal, position) else { return };
        let end = journal.append(REPLICAS, GETACK);
        // The question itself needs no confirmation. Records that others have added since do.
        let is_next = end - position == Journal::record_bytes(GETACK);
        getack_round.ask(Getack { position: if is_next { end } else { position }, offset });
    }

    /// A replica has said how far it is; whether that answers the question.
    pub fn note_ack(&self, primary: &Primary) -> bool {
        if !self.is_on() {
            return false;
        }
        let mut getack_round = lock(&self.getack_round);
        let Some(confirmed) = getack_round.answer(primary.acked_by(self.wanted())) else { return false };
        self.confirmed.fetch_max(confirmed, Ordering::AcqRel);
        true
    }
}
