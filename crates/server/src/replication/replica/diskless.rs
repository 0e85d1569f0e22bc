//! A full sync that is loaded as it comes, without a file (`repl-diskless-load`).
//!
//! The link receives and hands the bytes on to threads that load them beside the data set, a bounded number
//! of pieces ahead; the data set is replaced as a whole once all is there. With `swapdb` it stays until then,
//! and if the primary breaks off. Otherwise it is emptied first.
//!
//! Invariant: a thread that waits for the network is neither inside the gate nor has it a shard locked that
//! clients use.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use martlet_persistence::Beside;
use martlet_persistence::load::{Source, UNKNOWN_LEN};
use martlet_values::file;

use super::link::{Ended, Link, PERIOD, SILENT, broken};
use super::load;
use super::state::{Receiving, Wakeup};
use super::transfer::Transfer;
use crate::config::ReplDisklessLoad;

/// Pieces, each of the bytes received at once, that may wait to be loaded.
const PIECES: usize = 8;

/// How a snapshot is loaded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a file, once all is there.
    File,
    /// As it comes, after the data set was emptied.
    Empty,
    /// As it comes, beside the data set.
    Beside,
}

/// Input from the network, for the loading thread. It ends when the sender has gone.
struct Pieces {
    receiver: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    /// Bytes of the piece before it have been read.
    at: usize,
    /// The thread that waits for room.
    link: &'static Wakeup,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            let Ok(piece) = self.receiver.recv() else { return Ok(0) };
            (self.piece, self.at) = (piece, 0);
            self.link.wake();
        }
        let rest = &self.piece[self.at..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

fn unloadable(why: String) -> Ended {
    Ended::Unloadable { why, from: "socket" }
}

impl Link {
    /// How the configuration wants a snapshot to be loaded.
    pub(super) fn way(&self) -> Result<Way, Ended> {
        let is_empty = || load::is_empty(self.shared, self.generation).ok_or(Ended::Changed);
        Ok(match self.shared.config.snapshot().repl_diskless_load {
            ReplDisklessLoad::Swapdb => Way::Beside,
            ReplDisklessLoad::FlushBeforeLoad => Way::Empty,
            ReplDisklessLoad::OnEmptyDb if is_empty()? => Way::Empty,
            ReplDisklessLoad::OnEmptyDb | ReplDisklessLoad::Disabled => Way::File,
        })
    }

    /// Loads a snapshot as it comes. `place` is where in the stream it is, if the primary has sent it.
    pub(super) fn synchronize_diskless(
        &mut self,
        way: Way,
        place: Option<(String, u64)>,
    ) -> Result<(), Ended> {
        let (mut transfer, mut first) = (Transfer::default(), Vec::new());
        loop {
            transfer.receive(&mut self.received, &mut first).map_err(broken)?;
            if transfer.has_ended() || transfer.has_begun() && first.len() >= file::START_BYTES {
                break;
            }
            self.wait(true, PERIOD, SILENT)?;
        }
        let any_version =
            crate::persistence::settings::settings(&self.shared.config.snapshot()).reads_any_version;
        file::check_start(&first, any_version).map_err(|why| unloadable(why.to_string()))?;
        match transfer.total() {
            Some(bytes) => {
                tracing::info!("MASTER <-> REPLICA sync: receiving {bytes} bytes from master to parser");
            }
            None => tracing::info!(
                "MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to parser"
            ),
        }
        let begun = if way == Way::Empty {
            tracing::info!("MASTER <-> REPLICA sync: Flushing old data");
            load::begin(self.shared, self.generation)
        } else {
            let id = place.as_ref().map(|(id, _)| id.clone());
            load::begin_beside(self.shared, self.generation, id)
        };
        begun.ok_or(Ended::Changed)?;
        tracing::info!("MASTER <-> REPLICA sync: Loading DB in memory");
        let loaded = self.load_as_it_comes(transfer, first);
        if loaded.is_err() && way == Way::Beside {
            tracing::info!("MASTER <-> REPLICA sync: Discarding temporary DB in background");
        }
        let (beside, failure) = match loaded {
            Ok(beside) => (Some(beside), None),
            Err(why) => (None, Some(why)),
        };
        let ended = load::end_beside(self.shared, self.generation, beside, place);
        failure.map_or(Ok(()), Err)?;
        ended.ok_or(Ended::Changed)?;
        tracing::info!("MASTER <-> REPLICA sync: Finished with success");
        Ok(())
    }

    /// Receives the bytes behind the `first` of a snapshot, and loads them beside the data set.
    fn load_as_it_comes(&mut self, mut transfer: Transfer, first: Vec<u8>) -> Result<Beside, Ended> {
        let (pieces, receiver) = sync_channel(PIECES);
        let len = transfer.total().unwrap_or(UNKNOWN_LEN);
        let (shared, link) = (self.shared, &self.replica.link);
        let reader = Box::new(Pieces { receiver, piece: Vec::new(), at: 0, link });
        let source = Source { reader, len, offset: 0 };
        let (sender, loading) = sync_channel(1);
        let has_failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let fails = &has_failed;
            let load = move || {
                let loaded = load::load_beside(shared, source);
                fails.store(loaded.is_err(), Ordering::SeqCst);
                let _ = sender.send(loaded);
                link.wake();
            };
            let started = std::thread::Builder::new().name("load-0".into()).spawn_scoped(scope, load);
            started.map_err(|error| broken(format!("No thread to load the snapshot: {error}")))?;
            let passed = self.pass_on(&mut transfer, first, pieces, &has_failed);
            let loaded = self.await_loaded(&loading);
            let is_all = |bytes| passed.as_ref().is_ok_and(|passed| *passed == bytes);
            let why = match loaded {
                Ok(beside) if is_all(beside.loaded.bytes) && transfer.has_ended() => return Ok(beside),
                Ok(_) => "Replication stream EOF marker is broken".into(),
                Err(why) => why,
            };
            passed?;
            Err(unloadable(why))
        })
    }

    /// Passes on a snapshot's bytes until it ends or cannot be loaded; returns their number. Loading may be
    /// done before the mark comes.
    fn pass_on(
        &mut self,
        transfer: &mut Transfer,
        first: Vec<u8>,
        pieces: SyncSender<Vec<u8>>,
        has_failed: &AtomicBool,
    ) -> Result<u64, Ended> {
        let clock = &self.shared.clock;
        let (mut piece, mut read_bytes, mut told) = (first, 0, clock.raw());
        loop {
            transfer.receive(&mut self.received, &mut piece).map_err(broken)?;
            let len = piece.len() as u64;
            let sent = if piece.is_empty() { Ok(()) } else { pieces.try_send(std::mem::take(&mut piece)) };
            let is_full = match sent {
                Ok(()) => {
                    read_bytes += len;
                    false
                }
                Err(TrySendError::Full(back)) => {
                    piece = back;
                    true
                }
                Err(TrySendError::Disconnected(_)) => return Ok(read_bytes + len),
            };
            if has_failed.load(Ordering::SeqCst) {
                return Ok(read_bytes);
            }
            let total_bytes = transfer.total();
            self.replica.update(|status| status.receiving = Receiving { total_bytes, read_bytes });
            if transfer.has_ended() && !is_full {
                return Ok(read_bytes);
            }
            if clock.elapsed_ns(told, clock.raw()) >= PERIOD.as_nanos() as u64 {
                self.send_keepalive();
                told = clock.raw();
            }
            self.wait(!is_full, PERIOD, SILENT)?;
        }
    }
}
