//! Walks over the snapshot under way: its keys, a slice of a shard at a time.

use std::sync::atomic::Ordering;
use std::time::Instant;

use martlet_base::limits::SHARD_COUNT;
use martlet_base::prefetch::PrefetchQueue;
use martlet_base::thread::cpu_ns;
use martlet_keyspace::Shard;

use crate::engine::Engine;
use crate::shards::LockedShards;
use crate::snapshot::{Observer, Part, Place, REST_INTERVAL, SavedKeys, queue_slice, take_slice};

/// Takes a snapshot's keys out of the engine. Several threads may walk at once, each with its own number at
/// the gate.
pub struct Walk {
    engine: &'static Engine,
    /// `None` behind the closed gate.
    thread: Option<usize>,
    shard: Option<usize>,
    /// The writer whose part was looked at last.
    writer: usize,
    /// Room for the next slice's reads.
    queue: PrefetchQueue,
    /// When others were last let run.
    rested: Instant,
}

impl Walk {
    /// A walk by the thread of this number.
    pub fn new(engine: &'static Engine, thread: usize) -> Walk {
        Walk {
            engine,
            thread: Some(thread),
            shard: None,
            writer: thread,
            queue: PrefetchQueue::default(),
            rested: martlet_base::clock::monotonic(),
        }
    }

    /// A walk behind the closed gate, on behalf of the thread that closed it, which touches nothing in that
    /// time. Its own threads keep apart by the shards' locks.
    pub fn behind_gate(engine: &'static Engine) -> Walk {
        Walk {
            engine,
            thread: None,
            shard: None,
            writer: 0,
            queue: PrefetchQueue::default(),
            rested: martlet_base::clock::monotonic(),
        }
    }

    /// Takes some keys into `out`, whose content is dropped before; false when there are no more. Nothing is
    /// locked between calls.
    ///
    /// Keys saved by writers come with the rest, to any walk: all of them once the last walk has ended.
    pub fn take(&mut self, out: &mut SavedKeys) -> bool {
        out.clear();
        let snapshot = &self.engine.snapshot;
        // However fast writers save, the walk advances.
        self.take_saved(out);
        self.rest();
        let shard = match self.shard {
            Some(shard) => shard,
            None => {
                let next = snapshot.progress.next_shard.fetch_add(1, Ordering::Relaxed);
                if next >= SHARD_COUNT {
                    (1..snapshot.saved.len()).for_each(|_| self.take_saved(out));
                    return !out.is_empty();
                }
                if !snapshot.wants(next) {
                    self.pass_over(next);
                    return true;
                }
                self.shard = Some(next);
                next
            }
        };
        self.prefetch_slice(shard);
        let mut finished = Vec::new();
        // Behind the gate they do not change.
        let pins = self.thread.map(|_| &snapshot.progress.pins);
        let is_done = self.with_shard(shard, |state, part| {
            part.follow(snapshot.epoch.load(Ordering::Relaxed), state);
            take_slice(part, state, out, pins, &snapshot.progress.account, &mut finished)
        });
        out.recount(&snapshot.progress.account);
        for pending in finished {
            if let Place::Gone(content, held) = pending.place {
                self.engine.lazy_free.free(content.len(), Box::new((content, held)));
            }
        }
        if is_done {
            self.shard = None;
            // Release: a thread that sees that all were walked sees the keys that writers have saved.
            snapshot.progress.walked.fetch_add(1, Ordering::Release);
        }
        true
    }

    /// Leaves out a shard that is not wanted.
    fn pass_over(&self, shard: usize) {
        let snapshot = &self.engine.snapshot;
        let rest = self.with_shard(shard, |_, part| {
            part.epoch = snapshot.epoch.load(Ordering::Relaxed);
            std::mem::take(&mut part.pending)
        });
        drop(rest);
        snapshot.progress.walked.fetch_add(1, Ordering::Release);
    }

    /// Takes the keys saved by the next writer, unless there are some already.
    fn take_saved(&mut self, out: &mut SavedKeys) {
        if out.is_empty() {
            let snapshot = &self.engine.snapshot;
            self.writer = (self.writer + 1) % snapshot.saved.len();
            let mut saved = snapshot.saved_by(self.writer);
            // A thread that does not write is left no buffer.
            if !saved.is_empty() {
                std::mem::swap(out, &mut saved);
            }
        }
    }

    /// Lets others run, if it is time for that.
    fn rest(&mut self) {
        if self.thread.is_some() && self.rested.elapsed() >= REST_INTERVAL {
            std::thread::yield_now();
            self.rested = martlet_base::clock::monotonic();
        }
    }

    /// Prefetches the keys that the next slice will copy while no thread waits for the shard: that is most of
    /// a slice's time.
    fn prefetch_slice(&mut self, shard: usize) {
        let mut queue = std::mem::take(&mut self.queue);
        let epoch = self.engine.snapshot.epoch.load(Ordering::Relaxed);
        self.with_shard(shard, |state, part| {
            part.follow(epoch, state);
            queue_slice(part, state, &mut queue);
        });
        queue.issue();
        self.queue = queue;
    }

    /// Ends the snapshot, after each walk's [`Walk::take`] has returned false or when the rest is not wanted.
    /// Takes the last keys saved by writers into `out`.
    pub fn end(self, out: &mut SavedKeys) {
        let snapshot = &self.engine.snapshot;
        if snapshot.progress.walked.load(Ordering::Acquire) < SHARD_COUNT {
            for shard in 0..SHARD_COUNT {
                let rest = self.with_shard(shard, |_, part| {
                    // Not to be taken up by the next change.
                    part.epoch = snapshot.epoch.load(Ordering::Relaxed);
                    std::mem::take(&mut part.pending)
                });
                drop(rest);
            }
        }
        snapshot.observe(Observer::Snapshot, false);
        snapshot.progress.pins.clear();
        // The buffers have been as large as the writers were fast: they go.
        *out = SavedKeys::default();
        (0..snapshot.saved.len())
            .for_each(|writer| out.append(std::mem::take(&mut snapshot.saved_by(writer))));
    }

    /// Runs `work` with a shard locked, inside the gate.
    pub(crate) fn with_shard<R>(&self, shard: usize, work: impl FnOnce(&Shard, &mut Part) -> R) -> R {
        let engine = self.engine;
        self.thread.iter().for_each(|&thread| engine.gate.enter(thread));
        // Behind the gate no thread waits for a single shard. Asking for the processor time takes longer than
        // a short hold.
        let cpu = self.thread.map(|_| cpu_ns());
        engine.lock(shard);
        let began = cpu.map(|cpu| (martlet_base::clock::monotonic(), cpu));
        let mut locked = LockedShards::One(shard);
        let (state, part) = engine.state_and_part(&mut locked, shard);
        let result = work(&state.keys, part);
        engine.release(&mut locked);
        if let Some((instant, cpu)) = began {
            // The second includes the thread's spinning.
            let took = [instant.elapsed().as_nanos() as u64, cpu_ns() - cpu];
            for (longest, ns) in engine.snapshot.progress.longest_hold.iter().zip(took) {
                longest.fetch_max(ns, Ordering::Relaxed);
            }
        }
        self.thread.iter().for_each(|&thread| engine.gate.leave(thread));
        result
    }
}
