//! What a command did, for those who follow: canonical effects for the journal, key events for subscribers.
//!
//! A handler that says nothing has its request recorded as it came. One whose request is not deterministic, or means
//! something else when it is replayed later, records the commands that have the same effect (as Redis propagates it:
//! SPOP as SREM, EXPIRE as PEXPIREAT).

/// Classes of key events; the bits of `notify-keyspace-events`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    /// `K`: publish to `__keyspace@…`.
    pub const KEYSPACE: EventClass = EventClass(1);
    /// `E`: publish to `__keyevent@…`.
    pub const KEYEVENT: EventClass = EventClass(1 << 1);
    /// `g`: DEL, EXPIRE, RENAME and the like.
    pub const GENERIC: EventClass = EventClass(1 << 2);
    /// `$`.
    pub const STRING: EventClass = EventClass(1 << 3);
    /// `l`.
    pub const LIST: EventClass = EventClass(1 << 4);
    /// `s`.
    pub const SET: EventClass = EventClass(1 << 5);
    /// `h`.
    pub const HASH: EventClass = EventClass(1 << 6);
    /// `z`.
    pub const ZSET: EventClass = EventClass(1 << 7);
    /// `x`.
    pub const EXPIRED: EventClass = EventClass(1 << 8);
    /// `e`.
    pub const EVICTED: EventClass = EventClass(1 << 9);
    /// `t`.
    pub const STREAM: EventClass = EventClass(1 << 10);
    /// `m`: not part of `A`.
    pub const MISSED: EventClass = EventClass(1 << 11);
    /// `n`: not part of `A`.
    pub const NEW: EventClass = EventClass(1 << 14);
}

/// An event of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// Its class.
    pub class: EventClass,
    /// Its name, such as `lpush`.
    pub name: &'static str,
    /// The database.
    pub db: usize,
    /// The key.
    pub key: Vec<u8>,
}

/// A key that clients have cached and that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// The key; clients' caches know no databases.
    pub key: Vec<u8>,
    /// Ids of the clients that have read it.
    pub clients: Vec<u64>,
    /// Clients that want to know of all keys, or of those with a prefix, are to be told too.
    pub broadcast: bool,
}

/// What others are to be told of.
#[derive(Debug, Default)]
pub struct News {
    /// Events of keys, in order.
    pub events: Vec<KeyEvent>,
    /// Keys to be dropped from clients' caches.
    pub invalidations: Vec<Invalidation>,
    /// A database was emptied: caches are to be emptied too.
    pub flushed: bool,
}

/// Effects of the command that runs now.
#[derive(Debug, Default)]
pub struct Effects {
    /// Somebody follows the journal; when not, nothing is recorded.
    pub recording: bool,
    /// Event classes that somebody wants; 0 when nobody does.
    pub wanted_events: u32,
    replaced: bool,
    commands: Vec<Vec<Vec<u8>>>,
    /// There is something in `news`.
    has_news: bool,
    news: News,
    expired: Vec<(usize, Vec<u8>)>,
    expired_fields: Vec<ExpiredField>,
}

/// A hash field that was deleted because its time had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredField {
    /// The database.
    pub db: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The field.
    pub field: Vec<u8>,
}

impl Effects {
    /// Records a command that stands for what was done; the request itself is then not recorded.
    /// The arguments are only built when somebody follows.
    pub fn replace<A: AsRef<[u8]>, I: IntoIterator<Item = A>>(&mut self, command: impl FnOnce() -> I) {
        if self.recording {
            self.replaced = true;
            self.commands.push(command().into_iter().map(|a| a.as_ref().to_vec()).collect());
        }
    }

    /// Says that the request had no effect worth recording, or that all of it was recorded by [`Effects::replace`].
    pub fn suppress(&mut self) {
        self.replaced = true;
    }

    /// Records the deletion of a key whose time had come, besides whatever the command itself did.
    pub fn expired(&mut self, db: usize, key: &[u8]) {
        if self.recording {
            self.expired.push((db, key.to_vec()));
        }
    }

    /// The keys deleted because they had expired, with their databases. Clears them.
    pub fn take_expired(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.expired)
    }

    /// Records the deletion of a hash field whose time had come, besides whatever the command itself did and before it.
    pub fn expired_field(&mut self, db: usize, key: &[u8], field: &[u8]) {
        if self.recording {
            self.expired_fields.push(ExpiredField { db, key: key.to_vec(), field: field.to_vec() });
        }
    }

    /// The hash fields deleted because they had expired, in order; HDEL has the same effect. Clears them.
    pub fn take_expired_fields(&mut self) -> Vec<ExpiredField> {
        std::mem::take(&mut self.expired_fields)
    }

    /// Notes an event of a key.
    #[inline]
    pub fn event(&mut self, class: EventClass, name: &'static str, db: usize, key: &[u8]) {
        if self.wanted_events & class.0 != 0 {
            self.has_news = true;
            self.news.events.push(KeyEvent { class, name, db, key: key.to_vec() });
        }
    }

    /// The recorded commands; `None` when the request itself is to be recorded. Clears them.
    pub fn take_commands(&mut self) -> Option<Vec<Vec<Vec<u8>>>> {
        let replaced = std::mem::take(&mut self.replaced);
        replaced.then(|| std::mem::take(&mut self.commands))
    }

    /// Notes a key that clients have cached and that has changed.
    pub(crate) fn invalidate(&mut self, invalidation: Invalidation) {
        self.has_news = true;
        self.news.invalidations.push(invalidation);
    }

    /// Notes that a database was emptied.
    pub(crate) fn flushed(&mut self) {
        self.has_news = true;
        self.news.flushed = true;
    }

    /// Whether there is something to tell.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// What there is to tell. Clears it.
    pub fn take_news(&mut self) -> News {
        self.has_news = false;
        std::mem::take(&mut self.news)
    }
}
