//! Writes the stream of commands to a file, forcing it to disk as the policy says. It is the stream's first
//! reader.
//!
//! Invariant: the file is a prefix of the stream, whatever the disk does: the unwritten rest of a write comes
//! first in the next. `durable` in the journal only grows over records that an honest fsync covered. After a
//! failed one the content of the disk is unknown, and nothing counts as durable any more until a rewrite has
//! made a new base ([`Writer::rewritten`]).

use std::collections::VecDeque;
use std::io;

use martlet_base::disk::DiskFile;

use crate::journal::Journal;
use crate::ring::Position;
use crate::stream::{Audience, Cut, Pumped, Reader};

/// Bytes of commands that are made before they are written, about.
const CHUNK_BYTES: u64 = 256 << 10;
/// Bytes of the file that are reserved at once where each write is forced to disk: then the file system need
/// not look for room, nor record it, each time.
const RESERVED_BYTES: u64 = 4 << 20;

/// When the file is forced to disk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// After each write.
    Always,
    /// When the last time was a second ago.
    EverySecond,
    /// When the operating system likes.
    Never,
}

/// What holds for one step.
#[derive(Copy, Clone, Debug)]
pub struct Terms {
    /// When the file is forced to disk.
    pub policy: SyncPolicy,
    /// Now, Unix milliseconds.
    pub now_ms: i64,
    /// The time is noted between the commands, by seconds.
    pub timestamps: bool,
}

/// Why a step has not done its work. The next one tries again.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The file cannot be written.
    #[error("{0}")]
    Write(io::Error),
    /// It cannot be forced to disk.
    #[error("{0}")]
    Sync(io::Error),
}

/// A file of commands being written.
struct Output {
    file: Box<dyn DiskFile>,
    bytes: u64,
    /// Bytes of the stream among them.
    written: u64,
    /// Up to where room has been set aside; the greatest number where that is not possible.
    reserved: u64,
    is_synced: bool,
    /// A write has failed: the file may have more of it than was reported.
    is_torn: bool,
}

impl Output {
    /// Writes some of `bytes`; how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if self.is_torn {
                self.file.set_len(self.bytes)?;
                (self.is_torn, self.reserved) = (false, 0);
            }
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.bytes += written as u64;
                    self.written += written as u64;
                    self.is_synced = false;
                    return Ok(written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_torn = true;
                    return Err(error);
                }
            }
        }
    }

    /// Reserves room for `bytes` more, if any.
    fn reserve_for(&mut self, bytes: u64) {
        if bytes > 0 && self.bytes.saturating_add(bytes) > self.reserved {
            let room = bytes.saturating_add(RESERVED_BYTES);
            self.reserved = self.file.reserve(self.bytes, room).map_or(u64::MAX, |()| self.bytes + room);
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.reserved > self.bytes && self.reserved < u64::MAX {
            // Room that stays set aside is lost to others, and nothing else.
            let _ = self.file.set_len(self.bytes);
        }
    }
}

/// From a cut on, records go to another file.
struct Switch {
    from: Cut,
    output: Output,
    /// Bytes of the files before it, if they are known: after a start, or because a rewrite has replaced
    /// them.
    earlier_bytes: Option<u64>,
}

/// See the [module docs](self).
pub struct Writer<'j> {
    journal: &'j Journal,
    reader: Reader<'j>,
    output: Option<Output>,
    switches: VecDeque<Switch>,
    /// Bytes of the files before the present one.
    earlier_bytes: u64,
    synced_ms: i64,
    /// A synchronisation has failed: it is unknown which of the records before this position are on disk.
    doubtful_until: Option<Position>,
}

