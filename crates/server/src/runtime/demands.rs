//! Whether a request may run in the state that the server is in: its memory, its disk, its role, its
//! replicas.
//!
//! Invariant: the question is asked here only. A caller says what the request demands and in which order the
//! reasons count for it; the reason comes back, in the words that Redis has for the caller.

use std::sync::atomic::Ordering;

use martlet_command::{Control, Error, Flags, NO_REPLICAS};
use martlet_script::ScriptFlags;

use super::Worker;
use super::request_flags::{all_have, any_has, executed, is_from_primary};
use crate::connection::Connection;
use crate::refusal::Refusal;
use crate::registry::Entry;
use crate::slow_path::SlowPathReason;

use Refusal::{AofFailed, FewReplicas, OutOfMemory, ReadOnlyReplica, SaveFailed, Stale};

/// The reasons that count for a write by itself, in Redis' order.
pub(crate) const OF_WRITE: &[Refusal] = &[OutOfMemory, SaveFailed, AofFailed, FewReplicas, ReadOnlyReplica];
/// The reason that counts for reads, too.
pub(crate) const OF_STALE: &[Refusal] = &[Stale];
/// The reasons that count for a script's call, in Redis' order.
pub(crate) const OF_CALL: &[Refusal] = &[ReadOnlyReplica, SaveFailed, AofFailed, FewReplicas, OutOfMemory];

/// What a request needs.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Demands {
    /// More memory.
    pub memory: bool,
    /// A disk that takes what it writes.
    pub disk: bool,
    /// Enough replicas.
    pub replicas: bool,
    /// A server that clients may write to.
    pub primary: bool,
    /// Data that is not stale.
    pub link: bool,
}

impl Demands {
    /// Those of a command by its flags, for a client that is not the primary.
    pub(crate) fn of_flags(flags: Flags) -> Demands {
        let writes = flags.has(Flags::WRITE);
        Demands {
            memory: flags.has(Flags::DENYOOM),
            disk: writes,
            replicas: writes,
            primary: writes,
            link: !flags.has(Flags::STALE),
        }
    }

    /// Those of a script or function by the flags of its first line or its library.
    pub(crate) fn of_script(flags: ScriptFlags, is_from_primary: bool) -> Demands {
        let writes = !flags.has(ScriptFlags::NO_WRITES);
        Demands {
            memory: writes && !flags.has(ScriptFlags::ALLOW_OOM),
            disk: writes,
            replicas: writes,
            primary: writes && !is_from_primary,
            link: !flags.has(ScriptFlags::ALLOW_STALE),
        }
    }

    /// Those of a client's request; EXEC's are also those of all that it executes.
    /// A node of a cluster, which may be a replica, has another one change its indexes.
    pub(crate) fn of_request(connection: &Connection, entry: &Entry, is_node: bool) -> Demands {
        let own = Demands::of_flags(entry.spec.flags);
        let queue = executed(connection, entry);
        let writes = queue.is_some_and(|queue| queue.writes);
        Demands {
            memory: own.memory || queue.is_some_and(|queue| queue.grows),
            disk: own.disk || writes || entry.spec.flags.has(Flags::NEEDS_DISK),
            replicas: own.replicas || writes,
            primary: any_has(connection, entry, Flags::WRITE)
                && !is_from_primary(connection)
                && !(is_node && entry.spec.control == Control::ChangeIndexes),
            link: !all_have(connection, entry, Flags::STALE),
        }
    }
}

/// The first of these reasons for which a request may not run.
pub(crate) fn refusal(worker: &Worker, demands: Demands, reasons: &[Refusal]) -> Option<Refusal> {
    let (shared, config) = (worker.shared, worker.config());
    let is_replica = || config.replicaof.0.is_some();
    reasons.iter().copied().find(|reason| match reason {
        // The same transaction may have lifted the limit.
        OutOfMemory => {
            demands.memory
                && shared.slow_path_reasons.has(SlowPathReason::MemoryFull)
                && config.maxmemory_bytes > 0
        }
        SaveFailed => demands.disk && shared.persistence.refuses_writes.load(Ordering::Relaxed),
        AofFailed => demands.disk && shared.persistence.log.refuses_writes.load(Ordering::Relaxed),
        FewReplicas => demands.replicas && shared.slow_path_reasons.has(SlowPathReason::FewReplicas),
        ReadOnlyReplica => demands.primary && is_replica() && config.replica_read_only,
        Stale => demands.link && is_replica() && !config.replica_serve_stale_data && !shared.is_linked(),
    })
}

impl Refusal {
    /// The answer to a command.
    pub(crate) fn of_command(self, worker: &Worker) -> Error {
        Error::Fixed(match self {
            OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            SaveFailed => {
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error."
            }
            AofFailed => return Error::Text(worker.shared.persistence.log.refusal()),
            FewReplicas => NO_REPLICAS,
            ReadOnlyReplica => "READONLY You can't write against a read only replica.",
            Stale => "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        })
    }

    /// The answer to a command that a script calls.
    pub(crate) fn of_call(self, worker: &Worker) -> Error {
        match self {
            Stale => Error::Fixed("ERR Can not execute the command on a stale replica"),
            _ => self.of_command(worker),
        }
    }

    /// The answer to a script or function with flags that is to run within a transaction.
    pub(crate) fn of_script(self, worker: &Worker) -> Error {
        Error::Fixed(match self {
            OutOfMemory => {
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
            }
            SaveFailed => {
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Writable scripts are blocked. Use 'no-writes' flag for read only scripts."
            }
            AofFailed => {
                let refusal = worker.shared.persistence.log.refusal();
                let reason = refusal.rsplit(": ").next().unwrap_or_default();
                return Error::Text(format!(
                    "MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. Writable scripts are blocked. Use 'no-writes' flag for read only scripts. AOF error: {reason}"
                ));
            }
            FewReplicas => NO_REPLICAS,
            ReadOnlyReplica => "READONLY Can not run script with write flag on readonly replica",
            Stale => {
                "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set on the script."
            }
        })
    }
}
