//! Links: opens and closes connections, sends periodic requests, assigns replies.
//!
//! Invariant: input of a connection that is not in `connections` is ignored.

use martlet_client::resp::Reply;

use super::{HELLO_CHANNEL, Output, Sentinel};
use crate::instance::{DOWN, Flags, InstanceId, Role};
use crate::limits::PENDING_REQUESTS_MAX;
use crate::link::{Awaited, Connection, ConnectionId, LinkId};

impl Sentinel {
    /// Opens the connections that a link lacks, unless it was just tried.
    pub(super) fn reconnect(&mut self, id: InstanceId) {
        let (now_ms, period_ms) = (self.now_ms, self.timing.ping_period_ms);
        let is_valid = self.get(id).address.port != 0;
        let link = self.link_mut(id);
        if !link.is_disconnected || !is_valid || now_ms - link.last_reconnect_ms < period_ms {
            return;
        }
        link.last_reconnect_ms = now_ms;
        if link.command.is_none() {
            self.resolve_again(id);
            self.connect_command(id);
        }
        let watches_hello = self.get(id).role != Role::Sentinel;
        if watches_hello && self.link_of(id).pubsub.is_none() {
            self.connect_pubsub(id);
        }
        let link = self.link_mut(id);
        if link.command.is_some() && (!watches_hello || link.pubsub.is_some()) {
            link.is_disconnected = false;
        }
    }

    /// The host of an instance may have another address by now.
    fn resolve_again(&mut self, id: InstanceId) {
        if !self.settings.resolve_hostnames {
            return;
        }
        let address = self.get(id).address.clone();
        if let Ok(address) = self.address_of(&address.host, i64::from(address.port), false) {
            self.get_mut(id).address = address;
        }
    }

    fn open(&mut self, id: InstanceId) -> Option<Connection> {
        let instance = self.get(id);
        let (ip, port, link) = (instance.address.ip.clone(), instance.address.port, instance.link);
        if ip.is_empty() {
            return None;
        }
        let connection = ConnectionId(self.fresh_id());
        self.connections.insert(connection, link);
        self.output(Output::Connect { connection, ip, port });
        Some(Connection { id: connection, since_ms: self.now_ms, local_ip: None, ignored_replies: 0 })
    }

    fn connect_command(&mut self, id: InstanceId) {
        let Some(connection) = self.open(id) else { return };
        let link = self.link_mut(id);
        link.command = Some(connection);
        link.pending.clear();
        if let Some(auth) = self.auth_request(id) {
            self.send(id, Awaited::Nothing, auth);
        }
        let name = self.client_name_request(id, "cmd");
        self.send(id, Awaited::Nothing, name);
        self.send_ping(id);
    }

    fn connect_pubsub(&mut self, id: InstanceId) {
        let Some(mut connection) = self.open(id) else { return };
        let mut requests: Vec<_> = self.auth_request(id).into_iter().collect();
        requests.push(self.client_name_request(id, "pubsub"));
        connection.ignored_replies = requests.len();
        requests.push(vec![self.command_word(id, "SUBSCRIBE"), HELLO_CHANNEL.into()]);
        let number = connection.id;
        self.link_mut(id).pubsub = Some(connection);
        requests.into_iter().for_each(|request| self.output(Output::Send(number, request)));
    }

    /// Sends a request over the link's connection for commands; false without one.
    pub(super) fn send(&mut self, id: InstanceId, awaited: Awaited, request: Vec<Vec<u8>>) -> bool {
        let link = self.link_mut(id);
        let Some(connection) = link.command.as_ref().map(|connection| connection.id) else { return false };
        link.pending.push_back((id, awaited));
        self.output(Output::Send(connection, request));
        true
    }

    pub(super) fn close_command(&mut self, link: LinkId) {
        let Some(known) = self.links.get_mut(&link) else { return };
        if let Some(connection) = known.command.take() {
            known.is_disconnected = true;
            known.pending.clear();
            self.connections.remove(&connection.id);
            self.output(Output::Close(connection.id));
        }
    }