impl<'j> Writer<'j> {
    /// The writer of a journal; it writes nowhere.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn new(journal: &'j Journal) -> io::Result<Writer<'j>> {
        journal.open()?;
        let reader = journal.attach(Audience::File, None, None).map_err(io::Error::other)?;
        Ok(Writer {
            journal,
            reader,
            output: None,
            switches: VecDeque::new(),
            earlier_bytes: 0,
            synced_ms: 0,
            doubtful_until: None,
        })
    }

    /// From this cut of the file on, records go to `file`, which has `bytes` bytes. `earlier_bytes` is the
    /// size of the files before it, if that is not what this writer has written.
    pub fn switch(&mut self, from: Cut, file: Box<dyn DiskFile>, bytes: u64, earlier_bytes: Option<u64>) {
        let output = Output { file, bytes, written: 0, reserved: 0, is_synced: true, is_torn: false };
        self.switches.push_back(Switch { from, output, earlier_bytes });
    }

    /// From this cut of the file on, records go nowhere. Earlier records that the disk has refused are given
    /// up, and nothing is in doubt any more: it is not waited for. With `is_kept` the present file stays
    /// beside the earlier ones.
    pub fn stop(&mut self, from: Cut, is_kept: bool) {
        self.earlier_bytes += if is_kept { self.output_bytes() } else { 0 };
        (self.output, self.doubtful_until) = (None, None);
        self.switches.clear();
        self.reader.ignore(from);
    }

    /// A rewrite has ended, whose base of `base_bytes` bytes and list are on disk: everything up to
    /// `position` is. Later records may still be in doubt.
    pub fn rewritten(&mut self, position: Position, base_bytes: u64) {
        match self.switches.back_mut() {
            Some(switch) => switch.earlier_bytes = Some(base_bytes),
            None => self.earlier_bytes = base_bytes,
        }
        self.doubtful_until = self.doubtful_until.filter(|&until| until > position);
        self.journal.set_durable(position);
    }

    /// Everything that was recorded before this is written; others may have had commands made of more.
    pub fn position(&self) -> Position {
        self.reader.position()
    }

    /// Bytes of all files that would be loaded: the one that is written, and those before it.
    pub fn files_bytes(&self) -> u64 {
        self.earlier_bytes + self.output_bytes()
    }

    fn output_bytes(&self) -> u64 {
        self.output.as_ref().map_or(0, |output| output.bytes)
    }

    /// Bytes of commands that are not in the file yet.
    pub fn buffered_bytes(&self) -> u64 {
        self.reader.behind()
    }

    /// The end, in the present file, of the records that end at `position`: exactly at a cut and at the end
    /// of the written part, else up to a few kilobytes further. `None` if that is in no file, or in an
    /// earlier one.
    pub fn place_in_file(&self, position: Position) -> Option<u64> {
        let output = self.output.as_ref()?;
        let begins = self.reader.at().checked_sub(output.written)?;
        let before = output.bytes - output.written;
        Some(before + self.journal.place_of(position)?.file_offset.checked_sub(begins)?)
    }

    /// Whether something was written that has not been forced to disk.
    pub fn is_unsynced(&self) -> bool {
        self.output.as_ref().is_some_and(|output| !output.is_synced)
    }

    /// Whether the content of the disk is unknown.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful_until.is_some()
    }

    /// Does what there is to do with the records before `end`, which was read before the last switch was
    /// asked for; whether there was anything.
    ///
    /// # Errors
    /// [`StepError`].
    pub fn step(&mut self, end: Position, terms: &Terms) -> Result<bool, StepError> {
        let mut has_worked = false;
        loop {
            let has_taken = self.take(end, terms);
            let has_written = self.write(terms.policy).map_err(StepError::Write)?;
            has_worked |= has_taken || has_written;
            if !has_taken && !has_written && !self.follow_switch()? {
                break;
            }
        }
        let due = match terms.policy {
            SyncPolicy::Always => true,
            SyncPolicy::EverySecond => !(0..1000).contains(&(terms.now_ms - self.synced_ms)),
            SyncPolicy::Never => false,
        };
        if due || !self.is_unsynced() {
            self.synced_ms = if self.is_unsynced() { terms.now_ms } else { self.synced_ms };
            self.sync()?;
        }
        Ok(has_worked)
    }

    /// Writes everything before `end` and forces it to disk.
    ///
    /// # Errors
    /// [`StepError`].
    pub fn flush(&mut self, end: Position, terms: &Terms) -> Result<(), StepError> {
        self.step(end, &Terms { policy: SyncPolicy::Never, ..*terms })?;
        self.sync()
    }

    /// Has commands made of records before `end`, until there are enough; whether there were any.
    fn take(&mut self, end: Position, terms: &Terms) -> bool {
        self.journal.note_time(terms.timestamps.then_some(terms.now_ms / 1000));
        loop {
            match self.journal.pump_some(end, CHUNK_BYTES) {
                // Another thread is about to complete it.
                Pumped::Incomplete => std::thread::yield_now(),
                pumped => return pumped == Pumped::Some,
            }
        }
    }

    /// Writes what there is for this file; whether there was anything.
    fn write(&mut self, policy: SyncPolicy) -> io::Result<bool> {
        let Some(output) = &mut self.output else { return Ok(self.reader.skip()) };
        if policy == SyncPolicy::Always {
            output.reserve_for(self.reader.behind());
        }
        let mut has_written = false;
        while let Some(chunk) = self.reader.next().map_err(io::Error::other)? {
            has_written = true;
            let mut done = 0;
            while done < chunk.len() {
                let written = output.write(&chunk[done..])?;
                self.reader.advance(written);
                done += written;
            }
        }
        Ok(has_written)
    }

    /// Goes over to the next file if all that belongs into the present one is there; whether it did.
    fn follow_switch(&mut self) -> Result<bool, StepError> {
        if !self.switches.front().is_some_and(|switch| self.reader.is_at(switch.from)) {
            return Ok(false);
        }
        // The next file is worth nothing without it.
        let synced = self.sync();
        if let Some(switch) = self.switches.pop_front() {
            self.reader.pass(switch.from);
            self.earlier_bytes = switch.earlier_bytes.unwrap_or(self.earlier_bytes + self.output_bytes());
            self.output = Some(switch.output);
        }
        synced.map(|()| true)
    }

    fn sync(&mut self) -> Result<(), StepError> {
        if let Some(output) = self.output.as_mut().filter(|output| !output.is_synced) {
            if let Err(error) = output.file.sync_data() {
                self.doubtful_until = Some(self.journal.taken());
                return Err(StepError::Sync(error));
            }
            output.is_synced = true;
        }
        if !self.is_doubtful() {
            self.journal.set_durable(self.reader.position());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
