//! Hello messages: Sentinels of one primary find each other, and its newest configuration spreads.
//!
//! A message has eight fields: the sender's address, port, id and epoch, the primary's name, address, port
//! and the epoch of its configuration. It is published at the primary, its replicas, and the other Sentinels.

use martlet_client::resp::Reply;

use super::{HELLO_CHANNEL, Sentinel};
use crate::address::Address;
use crate::events::Level;
use crate::instance::{FailoverState, Flags, InstanceId, Role};
use crate::limits::WORD_MAX_BYTES;
use crate::link::Awaited;

/// A message as it came.
struct Hello<'a> {
    host: &'a str,
    port: i64,
    id: &'a str,
    epoch: u64,
    primary: InstanceId,
    primary_host: &'a str,
    primary_port: i64,
    config_epoch: u64,
}

impl Sentinel {
    /// Where clients find a primary: the promoted replica from when it says that it is one.
    pub fn current_address(&self, primary: InstanceId) -> &Address {
        let instance = self.get(primary);
        let is_switched = instance.flags.any(Flags::FAILOVER_IN_PROGRESS)
            && instance.failover.state >= FailoverState::ReconfigureReplicas;
        let promoted = instance.failover.promoted.filter(|_| is_switched);
        &self.get(promoted.unwrap_or(primary)).address
    }

    /// Publishes a hello message at an instance.
    pub(super) fn send_hello(&mut self, id: InstanceId) {
        let primary = self.primary_of(id);
        let link = self.link_of(id);
        if link.is_disconnected {
            return;
        }
        let local_ip = link.command.as_ref().and_then(|connection| connection.local_ip.clone());
        let Some(ip) = self.settings.announce_ip.clone().or(local_ip) else { return };
        let port = self.settings.announced_port();
        let address = self.current_address(primary);
        let known = self.get(primary);
        let message = format!(
            "{ip},{port},{},{},{},{},{},{}",
            self.id,
            self.current_epoch,
            known.name,
            self.announced(address),
            address.port,
            known.config_epoch
        );
        let request = vec![self.command_word(id, "PUBLISH"), HELLO_CHANNEL.into(), message.into_bytes()];
        self.send(id, Awaited::Publish, request);
    }

    /// Has hello messages sent at once to all that have to do with a primary.
    pub(super) fn hurry_hello(&mut self, primary: InstanceId) {
        let earlier_ms = self.timing.publish_period_ms + 1;
        let all = [vec![primary], self.replicas_of(primary), self.sentinels_of(primary)].concat();
        all.into_iter().for_each(|id| self.get_mut(id).published_ms -= earlier_ms);
    }

    /// A message of a primary's or a replica's channel.
    pub(super) fn receive_message(&mut self, reply: &Reply) {
        let (Reply::Array(parts) | Reply::Push(parts)) = reply else { return };
        let [Reply::Bulk(kind), Reply::Bulk(_), Reply::Bulk(text)] = &parts[..] else { return };
        let text = String::from_utf8_lossy(text);
        if kind == b"message" && !text.contains(&self.id) {
            self.process_hello(&text);
        }
    }

    /// A hello message that another Sentinel sent here.
    pub fn receive_hello(&mut self, now_ms: i64, text: &str) {
        self.now_ms = now_ms;
        self.process_hello(text);
    }

    fn process_hello(&mut self, text: &str) {
        let fields: Vec<&str> = text.split(',').collect();
        let [host, port, id, epoch, name, primary_host, primary_port, config_epoch] = fields[..] else {
            return;
        };
        let Some(primary) = self.primaries.get(name).copied() else { return };
        let is_sane = !id.is_empty() && text.len() <= WORD_MAX_BYTES && !has_controls(text);
        let port = leading_number(port);
        if !is_sane || u16::try_from(port).is_err() {
            return;
        }
        let hello = Hello {
            host,
            port,
            id,
            epoch: leading_number(epoch).max(0) as u64,
            primary,
            primary_host,
            primary_port: leading_number(primary_port),
            config_epoch: leading_number(config_epoch).max(0) as u64,
        };
        let sender = self.sender_of(&hello);
        self.adopt_epoch(primary, hello.epoch);
        if let Some(sender) = sender {
            self.adopt_config(sender, &hello);
            if let Some(sender) = self.instances.get_mut(&sender) {
                sender.hello_ms = self.now_ms;
            }
        }
    }

