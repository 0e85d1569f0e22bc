//! What arrives: connections that open or break, replies that are matched with their requests and counted.

use super::*;
use crate::control::plain_error;
use crate::engine::{count_error, with_advice};

/// Counts the replies of one chunk.
#[derive(Default)]
struct Chunk {
    values: u64,
    nulls: u64,
    errors: u64,
    kinds: Vec<ReplyKind>,
    keep_kinds: bool,
    texts: Vec<Vec<u8>>,
}

impl ReplySink for Chunk {
    #[inline]
    fn reply(&mut self, kind: ReplyKind, text: &[u8]) {
        match kind {
            ReplyKind::Value => self.values += 1,
            ReplyKind::Null => self.nulls += 1,
            ReplyKind::Error => {
                self.errors += 1;
                self.texts.push(text.to_vec());
            }
        }
        if self.keep_kinds {
            self.kinds.push(kind);
        }
    }
}

pub(super) fn could_not_connect(address: &dyn std::fmt::Display, reason: &str) -> String {
    format!("Could not connect to server at {address}: {reason}")
}

impl Core<'_> {
    pub(super) fn fail(&mut self, reason: String) {
        self.failed = true;
        self.shared.fail(reason);
    }

    /// Ends a run whose server has been gone for longer than the plan waits.
    pub(super) fn check_patience(&mut self) {
        if self.open > 0 {
            self.seen_open_ns = self.now_ns;
        }
        let gone = Duration::from_nanos(self.now_ns.saturating_sub(self.seen_open_ns));
        if self.plan.survive_disconnects && !self.connections.is_empty() && gone > self.plan.patience {
            let reason = self.unreachable.take();
            let reason = reason.unwrap_or_else(|| could_not_connect(&self.address_of(0), "no answer"));
            self.fail(format!("{reason}; given up after {gone:.1?}"));
        }
    }

    /// The index of the node that a connection is for.
    pub(super) fn node_of(&self, slot: usize) -> usize {
        (slot * self.threads + self.index) % self.plan.target.nodes.len().max(1)
    }

    fn address_of(&self, slot: usize) -> String {
        self.plan.target.nodes.get(self.node_of(slot)).map_or(String::new(), |node| node.address.to_string())
    }

    pub(super) fn make_ready(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.listed
            && !connection.sending
            && connection.phase == Phase::Ready
        {
            connection.listed = true;
            self.ready.push_back(slot);
        }
    }

    fn note_errors(&mut self, texts: Vec<Vec<u8>>) {
        for text in texts {
            let text = String::from_utf8_lossy(&text).into_owned();
            if self.plan.stop_on_error {
                self.fail(format!("Error from server: {}", with_advice(&text, self.plan.route)));
            }
            count_error(&mut self.error_texts, text, 1, MAX_ERROR_TEXTS);
        }
    }

    /// Takes decrypted bytes of a connection.
    fn take(&mut self, slot: usize, data: &[u8]) {
        let simple = self.simple;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let mut chunk = Chunk { keep_kinds: !simple, ..Chunk::default() };
        let scanned = connection.scanner.feed(data, &mut chunk);
        let mut total = chunk.values + chunk.nulls + chunk.errors;
        if let Phase::Prelude(missing) = connection.phase {
            // The prelude is answered before the first request is sent: all these replies are its own.
            let rest = missing.saturating_sub(total as u32);
            connection.phase = if rest == 0 { Phase::Ready } else { Phase::Prelude(rest) };
            if let Some(text) = chunk.texts.first() {
                let text = String::from_utf8_lossy(text).into_owned();
                return self.fail(format!("Error from server: {text}"));
            }
            if rest == 0 {
                self.now_open(slot);
            }
            total = 0;
        }
        if total > 0 {
            self.count(slot, chunk, total);
        }
        if let Err(error) = scanned {
            self.fail(format!("{error} from {}", self.address_of(slot)));
        }
    }

    fn count(&mut self, slot: usize, mut chunk: Chunk, total: u64) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if total > u64::from(connection.outstanding) {
            // A server that takes no more connections says so before it closes them.
            return self.fail(match chunk.texts.first() {
                Some(text) => format!("Error from server: {}", String::from_utf8_lossy(text)),
                None => "the server sent a reply that no request asked for".into(),
            });
        }
        if connection.outstanding as usize >= self.plan.pipeline {
            connection.free_ns = self.now_ns;
        }
        connection.outstanding -= total as u32;
        connection.served += total;
        connection.answered_ns = self.now_ns;
        self.outstanding -= total;
        let recording = self.now_ns >= self.record_from_ns;
        let is_late = self.now_ns >= self.end_ns;
        if is_late && self.late.is_empty() {
            self.late.resize_with(self.tallies.len(), Tally::default);
        }
        self.last_reply_ns = self.now_ns;
        let tallies = if is_late { &mut self.late } else { &mut self.tallies };
        if self.simple {
            let latency = self.now_ns.saturating_sub(connection.since_ns);
            if let Some(tally) = tallies.first_mut().filter(|_| recording) {
                let answered = chunk.values + chunk.nulls;
                if answered > 0 {
                    tally.latencies.record(latency, answered);
                }
                tally.nulls += chunk.nulls;
                tally.errors += chunk.errors;
                self.done_requests += answered;
                self.done_errors += chunk.errors;
                self.done_latency_ns += latency * answered;
            }
        } else {
            let mut texts = std::mem::take(&mut chunk.texts).into_iter();
            for kind in chunk.kinds.drain(..) {
                let Some(request) = connection.in_flight.pop_front() else { break };
                let text = if kind == ReplyKind::Error { texts.next() } else { None };
                if let Some(router) = &mut self.router {
                    let bytes = connection.requests.pop_front().unwrap_or_default();
                    let is_redirected =
                        text.as_ref().is_some_and(|text| router.redirect(self.plan, text, request, bytes));
                    if is_redirected || request.command == route::UNCOUNTED {
                        continue;
                    }
                }
                chunk.texts.extend(text);
                let Some(tally) = tallies.get_mut(usize::from(request.command)).filter(|_| recording) else {
                    continue;
                };
                if kind == ReplyKind::Error {
                    tally.errors += 1;
                    self.done_errors += 1;
                    continue;
                }
                let latency = self.now_ns.saturating_sub(request.since_ns);
                tally.latencies.record(latency, 1);
                tally.nulls += u64::from(kind == ReplyKind::Null);
                self.done_requests += 1;
                self.done_latency_ns += latency;
            }
        }
        self.after_replies(slot);
        if !chunk.texts.is_empty() {
            self.note_errors(chunk.texts);
        }
    }

    /// Decides the connection's next step after some of its replies.
    fn after_replies(&mut self, slot: usize) {
        let open_loop =
            matches!(self.plan.pacing, Pacing::Open { .. }) || self.plan.workload.replay.is_some();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let idle = connection.outstanding == 0;
        let every = self.plan.reconnect_every;
        if idle && connection.session.is_none() && every > 0 && connection.served >= every {
            self.reopen.push(slot);
        } else if idle || (open_loop && connection.session.is_none()) {
            self.make_ready(slot);
        }
    }

    /// A connection is through with connecting and its prelude.
    fn now_open(&mut self, slot: usize) {
        self.opening = self.opening.saturating_sub(1);
        self.open += 1;
        self.unreachable = None;
        self.seen_open_ns = self.now_ns;
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.free_ns = self.now_ns;
        }
        self.shared.progress.connections.fetch_add(1, Ordering::Relaxed);
        self.make_ready(slot);
    }

    /// The transport is up: the prelude is next.
    fn begin_prelude(&mut self, slot: usize) {
        let replies = self.plan.target.prelude_replies;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if replies == 0 {
            connection.phase = Phase::Ready;
            return self.now_open(slot);
        }
        connection.phase = Phase::Prelude(replies);
        connection.plain.extend_from_slice(&self.plan.target.prelude);
        self.flush.push(slot);
    }

    fn take_encrypted(&mut self, slot: usize, data: &[u8]) {
        let mut decrypted = std::mem::take(&mut self.decrypted);
        decrypted.clear();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(session) = connection.tls.as_mut() else { return };
        let result = session.receive(data, &mut decrypted);
        let (handshaking, wants_write) = (session.is_handshaking(), session.wants_write());
        let opening = connection.phase == Phase::Opening;
        if wants_write {
            self.flush.push(slot);
        }
        if let Err(error) = result {
            return self.fail(format!("Could not negotiate a TLS connection: {error}"));
        }
        if opening && !handshaking {
            self.begin_prelude(slot);
        }
        if !decrypted.is_empty() {
            self.take(slot, &decrypted);
        }
        self.decrypted = decrypted;
    }
}

