//! What a run sees of the keys: its database, expired keys, and how its accesses are noted.
//!
//! Invariant: the time up to which keys are due follows from the clock and from [`Expired`] together; no
//! other file sets either. The clock is no part of a view: it may advance while a view lasts.

use super::Keys;
use crate::touch::Touch;

/// A run's treatment of keys and fields whose time is over.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Expired {
    /// They are absent, and are deleted when a command meets them.
    Hide,
    /// They are absent, but stay (CLIENT PAUSE, a replica).
    Keep,
    /// They are present, as if their time had not come.
    See,
}

/// See the [module docs](self).
#[derive(Copy, Clone, Debug)]
pub struct View {
    /// The database that keys are looked up in.
    pub db: usize,
    /// What becomes of expired keys.
    pub expired: Expired,
    /// A time to live that is over is set all the same, and hides its key (`import-mode`).
    pub sets_past_times: bool,
    /// How accesses are noted.
    pub touch: Touch,
}

impl View {
    /// The same with expired keys present. Where they were to stay, a time that is over is still set: the
    /// deletion is another server's to decide.
    pub fn seeing_expired(self) -> View {
        let sets_past_times = self.sets_past_times || self.expired == Expired::Keep;
        View { expired: Expired::See, sets_past_times, ..self }
    }
}

impl Keys {
    /// What runs see at present.
    #[inline]
    pub fn view(&self) -> View {
        let (db, expired, sets_past_times, touch) = (self.db, self.expired, self.sets_past_times, self.touch);
        View { db, expired, sets_past_times, touch }
    }

    /// Sets what the runs that follow see; returns the view before.
    #[inline]
    pub fn set_view(&mut self, view: View) -> View {
        let before = self.view();
        let View { db, expired, sets_past_times, touch } = view;
        (self.db, self.expired, self.sets_past_times, self.touch) = (db, expired, sets_past_times, touch);
        self.set_time(self.now_ms);
        before
    }

    /// As [`Keys::set_view`] in the database that is selected.
    #[inline]
    pub fn set_view_here(&mut self, view: View) -> View {
        self.set_view(View { db: self.db, ..view })
    }

    /// Sets the time at which commands run, Unix milliseconds.
    #[inline]
    pub fn set_time(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.due_ms = if self.expired == Expired::See { i64::MIN } else { now_ms };
    }

    /// Keys whose time is this or earlier have expired: the time of the run, or before all times where
    /// expired keys are to be seen.
    #[inline]
    pub fn due_ms(&self) -> i64 {
        self.due_ms
    }

    /// Whether expired keys stay although no command sees them.
    #[inline]
    pub fn keeps_expired(&self) -> bool {
        self.expired == Expired::Keep
    }

    /// Whether a value that is to expire at this time is deleted at once instead: the time is over, and the
    /// deletion is this server's to decide.
    #[inline]
    pub fn deletes_at_once(&self, at_ms: i64) -> bool {
        at_ms <= self.now_ms && !self.keeps_expired() && !self.sets_past_times
    }
}
