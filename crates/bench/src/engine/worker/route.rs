//! Cluster mode: each request goes to a connection of the node that holds its key's slot, and follows the
//! slots when these move. A request drawn for another node waits in that node's queue, so that every draw is
//! sent exactly once, whichever thread drew it.

use super::*;
use martlet_client::slot::{SLOT_COUNT, slot_of};

/// Requests that may wait for nodes other than those which have room, per thread.
const MAX_PARKED: usize = 4096;
/// Commands whose first key comes after a script and a count of keys.
const KEY_AFTER_COUNT: [&[u8]; 6] = [b"EVAL", b"EVALSHA", b"EVAL_RO", b"EVALSHA_RO", b"FCALL", b"FCALL_RO"];
/// In front of a request that is sent where ASK points to.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
/// The command number of an ASKING: its reply counts for nothing.
pub(super) const UNCOUNTED: u16 = u16::MAX;

/// A request on its way to a node.
pub(super) struct Parked {
    bytes: Vec<u8>,
    command: u16,
    /// When it was due or, sent once already, first sent; [`u64::MAX`] until it is sent.
    since_ns: u64,
    asking: bool,
}

/// Where requests go in cluster mode.
pub(super) struct Router {
    /// The node of each slot.
    owners: Vec<u16>,
    /// Requests that wait, by node.
    parked: Vec<VecDeque<Parked>>,
    waiting: usize,
    /// Replies that pointed elsewhere.
    pub redirects: u64,
}

impl Router {
    /// The slots as the plan's nodes hold them at the start; `None` where nothing is routed.
    pub fn new(plan: &Plan) -> Option<Router> {
        if !plan.route {
            return None;
        }
        let mut owners = vec![0; SLOT_COUNT];
        for (index, node) in plan.target.nodes.iter().enumerate() {
            for (owner, _) in owners.iter_mut().zip(node.slots.iter()).filter(|(_, held)| **held) {
                *owner = index as u16;
            }
        }
        let parked = plan.target.nodes.iter().map(|_| VecDeque::new()).collect();
        Some(Router { owners, parked, waiting: 0, redirects: 0 })
    }

    /// Requests that have been drawn and wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether no more may be drawn before others have left.
    pub fn is_full(&self) -> bool {
        self.waiting >= MAX_PARKED
    }

    /// The node of a request; `None` if it has no key.
    fn owner(&self, request: &[u8]) -> Option<usize> {
        let slot = slot_of(key(request)?);
        self.owners.get(usize::from(slot)).map(|owner| usize::from(*owner))
    }

    fn park(&mut self, node: usize, request: Parked) {
        if let Some(queue) = self.parked.get_mut(node) {
            queue.push_back(request);
            self.waiting += 1;
        }
    }

    fn next(&mut self, node: usize) -> Option<Parked> {
        let request = self.parked.get_mut(node)?.pop_front()?;
        self.waiting -= 1;
        Some(request)
    }

    /// Takes an error reply that points to another node: the request goes there. False if it does not, or
    /// that node is unknown.
    pub fn redirect(&mut self, plan: &Plan, text: &[u8], request: InFlight, bytes: Vec<u8>) -> bool {
        self.follow(plan, text, request, bytes).is_some()
    }

    fn follow(&mut self, plan: &Plan, text: &[u8], request: InFlight, bytes: Vec<u8>) -> Option<()> {
        let mut words = std::str::from_utf8(text).ok()?.split_whitespace();
        let asking = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot: usize = words.next()?.parse().ok()?;
        let address = words.next()?;
        let node = plan.target.nodes.iter().position(|node| node.address.to_string() == address)?;
        if !asking && let Some(owner) = self.owners.get_mut(slot) {
            *owner = node as u16;
        }
        self.redirects += 1;
        self.park(node, Parked { bytes, command: request.command, since_ns: request.since_ns, asking });
        Some(())
    }
}

/// The first key of an encoded request.
fn key(request: &[u8]) -> Option<&[u8]> {
    let mut arguments = Arguments(request.get(memchr::memchr(b'\n', request)? + 1..)?);
    let name = arguments.next()?;
    let skipped = if KEY_AFTER_COUNT.iter().any(|other| name.eq_ignore_ascii_case(other)) { 2 } else { 0 };
    arguments.nth(skipped)
}

/// The arguments of an encoded request, its count left off.
struct Arguments<'a>(&'a [u8]);

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let line_end = memchr::memchr(b'\r', self.0)?;
        let length: usize = std::str::from_utf8(self.0.get(1..line_end)?).ok()?.parse().ok()?;
        let argument = self.0.get(line_end + 2..line_end + 2 + length)?;
        self.0 = self.0.get(line_end + 2 + length + 2..).unwrap_or_default();
        Some(argument)
    }
}