impl Handler for Core<'_> {
    fn woken(&mut self) {
        self.now_ns = self.start.elapsed().as_nanos() as u64;
    }

    fn connected(&mut self, slot: usize) {
        if let Some(settings) = &self.plan.target.tls {
            let session = settings.session();
            let Some(connection) = self.connections.get_mut(slot) else { return };
            match session {
                Ok(session) => connection.tls = Some(Box::new(session)),
                Err(error) => return self.fail(error.to_string()),
            }
            self.flush.push(slot);
        } else {
            self.begin_prelude(slot);
        }
    }

    #[inline]
    fn data(&mut self, slot: usize, data: &[u8]) {
        self.received_bytes += data.len() as u64;
        if self.plan.target.tls.is_some() {
            self.take_encrypted(slot, data);
        } else {
            self.take(slot, data);
        }
    }

    #[inline]
    fn sent(&mut self, slot: usize) {
        let open_loop =
            matches!(self.plan.pacing, Pacing::Open { .. }) || self.plan.workload.replay.is_some();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.sending = false;
        if connection.phase != Phase::Ready {
            if !connection.plain.is_empty() || connection.tls.as_ref().is_some_and(|t| t.wants_write()) {
                self.flush.push(slot);
            }
        } else if connection.outstanding == 0 || (open_loop && connection.session.is_none()) {
            self.after_replies(slot);
        }
    }

    fn closed(&mut self, slot: usize, error: Option<io::Error>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let phase = connection.phase;
        let lost = connection.reset();
        self.outstanding -= u64::from(lost);
        self.lost += u64::from(lost);
        let address = self.address_of(slot);
        let text = error.map_or("Server closed the connection".to_string(), |e| plain_error(&e));
        match phase {
            Phase::Ready => {
                self.open -= 1;
                self.shared.progress.connections.fetch_sub(1, Ordering::Relaxed);
                self.disconnects += 1;
                if self.plan.survive_disconnects {
                    self.reopen.push(slot);
                } else {
                    self.fail(format!("Error: {text} ({address})"));
                }
            }
            _ if self.plan.survive_disconnects && self.now_ns > 0 => {
                self.opening = self.opening.saturating_sub(1);
                self.disconnects += 1;
                self.reopen.push(slot);
                self.unreachable = Some(could_not_connect(&address, &text));
            }
            _ => self.fail(could_not_connect(&address, &text)),
        }
    }
}
