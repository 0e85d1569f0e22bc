//! The stream's past: spans of blocks, where they begin, and how far each reader is.
//!
//! Invariant: spans lie in order and without a gap. A span is kept as long as a reader that may not lose it
//! has not read it, or the backlog covers it.

use std::collections::VecDeque;

use super::block::{BlockWriter, Chunk};
use crate::record::Audience;
use crate::ring::Position;

/// Room of a block, in bytes; one that begins with a longer piece has room for it, up to the second.
const BLOCK_BYTES: usize = 256 << 10;
const LONG_BLOCK_BYTES: usize = 4 << 20;
/// Distance of marks in bytes.
const MARK_BYTES: u64 = 4 << 10;
/// Marks that are kept even where nothing of the stream is, for a later question about the place of a cut: 4
/// MB back.
const KEPT_MARKS: usize = 1024;

/// A place in the stream, as each kind of reader counts it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes for replicas before it: the replication offset.
    pub offset: u64,
    /// Bytes for the file before it.
    pub file_offset: u64,
}

impl Place {
    #[inline]
    fn advance(&mut self, audience: Audience, bytes: usize) {
        self.offset += if audience == Audience::File { 0 } else { bytes as u64 };
        self.file_offset += if audience == Audience::Replicas { 0 } else { bytes as u64 };
    }

    fn of(self, reader: Audience) -> u64 {
        if reader == Audience::File { self.file_offset } else { self.offset }
    }
}

/// The reader's next bytes are gone: it was too slow, or comes too late.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream does not reach back that far")]
pub struct FellBehind;

struct Span {
    audience: Audience,
    begin: Place,
    chunk: Chunk,
}

impl Span {
    fn end(&self) -> Place {
        let mut end = self.begin;
        end.advance(self.audience, self.chunk.len());
        end
    }
}

/// All records that end at or before `position` are before `place`, and no others.
struct Mark {
    position: Position,
    place: Place,
}

struct ReaderState {
    audience: Audience,
    at: u64,
    /// By how much it may be behind before it loses something; `None` if it must not.
    most_behind: Option<u64>,
    /// The offsets that it counts by have ended: there is nothing more for it.
    has_ended: bool,
}

/// See the [module docs](self).
pub(super) struct Log {
    spans: VecDeque<Span>,
    tail: BlockWriter,
    /// Of a block that is let go of; others may still read it.
    spare: Option<Chunk>,
    end: Place,
    /// Bytes of all spans that there were.
    appended: u64,
    /// The replication offset from which on it is kept for the backlog and for readers.
    wanted: u64,
    /// The end of the records that are in it.
    taken: Position,
    marks: VecDeque<Mark>,
    /// Bytes of all spans from which on another mark is due.
    next_mark: u64,
    readers: Vec<Option<ReaderState>>,
    backlog_bytes: u64,
    /// Offsets before this are of another stream for replicas.
    base: u64,
}

impl Log {
    pub(super) fn new(taken: Position) -> Log {
        Log {
            spans: VecDeque::new(),
            tail: BlockWriter::new(0),
            spare: None,
            end: Place::default(),
            appended: 0,
            wanted: 0,
            taken,
            marks: VecDeque::new(),
            next_mark: 0,
            readers: Vec::new(),
            backlog_bytes: 0,
            base: 0,
        }
    }

    /// The end of its content.
    pub(super) fn end(&self) -> Place {
        self.end
    }

    /// Bytes of all spans that there were.
    pub(super) fn appended(&self) -> u64 {
        self.appended
    }

    /// The beginning of the kept part.
    fn begin(&self) -> Place {
        self.spans.front().map_or(self.end, |span| span.begin)
    }

    pub(super) fn taken(&self) -> Position {
        self.taken
    }

    /// Restarts at the beginning of a block if nothing is kept: the same memory is used over and over then.
    pub(super) fn restart(&mut self) {
        if self.spans.is_empty() && self.tail.capacity() > BLOCK_BYTES {
            self.tail = BlockWriter::new(0);
        } else if self.spans.is_empty() {
            self.tail.restart();
        }
    }

