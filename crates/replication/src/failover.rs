//! A failover requested by the user (FAILOVER): writes wait, a replica catches up, and the two change roles.
//!
//! ```text
//! None ── FAILOVER ──▶ WaitForSync ── the target has all ──▶ InProgress ── PSYNC … FAILOVER is answered ──▶ None
//!                          └── time is up: abort, or continue by force └── refused, or ABORT: a primary again
//! ```
//!
//! Invariant: writes wait from FAILOVER's answer until the state is `None` again, so that the target has
//! every acknowledged write, unless force was requested.

/// How far a failover is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// No failover is under way.
    #[default]
    None,
    /// A replica catches up.
    WaitForSync,
    /// The target is asked to take over.
    InProgress,
}

impl State {
    /// As INFO names it.
    pub fn name(self) -> &'static str {
        match self {
            State::None => "no-failover",
            State::WaitForSync => "waiting-for-sync",
            State::InProgress => "failover-in-progress",
        }
    }
}

/// The request; `T` identifies a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<T> {
    /// The replica that is to take over; if absent, the first that has everything.
    pub target: Option<T>,
    /// Until when it may take to catch up, Unix milliseconds.
    pub until_ms: Option<i64>,
    /// It takes over then even so.
    pub force: bool,
}

impl<T> Default for Request<T> {
    fn default() -> Request<T> {
        Request { target: None, until_ms: None, force: false }
    }
}

/// The next step of a failover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// No failover is under way, or the target has been asked.
    Nothing,
    /// It ends: no replica caught up in time.
    Abort,
    /// The target takes over although it may lack something.
    Force(T),
    /// The first replica that has everything and is [`Failover::accepts`]ed takes over.
    Await,
}

/// See the [module docs](self). One per server.
#[derive(Clone, Debug)]
pub struct Failover<T> {
    state: State,
    request: Request<T>,
}

impl<T> Default for Failover<T> {
    fn default() -> Failover<T> {
        Failover { state: State::None, request: Request::default() }
    }
}

impl<T: Clone> Failover<T> {
    /// How far it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// Begins one; whether there was none.
    pub fn begin(&mut self, request: Request<T>) -> bool {
        let begins = self.state == State::None;
        if begins {
            *self = Failover { state: State::WaitForSync, request };
        }
        begins
    }

    /// The step that is due at this time.
    pub fn step(&self, now_ms: i64) -> Step<T> {
        let is_late = self.request.until_ms.is_some_and(|until_ms| until_ms <= now_ms);
        match (self.state, &self.request.target) {
            (State::None | State::InProgress, _) => Step::Nothing,
            (State::WaitForSync, _) if !is_late => Step::Await,
            (State::WaitForSync, Some(target)) if self.request.force => Step::Force(target.clone()),
            (State::WaitForSync, _) => Step::Abort,
        }
    }

    /// Whether this replica may take over: it was named (`is_it`), or no replica was.
    pub fn accepts(&self, is_it: impl FnOnce(&T) -> bool) -> bool {
        self.request.target.as_ref().is_none_or(is_it)
    }

    /// The target is asked from now on; false unless one catches up.
    pub fn proceed(&mut self, target: T) -> bool {
        let proceeds = self.state == State::WaitForSync;
        if proceeds {
            self.state = State::InProgress;
            self.request.target = Some(target);
        }
        proceeds
    }

    /// Ends the failover; returns how far it was, and its request.
    pub fn end(&mut self) -> (State, Request<T>) {
        let Failover { state, request } = std::mem::take(self);
        (state, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(target: Option<u8>, force: bool) -> Failover<u8> {
        let mut failover = Failover::default();
        assert_eq!(failover.step(0), Step::Nothing);
        assert!(failover.begin(Request { target, until_ms: Some(100), force }));
        failover
    }

    #[test]
    fn a_replica_catches_up_and_is_asked_once() {
        let mut failover = begun(None, false);
        assert!(!failover.begin(Request::default()), "one at a time");
        assert!(failover.step(99) == Step::Await && failover.accepts(|_| false));
        assert!(failover.proceed(7) && !failover.proceed(8));
        assert_eq!((failover.state(), failover.step(1_000)), (State::InProgress, Step::Nothing));
        let (state, request) = failover.end();
        assert_eq!((state, request.target), (State::InProgress, Some(7)));
        assert_eq!((failover.end().0, failover.proceed(7)), (State::None, false));
    }

    #[test]
    fn who_is_late_takes_over_by_force_only() {
        assert_eq!(begun(Some(7), false).step(100), Step::Abort);
        assert_eq!(begun(Some(7), true).step(100), Step::Force(7));
        assert_eq!(begun(None, true).step(100), Step::Abort);
        let failover = begun(Some(7), true);
        assert!(failover.accepts(|target| *target == 7) && !failover.accepts(|target| *target == 8));
    }
}
