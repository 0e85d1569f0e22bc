//! Why requests leave the shortest path: a set of named reasons that all threads share, and the flags of a
//! session that do the same for one client.
//!
//! Invariant: a reason is in the set while it has a holder. Where the set is empty, and a session has no
//! flag, a plain command needs no other check: one load and one comparison show it.
use martlet_base::sync::lock;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// What requires checks of every request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SlowPathReason {
    /// The server ends.
    Stopping,
    /// Data is being loaded: most commands are refused.
    Loading,
    /// CLIENT PAUSE.
    Paused,
    /// A client MONITORs; each is a holder.
    Monitored,
    /// Memory in use is above `maxmemory`, and nothing can be evicted: commands that may grow it are refused.
    MemoryFull,
    /// A script has run for longer than `busy-reply-threshold`.
    ScriptBusy,
    /// The disk is behind: writes wait.
    JournalFull,
    /// The disk refuses the append-only file: writes are refused.
    LogRefused,
    /// The last save in the background failed: writes are refused.
    SaveFailed,
    /// Keys are on their way to another server; each MIGRATE is a holder.
    Migrating,
    /// Fewer replicas follow than `min-replicas-to-write`: writes are refused.
    FewReplicas,
    /// HOTKEYS counts what commands cost their keys.
    HotKeys,
    /// The server is a replica: writes are refused.
    Replica,
    /// `import-mode`: readers do not delete expired keys.
    Importing,
    /// The server is a node of a cluster: keys may be other nodes'.
    Cluster,
    /// Requests are looked at for whether a cluster could run them (`cluster-compatibility-sample-ratio`).
    Compatibility,
}

impl SlowPathReason {
    const COUNT: usize = SlowPathReason::Compatibility as usize + 1;

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The reasons that there are.
#[derive(Debug, Default)]
pub struct SlowPathReasons {
    bits: AtomicU32,
    /// Number of holders of each. Nothing else is locked while this is.
    holders: Mutex<[u32; SlowPathReason::COUNT]>,
}

impl SlowPathReasons {
    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bits.load(Ordering::Relaxed) == 0
    }

    /// Whether there is this one and no other.
    pub fn is_only(&self, reason: SlowPathReason) -> bool {
        self.bits.load(Ordering::Acquire) == reason.bit()
    }

    /// Whether a reason has a holder.
    #[inline]
    pub fn has(&self, reason: SlowPathReason) -> bool {
        self.bits.load(Ordering::Acquire) & reason.bit() != 0
    }

    /// One more holds the reason.
    pub fn hold(&self, reason: SlowPathReason) {
        let mut holders = lock(&self.holders);
        holders[reason as usize] += 1;
        self.bits.fetch_or(reason.bit(), Ordering::SeqCst);
    }

    /// Removes a holder of the reason.
    pub fn release(&self, reason: SlowPathReason) {
        let mut holders = lock(&self.holders);
        let left = &mut holders[reason as usize];
        debug_assert!(*left > 0, "{reason:?} is not held");
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.bits.fetch_and(!reason.bit(), Ordering::SeqCst);
        }
    }

    /// Holds or releases the reason.
    pub fn set(&self, reason: SlowPathReason, is_held: bool) {
        if is_held { self.hold(reason) } else { self.release(reason) }
    }

    /// Holds the one reason that has one holder at most, or releases it; whether that changed anything.
    pub fn switch(&self, reason: SlowPathReason, is_on: bool) -> bool {
        if self.has(reason) == is_on {
            return false;
        }
        let mut holders = lock(&self.holders);
        let changes = holders[reason as usize] != u32::from(is_on);
        holders[reason as usize] = u32::from(is_on);
        if is_on {
            self.bits.fetch_or(reason.bit(), Ordering::SeqCst);
        } else {
            self.bits.fetch_and(!reason.bit(), Ordering::SeqCst);
        }
        changes
    }
}

/// A client's settings, or missing steps, that require checks of each of its requests.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFlags(u32);

