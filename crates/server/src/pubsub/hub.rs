//! Subscriptions: channels, patterns and shard channels of all clients.
//!
//! A channel's messages reach the mailboxes of all threads while its stripe is locked, so every subscriber
//! gets them in the same order. The mail to a thread for a message does not depend on how many of its clients
//! get it.

use std::hash::RandomState;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use hashbrown::HashMap;
use martlet_base::glob::matches;
use martlet_base::hash::hash_bytes;
use martlet_base::sync::lock;
use martlet_net::Token;
use martlet_protocol::reply::Reply;

/// Number of locks that channels are spread over.
const STRIPES: usize = 64;

/// The three kinds of subscription.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

/// A subscribed client: its connection and, to be sure, its id.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The connection in its thread.
    pub token: Token,
    /// The client's id.
    pub client: u64,
}

/// A message for a thread's clients that subscribed to one channel or pattern.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Those that were subscribed when the message was published.
    pub receivers: Arc<Vec<Receiver>>,
    /// The kind of the subscription.
    pub kind: Kind,
    /// Its channel or pattern.
    pub name: Arc<[u8]>,
    /// The message as RESP2 has it, or its beginning; in RESP3 its first byte is another.
    pub bytes: Arc<Vec<u8>>,
    /// The rest, if the payload is long: all receivers share that.
    pub rest: Option<Arc<Vec<u8>>>,
}

impl Delivery {
    /// How long the message is.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len() + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    /// The thread's cost of delivering it to all receivers, in bytes copied.
    pub fn cost_bytes(&self) -> usize {
        (self.len_bytes() + RECEIVER_COST_BYTES) * self.receivers.len()
    }
}

/// Messages that a script publishes wait for its end, since it may be undone.
pub(crate) struct HeldMessage {
    pub kind: Kind,
    pub channel: Vec<u8>,
    pub payload: Vec<u8>,
    /// Other nodes of the cluster get it, too.
    pub is_for_all: bool,
}

/// The cost of finding one receiver, in bytes copied in the same time.
const RECEIVER_COST_BYTES: usize = 100;
/// From this size on a payload is kept once, however many patterns match its channel.
const SHARED_MIN_BYTES: usize = 256;

/// The published message.
struct Payload<'a> {
    bytes: &'a [u8],
    /// As it ends a message, if it is long and has a receiver.
    rest: Option<Arc<Vec<u8>>>,
}

impl Payload<'_> {
    /// The message of these words and the payload: what differs from others', and the rest.
    fn message(&mut self, words: &[&[u8]]) -> (Arc<Vec<u8>>, Option<Arc<Vec<u8>>>) {
        let is_shared = self.bytes.len() >= SHARED_MIN_BYTES;
        let own = if is_shared { 0 } else { self.bytes.len() };
        let len: usize = words.iter().map(|word| word.len() + 16).sum();
        let mut head = Reply::new(Vec::with_capacity(len + own + 32), false);
        head.array(words.len() + 1);
        words.iter().for_each(|word| head.bulk(word));
        if !is_shared {
            head.bulk(self.bytes);
            return (Arc::new(head.into_bytes()), None);
        }
        let rest = self.rest.get_or_insert_with(|| {
            let mut rest = Reply::default();
            rest.bulk(self.bytes);
            Arc::new(rest.into_bytes())
        });
        (Arc::new(head.into_bytes()), Some(rest.clone()))
    }
}

/// The subscribers of one channel or pattern, by I/O thread.
#[derive(Debug, Default)]
struct Topic {
    threads: Vec<(usize, Arc<Vec<Receiver>>)>,
}

impl Topic {
    fn add(&mut self, thread: usize, receiver: Receiver) {
        match self.threads.iter_mut().find(|(at, _)| *at == thread) {
            // Messages under way keep the list as it was.
            Some((_, receivers)) => Arc::make_mut(receivers).push(receiver),
            None => self.threads.push((thread, Arc::new(vec![receiver]))),
        }
    }

    fn remove(&mut self, thread: usize, client: u64) {
        if let Some((_, receivers)) = self.threads.iter_mut().find(|(at, _)| *at == thread)
            && let Some(at) = receivers.iter().position(|r| r.client == client)
        {
            Arc::make_mut(receivers).swap_remove(at);
        }
        self.threads.retain(|(_, receivers)| !receivers.is_empty());
    }

    fn count(&self) -> usize {
        self.threads.iter().map(|(_, receivers)| receivers.len()).sum()
    }
}

type Topics = HashMap<Arc<[u8]>, Topic, RandomState>;

/// One kind's channels.
#[derive(Default)]
struct Channels {
    stripes: Box<[Mutex<Topics>]>,
}

impl Channels {
    fn new() -> Channels {
        Channels { stripes: (0..STRIPES).map(|_| Mutex::default()).collect() }
    }

