//! Clients that write and read at the server that a Sentinel reports as the primary, and the replies to them.

use super::client::{Op, Reply};
use super::data::{Command, Read, Write};
use super::group::{Event, Group};
use super::net::Net;
use super::server::Held;
use super::{Faults, Summary};
use martlet_replication::failover::State;

/// Keys that clients use.
const KEYS: u64 = 5;
/// How long a client waits for a reply, in milliseconds.
const PATIENCE_MS: i64 = 2_000;

impl Group {
    /// A client's next step; `primary` is the address that it got.
    pub fn tick_client(&mut self, net: &mut Net, client: usize, primary: Option<usize>) {
        let pause_ms = 30 + net.random.below(150) as i64;
        self.out.push((net.now_ms + pause_ms, Event::Client(client)));
        let one = &mut self.clients[client];
        one.server = primary.unwrap_or(one.server);
        let server = one.server;
        let waits = one.waits_for.is_some_and(|op| net.now_ms - self.ops[op].asked_ms < PATIENCE_MS);
        if !self.is_busy || waits {
            return;
        }
        let (key, asked_ms) = (net.random.below(KEYS), net.now_ms);
        let is_write = net.random.below(10) < 7;
        let write = is_write.then(|| {
            self.truth.writes.push(Write { key, asked_ms, acked_ms: None, had_by: 0 });
            self.truth.writes.len() - 1
        });
        let op = self.ops.len();
        let server_life = self.servers[server].life;
        self.ops.push(Op { client, server, server_life, key, write, asked_ms });
        self.clients[client].waits_for = Some(op);
        if net.reaches(net.clients + client, net.servers + server) {
            let at_ms = net.arrival_ms();
            self.out.push((at_ms, Event::Request(server, op)));
        }
    }

    /// A server gets a client's request.
    pub fn request(&mut self, net: &mut Net, server: usize, op: usize) {
        let Op { key, write, server_life, .. } = self.ops[op];
        let one = &mut self.servers[server];
        if !one.is_up || one.life != server_life {
            return;
        }
        let has_few = one.has_few_replicas(net.now_ms);
        let is_refused = one.primary.is_some() || write.is_some() && has_few;
        let is_late = write.is_some() && one.failover.state() != State::None;
        if is_refused || is_late {
            return self.send_reply(net, op, Reply::Refused);
        }
        if let Some(number) = write {
            one.record(Command::Write(number), &mut self.truth);
        }
        let found = one.data.values.get(&key).copied();
        let position = one.position;
        one.held.push(Held { position, op, found });
        self.flush(net, server);
    }

    /// A client gets a reply.
    pub fn reply(&mut self, net: &mut Net, op: usize, reply: Reply) {
        let Op { client, key, write, asked_ms, .. } = self.ops[op];
        if self.clients[client].waits_for == Some(op) {
            self.clients[client].waits_for = None;
        }
        let Reply::Ok { found, is_covered } = reply else { return };
        match write {
            Some(number) => self.truth.writes[number].acked_ms = Some(net.now_ms),
            None if is_covered => self.truth.reads.push(Read { key, found, asked_ms }),
            None => {}
        }
    }

    /// Compares the replies to clients with the data in the end.
    pub fn judge(&self, summary: &mut Summary) -> Result<(), String> {
        let data = &self.servers[0].data;
        let acked = self.truth.writes.iter().filter(|write| write.acked_ms.is_some()).count();
        let lost = self.truth.lost(data);
        summary.acked += acked as u64;
        summary.lost += lost.len() as u64;
        let is_strict = self.sync_replicas > 0 && self.faults != Faults::All;
        if !is_strict {
            return Ok(());
        }
        if let Some(number) = lost.first() {
            return Err(format!("write {number}, {:?}, is lost", self.truth.writes[*number]));
        }
        summary.stale += self.truth.stale(data)?;
        Ok(())
    }
}