    #[inline]
    pub(super) fn append(&mut self, audience: Audience, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let begin = self.tail.len();
            let len = self.tail.append(bytes);
            if len == 0 {
                self.next_block(bytes.len());
                continue;
            }
            let is_extended = self
                .spans
                .back_mut()
                .is_some_and(|last| last.audience == audience && last.chunk.extend(&self.tail, begin));
            if !is_extended {
                let chunk = self.tail.chunk(begin, begin + len);
                self.spans.push_back(Span { audience, begin: self.end, chunk });
            }
            self.end.advance(audience, len);
            self.appended += len as u64;
            bytes = &bytes[len..];
        }
    }

    #[cold]
    fn next_block(&mut self, len: usize) {
        let bytes = len.clamp(BLOCK_BYTES, LONG_BLOCK_BYTES);
        let spare = if bytes == BLOCK_BYTES { self.spare.take() } else { None };
        self.tail = spare.and_then(BlockWriter::reuse).unwrap_or_else(|| BlockWriter::new(bytes));
    }

    /// Notes that everything before `position` is in it; exactly so if `is_exact`, else if it is due.
    pub(super) fn mark(&mut self, position: Position, is_exact: bool) {
        self.taken = position;
        let (place, is_due) = (self.end, is_exact || self.is_mark_due());
        match self.marks.back_mut() {
            Some(last) if last.place == place => last.position = position,
            Some(_) if !is_due => {}
            _ => {
                self.marks.push_back(Mark { position, place });
                self.next_mark = self.appended + MARK_BYTES;
            }
        }
    }

    /// Whether the last mark is so far back that there has to be another.
    #[inline]
    pub(super) fn is_mark_due(&self) -> bool {
        self.appended >= self.next_mark
    }

    /// The place behind the records that end at `position`: exactly where a mark is, or a little further.
    /// `None` if they are not all in it.
    pub(super) fn place_of(&self, position: Position) -> Option<Place> {
        let next = self.marks.partition_point(|mark| mark.position < position);
        match self.marks.get(next) {
            Some(mark) => Some(mark.place),
            None => (position <= self.taken).then_some(self.end),
        }
    }

    /// Up to where a reader that is at `at` has all records: exactly, or a little less.
    fn position_of(&self, audience: Audience, at: u64) -> Position {
        if at >= self.end.of(audience) {
            return self.taken;
        }
        let behind = self.marks.partition_point(|mark| mark.place.of(audience) <= at);
        behind.checked_sub(1).and_then(|last| self.marks.get(last)).map_or(0, |mark| mark.position)
    }

    // ---- readers ----

    /// A reader from `at` on, or from the end; its number. One that would begin further behind than it may
    /// be, and than the backlog reaches, has fallen behind.
    pub(super) fn attach(
        &mut self,
        audience: Audience,
        at: Option<u64>,
        most_behind: Option<u64>,
    ) -> Result<usize, FellBehind> {
        let begin = if audience == Audience::File { self.begin().file_offset } else { self.backlog_begin() };
        let end = self.end.of(audience);
        let at = at.unwrap_or(end);
        if !(begin..=end).contains(&at)
            || most_behind.is_some_and(|most| end - at > most.max(self.backlog_bytes))
        {
            return Err(FellBehind);
        }
        let reader = Some(ReaderState { audience, at, most_behind, has_ended: false });
        let free = self.readers.iter().position(Option::is_none);
        match free.and_then(|free| self.readers.get_mut(free)) {
            Some(slot) => *slot = reader,
            None => self.readers.push(reader),
        }
        Ok(free.unwrap_or(self.readers.len() - 1))
    }

    pub(super) fn detach(&mut self, reader: usize) {
        self.readers[reader] = None;
        self.trim();
    }

    fn reader(&self, reader: usize) -> Result<&ReaderState, FellBehind> {
        let state = self.readers[reader].as_ref().ok_or(FellBehind)?;
        let is_lost = state.has_ended || state.at < self.begin().of(state.audience);
        if is_lost { Err(FellBehind) } else { Ok(state) }
    }

    pub(super) fn audience(&self, reader: usize) -> Option<Audience> {
        self.readers[reader].as_ref().map(|state| state.audience)
    }

    /// Where it is.
    pub(super) fn at(&self, reader: usize) -> u64 {
        self.readers[reader].as_ref().map_or(0, |state| state.at)
    }

    /// See [`Log::position_of`].
    pub(super) fn position_at(&self, reader: usize) -> Position {
        self.readers[reader].as_ref().map_or(0, |state| self.position_of(state.audience, state.at))
    }

    /// Bytes that it has not read.
    pub(super) fn behind(&self, reader: usize) -> u64 {
        self.readers[reader].as_ref().map_or(0, |state| self.end.of(state.audience).saturating_sub(state.at))
    }

    /// The next chunk for it before `until`.
    pub(super) fn next(&self, reader: usize, until: u64) -> Result<Option<Chunk>, FellBehind> {
        let &ReaderState { audience, at, .. } = self.reader(reader)?;
        if at >= until.min(self.end.of(audience)) {
            return Ok(None);
        }
        // Spans that are not for it have no length as it counts.
        let index = self.spans.partition_point(|span| span.end().of(audience) <= at);
        let span = self.spans.get(index).ok_or(FellBehind)?;
        let len = usize::try_from(until - at).unwrap_or(usize::MAX);
        Ok(Some(span.chunk.part((at - span.begin.of(audience)) as usize, len)))
    }

    pub(super) fn advance(&mut self, reader: usize, bytes: u64) {
        if let Some(state) = &mut self.readers[reader] {
            state.at = (state.at + bytes).min(self.end.of(state.audience));
        }
        self.trim();
    }

    /// How much a reader that must not lose anything is behind.
    pub(super) fn most_behind(&self) -> u64 {
        let kept = self.readers.iter().flatten().filter(|of| of.most_behind.is_none() && !of.has_ended);
        kept.map(|reader| self.end.of(reader.audience) - reader.at).max().unwrap_or(0)
    }

    /// Counts the bytes for replicas from `offset` on. Earlier parts are for the file alone, and readers for
    /// replicas have fallen behind.
    pub(super) fn rebase(&mut self, offset: u64) {
        self.spans.retain(|span| span.audience != Audience::Replicas);
        for span in &mut self.spans {
            (span.audience, span.begin.offset) = (Audience::File, offset);
        }
        self.marks.iter_mut().for_each(|mark| mark.place.offset = offset);
        (self.end.offset, self.base) = (offset, offset);
        for reader in self.readers.iter_mut().flatten().filter(|of| of.audience == Audience::Replicas) {
            (reader.at, reader.has_ended) = (offset, true);
        }
        self.trim();
    }

    // ---- the kept part ----

    /// The replication offset of the first byte that is there for a replica that comes back: bytes kept for a
    /// slow replica are there for all.
    pub(super) fn backlog_begin(&self) -> u64 {
        self.begin().offset.max(self.wanted)
    }

    pub(super) fn set_backlog(&mut self, bytes: u64) {
        self.backlog_bytes = bytes;
        self.trim();
    }

    /// Frees the parts that no reader needs any more.
    pub(super) fn trim(&mut self) {
        let mut floor = self.end;
        floor.offset = floor.offset.saturating_sub(self.backlog_bytes).max(self.base);
        for reader in self.readers.iter().flatten().filter(|reader| !reader.has_ended) {
            let end = self.end.of(reader.audience);
            let kept = reader.most_behind.map_or(reader.at, |most| reader.at.max(end.saturating_sub(most)));
            let floor =
                if reader.audience == Audience::File { &mut floor.file_offset } else { &mut floor.offset };
            *floor = kept.min(*floor);
        }
        self.wanted = floor.offset;
        let is_past = |place: Place| place.offset <= floor.offset && place.file_offset <= floor.file_offset;
        while let Some(span) = self.spans.pop_front_if(|span| is_past(span.end())) {
            if span.chunk.block_bytes() == BLOCK_BYTES && !self.spans.is_empty() {
                self.spare = Some(span.chunk);
            }
        }
        let begin = self.begin();
        let is_gone = |place: Place| place.offset <= begin.offset && place.file_offset <= begin.file_offset;
        while self.marks.len() > KEPT_MARKS && self.marks.get(1).is_some_and(|mark| is_gone(mark.place)) {
            self.marks.pop_front();
        }
        let wanted = self.marks.len().max(KEPT_MARKS);
        if self.marks.capacity() > 4 * wanted {
            self.marks.shrink_to(2 * wanted);
        }
    }

    /// Bytes of memory of what is kept for replicas: its blocks with the parts of the first and the last that
    /// hold nothing of it, the spare one, and the marks.
    pub(super) fn memory_bytes(&self) -> u64 {
        let kept = self.end.offset - self.begin().offset;
        let before = self.spans.front().map_or(self.tail.len(), |first| first.chunk.begin());
        let room = self.tail.capacity() - self.tail.len();
        let spare = self.spare.as_ref().map_or(0, Chunk::block_bytes);
        kept + (before + room + spare + self.marks.capacity() * size_of::<Mark>()) as u64
    }

    /// Bytes of memory of the blocks that are kept, each counted once.
    #[cfg(test)]
    pub(super) fn block_bytes(&self) -> usize {
        let mut sum = 0;
        for (index, span) in self.spans.iter().enumerate() {
            let is_first = index == 0 || !self.spans[index - 1].chunk.shares_block(&span.chunk);
            sum += if is_first { span.chunk.block_bytes() } else { 0 };
        }
        sum
    }
}

#[cfg(test)]
mod tests;
