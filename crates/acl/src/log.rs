//! The log of refusals.
//!
//! Invariant: the newest entry comes first, and their number never exceeds the limit of the last addition.

use std::collections::VecDeque;

/// Entries that are looked at for one that a new event can be counted in.
const GROUPING_ENTRIES: usize = 10;
/// An event is counted in an entry that is not older than this.
const GROUPING_MAX_MS: i64 = 60_000;

/// Why something was refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A database.
    Database,
    /// A wrong name or password.
    Auth,
}

impl Reason {
    /// The name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Database => "database",
            Reason::Auth => "auth",
        }
    }
}

impl From<crate::Denial> for Reason {
    fn from(denial: crate::Denial) -> Reason {
        match denial {
            crate::Denial::Command => Reason::Command,
            crate::Denial::Key(_) => Reason::Key,
            crate::Denial::Channel(_) => Reason::Channel,
            crate::Denial::Database(_) => Reason::Database,
        }
    }
}

/// Where a request came from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The client.
    Toplevel,
    /// MULTI or EXEC.
    Multi,
    /// A script.
    Lua,
    /// A module.
    Module,
}

impl Origin {
    /// The name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Toplevel => "toplevel",
            Origin::Multi => "multi",
            Origin::Lua => "lua",
            Origin::Module => "module",
        }
    }
}

/// Something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Why.
    pub reason: Reason,
    /// Where it came from.
    pub origin: Origin,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The user.
    pub user: Vec<u8>,
    /// The client, as CLIENT LIST shows it.
    pub client: Vec<u8>,
}

/// Events of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The last of them.
    pub event: Event,
    /// How many there were.
    pub count: u64,
    /// Its number, from 0.
    pub id: u64,
    /// The first of them, Unix milliseconds.
    pub created_ms: i64,
    /// The last of them, Unix milliseconds.
    pub updated_ms: i64,
}

impl LogEntry {
    fn can_count(&self, event: &Event, now_ms: i64) -> bool {
        let Event { reason, origin, object, user, .. } = &self.event;
        (*reason, *origin) == (event.reason, event.origin)
            && (now_ms - self.updated_ms).abs() <= GROUPING_MAX_MS
            && (object, user) == (&event.object, &event.user)
    }
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub struct Log {
    entries: VecDeque<LogEntry>,
    next_id: u64,
}

impl Log {
    /// Counts an event in one of the newest entries, or adds an entry and drops those beyond `max_len`.
    pub fn add(&mut self, event: Event, max_len: usize, now_ms: i64) {
        if max_len == 0 {
            self.entries.clear();
            return;
        }
        let newest = self.entries.iter().take(GROUPING_ENTRIES);
        let known = newest.into_iter().position(|entry| entry.can_count(&event, now_ms));
        let entry = match known.and_then(|at| self.entries.remove(at)) {
            Some(entry) => LogEntry { event, count: entry.count + 1, updated_ms: now_ms, ..entry },
            None => {
                let id = self.next_id;
                self.next_id += 1;
                LogEntry { event, count: 1, id, created_ms: now_ms, updated_ms: now_ms }
            }
        };
        self.entries.push_front(entry);
        self.entries.truncate(max_len);
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The newest entries first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &LogEntry> {
        self.entries.iter()
    }
}
