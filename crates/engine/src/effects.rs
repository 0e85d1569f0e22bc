//! A command's effects for its followers: canonical effects for the journal, key events for subscribers.
//!
//! A handler without a record has its request recorded as it came. One whose request is not deterministic, or
//! means something else when it is replayed later, records the commands that have the same effect (as Redis
//! propagates it: SPOP as SREM, EXPIRE as PEXPIREAT).

use martlet_journal::{Pending, encode, encode_request};
use martlet_protocol::request::Args;
use martlet_spec::EventClass;

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
    /// The fields that it is about; empty if no channel names them.
    pub subkeys: Vec<Vec<u8>>,
}

/// The cause of a change.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The command that runs.
    Command,
    /// The time of a key, or of fields in it, had come, whether a command found that or not.
    Expiry,
    /// The table of cached keys was full.
    Eviction,
}

/// A key that clients have cached and that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// The key; clients' caches know no databases.
    pub key: Vec<u8>,
    /// Ids of the clients that have read it.
    pub clients: Vec<u64>,
    /// Clients that track all keys, or those with a prefix, are to be notified too.
    pub broadcast: bool,
    /// The cause of the change.
    pub cause: Cause,
}

/// Changes to publish.
#[derive(Debug, Default)]
pub struct KeyChanges {
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
    /// The journal has a follower; without one, nothing is recorded.
    pub recording: bool,
    /// The commands of deletions that no request asked for.
    pub deletions: Deletions,
    /// Event classes with subscribers; 0 without any.
    pub wanted_events: u32,
    /// The request is not to be recorded: something else stands for it.
    replaced: bool,
    pending: Pending,
    /// There is something in `news` or in `warnings`.
    has_news: bool,
    news: KeyChanges,
    /// For the log, which is not written while keys are held.
    warnings: Vec<String>,
}

/// Most warnings that are kept until keys are released; the first of them.
const WARNINGS_KEPT: usize = 16;

/// The command of a deletion: followers free the value at once or in the background, by the settings here
/// (`lazyfree-lazy-…`). Here that is always done in the background.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    /// DEL.
    #[default]
    Del,
    /// UNLINK.
    Unlink,
}

impl Deletion {
    /// UNLINK if it is lazy.
    pub fn new(is_lazy: bool) -> Deletion {
        if is_lazy { Deletion::Unlink } else { Deletion::Del }
    }

    /// The command's name.
    pub fn command(self) -> &'static [u8] {
        match self {
            Deletion::Del => b"DEL",
            Deletion::Unlink => b"UNLINK",
        }
    }
}

/// The commands of deletions that no request asked for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletions {
    /// Of expired keys.
    pub expiry: Deletion,
    /// Of evicted keys.
    pub eviction: Deletion,
    /// Of keys that a command has removed by the way: nothing was left of them.
    pub removal: Deletion,
    /// A key that is given a time in the past counts as expired, as in Valkey, and not as deleted.
    pub past_times_expire: bool,
}

impl Effects {
    /// Records a command that stands for a change in this database; the request itself is then not recorded.
    /// The arguments are only built when there is a follower.
    pub fn replace<A: AsRef<[u8]>, I: IntoIterator<Item = A>>(
        &mut self,
        db: usize,
        command: impl FnOnce() -> I,
    ) {
        if self.recording {
            self.replaced = true;
            let args: Vec<A> = command().into_iter().collect();
            self.pending.push(db, |out| encode(out, args.iter().map(AsRef::as_ref)));
        }
    }

    /// Records the deletion of a key whose time had come, or that was evicted, besides whatever the command
    /// itself does.
    pub fn deleted_by_server(&mut self, db: usize, key: &[u8], deletion: Deletion) {
        if self.recording {
            self.pending.push_loose(db, |out| encode(out, [deletion.command(), key].into_iter()));
        }
    }

    /// Records that the server itself has deleted everything.
    pub fn flushed_by_server(&mut self) {
        self.commanded_by_server(0, &[b"FLUSHALL"]);
    }

    /// Records a command of the server itself in a database.
    pub fn commanded_by_server(&mut self, db: usize, command: &[&[u8]]) {
        if self.recording {
            self.pending.push_loose(db, |out| encode(out, command.iter().copied()));
        }
    }

    /// Records the removal of a part of a value whose time had come, by `command`, besides whatever the
    /// command itself does.
    pub fn expired_part(&mut self, db: usize, command: &[u8], key: &[u8], name: &[u8]) {
        if self.recording {
            self.pending.push_loose(db, |out| encode(out, [command, key, name].into_iter()));
        }
    }

    /// Ends a request: it is recorded itself if it has changed something and nothing stands for it.
    #[inline]
    pub fn request_ended(&mut self, db: usize, args: &Args<'_>, has_changed: bool) {
        if self.recording {
            if !std::mem::take(&mut self.replaced) && has_changed {
                self.pending.push(db, |out| encode_request(out, args));
            }
            self.pending.join();
        }
    }

    /// The pending records. They stay until [`Pending::clear`].
    #[inline]
    pub fn pending(&mut self) -> &mut Pending {
        &mut self.pending
    }

    /// Notes an event of a key.
    #[inline]
    pub fn event(&mut self, class: EventClass, name: &'static str, db: usize, key: &[u8]) {
        if self.wanted_events & class.0 != 0 {
            self.has_news = true;
            self.news.events.push(KeyEvent { class, name, db, key: key.to_vec(), subkeys: Vec::new() });
        }
    }

    /// Whether a subscriber wants the fields of an event of this class.
    #[inline]
    pub fn wants_subkeys(&self, class: EventClass) -> bool {
        self.wanted_events & class.0 != 0 && self.wanted_events & EventClass::OF_SUBKEYS.0 != 0
    }

    /// Records an event of fields of a key. They are only built when a subscriber wants them.
    #[inline]
    pub fn event_of_subkeys<S: Into<Vec<u8>>>(
        &mut self,
        class: EventClass,
        name: &'static str,
        db: usize,
        key: &[u8],
        subkeys: impl IntoIterator<Item = S>,
    ) {
        if self.wanted_events & class.0 == 0 {
            return;
        }
        let mut event = KeyEvent { class, name, db, key: key.to_vec(), subkeys: Vec::new() };
        if self.wants_subkeys(class) {
            event.subkeys = subkeys.into_iter().map(Into::into).collect();
        }
        self.has_news = true;
        self.news.events.push(event);
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

    /// Drops the records of a request that is given up.
    pub(crate) fn abandon(&mut self) {
        (self.replaced, self.has_news) = (false, false);
        self.news = KeyChanges::default();
        self.warnings.clear();
    }

    /// Drops recorded events: their changes are undone. Caches that were to drop a key still do.
    pub(crate) fn drop_events(&mut self) {
        self.news.events.clear();
    }

    /// Adds a warning for the log, written once the keys are released.
    pub fn warn(&mut self, text: String) {
        if self.warnings.len() < WARNINGS_KEPT {
            self.has_news = true;
            self.warnings.push(text);
        }
    }

    /// Takes the warnings for the log.
    pub fn take_warnings(&mut self) -> Vec<String> {
        self.has_news = false;
        std::mem::take(&mut self.warnings)
    }

    /// Whether there is something to tell.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Takes the changes to publish.
    pub fn take_news(&mut self) -> KeyChanges {
        self.has_news = !self.warnings.is_empty();
        std::mem::take(&mut self.news)
    }
}
