//! What leaves: the requests of closed loop, open loop and replay, given to connections and to the kernel.

use super::*;
use crate::replay::Cursor;

impl<M: Mux> Worker<'_, M> {
    /// Gives requests to connections; gives the time that the thread may sleep.
    pub(super) fn fill(&mut self) -> Duration {
        let idle = TICK;
        let timeout = if self.core.plan.idle || self.closed_loop_is_over() {
            idle
        } else if self.replay.is_some() {
            self.fill_replay()
        } else if self.schedule.is_some() {
            self.fill_open()
        } else {
            match self.core.router {
                Some(_) => self.fill_routed(),
                None => self.fill_closed(),
            }
            idle
        };
        self.launch();
        timeout.min(idle)
    }

    fn fill_closed(&mut self) {
        while let Some(slot) = self.core.ready.pop_front() {
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            connection.listed = false;
            if connection.phase != Phase::Ready || connection.sending {
                continue;
            }
            if connection.session.is_some() {
                self.count_step();
                self.append_unit(slot, None);
                continue;
            }
            let pipeline = self.core.plan.pipeline as u64;
            if self.core.simple {
                let count = self.take_quota(pipeline);
                if count > 0 {
                    self.render(slot, count as usize);
                }
                continue;
            }
            for _ in 0..pipeline {
                if self.take_quota(1) == 0 {
                    break;
                }
                self.append_unit(slot, None);
                if self.core.connections.get(slot).is_some_and(|c| c.session.is_some()) {
                    break;
                }
            }
        }
    }

    /// Takes up to `count` of the requests that the plan still has; 0 when all are taken. Requests of the
    /// warm-up do not count.
    pub(super) fn take_quota(&mut self, count: u64) -> u64 {
        let requests = self.core.plan.requests;
        if requests == 0 || !self.measuring {
            return count;
        }
        let before = self.core.shared.issued.fetch_add(count, Ordering::Relaxed);
        self.exhausted |= before.saturating_add(count) >= requests;
        count.min(requests.saturating_sub(before))
    }

    /// A session's later steps count as requests, too, but a session that has begun runs to its end.
    fn count_step(&mut self) {
        let _ = self.take_quota(1);
    }

    /// The simple case: one template, a whole batch, patched where that is possible.
    fn render(&mut self, slot: usize, count: usize) {
        let plan = self.core.plan;
        let Some(step) = plan.workload.units.first().and_then(|u| u.steps.first()) else { return };
        let node = self.core.node_of(slot);
        let Some(connection) = self.core.connections.get_mut(slot) else { return };
        let plain = connection.tls.is_some().then_some(&mut connection.plain);
        // The buffer's requests may be patched: it is kept.
        let Some(buffer) = open_buffer(plain, &mut self.mux, slot, true) else { return };
        let mut drawn = Drawn::default();
        let tag = draw_tag(plan, node, &mut self.random);
        let mut draw = Draw {
            random: &mut self.random,
            pool: &mut self.pool,
            variables: &[0; MAX_VARIABLES],
            tags: tag.as_slice(),
            drawn: &mut drawn,
        };
        let whole = count == plan.pipeline;
        match &self.patches {
            Some(patches) if connection.rendered && whole => step.template.patch(patches, buffer, &mut draw),
            _ => {
                buffer.clear();
                for _ in 0..count / step.template.requests().max(1) {
                    step.template.append(buffer, &mut self.scratch, &mut draw);
                }
                // With TLS the buffer is consumed by encryption.
                connection.rendered = whole && connection.tls.is_none();
            }
        }
        connection.outstanding += count as u32;
        self.core.outstanding += count as u64;
        self.launched.push(slot);
    }

    /// Appends the next request of a connection: its session's next step, or the first of a unit drawn by
    /// weight. `due_ns` is when it was due; without, its latency begins when it is sent.
    fn append_unit(&mut self, slot: usize, due_ns: Option<u64>) {
        let plan = self.core.plan;
        let units = &plan.workload.units;
        let node = self.core.node_of(slot);
        let Some(connection) = self.core.connections.get_mut(slot) else { return };
        let plain = connection.tls.is_some().then_some(&mut connection.plain);
        let Some(buffer) = open_buffer(plain, &mut self.mux, slot, connection.dirty) else { return };
        let (unit_index, step_index) = connection.session.take().unwrap_or_else(|| {
            let mut drawn = if units.len() > 1 { self.random.below(self.total_weight) } else { 0 };
            let chosen = units.iter().position(|u| {
                let hit = drawn < u.weight;
                drawn = drawn.saturating_sub(u.weight);
                hit
            });
            (chosen.unwrap_or(0), 0)
        });
        let Some(unit) = units.get(unit_index) else { return };
        let Some(step) = unit.steps.get(step_index) else { return };
        if step_index == 0 && !unit.variables.is_empty() {
            let number = unit.begun.fetch_add(1, Ordering::Relaxed);
            for (variable, field) in connection.variables.iter_mut().zip(&unit.variables) {
                *variable = field.draw_number(&mut self.random, number);
            }
        }
        let mut drawn = Drawn::default();
        let tag = draw_tag(plan, node, &mut self.random);
        let mut draw = Draw {
            random: &mut self.random,
            pool: &mut self.pool,
            variables: &connection.variables,
            tags: tag.as_slice(),
            drawn: &mut drawn,
        };
        step.template.append(buffer, &mut self.scratch, &mut draw);
        if step_index + 1 < unit.steps.len() {
            connection.session = Some((unit_index, step_index + 1));
        }
        // u64::MAX: set when the request is handed to the kernel.
        let since_ns = due_ns.unwrap_or(u64::MAX);
        self.enqueue(slot, InFlight { since_ns, command: step.command as u16 });
    }

    /// Counts a request that was appended to a connection's output, which is sent in this loop.
    pub(super) fn enqueue(&mut self, slot: usize, request: InFlight) {
        let Some(connection) = self.core.connections.get_mut(slot) else { return };
        connection.in_flight.push_back(request);
        connection.outstanding += 1;
        self.core.outstanding += 1;
        if !connection.dirty {
            connection.dirty = true;
            self.launched.push(slot);
        }
    }

    /// Sends the filled requests, with one reading of the clock.
    fn launch(&mut self) {
        if self.launched.is_empty() {
            return;
        }
        let now = self.core.start.elapsed().as_nanos() as u64;
        let mut launched = std::mem::take(&mut self.launched);
        for slot in launched.drain(..) {
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            connection.since_ns = now;
            connection.dirty = false;
            if !self.core.simple {
                for request in connection.in_flight.iter_mut().rev() {
                    if request.since_ns != u64::MAX {
                        break;
                    }
                    request.since_ns = now;
                }
            }
            self.send(slot);
        }
        self.launched = launched;
    }

    fn send(&mut self, slot: usize) {
        let Some(connection) = self.core.connections.get_mut(slot) else { return };
        let Some(buffer) = self.mux.buffer(slot) else { return };
        if let Some(session) = connection.tls.as_mut() {
            buffer.clear();
            if let Err(error) = session.transmit(&connection.plain, buffer) {
                return self.core.fail(format!("TLS: {error}"));
            }
            connection.plain.clear();
        }
        if buffer.is_empty() {
            return;
        }
        self.sent_bytes += buffer.len() as u64;
        // Without a notice, a connection's buffer is free when all its replies are in. With TLS something
        // else may have to be sent before: the end of the handshake, an answer to a change of keys.
        let notify = self.notify || connection.phase != Phase::Ready || connection.tls.is_some();
        connection.sending = !self.mux.send(slot, notify);
    }

    /// Sends bytes of preludes and TLS handshakes.
    pub(super) fn flush(&mut self) {
        for slot in std::mem::take(&mut self.core.flush) {
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            if connection.sending {
                continue;
            }
            let handshaking = connection.tls.as_ref().is_some_and(|t| t.is_handshaking());
            if connection.tls.is_none()
                && let Some(buffer) = self.mux.buffer(slot)
            {
                buffer.clear();
                buffer.append(&mut connection.plain);
                connection.rendered = false;
            }
            if handshaking {
                // The application's bytes wait until the handshake is over.
                let plain = std::mem::take(&mut connection.plain);
                self.send(slot);
                if let Some(connection) = self.core.connections.get_mut(slot) {
                    connection.plain = plain;
                }
            } else {
                self.send(slot);
            }
        }
    }

    /// Open loop: all requests that are due go to connections that have room.
    fn fill_open(&mut self) -> Duration {
        self.continue_sessions();
        let now = self.core.start.elapsed().as_nanos() as u64;
        if self.core.router.is_some() {
            self.route_due(now);
            return self.until_due();
        }
        let Some(mut schedule) = self.schedule.take() else { return TICK };
        let mut blocked = false;
        loop {
            let due = schedule.peek();
            if due > now || due >= self.core.end_ns || self.exhausted {
                break;
            }
            let Some(slot) = self.next_connection() else {
                blocked = true;
                break;
            };
            if self.take_quota(1) == 0 {
                break;
            }
            // Waiting for a connection is the server's doing, waking late is ours.
            let free_ns = self.core.connections.get(slot).map_or(0, |c| c.free_ns);
            self.send_lag.record(now.saturating_sub(due.max(free_ns)), 1);
            self.append_unit(slot, Some(due));
            schedule.advance();
            self.relist(slot);
        }
        self.schedule = Some(schedule);
        if blocked { TICK } else { self.until_due() }
    }

    /// How long the thread may sleep before the next request is due.
    fn until_due(&self) -> Duration {
        let Some(schedule) = &self.schedule else { return TICK };
        let gap = schedule.peek().saturating_sub(self.core.start.elapsed().as_nanos() as u64);
        Duration::from_nanos(gap.saturating_sub(self.spin_ns))
    }

    /// Sends the next step of each session whose last one is answered.
    fn continue_sessions(&mut self) {
        let mut rest = VecDeque::with_capacity(self.core.ready.len());
        if !self.core.plan.workload.units.iter().any(|u| u.steps.len() > 1) {
            return;
        }
        while let Some(slot) = self.core.ready.pop_front() {
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            if connection.session.is_some() && connection.outstanding == 0 {
                connection.listed = false;
                self.count_step();
                self.append_unit(slot, None);
            } else {
                rest.push_back(slot);
            }
        }
        self.core.ready = rest;
    }

    /// A connection with room for one more request.
    pub(super) fn next_connection(&mut self) -> Option<usize> {
        while let Some(slot) = self.core.ready.pop_front() {
            let connection = self.core.connections.get_mut(slot)?;
            connection.listed = false;
            let room =
                (connection.outstanding as usize) < self.core.plan.pipeline && connection.session.is_none();
            if connection.phase == Phase::Ready && !connection.sending && room {
                return Some(slot);
            }
        }
        None
    }

    /// Lists a connection again if it can take more in this loop.
    fn relist(&mut self, slot: usize) {
        let room = self
            .core
            .connections
            .get(slot)
            .is_some_and(|c| (c.outstanding as usize) < self.core.plan.pipeline && c.session.is_none());
        if room {
            self.core.make_ready(slot);
        }
    }

    /// Replay: the capture's requests, each on the connection of the client that sent it. In open loop a
    /// client that waits for a reply delays no other; in closed loop the capture's order is kept over all
    /// clients.
    fn fill_replay(&mut self) -> Duration {
        let Some(mut cursor) = self.replay.take() else { return TICK };
        let open_loop = matches!(self.core.plan.pacing, Pacing::Open { .. });
        let now = self.core.start.elapsed().as_nanos() as u64;
        let own = self.core.connections.len().max(1);
        self.delayed.resize(own, VecDeque::new());
        while let Some(slot) = self.core.ready.pop_front() {
            if let Some(connection) = self.core.connections.get_mut(slot) {
                connection.listed = false;
            }
            while let Some(place) = self.delayed.get(slot).and_then(|queue| queue.front().copied())
                && self.append_captured(&cursor, place, slot, now)
            {
                self.delayed.get_mut(slot).and_then(VecDeque::pop_front);
            }
        }
        let mut timeout = TICK;
        while let Some((due_ns, client)) = cursor.peek().map(|request| (request.due_ns, request.client)) {
            if open_loop && due_ns >= self.core.end_ns {
                timeout = TICK;
                break;
            }
            if open_loop && due_ns > now {
                timeout = Duration::from_nanos((due_ns - now).saturating_sub(self.spin_ns));
                break;
            }
            let (slot, place) = (client % own, cursor.place());
            let is_behind = self.delayed.get(slot).is_some_and(|queue| !queue.is_empty());
            if is_behind || !self.append_captured(&cursor, place, slot, now) {
                if !open_loop {
                    break;
                }
                if let Some(queue) = self.delayed.get_mut(slot) {
                    queue.push_back(place);
                }
            }
            cursor.advance();
        }
        let drawn = cursor.peek().is_none_or(|request| open_loop && request.due_ns >= self.core.end_ns);
        self.exhausted = drawn && self.delayed.iter().all(VecDeque::is_empty);
        self.replay = Some(cursor);
        timeout
    }

    /// Appends a request of the capture to its connection; false if that has no room.
    fn append_captured(&mut self, cursor: &Cursor, place: usize, slot: usize, now: u64) -> bool {
        let open_loop = matches!(self.core.plan.pacing, Pacing::Open { .. });
        let (Some(request), Some(connection)) = (cursor.request(place), self.core.connections.get_mut(slot))
        else {
            return false;
        };
        let full = connection.outstanding as usize >= self.core.plan.pipeline;
        if full || connection.sending || connection.phase != Phase::Ready {
            return false;
        }
        let plain = connection.tls.is_some().then_some(&mut connection.plain);
        let Some(buffer) = open_buffer(plain, &mut self.mux, slot, connection.dirty) else { return false };
        buffer.extend_from_slice(request.bytes);
        if open_loop {
            self.send_lag.record(now.saturating_sub(request.due_ns.max(connection.free_ns)), 1);
        }
        let since_ns = if open_loop { request.due_ns } else { u64::MAX };
        let in_flight = InFlight { since_ns, command: request.command };
        self.enqueue(slot, in_flight);
        true
    }
}

/// A tag of a slot that the node holds, in cluster mode. A batch has one: several keys of one request must be
/// of one slot.
pub(super) fn draw_tag(plan: &Plan, node: usize, random: &mut Random) -> Option<[u8; 3]> {
    let tags = plan.target.nodes.get(node).map(|node| &node.tags).filter(|tags| !tags.is_empty())?;
    tags.get(random.below(tags.len() as u64) as usize).copied()
}

/// The buffer to which a connection's requests are appended: TLS' plain text, else the multiplexer's output.
/// The latter is emptied unless it is to be kept.
fn open_buffer<'b, M: Mux>(
    plain: Option<&'b mut Vec<u8>>,
    mux: &'b mut M,
    slot: usize,
    keep: bool,
) -> Option<&'b mut Vec<u8>> {
    if plain.is_some() {
        return plain;
    }
    let buffer = mux.buffer(slot)?;
    if !keep {
        buffer.clear();
    }
    Some(buffer)
}
