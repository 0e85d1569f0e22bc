//! Fixed limits with units in their names; limits that a user may change are in the configuration instead.

/// A bulk string of at least this many bytes is sent from where it is stored, instead of being copied while
/// its shard is locked: below that the copy costs less than further system calls.
pub const SHARED_REPLY_MIN_BYTES: usize = 64 * 1024;
/// Shards of the keyspace. A power of two.
pub const SHARD_COUNT: usize = 1024;
/// Bits of a key's hash that choose its shard.
pub const SHARD_BITS: u32 = SHARD_COUNT.trailing_zeros();
/// Longest string value or key, as Redis' `proto-max-bulk-len` default.
pub const STRING_MAX_BYTES: usize = 512 * 1024 * 1024;
/// Longest string that may become a value, a key or an element, whatever `proto-max-bulk-len` and a file say:
/// elements' lengths, and an argument's place in its request, are 32 bits wide.
pub const ELEMENT_MAX_BYTES: u64 = u32::MAX as u64 - (1 << 24);
/// A string up to this length lives in its entry's allocation; a longer one has its own, shared by reference
/// count.
pub const STRING_INLINE_MAX_BYTES: usize = 1024;
/// An argument of this length that arrives in parts is received into a separate buffer, which becomes the
/// stored value.
pub const LONG_ARGUMENT_MIN_BYTES: usize = 128 * 1024;
/// Longest string for which OBJECT ENCODING answers `embstr` (Redis: `OBJ_ENCODING_EMBSTR_SIZE_LIMIT`).
pub const EMBSTR_MAX_BYTES: usize = 44;
/// Longest inline request (Redis: `PROTO_INLINE_MAX_SIZE`).
pub const INLINE_MAX_BYTES: usize = 64 * 1024;
/// Most arguments, and longest argument, of a client that has not authenticated yet.
pub const UNAUTHENTICATED_ARGUMENTS_MAX: i64 = 10;
/// See [`UNAUTHENTICATED_ARGUMENTS_MAX`].
pub const UNAUTHENTICATED_BULK_MAX_BYTES: i64 = 16 * 1024;
/// Requests of one connection run in one slice before others get their turn.
pub const SLICE_REQUESTS: usize = 1024;
/// A slice also ends once its requests have run for this long, in nanoseconds: others' replies wait for the
/// slice of each connection that sends without end, whatever its commands cost.
pub const SLICE_NS: u64 = 500_000;
/// Requests parsed ahead so that their keys' cache misses overlap.
pub const BATCH_REQUESTS: usize = 32;

/// Most bytes of log lines that wait for the log's file; later ones are counted instead.
pub const LOG_WAITING_MAX_BYTES: usize = 4 * 1024 * 1024;
