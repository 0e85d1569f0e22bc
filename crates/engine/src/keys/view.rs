//! What a run sees of the keys: its database, its time, expired keys, and how its accesses are noted.
//!
//! Invariant: a view is set whole, and the time up to which keys are due follows from it alone. Code that
//! needs another view for a while opens it by [`in_view`], which puts the outer one back.

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
    /// The time of the run, Unix milliseconds. 0 is before every key's time: nothing is due.
    pub now_ms: i64,
    /// What becomes of expired keys.
    pub expired: Expired,
    /// A time to live that is over is set all the same, and hides its key (`import-mode`).
    pub sets_past_times: bool,
    /// How accesses are noted.
    pub touch: Touch,
}

impl Default for View {
    /// Database 0 at time 0; accesses are not noted.
    fn default() -> View {
        View { db: 0, now_ms: 0, expired: Expired::Hide, sets_past_times: false, touch: Touch::Nothing }
    }
}

impl View {
    /// The same with expired keys present. Where they were to stay, a time that is over is still set: the
    /// deletion is another server's to decide.
    pub fn seeing_expired(self) -> View {
        let sets_past_times = self.sets_past_times || self.expired == Expired::Keep;
        View { expired: Expired::See, sets_past_times, ..self }
    }
}

/// Runs `work` on the owner of keys with this view of them, and puts the outer view back.
#[inline]
pub fn in_view<H: AsMut<Keys> + ?Sized, R>(holder: &mut H, view: View, work: impl FnOnce(&mut H) -> R) -> R {
    let keys = holder.as_mut();
    let outer = keys.view();
    keys.see(view);
    let result = work(holder);
    holder.as_mut().see(outer);
    result
}

impl AsMut<Keys> for Keys {
    fn as_mut(&mut self) -> &mut Keys {
        self
    }
}

impl Keys {
    /// The view of the run, or of the innermost [`in_view`].
    #[inline]
    pub fn view(&self) -> View {
        self.view
    }

    /// Sets the view of all that follows: for `martlet_command::run`, and for owners of keys that have one
    /// view for good (a loading thread, a test). All others open it by [`in_view`].
    #[inline]
    pub fn see(&mut self, view: View) {
        self.view = view;
        self.due_ms = if view.expired == Expired::See { i64::MIN } else { view.now_ms };
    }

    /// See [`View::db`].
    #[inline]
    pub fn db(&self) -> usize {
        self.view.db
    }

    /// See [`View::now_ms`].
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.view.now_ms
    }

    /// See [`View::touch`].
    #[inline]
    pub fn touch(&self) -> Touch {
        self.view.touch
    }

    /// Runs `work` with another database selected.
    pub fn in_db<R>(&mut self, db: usize, work: impl FnOnce(&mut Self) -> R) -> R {
        in_view(self, View { db, ..self.view() }, work)
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
        self.view.expired == Expired::Keep
    }

    /// Whether a value that is to expire at this time is deleted at once instead: the time is over, and the
    /// deletion is this server's to decide.
    #[inline]
    pub fn deletes_at_once(&self, at_ms: i64) -> bool {
        at_ms <= self.view.now_ms && !self.keeps_expired() && !self.view.sets_past_times
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;
    use martlet_keyspace::{ExpiryChange, Key};

    use super::*;
    use crate::engine::Engine;

    /// The view inside is the one that was passed, whatever was set in it; the outer one is back afterwards,
    /// and so is what is due by it.
    #[test]
    fn a_view_ends_with_its_work() {
        let mut keys = Keys::new(Box::leak(Box::new(Engine::new(1).unwrap())), 0, Random::seeded(1));
        let outer = View { db: 2, now_ms: 1_000, ..View::default() };
        keys.see(outer);
        let key = Key::new(b"k");
        keys.lock_shard(key.shard());
        keys.set_str(&key, b"v", ExpiryChange::At(900));
        let seen = in_view(&mut keys, outer.seeing_expired(), |keys| {
            assert!(keys.in_db(0, |keys| keys.get(&key).is_none() && keys.due_ms() == i64::MIN));
            keys.see(View { db: 7, now_ms: 0, expired: Expired::Keep, ..keys.view() });
            in_view(keys, outer.seeing_expired(), |keys| (keys.db(), keys.get(&key).is_some()))
        });
        assert_eq!(seen, (2, true));
        assert_eq!((keys.db(), keys.now_ms(), keys.due_ms(), keys.keeps_expired()), (2, 1_000, 1_000, false));
        assert!(in_view(&mut keys, View { now_ms: 899, ..outer }, |keys| keys.get(&key).is_some()));
        assert!(keys.lookup(&key).is_none(), "it is due in the outer view, and deleted");
        assert!(in_view(&mut keys, outer.seeing_expired(), |keys| keys.get(&key).is_none()));
        keys.release();
    }
}
