//! Every limit of a Sentinel, units in the names.

/// Requests that wait for their reply on one link, above which no periodic request is sent.
pub const PENDING_REQUESTS_MAX: usize = 100;
/// Primaries that are monitored.
pub const PRIMARIES_MAX: usize = 10_000;
/// Replicas of one primary.
pub const REPLICAS_MAX: usize = 10_000;
/// Other Sentinels of one primary.
pub const SENTINELS_MAX: usize = 1_000;
/// Bytes of an INFO that are kept for SENTINEL INFO-CACHE.
pub const INFO_MAX_BYTES: usize = 1024 * 1024;
/// Bytes of a master's or a user's name, or of any other word in the configuration.
pub const WORD_MAX_BYTES: usize = 4096;

/// Scripts that wait or run.
pub const SCRIPTS_QUEUED_MAX: usize = 256;
/// Scripts that run.
pub const SCRIPTS_RUNNING_MAX: usize = 16;
/// Times that a script is run.
pub const SCRIPT_RUNS_MAX: u32 = 10;

/// Bytes that an instance may send before a reply is complete.
pub const LINK_INPUT_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes that wait to be sent to an instance.
pub const LINK_OUTPUT_MAX_BYTES: usize = 1024 * 1024;

/// Bytes of one argument of a request.
pub const REQUEST_BULK_MAX_BYTES: i64 = 1024 * 1024;
/// Arguments of a request.
pub const REQUEST_ARGUMENTS_MAX: i64 = 4096;
/// Bytes of a request that is not complete.
pub const CLIENT_INPUT_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that wait for a client; beyond them it is closed.
pub const CLIENT_OUTPUT_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Bytes that wait for a client above which its requests wait.
pub const CLIENT_OUTPUT_PAUSE_BYTES: usize = 1024 * 1024;
/// Channels and patterns of one client.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;
/// Clients, unless the configuration says otherwise.
pub const CLIENTS_MAX: usize = 10_000;
/// Milliseconds that a client's handshake of TLS may take.
pub const HANDSHAKE_MAX_MS: i64 = 10_000;