impl SessionFlags {
    /// Must authenticate first.
    pub const UNAUTHENTICATED: SessionFlags = SessionFlags(1);
    /// Inside MULTI.
    pub const MULTI: SessionFlags = SessionFlags(1 << 1);
    /// CLIENT REPLY OFF or SKIP.
    pub const REPLY_MODE: SessionFlags = SessionFlags(1 << 2);
    /// MONITORs or is a replica, and may do nothing else.
    pub const MONITOR: SessionFlags = SessionFlags(1 << 3);
    /// CLIENT NO-TOUCH.
    pub const NO_TOUCH: SessionFlags = SessionFlags(1 << 4);
    /// Has subscriptions, which in RESP2 leaves it few commands.
    pub const SUBSCRIBED: SessionFlags = SessionFlags(1 << 5);
    /// CLIENT TRACKING.
    pub const TRACKING: SessionFlags = SessionFlags(1 << 6);
    /// The user may not do everything.
    pub const RESTRICTED: SessionFlags = SessionFlags(1 << 7);
    /// ASKING, which holds for the next request.
    pub const ASKING: SessionFlags = SessionFlags(1 << 8);
    /// READONLY.
    pub const READS_REPLICA: SessionFlags = SessionFlags(1 << 9);
    /// CLIENT IMPORT-SOURCE.
    pub const IMPORT_SOURCE: SessionFlags = SessionFlags(1 << 10);
    /// Brings slots of another node (CLUSTER SYNCSLOTS).
    pub const IMPORTS_SLOTS: SessionFlags = SessionFlags(1 << 11);
    /// Some replies are not sent as they are.
    pub const FILTERS_REPLIES: SessionFlags = SessionFlags(Self::REPLY_MODE.0 | Self::IMPORTS_SLOTS.0);
    /// May get messages because of its own requests.
    pub const GETS_MAIL: SessionFlags = SessionFlags(Self::SUBSCRIBED.0 | Self::TRACKING.0);

    /// Whether one of these flags is set.
    #[inline]
    pub fn has(self, any: SessionFlags) -> bool {
        self.0 & any.0 != 0
    }

    /// Whether no flag is set, but perhaps these.
    #[inline]
    pub fn is_empty_but_for(self, these: SessionFlags) -> bool {
        self.0 & !these.0 == 0
    }

    /// Sets or clears flags.
    pub fn set(&mut self, flags: SessionFlags, is_set: bool) {
        if is_set { self.0 |= flags.0 } else { self.0 &= !flags.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stays_as_long_as_somebody_holds_it() {
        let reasons = SlowPathReasons::default();
        reasons.hold(SlowPathReason::Monitored);
        reasons.hold(SlowPathReason::Monitored);
        reasons.hold(SlowPathReason::Loading);
        reasons.release(SlowPathReason::Monitored);
        assert!(reasons.has(SlowPathReason::Monitored) && !reasons.has(SlowPathReason::Paused));
        reasons.release(SlowPathReason::Monitored);
        assert!(!reasons.has(SlowPathReason::Monitored) && !reasons.is_empty());
        reasons.release(SlowPathReason::Loading);
        assert!(reasons.is_empty());
    }

    #[test]
    fn a_switch_says_whether_it_changed_anything() {
        let reasons = SlowPathReasons::default();
        let switch = |is_on| reasons.switch(SlowPathReason::MemoryFull, is_on);
        assert_eq!([switch(false), switch(true), switch(true), switch(false)], [false, true, false, true]);
        assert!(reasons.is_empty());
    }

    #[test]
    fn holders_on_several_threads_leave_nothing_behind() {
        let reasons = SlowPathReasons::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        reasons.hold(SlowPathReason::Migrating);
                        assert!(reasons.has(SlowPathReason::Migrating));
                        reasons.release(SlowPathReason::Migrating);
                    }
                });
            }
        });
        assert!(reasons.is_empty());
    }
}
