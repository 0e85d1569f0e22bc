//! From received bytes to requests: batches are parsed ahead, their keys hashed and prefetched, then run in
//! order.
//!
//! Input is parsed where it was received. Only what is left over (an incomplete request, the rest of a long
//! pipeline, the input of a client that waits) is copied to the connection's query buffer.

use std::sync::atomic::Ordering;

use martlet_base::copy;
use martlet_base::limits::{
    BATCH_REQUESTS, SLICE_NS, SLICE_REQUESTS, UNAUTHENTICATED_ARGUMENTS_MAX, UNAUTHENTICATED_BULK_MAX_BYTES,
};
use martlet_net::Token;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::{Args, Parsed, Partial, ProtocolError, RequestLimits, inline_words, parse};
use martlet_protocol::room;

use super::Worker;
use super::outbox::Action;
use crate::batch::{Batch, Request};
use crate::connection::{Connection, Suspended};
use crate::containment::{Contained, contain};
use crate::slow_path::SessionFlags;

/// A slice also ends when it has produced this much output.
const SLICE_OUTPUT_BYTES: usize = 1024 * 1024;
/// Replies of this length count among the buffers before their slice ends.
const COUNTED_OUTPUT_BYTES: usize = 64 * 1024;
/// A connection whose requests arrive faster than they run receives nothing while more than this waits.
const THROTTLE_BYTES: usize = 256 * 1024;
/// Offsets of arguments are 32 bits wide: a query buffer stays below that whatever the configuration allows.
const QUERY_MAX_BYTES: u64 = u32::MAX as u64 - (1 << 24);

impl Worker {
    /// Takes in bytes for a connection that is not closing.
    pub(super) fn feed(&mut self, connection: &mut Connection, data: &[u8]) {
        if connection.info.killed.load(Ordering::Acquire) {
            // Its thread has mail that says so; what comes after the kill's reply must not run.
            return;
        }
        connection.last_active_ms = self.now_ms;
        if let Some(Suspended::Debugging(debugged)) = &connection.suspended {
            debugged.input.receive(data);
            return self.note_input(connection, data.len());
        }
        if let Some(link) = &connection.replica {
            // One that loads what it got says empty lines.
            link.replica.acked_ms.store(self.now_ms, Ordering::Relaxed);
        }
        let is_deferred = self.defers(connection);
        if connection.query.is_empty()
            && connection.suspended.is_none()
            && !connection.is_ready
            && !is_deferred
        {
            let consumed = self.process(connection, data);
            let left = connection.set_long_apart(&data[consumed..]);
            if !left.is_empty() {
                room::reserve(&mut connection.query, left.len(), connection.partial.wanted_bytes());
                copy::extend(&mut connection.query, left);
            }
        } else {
            let rest = connection.partial.receive(data);
            let wanted = connection.query_start + connection.partial.wanted_bytes();
            room::reserve(&mut connection.query, rest.len(), wanted);
            copy::extend(&mut connection.query, rest);
            if is_deferred {
                self.mark_ready(connection);
            } else if connection.suspended.is_none() && !connection.is_ready {
                self.process_query(connection);
            }
        }
        self.note_input(connection, data.len());
    }

    /// Whether what a client sends waits for the end of the poll unparsed: its last slice ran scripts, which
    /// do not begin before.
    #[inline]
    pub(super) fn defers(&self, connection: &Connection) -> bool {
        connection.runs_scripts && self.is_polling() && connection.suspended.is_none()
    }

    /// Processes what is in a connection's query buffer, unless what comes next is received apart.
    pub(crate) fn process_query(&mut self, connection: &mut Connection) {
        if connection.partial.is_apart() {
            return;
        }
        let mut query = std::mem::take(&mut connection.query);
        let start = std::mem::take(&mut connection.query_start);
        let consumed = start + self.process(connection, &query[start..]);
        if consumed == query.len() {
            return;
        }
        if let Some(Suspended::Debugging(debugged)) = &connection.suspended {
            debugged.input.receive(&query[consumed..]);
            return;
        }
        let left = connection.set_long_apart(&query[consumed..]).len();
        query.truncate(consumed + left);
        // Moving the rest to the front pays once it is no longer than what goes.
        if consumed >= query.len() / 2 {
            query.drain(..consumed);
        } else {
            connection.query_start = consumed;
        }
        connection.query = query;
    }

