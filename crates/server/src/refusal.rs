//! The reasons for which the state of the server keeps a request from running.

/// Why a request may not run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Memory is above `maxmemory`.
    OutOfMemory,
    /// The last save in the background has failed: further writes might be lost.
    SaveFailed,
    /// The disk does not take the append-only file.
    AofFailed,
    /// Fewer replicas follow than `min-replicas-to-write` asks for.
    FewReplicas,
    /// The server is a replica that only its primary writes to.
    ReadOnlyReplica,
    /// The server is a replica without a link to its primary, and does not serve stale data.
    Stale,
}