    fn stripe(&self, name: &[u8]) -> MutexGuard<'_, Topics> {
        // The low bits choose among a table's places; the high ones are as good.
        lock(&self.stripes[(hash_bytes(name) >> 58) as usize % STRIPES])
    }

    fn names(&self) -> impl Iterator<Item = Arc<[u8]>> {
        self.stripes.iter().flat_map(|stripe| lock(stripe).keys().cloned().collect::<Vec<_>>())
    }
}

/// See the [module docs](self).
pub struct Hub {
    channels: Channels,
    shards: Channels,
    patterns: RwLock<Topics>,
    /// Number of patterns: without any, none is looked at.
    pattern_count: AtomicUsize,
    /// Clients with a subscription of any kind.
    pub clients: AtomicUsize,
}

impl Default for Hub {
    fn default() -> Hub {
        Hub {
            channels: Channels::new(),
            shards: Channels::new(),
            patterns: RwLock::default(),
            pattern_count: AtomicUsize::new(0),
            clients: AtomicUsize::new(0),
        }
    }
}

impl Hub {
    fn of(&self, kind: Kind) -> &Channels {
        if kind == Kind::Shard { &self.shards } else { &self.channels }
    }

    fn patterns(&self) -> RwLockReadGuard<'_, Topics> {
        self.patterns.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the topics that `name` is among.
    fn change<R>(&self, kind: Kind, name: &[u8], change: impl FnOnce(&mut Topics) -> R) -> R {
        if kind != Kind::Pattern {
            return change(&mut self.of(kind).stripe(name));
        }
        let mut patterns = self.patterns.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut patterns);
        self.pattern_count.store(patterns.len(), Ordering::Release);
        result
    }

    /// Adds a subscription, which the client must not have yet.
    pub fn subscribe(&self, kind: Kind, name: &Arc<[u8]>, thread: usize, receiver: Receiver) {
        self.change(kind, name, |topics| topics.entry_ref(name).or_default().add(thread, receiver));
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, kind: Kind, name: &[u8], thread: usize, client: u64) {
        self.change(kind, name, |topics| {
            let Some(topic) = topics.get_mut(name) else { return };
            topic.remove(thread, client);
            if topic.threads.is_empty() {
                topics.remove(name);
            }
        });
    }

    /// Publishes a message on a channel or shard channel: `send` is called for each thread with subscribers,
    /// first those of the channel, then those of each pattern that matches. Returns how many clients get it.
    pub fn publish(
        &self,
        kind: Kind,
        channel: &[u8],
        payload: &[u8],
        mut send: impl FnMut(usize, Delivery),
    ) -> usize {
        let stripe = self.of(kind).stripe(channel);
        let mut payload = Payload { bytes: payload, rest: None };
        let mut count = 0;
        if let Some((name, topic)) = stripe.get_key_value(channel) {
            let word: &[u8] = if kind == Kind::Shard { b"smessage" } else { b"message" };
            count += send_to(topic, kind, name, payload.message(&[word, channel]), &mut send);
        }
        if kind == Kind::Channel && self.pattern_count.load(Ordering::Acquire) > 0 {
            for (pattern, topic) in self.patterns().iter() {
                if matches(pattern, channel, false) {
                    let message = payload.message(&[b"pmessage", pattern, channel]);
                    count += send_to(topic, Kind::Pattern, pattern, message, &mut send);
                }
            }
        }
        count
    }

    /// The channels that have subscribers and match `pattern`, if there is one.
    pub fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let is_meant = |name: &Arc<[u8]>| pattern.is_none_or(|pattern| matches(pattern, name, false));
        self.of(kind).names().filter(is_meant).collect()
    }

    /// Calls `f` for each subscription: its kind, its name, the client.
    pub fn for_each_subscription(&self, mut f: impl FnMut(Kind, &[u8], u64)) {
        let mut each = |kind: Kind, topics: &Topics| {
            for (name, topic) in topics {
                let receivers = topic.threads.iter().flat_map(|(_, receivers)| receivers.iter());
                receivers.for_each(|receiver| f(kind, name, receiver.client));
            }
        };
        each(Kind::Pattern, &self.patterns());
        for kind in [Kind::Channel, Kind::Shard] {
            self.of(kind).stripes.iter().for_each(|stripe| each(kind, &lock(stripe)));
        }
    }

    /// Number of clients subscribed to a channel.
    pub fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.of(kind).stripe(name).get(name).map_or(0, Topic::count)
    }

    /// Number of channels of a kind that have subscribers, or of patterns.
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pattern => self.pattern_count.load(Ordering::Acquire),
            kind => self.of(kind).stripes.iter().map(|stripe| lock(stripe).len()).sum(),
        }
    }
}