    /// Stops receiving for a connection whose requests wait for their turn, and receives again when few are
    /// left. One that waits for anything else keeps receiving, so that its end is noticed.
    fn throttle(&mut self, connection: &mut Connection) {
        let many = connection.is_ready && connection.query_bytes() > THROTTLE_BYTES;
        if many && !connection.is_throttled {
            self.outbox.actions.push(Action::Pause(connection.token));
        } else if !many && connection.is_throttled {
            self.outbox.actions.push(Action::Resume(connection.token));
        }
        connection.is_throttled = many;
    }

    fn note_input(&mut self, connection: &mut Connection, bytes: usize) {
        self.throttle(connection);
        let info = &connection.info;
        info.net_input_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        info.last_active_ms.store(self.now_ms, Ordering::Relaxed);
        // As in Redis, what has become arguments is no longer there to be parsed.
        let unparsed = connection.query_bytes().saturating_sub(connection.partial.parsed_bytes());
        info.query_bytes.store(unparsed, Ordering::Relaxed);
        info.query_capacity.store(connection.query_capacity(), Ordering::Relaxed);
        let limit = self.config.current().client_query_buffer_limit_bytes.min(QUERY_MAX_BYTES);
        // What waits for its turn only is bounded by the throttle; MULTI's queue counts as input that waits.
        let waiting = if connection.is_ready { 0 } else { connection.query_bytes() };
        let queued = info.multi_bytes.load(Ordering::Relaxed);
        if (waiting + queued) as u64 > limit {
            tracing::warn!(
                "Closing client that reached max query buffer length: id={} addr={} (qbuf={waiting}, multi-mem={queued})",
                info.id,
                info.peer
            );
            self.shared.stats.query_buffer_disconnections.fetch_add(1, Ordering::Relaxed);
            connection.query = Vec::new();
            connection.query_start = 0;
            connection.discard_output();
            connection.closing = true;
        }
    }

    fn request_limits(&self, connection: &Connection) -> RequestLimits {
        if connection.session.flags.has(SessionFlags::UNAUTHENTICATED) {
            return RequestLimits {
                bulk_max_bytes: UNAUTHENTICATED_BULK_MAX_BYTES,
                arguments_max: UNAUTHENTICATED_ARGUMENTS_MAX,
                unauthenticated: true,
            };
        }
        RequestLimits { bulk_max_bytes: self.settings.string_max_bytes as i64, ..RequestLimits::default() }
    }

    /// Runs the requests in `input`; how many bytes of it are done with. A panic of one that has changed
    /// nothing closes the connection.
    fn process(&mut self, connection: &mut Connection, input: &[u8]) -> usize {
        let mark = &self.keys.counters().change;
        contain(mark, || self.process_slice(connection, input)).unwrap_or_else(|panic| {
            self.give_up_request(connection, panic);
            input.len()
        })
    }

    /// Goes on after a panic of a client's request, which has changed nothing: what it has locked is
    /// unlocked, and its client closed with what it was not sent yet.
    #[cold]
    fn give_up_request(&mut self, connection: &mut Connection, panic: Contained) {
        self.keys.abandon();
        self.pushes.set_origin(0);
        self.meter.slot_use.end_nested(false);
        self.enter();
        connection.partial = Partial::default();
        connection.discard_output();
        connection.closing = true;
        panic.report(&format!("id={} addr={}", connection.info.id, connection.info.peer));
    }

