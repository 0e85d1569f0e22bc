//! Some slots' keys as commands, for the node that they go to.
//!
//! Invariant: the written keys are the slots at one instant, from which on the stream of commands continues.

use std::collections::HashSet;
use std::io::{self, Write};

use martlet_base::hash::slot_in;
use martlet_engine::Keys;
use martlet_keyspace::key_hash;

use crate::Storage;
use crate::aof::commands::CommandBase;
use crate::aof::rewrite::walk;
use crate::background::{Output, Receiver};
use crate::save::{Cut, Header};
use crate::settings::Settings;

impl Storage {
    /// Begins to write the keys of some slots to the receiver, unless a snapshot is under way; `keys` hold
    /// all shards, and replicas follow the journal.
    ///
    /// # Errors
    /// Nothing was begun; the receiver.
    pub fn start_slots_for(
        self,
        keys: &Keys,
        settings: &Settings,
        slots: Vec<u16>,
        receiver: Box<dyn Receiver>,
    ) -> Result<(), Box<dyn Receiver>> {
        if self.has_snapshot() {
            return Err(receiver);
        }
        let cut = Cut::make_of_slots(self, keys, Header::of_stream(self, settings, &[]), &slots);
        let write = Box::new(move |storage: Storage, out: Box<dyn Write + Send>, cut: &Cut| {
            write_slots(storage, out, cut, &slots)
        });
        self.start(keys, cut, Output::Other(receiver, write));
        Ok(())
    }
}

/// Writes the cut's keys of these slots.
///
/// # Errors
/// The refusal of `out`; [`io::ErrorKind::Interrupted`] if the cut was cancelled.
fn write_slots(storage: Storage, mut out: impl Write, cut: &Cut, slots: &[u16]) -> io::Result<()> {
    let slots: HashSet<u16> = slots.iter().copied().collect();
    let mut base = CommandBase::default();
    let mut held = storage.engine.snapshot.hold(0);
    walk(storage, cut, |taken| {
        taken.drain(|saved| {
            if slots.contains(&slot_in(key_hash(saved.key))) {
                base.key(&saved);
            }
        });
        held.set(base.bytes.capacity());
        let result = out.write_all(&base.bytes);
        base.bytes.clear();
        result
    })?;
    out.flush()
}