    pub(super) fn close_pubsub(&mut self, link: LinkId) {
        let Some(known) = self.links.get_mut(&link) else { return };
        if let Some(connection) = known.pubsub.take() {
            known.is_disconnected = true;
            self.connections.remove(&connection.id);
            self.output(Output::Close(connection.id));
        }
    }

    /// A connection is open; `local_ip` is this side's address.
    pub fn connected(&mut self, now_ms: i64, connection: ConnectionId, local_ip: Option<String>) {
        self.now_ms = now_ms;
        let link = self.connections.get(&connection).and_then(|link| self.links.get_mut(link));
        let ends = link.map(|link| [link.command.as_mut(), link.pubsub.as_mut()]);
        if let Some(end) = ends.into_iter().flatten().flatten().find(|end| end.id == connection) {
            end.local_ip = local_ip;
        }
    }

    /// A connection could not be opened, or has ended.
    pub fn closed(&mut self, now_ms: i64, connection: ConnectionId) {
        self.now_ms = now_ms;
        let Some(link) = self.connections.remove(&connection) else { return };
        let Some(link) = self.links.get_mut(&link) else { return };
        link.is_disconnected = true;
        if link.command.take_if(|end| end.id == connection).is_some() {
            link.pending.clear();
        }
        link.pubsub.take_if(|end| end.id == connection);
    }

    /// A reply, or a message, has come.
    pub fn received(&mut self, now_ms: i64, connection: ConnectionId, reply: Reply) {
        self.now_ms = now_ms;
        let Some(link_id) = self.connections.get(&connection).copied() else { return };
        let Some(link) = self.links.get_mut(&link_id) else { return };
        if let Some(end) = link.pubsub.as_mut().filter(|end| end.id == connection) {
            if end.ignored_replies > 0 {
                end.ignored_replies -= 1;
            } else if reply.is_error() {
                // It is not subscribed, and of no use.
                self.close_pubsub(link_id);
            } else {
                link.pubsub_activity_ms = now_ms;
                self.receive_message(&reply);
            }
            return;
        }
        let Some((id, awaited)) = link.pending.pop_front() else {
            // Redis says so, and closes, when it has too many clients.
            return self.close_command(link_id);
        };
        if self.instances.contains_key(&id) {
            self.receive_reply(id, awaited, &reply);
        }
    }

    fn receive_reply(&mut self, id: InstanceId, awaited: Awaited, reply: &Reply) {
        match awaited {
            Awaited::Nothing => {}
            Awaited::Ping => self.receive_pong(id, reply),
            Awaited::Info => {
                if let Reply::Bulk(text) | Reply::Verbatim(_, text) = reply {
                    self.refresh_info(id, text);
                }
            }
            Awaited::Publish => {
                if !reply.is_error() {
                    self.get_mut(id).published_ms = self.now_ms;
                }
            }
            Awaited::PrimaryState => self.receive_primary_state(id, reply),
        }
    }

    /// An answer to PING. An instance is available if it serves, loads, or has lost its primary.
    fn receive_pong(&mut self, id: InstanceId, reply: &Reply) {
        let now_ms = self.now_ms;
        if let Reply::Simple(text) | Reply::Error(text) = reply {
            let is_pong = text.starts_with(b"PONG");
            if is_pong || text.starts_with(b"LOADING") || text.starts_with(b"MASTERDOWN") {
                let link = self.link_mut(id);
                link.available_ms = now_ms;
                link.active_ping_ms = None;
                if is_pong {
                    self.get_mut(id).flags.clear(Flags::PRIMARY_REBOOT);
                }
            } else if text.starts_with(b"BUSY") {
                self.kill_script_of(id);
            }
        }
        self.link_mut(id).last_pong_ms = now_ms;
    }