    fn process_slice(&mut self, connection: &mut Connection, input: &[u8]) -> usize {
        self.follow_user(connection);
        connection.runs_scripts = false;
        let mut batch = self.intake.batch.take().unwrap_or_default();
        let mut out = std::mem::take(&mut connection.out);
        if out.capacity() == 0 {
            out = self.outbox.buffer();
        }
        let mut reply = Reply::new(out, connection.session.resp3);
        reply.set_limit(self.hard_limit(connection));
        reply.share_long();
        let mut consumed = 0;
        let mut ran = 0;
        let slice_began = self.mark;
        loop {
            let error = self.parse_batch(connection, input, consumed, &mut batch).err();
            if batch.requests.len() > 1 && !self.is_excluded() {
                self.prefetch_batch(connection.session.db, input, &mut batch);
            }
            let done = self.run_batch(connection, &mut reply, input, &batch, &mut consumed, slice_began);
            // Outside of requests a panic ends the process: see `containment`.
            self.keys.counters().change.set();
            ran += batch.requests.len();
            if !done {
                // A client that waits or closes reads no further; requests that were read ahead are read
                // again.
                connection.partial = Partial::default();
                if let Some(Suspended::Yields | Suspended::Deferred) = connection.suspended {
                    connection.suspended = None;
                    self.mark_ready(connection);
                }
                break;
            }
            let ran_all = batch.requests.last().is_none_or(|last| last.end as usize == consumed);
            if let Some(error) = error
                && ran_all
            {
                self.refuse_protocol(connection, &mut reply, &error);
                consumed = input.len();
                break;
            }
            if batch.requests.is_empty() || consumed == input.len() {
                break;
            }
            if ran >= SLICE_REQUESTS || self.is_slice_over(&reply, slice_began) {
                connection.partial = Partial::default();
                self.mark_ready(connection);
                break;
            }
        }
        let is_full = reply.is_full();
        connection.shared.append(&mut reply.take_shared());
        connection.out = reply.into_bytes();
        if connection.out.is_empty() {
            self.outbox.keep_buffer(std::mem::take(&mut connection.out));
        }
        if is_full {
            // Not all of it has been kept, whatever the limit may be by now.
            self.end_for_output(connection);
        } else {
            self.check_output_limit(connection);
        }
        self.intake.batch = Some(batch);
        consumed
    }

    /// Parses requests from `start` on until the input ends or the batch is full.
    fn parse_batch(
        &mut self,
        connection: &mut Connection,
        input: &[u8],
        start: usize,
        batch: &mut Batch,
    ) -> Result<(), ProtocolError> {
        batch.clear();
        let limits = self.request_limits(connection);
        // Before authentication the limits may change with every request.
        let most = if limits.unauthenticated { 1 } else { BATCH_REQUESTS };
        let mut at = start;
        if let Some(parsed) = connection.parsed.take() {
            at = parsed.give(&input[start..], batch).map_or(start, |len| start + len);
            self.intake.spare_requests.put(parsed);
        } else if !limits.unauthenticated
            && connection.partial.is_at_rest()
            && input.len() as i64 <= limits.bulk_max_bytes
            && let Some(announced) = &mut self.intake.announced
            && announced.take(connection.token, input, batch)
        {
            return Ok(());
        }
        while at < input.len() && batch.requests.len() < most {
            let first_span = batch.spans.len();
            self.note_parse();
            match parse(input, at, &limits, &mut connection.partial, &mut batch.spans)? {
                Parsed::Incomplete => break,
                Parsed::Complete(end) => {
                    let spans = &batch.spans[first_span..];
                    let entry = self.intake.command_cache.resolve(self.shared.registry, input, spans);
                    batch.names_members |= entry.is_some_and(|entry| entry.spec.member.is_some());
                    let args = Args::new(input, spans).with_long(connection.partial.long());
                    let hash = entry.and_then(|entry| entry.first_key_hash(&args));
                    batch.requests.push(Request {
                        first_span: first_span as u32,
                        span_count: spans.len() as u32,
                        start: at as u32,
                        end: end as u32,
                        entry,
                        hash: hash.unwrap_or(0),
                    });
                    at = end;
                }
            }
        }
        Ok(())
    }

    /// Whether a slice has produced its output or has had its time.
    #[inline]
    fn is_slice_over(&self, reply: &Reply, slice_began: u64) -> bool {
        reply.total_bytes() >= SLICE_OUTPUT_BYTES
            || self.shared.clock.elapsed_ns(slice_began, self.mark) >= SLICE_NS
    }