fn send_to(
    topic: &Topic,
    kind: Kind,
    name: &Arc<[u8]>,
    (bytes, rest): (Arc<Vec<u8>>, Option<Arc<Vec<u8>>>),
    send: &mut impl FnMut(usize, Delivery),
) -> usize {
    for (thread, receivers) in &topic.threads {
        let (receivers, name) = (receivers.clone(), name.clone());
        send(*thread, Delivery { receivers, kind, name, bytes: bytes.clone(), rest: rest.clone() });
    }
    topic.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(client: u64) -> Receiver {
        Receiver { token: Token::new(client as u32, 1), client }
    }

    fn publish(hub: &Hub, kind: Kind, channel: &str, payload: &str) -> (usize, Vec<(usize, usize, String)>) {
        let mut sent = Vec::new();
        let count = hub.publish(kind, channel.as_bytes(), payload.as_bytes(), |thread, delivery| {
            let rest = delivery.rest.iter().flat_map(|rest| rest.iter());
            let bytes = delivery.bytes.iter().chain(rest).copied().collect();
            assert_eq!(Vec::len(&bytes), delivery.len_bytes());
            let text = String::from_utf8(bytes).unwrap();
            sent.push((thread, delivery.receivers.len(), text));
        });
        (count, sent)
    }

    #[test]
    fn a_message_is_built_once_and_sent_once_to_each_thread() {
        let hub = Hub::default();
        let news: Arc<[u8]> = Arc::from(&b"news"[..]);
        for client in 1..=3 {
            hub.subscribe(Kind::Channel, &news, client as usize % 2, receiver(client));
        }
        let (count, sent) = publish(&hub, Kind::Channel, "news", "hi");
        assert_eq!(count, 3);
        let text = "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n".to_owned();
        assert_eq!(sent, [(1, 2, text.clone()), (0, 1, text)]);
        assert_eq!(hub.subscribers(Kind::Channel, b"news"), 3);
        assert_eq!(hub.subscribers(Kind::Shard, b"news"), 0);
    }

    #[test]
    fn patterns_come_after_the_channel_and_not_for_shard_channels() {
        let hub = Hub::default();
        let (name, pattern): (Arc<[u8]>, Arc<[u8]>) = (Arc::from(&b"abc"[..]), Arc::from(&b"a*"[..]));
        hub.subscribe(Kind::Pattern, &pattern, 0, receiver(1));
        hub.subscribe(Kind::Channel, &name, 0, receiver(1));
        hub.subscribe(Kind::Shard, &name, 0, receiver(2));
        let (count, sent) = publish(&hub, Kind::Channel, "abc", "x");
        assert_eq!(count, 2);
        assert!(sent[0].2.contains("\r\nmessage\r\n") && sent[1].2.contains("\r\npmessage\r\n$2\r\na*\r\n"));
        let (count, sent) = publish(&hub, Kind::Shard, "abc", "x");
        assert_eq!((count, sent.len()), (1, 1));
        assert!(sent[0].2.contains("smessage"));
    }

    /// A subscriber to many patterns must not make the server hold a payload as many times.
    #[test]
    fn a_long_payload_is_there_once_for_all_patterns() {
        let hub = Hub::default();
        for stars in 1..=100 {
            hub.subscribe(Kind::Pattern, &Arc::from("*".repeat(stars).as_bytes()), 0, receiver(1));
        }
        for length in [SHARED_MIN_BYTES - 1, SHARED_MIN_BYTES, 100_000] {
            let text = "x".repeat(length);
            let (count, sent) = publish(&hub, Kind::Channel, "abc", &text);
            assert_eq!(count, 100);
            let end = format!("\r\n$3\r\nabc\r\n${length}\r\n{text}\r\n");
            assert!(sent.iter().all(|(_, _, sent)| sent.ends_with(&end)));
        }
        let mut rests = Vec::new();
        hub.publish(Kind::Channel, b"abc", &[b'x'; 1000], |_, delivery| rests.extend(delivery.rest));
        assert!(rests.len() == 100 && rests.iter().all(|rest| Arc::ptr_eq(rest, &rests[0])));
    }

    #[test]
    fn what_nobody_is_subscribed_to_is_gone() {
        let hub = Hub::default();
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            let name: Arc<[u8]> = Arc::from(&b"x"[..]);
            hub.subscribe(kind, &name, 0, receiver(1));
            hub.subscribe(kind, &name, 1, receiver(2));
            assert_eq!(hub.count(kind), 1);
            hub.unsubscribe(kind, b"x", 0, 1);
            hub.unsubscribe(kind, b"x", 0, 7);
            assert_eq!(hub.count(kind), 1);
            hub.unsubscribe(kind, b"x", 1, 2);
            assert_eq!(hub.count(kind), 0);
        }
        assert_eq!(publish(&hub, Kind::Channel, "x", "").0, 0);
    }

    #[test]
    fn names_are_filtered() {
        let hub = Hub::default();
        for name in ["ab", "ac", "b"] {
            hub.subscribe(Kind::Channel, &Arc::from(name.as_bytes()), 0, receiver(1));
        }
        let mut names = hub.names(Kind::Channel, Some(b"a*"));
        names.sort();
        assert_eq!(names.iter().map(|n| n.to_vec()).collect::<Vec<_>>(), [b"ab", b"ac"]);
        assert_eq!(hub.names(Kind::Channel, None).len(), 3);
        assert!(hub.names(Kind::Shard, None).is_empty());
    }
}