    /// An instance that is down because of a script has the script killed, once.
    fn kill_script_of(&mut self, id: InstanceId) {
        let flags = self.get(id).flags;
        if flags.any(Flags::SUBJECTIVELY_DOWN) && !flags.any(Flags::SCRIPT_KILL_SENT) {
            let request = vec![self.command_word(id, "SCRIPT"), b"KILL".to_vec()];
            self.send(id, Awaited::Nothing, request);
            self.get_mut(id).flags.set(Flags::SCRIPT_KILL_SENT);
        }
    }

    pub(super) fn send_ping(&mut self, id: InstanceId) {
        let request = vec![self.command_word(id, "PING")];
        if self.send(id, Awaited::Ping, request) {
            let now_ms = self.now_ms;
            let link = self.link_mut(id);
            link.last_ping_ms = now_ms;
            // As long as one is not answered, the time since that one counts.
            link.active_ping_ms.get_or_insert(now_ms);
        }
    }

    /// INFO, PING and hello messages, as they are due.
    pub(super) fn send_periodic(&mut self, id: InstanceId) {
        let now_ms = self.now_ms;
        let link = self.link_of(id);
        if link.is_disconnected || link.pending.len() >= PENDING_REQUESTS_MAX * link.users {
            return;
        }
        let instance = self.get(id);
        let info_period_ms = self.info_period_ms(id);
        let is_info_due = instance.reported.refreshed_ms.is_none_or(|at_ms| now_ms - at_ms > info_period_ms);
        if instance.role != Role::Sentinel && is_info_due {
            let request = vec![self.command_word(id, "INFO")];
            self.send(id, Awaited::Info, request);
        }
        let (instance, link) = (self.get(id), self.link_of(id));
        let period_ms = instance.down_after_ms.min(self.timing.ping_period_ms);
        let is_hello_due = now_ms - instance.published_ms > self.timing.publish_period_ms;
        if now_ms - link.last_pong_ms > period_ms && now_ms - link.last_ping_ms > period_ms / 2 {
            self.send_ping(id);
        }
        if is_hello_due {
            self.send_hello(id);
        }
    }

    /// A replica is looked at more often while its primary fails, is failed over, or is not connected to it.
    fn info_period_ms(&self, id: InstanceId) -> i64 {
        let instance = self.get(id);
        let is_critical = Flags::OBJECTIVELY_DOWN.with(Flags::FAILOVER_IN_PROGRESS);
        let fails = instance.primary.is_some_and(|primary| self.get(primary).flags.any(is_critical));
        match instance.role {
            Role::Replica if fails || instance.reported.link_down_ms != 0 => 1_000,
            _ => self.timing.info_period_ms,
        }
    }

    /// Closes connections that seem open, and over which nothing comes.
    pub(super) fn close_idle_connections(&mut self, id: InstanceId) {
        let (now_ms, timing) = (self.now_ms, self.timing.clone());
        let (link_id, half_ms) = (self.get(id).link, self.get(id).down_after_ms / 2);
        let link = self.link_of(id);
        let is_old = |end: &Option<Connection>| {
            end.as_ref().is_some_and(|end| now_ms - end.since_ms > timing.min_reconnect_period_ms)
        };
        // With so much pending no PING is sent any more, whose lateness would tell.
        let is_full = link.pending.len() >= PENDING_REQUESTS_MAX * link.users;
        let is_late = (is_full || link.active_ping_ms.is_some_and(|sent_ms| now_ms - sent_ms > half_ms))
            && now_ms - link.last_pong_ms > half_ms;
        let is_silent = now_ms - link.pubsub_activity_ms > timing.publish_period_ms * 3;
        let (close_command, close_pubsub) =
            (is_old(&link.command) && is_late, is_old(&link.pubsub) && is_silent);
        if close_command {
            self.close_command(link_id);
        }
        if close_pubsub {
            self.close_pubsub(link_id);
        }
    }

    /// Whether an instance may be promoted: it is up, connected, and has answered lately.
    pub(super) fn is_reachable(&self, id: InstanceId) -> bool {
        let link = self.link_of(id);
        !self.get(id).flags.any(DOWN)
            && !link.is_disconnected
            && self.now_ms - link.available_ms <= self.timing.ping_period_ms * 5
    }
}