    /// The Sentinel that sent a message, which is made known if it is not.
    fn sender_of(&mut self, hello: &Hello<'_>) -> Option<InstanceId> {
        let address = self.address_of(hello.host, hello.port, true).ok()?;
        let known = self.get(hello.primary).sentinels.get(hello.id).copied();
        if let Some(known) = known.filter(|known| self.get(*known).address.is_same(&address)) {
            return Some(known);
        }
        let is_moved = self.remove_sentinel_of(hello.primary, hello.id);
        if is_moved {
            let rest = format!(" ip {} port {} for {}", hello.host, hello.port, hello.id);
            self.event(Level::Notice, "+sentinel-address-switch", hello.primary, &rest);
        } else {
            self.remove_sentinels_at(hello.primary, &address);
        }
        let sender = self.create_sentinel(hello.primary, hello.id, hello.host, hello.port).ok()?;
        if is_moved {
            self.spread_address(sender);
        } else {
            self.event(Level::Notice, "+sentinel", sender, "");
        }
        self.save();
        Some(sender)
    }

    /// A Sentinel with another id at the same address is gone: it is forgotten for all primaries.
    fn remove_sentinels_at(&mut self, primary: InstanceId, address: &Address) {
        let mut others = self.sentinels_of(primary).into_iter();
        let Some(other) = others.find(|other| self.get(*other).address.is_same(address)) else { return };
        self.event(Level::Notice, "+sentinel-invalid-addr", other, "");
        let name = self.get(other).name.clone();
        for primary in self.primary_ids() {
            self.remove_sentinel_of(primary, &name);
        }
    }

    /// A Sentinel has moved: the other primaries that it watches get to know its address, and the links to
    /// the old one end.
    fn spread_address(&mut self, sender: InstanceId) {
        let (name, address) = (self.get(sender).name.clone(), self.get(sender).address.clone());
        let mut count = 0;
        for primary in self.primary_ids() {
            let Some(same) = self.get(primary).sentinels.get(&name).copied() else { continue };
            let link = self.get(same).link;
            self.close_command(link);
            if same != sender {
                self.get_mut(same).address = address.clone();
                count += 1;
            }
        }
        if count > 0 {
            let rest = format!(" {count} additional matching instances");
            self.event(Level::Notice, "+sentinel-address-update", sender, &rest);
        }
    }

    /// Takes over an epoch that is newer.
    pub(super) fn adopt_epoch(&mut self, primary: InstanceId, epoch: u64) {
        if epoch > self.current_epoch {
            self.current_epoch = epoch;
            self.save();
            self.text_event(Level::Warning, "+new-epoch", primary, &epoch.to_string());
        }
    }

    /// Takes over a configuration that is newer.
    fn adopt_config(&mut self, sender: InstanceId, hello: &Hello<'_>) {
        let primary = hello.primary;
        if self.get(primary).config_epoch >= hello.config_epoch {
            return;
        }
        let old = self.get(primary).address.clone();
        if i64::from(old.port) == hello.primary_port && self.has_host(&old, hello.primary_host) {
            self.get_mut(primary).config_epoch = hello.config_epoch;
            // A failover of an older epoch would end in another configuration of the newer one.
            let known = self.get(primary);
            if known.flags.any(Flags::FAILOVER_IN_PROGRESS) && known.failover.epoch <= hello.config_epoch {
                self.abort(primary, "-failover-abort-newer-configuration");
            }
            return;
        }
        // As long as the host does not resolve here, the older configuration stays as a whole.
        if self.address_of(hello.primary_host, hello.primary_port, false).is_err() {
            return;
        }
        self.get_mut(primary).config_epoch = hello.config_epoch;
        self.event(Level::Warning, "+config-update-from", sender, "");
        let (name, host) = (self.get(primary).name.clone(), self.announced(&old).to_owned());
        let message = format!("{name} {host} {} {} {}", old.port, hello.primary_host, hello.primary_port);
        self.text_event(Level::Warning, "+switch-master", primary, &message);
        self.reset_to_address(primary, hello.primary_host, hello.primary_port);
        let address = self.get(primary).address.clone();
        self.call_reconfig_script(primary, "observer", &old, &address);
    }

    /// Whether an instance is a primary that can be relied on: it is one by configuration and by its own
    /// word, not down, and said so lately.
    pub(super) fn looks_sane(&self, primary: InstanceId) -> bool {
        let instance = self.get(primary);
        let is_fresh = instance
            .reported
            .refreshed_ms
            .is_some_and(|at_ms| self.now_ms - at_ms < self.timing.info_period_ms * 2);
        instance.reported.role == Some(Role::Primary)
            && !instance.flags.any(crate::instance::DOWN)
            && is_fresh
    }
}

fn has_controls(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ')
}

/// The number that a text begins with, as C reads it; 0 without one.
pub(super) fn leading_number(text: &str) -> i64 {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = text.len() - digits.len() + digits.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..end).and_then(|number| number.parse().ok()).unwrap_or(0)
}
