//! The stream of commands that the records make, in shared blocks: the append-only file and each replica read
//! the same bytes.
//!
//! ```text
//! ring      │ record │ record │ record │ …                       positions
//!                 ▼ pump: by the thread that wants more
//! spans     │ all              │ file │ all        │ replicas │ …
//! blocks    └──── 256 KB ───────┴──────┴──┘ └───────┴──────────┘ …
//! ```
//!
//! Invariant: one thread at a time takes records out of the ring ([`Stream::pump`]), and only here they
//! become commands. That thread does no I/O: a reader takes [`Chunk`]s, and reports when it is done with
//! them.

mod block;
mod log;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

pub use block::Chunk;
use log::Log;
pub use log::{FellBehind, Place};

pub use crate::record::Audience;
use martlet_base::sync::lock;

use crate::record::Commands;
use crate::ring::{self, Position, Ring};

/// A moment without appends: commands after it stand for themselves, and know no database from before.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Where it is.
    pub position: Position,
    /// The file ends there, if not 0; numbers only grow.
    pub(crate) file_end: u64,
}

/// What changes for replicas at a cut.
#[derive(Copy, Clone, Debug)]
struct Turn {
    /// Effects are for replicas, too; else they are for the file alone.
    for_all: bool,
    /// Their offset from there on, if it is another.
    offset: Option<u64>,
}

/// The result of a request for records.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Pumped {
    /// There are more.
    Some,
    /// None, or no room for more before a reader has come further.
    Nothing,
    /// The next is about to be completed.
    Incomplete,
}

struct State {
    ring: ring::Reader<Arc<Ring>>,
    commands: Commands,
    log: Log,
    /// Cuts that have not been reached.
    cuts: VecDeque<(Cut, Option<Turn>)>,
    /// See [`Turn`].
    for_all: bool,
    /// Where files end that are still read: the cut's number, and the place.
    file_ends: VecDeque<(u64, u64)>,
    last_file_end: u64,
    /// Unix seconds to be noted between the commands.
    time_s: Option<i64>,
    noted_s: Option<i64>,
}

/// See the [module docs](self).
pub struct Stream(Mutex<State>);

impl Stream {
    pub(crate) fn new(ring: ring::Reader<Arc<Ring>>) -> Stream {
        Stream(Mutex::new(State {
            log: Log::new(ring.position()),
            ring,
            commands: Commands::default(),
            cuts: VecDeque::new(),
            for_all: false,
            file_ends: VecDeque::new(),
            last_file_end: 0,
            time_s: None,
            noted_s: None,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Takes records that end at or before `end` out of the ring, unless a reader that may not lose anything
    /// is `most_ahead` bytes behind.
    pub(crate) fn pump(&self, end: Position, most_ahead: u64) -> Pumped {
        let mut state = self.state();
        state.log.restart();
        let mut pumped = Pumped::Nothing;
        // Readers do not advance in this time.
        let room_end = state.log.appended() + most_ahead.saturating_sub(state.log.most_behind());
        loop {
            state.reach_cuts();
            if state.ring.position() >= end || state.log.appended() >= room_end {
                break;
            }
            if !state.take() {
                pumped = Pumped::Incomplete;
                break;
            }
            pumped = Pumped::Some;
        }
        let taken = state.ring.position();
        state.log.mark(taken, false);
        if pumped == Pumped::Some {
            state.ring.give_back();
            state.log.trim();
        } else if state.ring.rewind() {
            let taken = state.ring.position();
            state.reach_cuts();
            state.log.mark(taken, false);
        }
        pumped
    }

    /// Marks the end of the journal, while no thread appends; with `ends_file` readers of the file stop
    /// there.
    pub(crate) fn cut(&self, position: Position, ends_file: bool) -> Cut {
        let mut state = self.state();
        state.last_file_end += u64::from(ends_file);
        let cut = Cut { position, file_end: if ends_file { state.last_file_end } else { 0 } };
        state.cuts.push_back((cut, None));
        state.reach_cuts();
        cut
    }

    /// From here on effects are for all or for the file alone, and the offset for replicas is `offset` if
    /// there is one; while no thread appends.
    pub(crate) fn turn(&self, position: Position, for_all: bool, offset: Option<u64>) -> Cut {
        let mut state = self.state();
        let cut = Cut { position, file_end: 0 };
        state.cuts.push_back((cut, Some(Turn { for_all, offset })));
        state.reach_cuts();
        cut
    }

    /// From here on notes the time for the file, once a second; or does not.
    pub(crate) fn note_time(&self, time_s: Option<i64>) {
        self.state().time_s = time_s;
    }

    /// The end of the records that are in it.
    pub(crate) fn taken(&self) -> Position {
        self.state().log.taken()
    }

    /// The end of its content.
    pub(crate) fn end(&self) -> Place {
        self.state().log.end()
    }

    /// The place behind the records that end at `position`: exactly if that is a cut or the end, else a few
    /// kilobytes further at most. `None` if they have not all been taken out of the ring.
    pub(crate) fn place_of(&self, position: Position) -> Option<Place> {
        self.state().log.place_of(position)
    }

    /// Where that begins which is there for replicas that come back, and where it ends.
    pub(crate) fn backlog(&self) -> std::ops::Range<u64> {
        let state = self.state();
        state.log.backlog_begin()..state.log.end().offset
    }

    /// See [`Journal::stream_bytes`](crate::Journal::stream_bytes).
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.state().log.memory_bytes()
    }

    /// Keeps this many bytes for replicas that come back.
    pub(crate) fn set_backlog(&self, bytes: u64) {
        self.state().log.set_backlog(bytes);
    }

    /// A reader from `at` on, or from the end; see [`Journal::attach`](crate::Journal::attach).
    pub(crate) fn attach(
        &self,
        audience: Audience,
        at: Option<u64>,
        most_behind: Option<u64>,
    ) -> Result<Reader<'_>, FellBehind> {
        let number = self.state().log.attach(audience, at, most_behind)?;
        Ok(Reader { stream: self, number })
    }
}

impl State {
    /// Takes one record, if it is complete.
    #[inline]
    fn take(&mut self) -> bool {
        let State { ring, commands, log, time_s, noted_s, for_all, .. } = self;
        let for_all = *for_all;
        let taken = ring.next(|record| {
            if *time_s != *noted_s
                && let Some(time_s) = *time_s
            {
                *noted_s = Some(time_s);
                log.append(Audience::File, format!("#TS:{time_s}\r\n").as_bytes());
            }
            commands.extend(record.tag, record.payload, for_all, &mut |audience, bytes| match audience {
                Audience::All if !for_all => log.append(Audience::File, bytes),
                audience => log.append(audience, bytes),
            });
        });
        if taken.is_some() && self.log.is_mark_due() {
            self.log.mark(self.ring.position(), false);
        }
        taken.is_some()
    }

    /// Carries out the changes at cuts that have been reached.
    #[inline]
    fn reach_cuts(&mut self) {
        while let Some((cut, turn)) = self.cuts.pop_front_if(|(cut, _)| cut.position <= self.ring.position())
        {
            if let Some(turn) = turn {
                self.for_all = turn.for_all;
                turn.offset.into_iter().for_each(|offset| self.log.rebase(offset));
            }
            self.log.mark(self.ring.position(), true);
            self.commands.forget_db();
            self.noted_s = None;
            if cut.file_end > 0 {
                self.file_ends.push_back((cut.file_end, self.log.end().file_offset));
            }
        }
    }
}

/// Reads the stream. [`Reader::advance`] frees the part that it has read.
pub struct Reader<'s> {
    stream: &'s Stream,
    number: usize,
}

impl Reader<'_> {
    /// The next chunk for it. A reader of the file stops where the file ends.
    ///
    /// # Errors
    /// It was too slow: its next bytes are gone.
    pub fn next(&self) -> Result<Option<Chunk>, FellBehind> {
        let state = self.stream.state();
        let until = state.file_ends.front().map_or(u64::MAX, |&(_, place)| place);
        state.log.next(self.number, if self.is_of_file(&state) { until } else { u64::MAX })
    }

