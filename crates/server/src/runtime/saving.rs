//! A worker's part of saving the data set: the steps that need its view of the keys.

use martlet_persistence::Due;
use martlet_persistence::aof::PendingFlush;
use martlet_persistence::save::SaveFailed;

use super::Worker;
use crate::persistence::settings::settings;

impl Worker {
    /// Changes of the data set since the start, those of the command that runs now included.
    pub(crate) fn changes(&self) -> u64 {
        self.shared.storage().changes(&self.keys)
    }

    /// See [`martlet_persistence::Storage::save`]. All shards are held.
    ///
    /// # Errors
    /// As there.
    pub fn save(&mut self) -> Result<(), SaveFailed> {
        self.shared.storage().save(&self.keys.standstill(), &self.keys, &settings(self.config()))
    }

    /// See [`martlet_persistence::Storage::begin_saving_nothing`]. All shards are locked.
    pub(crate) fn begin_saving_nothing(&mut self) {
        let file = self.shared.storage().begin_saving_nothing(&self.keys, &settings(self.config()));
        self.left.set_empty_file(file);
    }

    /// See [`martlet_persistence::Storage::start_background_save`]. All shards are held.
    pub fn start_background_save(&mut self) -> bool {
        self.shared.storage().start_background_save(&self.keys, &settings(self.config()))
    }

    /// Saves in the background if a rule asks for it.
    pub(crate) fn save_by_rule(&mut self) {
        let Some(due) = self.shared.storage().due_save(self.changes()) else { return };
        let is_begun = self.try_alone(Worker::start_background_save).unwrap_or(false);
        if !is_begun && due == Due::Scheduled {
            // Another was faster.
            self.shared.persistence.background.schedule(true);
        }
    }

    /// See [`martlet_persistence::Storage::follow_appendonly`]. All shards are held.
    ///
    /// # Errors
    /// As there.
    pub fn follow_appendonly(&mut self) -> Result<Option<PendingFlush>, String> {
        let followed = self.shared.storage().follow_appendonly(&settings(self.config()));
        if !self.shared.engine.journal.is_on() {
            // The transaction's earlier effects must not be appended when the file is switched on again.
            self.keys.effects.recording = false;
            self.keys.effects.pending().clear();
        }
        followed
    }

    /// Waits for the flush of an append-only file that has ended. Nothing is locked.
    pub(crate) fn await_flush(&mut self, flush: Option<PendingFlush>) {
        let Some(flush) = flush else { return };
        if !self.outside(|outside| flush.wait(outside)) {
            tracing::warn!("Failed to fsync the AOF file");
        }
    }

    /// See [`martlet_persistence::Storage::rewrite_by_rule`].
    pub(crate) fn rewrite_by_rule(&mut self) {
        if !self.shared.storage().rewrite_by_rule() {
            return;
        }
        match self.alone(Worker::follow_appendonly) {
            Ok(flush) => self.await_flush(flush),
            Err(why) => tracing::warn!("{why}"),
        }
    }
}

#[cfg(test)]
mod tests;