    /// Runs a batch, or as much of it as a slice has room and time for; false when the connection waits or
    /// closes before its end.
    fn run_batch(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        input: &[u8],
        batch: &Batch,
        consumed: &mut usize,
        slice_began: u64,
    ) -> bool {
        if batch.requests.is_empty() {
            return true;
        }
        self.advance_time();
        // They are the first request's: none is set apart before all that came before is done with.
        let mut long = connection.partial.take_long();
        for request in &batch.requests {
            let spans =
                &batch.spans[request.first_span as usize..(request.first_span + request.span_count) as usize];
            if spans.is_empty() {
                let bytes = &input[request.start as usize..request.end as usize];
                if let Some(words) = inline_words(bytes) {
                    let args = words.view();
                    let entry = self.shared.registry.resolve(&args);
                    let hash = entry.and_then(|entry| entry.first_key_hash(&args));
                    self.request(connection, reply, &args, entry, hash.unwrap_or(0));
                }
            } else {
                let args = Args::new(input, spans).with_long(long.as_deref());
                self.request(connection, reply, &args, request.entry, request.hash);
            }
            if let Some(Suspended::Paused | Suspended::Deferred) = connection.suspended {
                // The request itself is run again when the pause, or the poll, is over.
                if let Some(long) = long {
                    connection.query = long.unfold(&input[request.start as usize..]);
                    *consumed = input.len();
                } else if let Some(Suspended::Deferred) = connection.suspended {
                    connection.parsed = self.intake.spare_requests.keep(batch, request);
                }
                return false;
            }
            if long.is_some() {
                long = None;
            }
            *consumed = request.end as usize;
            if connection.suspended.is_some() || connection.closing {
                return false;
            }
            if reply.len() >= COUNTED_OUTPUT_BYTES {
                self.count_memory(connection, reply.len());
            }
            if self.is_slice_over(reply, slice_began) {
                break;
            }
        }
        true
    }

    /// Counts the attempts to parse a request, for tests.
    #[inline(always)]
    pub(super) fn note_parse(&mut self) {
        #[cfg(test)]
        {
            self.intake.parse_count += 1;
        }
    }

    fn refuse_protocol(&mut self, connection: &mut Connection, reply: &mut Reply, error: &ProtocolError) {
        let text = format!("ERR {error}");
        tracing::debug!("{error} from client id={} addr={}", connection.info.id, connection.info.peer);
        if connection.session.shows_reply() {
            reply.error(&text);
        }
        self.count_error(&text);
        connection.closing = true;
    }

    /// Notes that a connection has input left, which the next loop reads.
    pub(crate) fn mark_ready(&mut self, connection: &mut Connection) {
        if !connection.is_ready {
            connection.is_ready = true;
            self.ready.push_back(connection.token);
        }
    }

    /// Reads the connections that had input left.
    pub(super) fn process_ready(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        self.enter();
        // One by one: a script that is busy lets those behind it be served.
        for _ in 0..self.ready.len() {
            let Some(token) = self.ready.pop_front() else { break };
            self.continue_with(token);
            if self.has_busy_script() && !self.is_polling() {
                self.rejoin();
            }
        }
    }

    /// Processes a connection's waiting input, unless it waits for something else.
    pub(crate) fn continue_with(&mut self, token: Token) {
        let Some(mut connection) = self.take(token) else { return };
        connection.is_ready = false;
        if connection.is_flooding && self.shared.is_any_flooded() {
            self.mark_ready(&mut connection);
            self.put(connection);
            return;
        }
        if connection.suspended.is_none() && !connection.closing && !connection.query.is_empty() {
            self.process_query(&mut connection);
        }
        self.throttle(&mut connection);
        // Nobody tells once more that the peer is gone: what its last request waits for would come to nobody.
        if let Some(Suspended::Debugging(debugged)) = &connection.suspended
            && connection.input_ended
        {
            debugged.input.end();
        }
        let waits = matches!(connection.suspended, Some(Suspended::Paused | Suspended::Debugging(_)));
        if connection.input_ended && !connection.is_ready && !waits {
            connection.closing = true;
        }
        self.finish(connection);
    }
}
