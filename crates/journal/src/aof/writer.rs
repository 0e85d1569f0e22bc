//! Takes records out of the journal and writes their commands to a file, forcing it to disk as the policy
//! says.
//!
//! What always holds: what is written is a beginning of the stream of commands, whatever the disk does: what
//! a write left undone is written first by the next. `durable` in the journal only grows over records that an
//! honest synchronisation covered. After a failed one nobody knows what is on disk, and nothing counts as
//! durable any more until a rewrite has made a new base ([`Writer::rewritten`]).

use std::collections::VecDeque;
use std::io;

use martlet_base::disk::DiskFile;

use crate::journal::Journal;
use crate::record::Stream;
use crate::ring::{Position, Reader};

/// Bytes written at once, about.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of the file that are set aside at once where each write is forced to disk: then the file system need
/// not look for room, nor note what it found, each time.
const RESERVED_BYTES: u64 = 4 << 20;
/// A buffer that had to hold more is not kept.
const KEPT_BYTES: usize = 1 << 20;

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
    stream: Stream,
    bytes: u64,
    /// Up to where room has been set aside; the greatest number where that is not possible.
    reserved: u64,
    /// The time noted last, Unix seconds.
    noted_s: i64,
    is_synced: bool,
    /// A write has failed: more of it than was told may be in the file.
    is_torn: bool,
}

impl Output {
    /// Sets room aside for so many bytes more.
    fn reserve(&mut self, bytes: u64) {
        if self.bytes.saturating_add(bytes) > self.reserved {
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

/// From a position on, records go to another file, or nowhere.
struct Switch {
    from: Position,
    output: Option<Output>,
}

/// See the module's page.
pub struct Writer<'j> {
    journal: &'j Journal,
    reader: Reader<'j>,
    output: Option<Output>,
    switches: VecDeque<Switch>,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are in the file.
    done: usize,
    /// The end of the records whose commands are in the file or the buffer.
    taken: Position,
    synced_ms: i64,
    /// A synchronisation has failed: of what was recorded before this position it is not known what is on
    /// disk.
    doubtful_until: Option<Position>,
}

impl<'j> Writer<'j> {
    /// The writer of a journal; it writes nowhere.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn new(journal: &'j Journal) -> io::Result<Writer<'j>> {
        let reader = journal.open()?;
        Ok(Writer {
            journal,
            taken: reader.position(),
            reader,
            output: None,
            switches: VecDeque::new(),
            buffer: Vec::new(),
            done: 0,
            synced_ms: 0,
            doubtful_until: None,
        })
    }

    /// From `from` on, which is the end of the journal while nobody appends, records go to this file of so
    /// many bytes.
    pub fn switch(&mut self, from: Position, file: Box<dyn DiskFile>, bytes: u64) {
        let output = Some(Output {
            file,
            stream: Stream::default(),
            bytes,
            reserved: 0,
            noted_s: 0,
            is_synced: true,
            is_torn: false,
        });
        self.switches.push_back(Switch { from, output });
    }

    /// From `from` on likewise, records go nowhere. What the disk has refused of those before is given up,
    /// and nothing is in doubt any more: it is not waited for.
    pub fn stop(&mut self, from: Position) {
        (self.output, self.doubtful_until, self.done) = (None, None, 0);
        self.buffer.clear();
        self.switches.clear();
        self.switches.push_back(Switch { from, output: None });
    }

    /// A rewrite has ended, whose base and list are on disk: everything up to `position` is. What was
    /// recorded since may still be in doubt.
    pub fn rewritten(&mut self, position: Position) {
        self.doubtful_until = self.doubtful_until.filter(|&until| until > position);
        self.journal.set_durable(position);
    }

    /// The end of the records that were taken out.
    pub fn position(&self) -> Position {
        self.reader.position()
    }

    /// Bytes of the file that is written.
    pub fn file_bytes(&self) -> u64 {
        self.output.as_ref().map_or(0, |output| output.bytes)
    }

    /// Bytes of commands that are not in the file yet.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len() - self.done
    }

    /// Whether something was written that has not been forced to disk.
    pub fn is_unsynced(&self) -> bool {
        self.output.as_ref().is_some_and(|output| !output.is_synced)
    }

    /// Whether it is unknown what is on disk.
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
            has_worked |= has_taken;
            self.write(terms.policy).map_err(StepError::Write)?;
            if !has_taken && !self.follow_switch()? {
                break;
            }
        }
        if self.reader.rewind() {
            self.taken = self.reader.position();
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

    /// Puts commands of records before `end` and before the next switch into the buffer, until that is full;
    /// whether there were any.
    fn take(&mut self, end: Position, terms: &Terms) -> bool {
        let end = self.switches.front().map_or(end, |switch| end.min(switch.from));
        let mut has_taken = false;
        while self.reader.position() < end && self.buffer.len() < CHUNK_BYTES {
            let (output, buffer) = (&mut self.output, &mut self.buffer);
            let taken = self.reader.next(|record| {
                let Some(output) = output else { return };
                if terms.timestamps && output.noted_s != terms.now_ms / 1000 {
                    output.noted_s = terms.now_ms / 1000;
                    buffer.extend_from_slice(format!("#TS:{}\r\n", output.noted_s).as_bytes());
                }
                output.stream.extend(buffer, record.tag, record.payload);
            });
            if taken.is_none() {
                // Somebody is about to complete it.
                std::thread::yield_now();
            }
            has_taken |= taken.is_some();
        }
        if has_taken {
            self.taken = self.reader.position();
            self.reader.give_back();
            self.journal.note_room();
        }
        has_taken
    }

    /// Writes what is buffered.
    fn write(&mut self, policy: SyncPolicy) -> io::Result<()> {
        let Some(output) = &mut self.output else { return Ok(()) };
        if policy == SyncPolicy::Always && self.done < self.buffer.len() {
            output.reserve((self.buffer.len() - self.done) as u64);
        }
        while self.done < self.buffer.len() {
            if output.is_torn {
                output.file.set_len(output.bytes)?;
                (output.is_torn, output.reserved) = (false, 0);
            }
            match output.file.write(&self.buffer[self.done..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.done += written;
                    output.bytes += written as u64;
                    output.is_synced = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    output.is_torn = true;
                    return Err(error);
                }
            }
        }
        self.done = 0;
        if self.buffer.capacity() > KEPT_BYTES {
            self.buffer = Vec::new()
        } else {
            self.buffer.clear()
        }
        Ok(())
    }

    /// Goes over to the next file if all that belongs into the present one is there; whether it did.
    fn follow_switch(&mut self) -> Result<bool, StepError> {
        let is_due = |switch: &Switch| switch.from <= self.reader.position();
        if !self.switches.front().is_some_and(is_due) {
            return Ok(false);
        }
        // What comes in the next file is worth nothing without it.
        let synced = self.sync();
        if let Some(switch) = self.switches.pop_front() {
            self.output = switch.output;
        }
        synced.map(|()| true)
    }

    fn sync(&mut self) -> Result<(), StepError> {
        if let Some(output) = self.output.as_mut().filter(|output| !output.is_synced) {
            if let Err(error) = output.file.sync_data() {
                self.doubtful_until = Some(self.taken);
                return Err(StepError::Sync(error));
            }
            output.is_synced = true;
        }
        if !self.is_doubtful() {
            self.journal.set_durable(self.taken);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
