//! Asking for memory before the requests that need it run, so that their cache misses overlap: those of one
//! connection's pipeline, those of several connections that each sent one request, and those of one request
//! for many keys.
//!
//! Nothing here changes anything: what is asked for in vain costs a little time.

use std::cell::Cell;

use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress, prefetch_object};
use martlet_net::{Arrival, Token};
use martlet_protocol::request::{Args, Parsed, Partial, RequestLimits, parse};

use super::Worker;
use crate::batch::{Batch, Member, Request};
use crate::connection::Connection;

/// Databases with fewer keys fit the caches: nothing is prefetched for them.
const PREFETCH_KEYS_PER_SHARD: usize = 24;

/// Probe steps for a member: what the largest collections take, and a limit.
const MEMBER_STEPS_MAX: usize = 6;

/// One request's keys are prefetched if there are so many.
const MANY_KEYS: usize = 4;
/// With more, the memory of the first ones would have left the caches before they run.
const MANY_KEYS_MAX: usize = 4096;

/// The key of a plain command's request.
#[derive(Copy, Clone)]
struct Planned {
    db: usize,
    hash: u64,
}

impl Planned {
    fn hash(self) -> u64 {
        self.hash
    }
}

fn has_key(request: &Request) -> bool {
    request.entry.is_some_and(|entry| entry.first_key.is_some())
}

impl Worker {
    /// Lets the cache misses of a batch's keys overlap.
    pub(super) fn prefetch_batch(&self, db: usize, input: &[u8], batch: &mut Batch) {
        let Batch { spans, requests, names_members, members, queue } = batch;
        let keyed = requests.iter().filter(|request| has_key(request));
        self.prefetch_keys(keyed.map(|request| Planned { db, hash: request.hash }), queue);
        if *names_members {
            members.clear();
            members.extend(requests.iter().filter_map(|request| Member::new(db, input, spans, request)));
            self.prefetch_members(members, queue);
        }
    }

    /// Lets the cache misses of one request's keys overlap.
    pub(crate) fn prefetch_many(&self, db: usize, hashes: &[u64]) {
        let hashes = &hashes[..hashes.len().min(MANY_KEYS_MAX)];
        if hashes.len() >= MANY_KEYS {
            // Looks lock shards, which a panic would leave locked: see `containment`.
            let change = &self.keys.counters().change;
            change.set();
            let planned = hashes.iter().map(|&hash| Planned { db, hash });
            self.prefetch_keys(planned, &mut PrefetchQueue::default());
            change.begin_request();
        }
    }

    /// Lets the cache misses of requests overlap that arrived on several connections and run next.
    pub(super) fn prefetch_arrivals(&mut self, arrivals: &[Arrival<'_>]) {
        for arrival in arrivals {
            self.connection_at(arrival.token).into_iter().for_each(|connection| prefetch_object(connection));
        }
        // Most requests come by here: the same one each time, so that nothing is allocated.
        let mut announced = self.intake.announced.take().unwrap_or_default();
        announced.begin(arrivals);
        // Shards are touched inside the gate only.
        self.enter();
        if self.is_excluded() {
            self.intake.announced = Some(announced);
            return;
        }
        let batch = &mut announced.batch;
        for (at, arrival) in arrivals.iter().enumerate() {
            let Some(connection) = self.connection_at(arrival.token) else { continue };
            prefetch_object(&raw const *connection.info);
            // A pipeline prefetches for itself. What does not begin as requests of clients do may be the
            // middle of a long one, of which the beginning is among these arrivals too.
            if connection.query.is_empty()
                && connection.suspended.is_none()
                && !self.defers(connection)
                && arrival.data.starts_with(b"*")
            {
                self.parse_only_request(at as u32, arrival.data, batch);
            }
        }
        let Batch { spans, requests, names_members, members, queue } = batch;
        let keyed = requests.iter().filter(|request| has_key(request)).filter_map(|request| {
            let arrival = arrivals.get(request.start as usize)?;
            Some((self.connection_at(arrival.token)?.session.db, arrival.data, request))
        });
        self.prefetch_keys(keyed.clone().map(|(db, _, request)| Planned { db, hash: request.hash }), queue);
        if *names_members {
            members.clear();
            members.extend(keyed.filter_map(|(db, data, request)| Member::new(db, data, spans, request)));
            self.prefetch_members(members, queue);
        }
        self.intake.announced = Some(announced);
    }

    /// Adds the request that `data` is, if it is one whole request; `start` is where it says which arrival
    /// it is of.
    fn parse_only_request(&mut self, arrival: u32, data: &[u8], batch: &mut Batch) {
        let first_span = batch.spans.len();
        self.note_parse();
        let parsed = parse(data, 0, &RequestLimits::default(), &mut Partial::default(), &mut batch.spans);
        let end = match parsed {
            Ok(Parsed::Complete(end)) if end == data.len() => end,
            _ => return batch.spans.truncate(first_span),
        };
        let spans = &batch.spans[first_span..];
        let entry = self.intake.command_cache.resolve(self.shared.registry, data, spans);
        let hash = entry.and_then(|entry| entry.first_key_hash(&Args::new(data, spans))).unwrap_or(0);
        batch.names_members |= entry.is_some_and(|entry| entry.spec.member.is_some());
        let span_count = spans.len() as u32;
        let (first_span, end) = (first_span as u32, end as u32);
        batch.requests.push(Request { first_span, span_count, start: arrival, end, entry, hash });
    }

    fn connection_at(&self, token: Token) -> Option<&Connection> {
        self.connections.at_place_of(token)
    }

    fn prefetch_keys(&self, planned: impl Iterator<Item = Planned> + Clone, queue: &mut PrefetchQueue) {
        let engine = self.shared.engine;
        planned.clone().for_each(|Planned { hash, .. }| engine.prefetch_shard(hash));
        let is_small = Cell::new(false);
        let until_small = planned.clone().take_while(|_| !is_small.get());
        engine.peek_each(until_small, Planned::hash, |shard, Planned { hash, db }| {
            let db = shard.db(db);
            if db.len() >= PREFETCH_KEYS_PER_SHARD {
                db.queue_bucket(hash, queue);
            } else {
                is_small.set(true);
            }
        });
        if !queue.is_empty() {
            self.stats().prefetch_batches.add(1);
            self.stats().prefetch_entries.add(queue.len() as u64);
            queue.issue();
            engine.peek_each(planned, Planned::hash, |shard, Planned { hash, db }| {
                shard.db(db).queue_entry(hash, queue);
            });
            queue.issue();
        }
    }

    fn prefetch_members(&self, members: &mut Vec<Member>, queue: &mut PrefetchQueue) {
        for step in 0..MEMBER_STEPS_MAX {
            let mut partial = 0;
            let cells = Cell::from_mut(members.as_mut_slice()).as_slice_of_cells();
            self.shared.engine.peek_each(
                cells,
                |member| member.get().key_hash,
                |shard, member| {
                    let Member { db, key_hash, name, is_write } = member.get();
                    let probe = ProbeStep { name, is_write, step };
                    if shard.db(db).queue_member(key_hash, probe, queue) == Progress::More {
                        cells[partial].set(member.get());
                        partial += 1;
                    }
                },
            );
            members.truncate(partial);
            queue.issue();
            if members.is_empty() {
                break;
            }
        }
    }
}
