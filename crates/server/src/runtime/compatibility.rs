//! `cluster_incompatible_ops`: requests that a cluster could not run are counted outside of one, a share of
//! them, as `cluster-compatibility-sample-ratio` says.
//!
//! Handlers count what they do beyond the first database, and SORT's patterns; here is what concerns the keys
//! of requests, transactions and scripts.
//!
//! Invariant: nothing is looked at while the ratio is 0, or in a cluster: there is no
//! [`SlowPathReason::Compatibility`] then. What counts was found by the same requests beside Redis 8.6.2.

use martlet_base::slot::slot_of;
use martlet_protocol::request::Args;

use super::Worker;
use super::request_flags::executed;
use crate::connection::Connection;
use crate::registry::Entry;
use crate::slow_path::SlowPathReason;

/// The slots of some keys.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slots {
    /// There is no key.
    #[default]
    None,
    /// All are of this one.
    One(u16),
    /// They are of several.
    Several,
}

impl Slots {
    /// Those of a request; a request whose arguments do not fit has no keys.
    pub(crate) fn of(entry: &Entry, args: &Args<'_>) -> Slots {
        let mut indexes = Vec::new();
        let fits = entry.spec.key_indexes(args, &mut indexes);
        let keys = indexes.into_iter().filter(|_| fits).map(|index| args.at(index));
        keys.fold(Slots::None, |slots, key| slots.and(Slots::One(slot_of(key))))
    }

    /// Those of these keys and others.
    pub(crate) fn and(self, others: Slots) -> Slots {
        match (self, others) {
            (Slots::None, slots) | (slots, Slots::None) => slots,
            (Slots::One(one), Slots::One(other)) if one == other => self,
            _ => Slots::Several,
        }
    }
}

/// A script's keys, while its calls are looked at.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptKeys {
    /// They are not looked at, or not any more: the script has been counted.
    Unchecked,
    /// So far.
    Checked(Slots),
}

impl ScriptKeys {
    /// Takes up a call's keys; whether the script is counted for it. A script that may reach several slots is
    /// counted for a call that does so by itself.
    fn add(&mut self, call: Slots, may_cross_slots: bool) -> bool {
        let ScriptKeys::Checked(slots) = *self else { return false };
        let all = if may_cross_slots { call } else { slots.and(call) };
        if all == Slots::Several {
            *self = ScriptKeys::Unchecked;
            return true;
        }
        if !may_cross_slots {
            *self = ScriptKeys::Checked(all);
        }
        false
    }
}

impl Worker {
    /// Whether requests are looked at.
    #[inline]
    pub(crate) fn checks_compatibility(&self) -> bool {
        self.shared.slow_path_reasons.has(SlowPathReason::Compatibility)
    }

    /// Counts an operation that a cluster could not run, if it is one of the sample.
    pub(crate) fn count_incompatible(&mut self) {
        if self.settings.samples_compatibility(&mut self.keys.random) {
            self.keys.counters().incompatible.add(1);
        }
    }

    /// Counts a request whose keys are of several slots, when it is about to run or to be queued.
    #[cold]
    pub(super) fn note_compatibility(&mut self, connection: &Connection, entry: &Entry, args: &Args<'_>) {
        let slots = match executed(connection, entry) {
            None => Slots::of(entry, args),
            Some(transaction) if transaction.aborted => Slots::None,
            Some(transaction) => {
                let queue = transaction.queue.iter();
                queue.fold(Slots::None, |slots, (entry, args)| slots.and(Slots::of(entry, &args)))
            }
        };
        if slots == Slots::Several {
            self.count_incompatible();
        }
    }

    /// How the keys of a script begin that this request runs, and that has these.
    pub(crate) fn script_keys(&self, request: &Args<'_>) -> ScriptKeys {
        match self.shared.registry.resolve(request) {
            Some(entry) if self.checks_compatibility() => match Slots::of(entry, request) {
                // The request has been counted.
                Slots::Several => ScriptKeys::Unchecked,
                slots => ScriptKeys::Checked(slots),
            },
            _ => ScriptKeys::Unchecked,
        }
    }

    /// Counts a script for the keys of a call.
    #[cold]
    pub(crate) fn note_script_call(
        &mut self,
        keys: &mut ScriptKeys,
        may_cross_slots: bool,
        entry: &Entry,
        args: &Args<'_>,
    ) {
        if keys.add(Slots::of(entry, args), may_cross_slots) {
            self.count_incompatible();
        }
    }

    /// Counts a script that says that it does not run in a cluster.
    pub(crate) fn note_no_cluster(&mut self) {
        if self.checks_compatibility() {
            self.count_incompatible();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_counted_once_and_for_what_it_may_not_do() {
        let (a, b) = (Slots::One(1), Slots::One(2));
        for (may_cross, begins, calls, counted) in [
            (false, Slots::None, &[a, Slots::None, a][..], 0),
            (false, Slots::None, &[a, b, a], 1),
            (false, a, &[b], 1),
            (true, a, &[b, a], 0),
            (true, a, &[b, Slots::Several, Slots::Several], 1),
        ] {
            let mut keys = ScriptKeys::Checked(begins);
            let count = calls.iter().filter(|call| keys.add(**call, may_cross)).count();
            assert_eq!(count, counted, "{may_cross} {begins:?} {calls:?}");
        }
        assert!(!ScriptKeys::Unchecked.add(Slots::Several, false));
    }
}