impl<M: Mux> Worker<'_, M> {
    /// Closed loop: fills every connection that is ready with requests of its node, drawing more as long as
    /// these lack.
    pub(super) fn fill_routed(&mut self) {
        let plan = self.core.plan;
        let mut starved = VecDeque::new();
        while let Some(slot) = self.core.ready.pop_front() {
            let node = self.core.node_of(slot);
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            connection.listed = false;
            if connection.phase != Phase::Ready || connection.sending {
                continue;
            }
            for _ in connection.outstanding as usize..plan.pipeline {
                if !self.draw_for(node) {
                    break;
                }
                self.send_parked(slot, node);
            }
            if self.core.connections.get(slot).is_some_and(|c| c.outstanding == 0) {
                starved.push_back(slot);
            }
        }
        // Others' draws, or replies that point to its node, may give these something to do.
        for slot in starved {
            self.core.make_ready(slot);
        }
    }

    /// Makes sure that a request waits for the node; false if none can be had now.
    fn draw_for(&mut self, node: usize) -> bool {
        loop {
            let Some(router) = &self.core.router else { return false };
            if router.parked.get(node).is_some_and(|queue| !queue.is_empty()) {
                return true;
            }
            if router.is_full() || self.exhausted || self.take_quota(1) == 0 {
                return false;
            }
            self.draw(node, u64::MAX);
        }
    }

    /// Draws a request and parks it for its node, or for `node` if it has no key.
    pub(super) fn draw(&mut self, node: usize, since_ns: u64) {
        let units = &self.core.plan.workload.units;
        let mut drawn = if units.len() > 1 { self.random.below(self.total_weight) } else { 0 };
        let chosen = units.iter().find(|unit| {
            let hit = drawn < unit.weight;
            drawn = drawn.saturating_sub(unit.weight);
            hit
        });
        let Some(step) = chosen.and_then(|unit| unit.steps.first()) else { return };
        let mut drawn = Drawn::default();
        let tag = fill::draw_tag(self.core.plan, node, &mut self.random);
        let mut draw = Draw {
            random: &mut self.random,
            pool: &mut self.pool,
            variables: &[0; MAX_VARIABLES],
            tags: tag.as_slice(),
            drawn: &mut drawn,
        };
        let mut bytes = Vec::new();
        step.template.append(&mut bytes, &mut self.scratch, &mut draw);
        if let Some(router) = &mut self.core.router {
            let owner = router.owner(&bytes).unwrap_or(node);
            router.park(owner, Parked { bytes, command: step.command as u16, since_ns, asking: false });
        }
    }

    /// Appends a request that waits for the node to the connection's output; whether there was one.
    pub(super) fn send_parked(&mut self, slot: usize, node: usize) -> bool {
        let Some(connection) = self.core.connections.get_mut(slot) else { return false };
        let Some(buffer) = (match connection.tls {
            Some(_) => Some(&mut connection.plain),
            None => self.mux.buffer(slot),
        }) else {
            return false;
        };
        let Some(request) = self.core.router.as_mut().and_then(|router| router.next(node)) else {
            return false;
        };
        if !connection.dirty && connection.tls.is_none() {
            buffer.clear();
        }
        if request.asking {
            buffer.extend_from_slice(ASKING);
            connection.in_flight.push_back(InFlight { since_ns: u64::MAX, command: UNCOUNTED });
            connection.requests.push_back(Vec::new());
            connection.outstanding += 1;
            self.core.outstanding += 1;
        }
        buffer.extend_from_slice(&request.bytes);
        connection.requests.push_back(request.bytes);
        self.enqueue(slot, InFlight { since_ns: request.since_ns, command: request.command });
        true
    }

    /// Open loop: draws the due requests, and connections with room take the requests that wait for their
    /// nodes.
    pub(super) fn route_due(&mut self, now: u64) {
        let Some(mut schedule) = self.schedule.take() else { return };
        loop {
            let due = schedule.peek();
            let full = self.core.router.as_ref().is_none_or(Router::is_full);
            let over = due > now || due >= self.core.end_ns;
            if full || over || self.exhausted || self.take_quota(1) == 0 {
                break;
            }
            self.draw(0, due);
            schedule.advance();
        }
        self.schedule = Some(schedule);
        let mut idle = Vec::new();
        while let Some(slot) = self.next_connection() {
            let node = self.core.node_of(slot);
            let mut sent = false;
            while self
                .core
                .connections
                .get(slot)
                .is_some_and(|c| (c.outstanding as usize) < self.core.plan.pipeline)
                && self.send_parked(slot, node)
            {
                sent = true;
            }
            if !sent {
                idle.push(slot);
            }
        }
        idle.into_iter().for_each(|slot| self.core.make_ready(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::key;
    use martlet_client::resp::encode_request;

    #[test]
    fn the_first_key_is_found() {
        for (words, expected) in [
            (&["GET", "k1"][..], Some("k1")),
            (&["MSET", "a", "1", "b", "2"], Some("a")),
            (&["evalsha", "sha", "1", "key", "value"], Some("key")),
            (&["PING"], None),
        ] {
            let mut request = Vec::new();
            encode_request(words, &mut request);
            assert_eq!(key(&request), expected.map(str::as_bytes), "{words:?}");
        }
        assert_eq!(key(b"*2\r\n$3\r\nGET\r\n$900\r\nshort\r\n"), None);
    }
}