    fn is_of_file(&self, state: &State) -> bool {
        state.log.audience(self.number) == Some(Audience::File)
    }

    /// It is done with this many bytes more.
    pub fn advance(&mut self, bytes: usize) {
        self.stream.state().log.advance(self.number, bytes as u64);
    }

    /// It continues at this place, which is not before its own.
    pub fn skip_to(&mut self, at: u64) {
        let mut state = self.stream.state();
        let bytes = at.saturating_sub(state.log.at(self.number));
        state.log.advance(self.number, bytes);
    }

    /// It is done with all that there is before the end of the file; whether there was anything.
    pub(crate) fn skip(&mut self) -> bool {
        let mut state = self.stream.state();
        let until = state.file_ends.front().map_or(state.log.end().file_offset, |&(_, place)| place);
        let bytes = until.saturating_sub(state.log.at(self.number));
        state.log.advance(self.number, bytes);
        bytes > 0
    }

    /// Bytes before where it is, as its kind counts them.
    pub fn at(&self) -> u64 {
        self.stream.state().log.at(self.number)
    }

    /// Bytes of the stream that it has not read.
    pub fn behind(&self) -> u64 {
        self.stream.state().log.behind(self.number)
    }

    /// Everything that was recorded before this has been read.
    pub fn position(&self) -> Position {
        self.stream.state().log.position_at(self.number)
    }

    /// Whether the file that it reads ends here, by this cut.
    pub(crate) fn is_at(&self, cut: Cut) -> bool {
        let state = self.stream.state();
        state.file_ends.front() == Some(&(cut.file_end, state.log.at(self.number)))
    }

    /// Goes over to the next file, at this cut.
    pub(crate) fn pass(&mut self, cut: Cut) {
        self.stream.state().file_ends.pop_front_if(|&mut (number, _)| number == cut.file_end);
    }

    /// No file ends any more at this cut or before.
    pub(crate) fn ignore(&mut self, cut: Cut) {
        let mut state = self.stream.state();
        state.file_ends.retain(|&(number, _)| number > cut.file_end);
        for (of, _) in state.cuts.iter_mut().filter(|(of, _)| of.file_end <= cut.file_end) {
            of.file_end = 0;
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.stream.state().log.detach(self.number);
    }
}

#[cfg(test)]
mod tests;
