//! Asking for memory before the requests that need it run, so that their cache misses overlap: those of one connection's pipeline,
//! and those of several connections that each sent one request.
//!
//! Nothing here changes anything: what is asked for in vain costs a little time.

use martlet_base::hash::hash_bytes;
use martlet_base::prefetch::{Wanted, prefetch_object};
use martlet_keyspace::Key;
use martlet_net::{Arrival, Token};
use martlet_protocol::request::{Args, Parsed, Partial, RequestLimits, parse};

use super::Worker;
use super::input::{Batch, Request};
use crate::connection::Connection;
use crate::registry::Entry;

/// Databases with fewer keys fit the caches: nothing is prefetched for them.
const PREFETCH_KEYS_PER_SHARD: usize = 24;

/// A plain command's request.
#[derive(Copy, Clone)]
struct Planned<'a> {
    db: usize,
    hash: u64,
    entry: &'static Entry,
    args: Args<'a>,
}

impl<'a> Planned<'a> {
    /// What `request` will ask of the keys, if it is a plain command's; its arguments are in `input`.
    fn new(db: usize, input: &'a [u8], batch: &'a Batch, request: &Request) -> Option<Planned<'a>> {
        let entry = request.entry.filter(|entry| entry.is_plain)?;
        let first = request.first_span as usize;
        let spans = batch.spans.get(first..first + request.span_count as usize)?;
        Some(Planned { db, hash: request.hash, entry, args: Args::new(input, spans) })
    }
}

impl Worker {
    /// Lets the cache misses of a batch's keys overlap.
    pub(super) fn prefetch_batch(&self, db: usize, input: &[u8], batch: &mut Batch) {
        let mut wanted = std::mem::take(&mut batch.wanted);
        let planned = batch.requests.iter().filter_map(|request| Planned::new(db, input, batch, request));
        self.prefetch(planned, &mut wanted);
        batch.wanted = wanted;
    }

    /// Lets the cache misses of requests overlap that arrived on several connections and run next.
    pub(super) fn look_ahead(&mut self, arrivals: &[Arrival<'_>]) {
        for arrival in arrivals {
            self.connection_at(arrival.token).into_iter().for_each(|connection| prefetch_object(connection));
        }
        // Shards are touched inside the gate only.
        self.enter();
        let mut batch = std::mem::take(&mut self.batch);
        batch.spans.clear();
        batch.requests.clear();
        for (at, arrival) in arrivals.iter().enumerate() {
            let Some(connection) = self.connection_at(arrival.token) else { continue };
            prefetch_object(&raw const *connection.info);
            // A pipeline looks ahead itself.
            if connection.query.is_empty() && connection.hold.is_none() {
                self.parse_only_request(at as u32, arrival.data, &mut batch);
            }
        }
        let mut wanted = std::mem::take(&mut batch.wanted);
        let planned = batch.requests.iter().filter_map(|request| {
            let arrival = arrivals.get(request.start as usize)?;
            let db = self.connection_at(arrival.token)?.session.db;
            Planned::new(db, arrival.data, &batch, request)
        });
        self.prefetch(planned, &mut wanted);
        batch.wanted = wanted;
        self.batch = batch;
    }

    /// Adds the request that `data` is, if it is one and names a key; `start` is where it says which arrival it is of.
    fn parse_only_request(&self, arrival: u32, data: &[u8], batch: &mut Batch) {
        let first_span = batch.spans.len();
        let parsed = parse(data, 0, &RequestLimits::default(), &mut Partial::default(), &mut batch.spans);
        let end = match parsed {
            Ok(Parsed::Complete(end)) if end == data.len() => end,
            _ => return batch.spans.truncate(first_span),
        };
        let args = Args::new(data, &batch.spans[first_span..]);
        let entry = self.shared.registry.resolve(&args);
        let Some(key) = entry.filter(|entry| entry.is_plain).and_then(|entry| entry.single_key) else {
            return batch.spans.truncate(first_span);
        };
        let span_count = (batch.spans.len() - first_span) as u32;
        let (first_span, hash) = (first_span as u32, hash_bytes(args.at(key)));
        batch.requests.push(Request { first_span, span_count, start: arrival, end: end as u32, entry, hash });
    }

    fn connection_at(&self, token: Token) -> Option<&Connection> {
        self.connections.get(token.index())?.as_deref()
    }

    fn prefetch<'a>(&self, planned: impl Iterator<Item = Planned<'a>> + Clone, wanted: &mut Wanted) {
        let engine = self.shared.engine;
        planned.clone().for_each(|request| engine.prefetch_shard(request.hash));
        for Planned { hash, db, .. } in planned.clone() {
            let is_large = engine.peek(hash, |shard| {
                let db = shard.db(db);
                let is_large = db.len() >= PREFETCH_KEYS_PER_SHARD;
                is_large.then(|| db.want_bucket(hash, wanted));
                is_large
            });
            if is_large == Some(false) {
                break;
            }
        }
        if !wanted.is_empty() {
            wanted.ask();
            for Planned { hash, db, .. } in planned.clone() {
                engine.peek(hash, |shard| shard.db(db).want_entry(hash, wanted));
            }
            wanted.ask();
        }
        for is_known in [false, true] {
            for Planned { db, hash, entry, args } in planned.clone() {
                let (Some(key), Some(member)) = (entry.single_key, entry.spec.member) else { continue };
                let key = Key { bytes: args.at(key), hash };
                let member = args.at(member);
                engine.peek(hash, |shard| shard.db(db).want_member(&key, member, is_known, wanted));
            }
            if wanted.is_empty() {
                break;
            }
            wanted.ask();
        }
    }
}
