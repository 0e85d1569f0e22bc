//! Publish and subscribe: the hub, and a thread's work for its own subscribers.
//!
//! A publisher puts a message into the mailboxes of the threads that have subscribers, its own included; each
//! thread appends it to its clients' output when it reads its mail, which it does before it takes more input.
//! So a client that has seen the publisher's reply finds the message before the reply to any later request.

mod events;
pub mod hub;
pub mod subscriptions;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_cluster::packet::Published;
use martlet_engine::KeyEvent;
use martlet_protocol::reply::Reply;

use hub::{Delivery, HeldMessage, Kind, Receiver};

use crate::clients::flag;
use crate::connection::Connection;
use crate::runtime::Mail;
use crate::runtime::Worker;
use crate::slow_path::SessionFlags;

impl Connection {
    /// The number that confirmations of this kind tell.
    pub fn subscription_count(&self, kind: Kind) -> usize {
        self.session.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.count(kind))
    }

    /// Publishes the numbers of its subscriptions.
    fn note_subscriptions(&self) {
        let lengths = self
            .session
            .subscriptions
            .as_ref()
            .map_or([0; 3], |s| [s.channels.len(), s.patterns.len(), s.shards.len()]);
        for (told, length) in self.info.subscriptions.iter().zip(lengths) {
            told.store(length, Ordering::Relaxed);
        }
    }
}

impl Worker {
    /// Subscribes a client, unless it is already.
    pub(crate) fn subscribe(&mut self, connection: &mut Connection, kind: Kind, name: &[u8]) {
        let subscriptions = connection.session.subscriptions.get_or_insert_with(|| {
            self.shared.hub.clients.fetch_add(1, Ordering::SeqCst);
            Box::default()
        });
        let names = subscriptions.of_mut(kind);
        if names.contains(name) {
            return;
        }
        let name: Arc<[u8]> = name.into();
        names.insert(name.clone());
        let receiver = Receiver { token: connection.token, client: connection.info.id };
        self.shared.hub.subscribe(kind, &name, self.thread, receiver);
        connection.session.flags.set(SessionFlags::SUBSCRIBED, true);
        connection.info.flags.fetch_or(flag::PUBSUB, Ordering::Relaxed);
        connection.note_subscriptions();
    }

    /// Ends a client's subscription, if it has it.
    pub(crate) fn unsubscribe(&mut self, connection: &mut Connection, kind: Kind, name: &[u8]) {
        let Some(subscriptions) = &mut connection.session.subscriptions else { return };
        if !subscriptions.of_mut(kind).remove(name) {
            return;
        }
        let is_last = subscriptions.is_empty();
        self.shared.hub.unsubscribe(kind, name, self.thread, connection.info.id);
        connection.note_subscriptions();
        if is_last {
            connection.session.subscriptions = None;
            connection.session.flags.set(SessionFlags::SUBSCRIBED, false);
            connection.info.flags.fetch_and(!flag::PUBSUB, Ordering::Relaxed);
            self.shared.hub.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends all of a client's subscriptions, without telling it (RESET, its end).
    pub(crate) fn unsubscribe_all(&mut self, connection: &mut Connection) {
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            let names = connection.session.subscriptions.as_ref().map(|s| s.of(kind).clone());
            for name in names.into_iter().flatten() {
                self.unsubscribe(connection, kind, &name);
            }
        }
    }

    /// Ends this thread's clients' subscriptions that `ends` chooses, and notifies them with the word `word`.
    pub(crate) fn drop_subscriptions(&mut self, kind: Kind, word: &[u8], ends: impl Fn(&[u8]) -> bool) {
        let mut lost = Vec::new();
        for connection in self.connections.iter() {
            let Some(subscriptions) = &connection.session.subscriptions else { continue };
            let names: Vec<_> = subscriptions.of(kind).iter().filter(|name| ends(name)).cloned().collect();
            if !names.is_empty() {
                lost.push((connection.token, connection.info.id, names));
            }
        }
        for (token, client, names) in lost {
            let Some(mut connection) = self.take_client(token, client) else { continue };
            for name in names {
                self.unsubscribe(&mut connection, kind, &name);
                let resp3 = connection.session.resp3;
                let mut reply = Reply::new(std::mem::take(&mut connection.out), resp3);
                reply.push(3);
                reply.bulk(word);
                reply.bulk(&name);
                reply.count(connection.subscription_count(kind));
                connection.out = reply.into_bytes();
            }
            self.check_output_limit(&mut connection);
            self.finish(connection);
        }
    }

    /// Publishes a message to subscribers here and, in a cluster, those of other nodes; to how many here.
    pub(crate) fn publish_to_all(&mut self, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
        let Some(node) = self.shared.cluster() else { return self.publish(kind, channel, payload) };
        let (channel_here, message) = (channel.to_vec(), payload.to_vec());
        if let Some(held) = self.scripts.held() {
            // A script's messages leave once it is done.
            held.push(HeldMessage { kind, channel: channel_here, payload: message, is_for_all: true });
            return self.shared.hub.publish(kind, channel, payload, |_, _| ());
        }
        let published = Published { channel: channel_here, message, is_sharded: kind == Kind::Shard };
        node.with(|cluster, now| cluster.publish(now, published));
        self.publish(kind, channel, payload)
    }

    /// Publishes a message; to how many clients.
    pub(crate) fn publish(&mut self, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
        let (shared, me) = (self.shared, self.thread);
        if shared.hub.clients.load(Ordering::Acquire) == 0 {
            return 0;
        }
        if let Some(held) = self.scripts.held() {
            let (channel_here, message) = (channel.to_vec(), payload.to_vec());
            held.push(HeldMessage { kind, channel: channel_here, payload: message, is_for_all: false });
            return shared.hub.publish(kind, channel, payload, |_, _| ());
        }
        let (mut to_self, mut is_flood) = (false, false);
        let count = shared.hub.publish(kind, channel, payload, |thread, delivery| {
            if thread == me {
                to_self = true;
                shared.leave(me, Mail::Message(delivery));
            } else {
                shared.send(thread, Mail::Message(delivery));
            }
            is_flood |= shared.is_flooded(thread);
        });
        self.inbox.note_if(to_self);
        self.pushes.note_flood(is_flood);
        count
    }

    /// Publishes key events.
    pub(crate) fn publish_events(&mut self, events: Vec<KeyEvent>) {
        if self.shared.hub.clients.load(Ordering::Acquire) == 0 {
            return;
        }
        let wanted = self.keys.effects.wanted_events;
        for event in events {
            events::messages(wanted, &event, |channel, payload| {
                self.publish(Kind::Channel, channel, payload);
            });
        }
    }

    /// Hands a message to this thread's clients that are still subscribed.
    pub(crate) fn deliver(&mut self, delivery: &Delivery) {
        let mut reached = 0;
        for receiver in delivery.receivers.iter() {
            self.push_with(receiver.token, receiver.client, |connection| {
                let subscriptions = connection.session.subscriptions.as_ref();
                if subscriptions.is_some_and(|s| s.of(delivery.kind).contains(&*delivery.name)) {
                    let begin = connection.out.len();
                    martlet_base::copy::extend(&mut connection.out, &delivery.bytes);
                    if let Some(rest) = &delivery.rest {
                        martlet_base::copy::extend(&mut connection.out, rest);
                    }
                    if connection.session.resp3 {
                        connection.out[begin] = b'>';
                    }
                    reached += connection.out.len() - begin;
                }
            });
        }
        if delivery.kind == Kind::Shard {
            self.count_messages_for_slot(&delivery.name, reached);
        }
    }
}
