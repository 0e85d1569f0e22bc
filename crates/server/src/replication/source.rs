//! A connection's part of a replica, and where the replica's bytes come from.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_journal::stream::{Chunk, FellBehind, Reader};
use martlet_net::Buffer;
use martlet_persistence::frames::{FRAME_BYTES, FrameWriter};

use super::feed::{Feed, Next};
use super::primary::{Phase, Replica};

/// Most bytes of the stream that are sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// A place in a full sync's feed, given up when it is dropped.
pub struct Taker {
    pub(super) feed: Arc<Feed>,
    pub(super) number: usize,
}

impl Taker {
    /// The place of this number.
    pub fn new(feed: Arc<Feed>, number: usize) -> Taker {
        Taker { feed, number }
    }

    /// The next block here.
    pub fn next(&self) -> Next {
        self.feed.next(self.number)
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.feed.leave(self.number);
    }
}

/// Where a replica's bytes come from.
pub enum Source {
    /// There is nothing for it yet.
    Nothing,
    /// A full sync, and the stream after it.
    Sync {
        /// The data set.
        taker: Taker,
        /// The stream from there on, unless that goes by another connection.
        reader: Option<Reader<'static>>,
        /// The replica knows the end by a mark.
        is_diskless: bool,
    },
    /// The data set has been sent; the stream waits until the replica says that it has it.
    AwaitsAck(Reader<'static>),
    /// The stream.
    Stream(Reader<'static>),
}

/// A connection's part of a replica.
pub struct ReplicaLink {
    /// Its shared record.
    pub replica: Arc<Replica>,
    /// The source of its output.
    pub source: Source,
    /// The kernel is to gather its output (`repl-disable-tcp-nodelay`), and the option is not set yet.
    pub(super) gathers: bool,
    /// Puts the stream into compressed frames, if both ends want that.
    pub(super) frames: Option<Box<FrameWriter>>,
}

/// A replica's next output.
pub(super) enum Given {
    Bytes(Buffer),
    Nothing,
    /// It has all that it wanted.
    Done,
    Lost(&'static str),
}

impl ReplicaLink {
    /// The next output.
    pub(super) fn next(&mut self, now_ms: i64) -> Given {
        loop {
            match std::mem::replace(&mut self.source, Source::Nothing) {
                Source::Sync { taker, reader, is_diskless } => match taker.next() {
                    Next::End(true) => {
                        let is_rdb_only = self.replica.is_rdb_only.load(Ordering::Relaxed);
                        let Some(reader) = reader.filter(|_| !is_rdb_only) else { return Given::Done };
                        self.replica.acked_ms.store(now_ms, Ordering::Relaxed);
                        self.replica.set_phase(Phase::Online);
                        let name = self.replica.name();
                        if is_diskless {
                            tracing::info!("Data set sent to replica {name}, whose REPLCONF ACK is awaited");
                            self.source = Source::AwaitsAck(reader);
                        } else {
                            tracing::info!("Synchronization with replica {name} succeeded");
                            self.source = Source::Stream(reader);
                        }
                    }
                    Next::End(false) => return Given::Lost("its full sync has failed"),
                    given => {
                        self.source = Source::Sync { taker, reader, is_diskless };
                        let Next::Block(block) = given else { return Given::Nothing };
                        return Given::Bytes(Buffer::Shared(block));
                    }
                },
                Source::Stream(mut reader) => {
                    let next = reader.next();
                    let most = if self.frames.is_some() { FRAME_BYTES } else { PIECE_BYTES };
                    if let Ok(Some(chunk)) = &next {
                        reader.advance(chunk.len().min(most));
                    }
                    self.source = Source::Stream(reader);
                    return match next {
                        Ok(Some(chunk)) => self.give(chunk.part(0, most)),
                        Ok(None) => Given::Nothing,
                        Err(FellBehind) => Given::Lost("overcoming of output buffer limits"),
                    };
                }
                source => {
                    self.source = source;
                    return Given::Nothing;
                }
            }
        }
    }

    /// A part of the stream as it is sent.
    fn give(&mut self, part: Chunk) -> Given {
        let Some(frames) = &mut self.frames else { return Given::Bytes(Buffer::Part(Box::new(part))) };
        match frames.frame(&part) {
            Ok(frame) => Given::Bytes(Buffer::Part(Box::new(frame))),
            Err(_) => Given::Lost("a failure of the stream's compression"),
        }
    }

    /// Whether its next output is compressed first.
    pub(super) fn compresses(&self) -> bool {
        self.frames.is_some() && matches!(self.source, Source::Stream(_))
    }

    /// Bytes of the stream that wait for it.
    pub fn behind(&self) -> u64 {
        match &self.source {
            Source::Nothing => 0,
            Source::Sync { reader, .. } => reader.as_ref().map_or(0, Reader::behind),
            Source::AwaitsAck(reader) | Source::Stream(reader) => reader.behind(),
        }
    }
}
