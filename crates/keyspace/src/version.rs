//! Versions of the RDB format, as far as they decide which values a file can hold.

/// The oldest that is written: Redis 2.6's.
pub const VERSION_OLDEST: u16 = 6;
/// The first with values of modules that a reader can pass over: Redis 4.0's.
pub const VERSION_MODULES: u16 = 8;
/// The first with streams: Redis 5.0's.
pub const VERSION_STREAMS: u16 = 9;
/// The first with fields that expire: Redis 7.4's.
pub const VERSION_TIMED: u16 = 12;
/// The first with idempotency records of streams: Redis 8.6's.
pub const VERSION_IDEMPOTENCY: u16 = 13;
/// The first with arrays: Redis 8.8's.
pub const VERSION_ARRAYS: u16 = 14;
/// The first with entries of streams that are pending without a consumer: Redis 8.8's.
pub const VERSION_RELEASED: u16 = 14;
/// The first with members of sets that expire: Redis 8.12's.
pub const VERSION_TIMED_MEMBERS: u16 = 17;
/// The last number of Redis' versions: Valkey's are above (`RDB_FOREIGN_VERSION_MAX`).
pub const VERSION_REDIS_LAST: u16 = 79;
/// Of Valkey 9, which reads none from [`VERSION_TIMED`] on but this.
pub const VERSION_VALKEY: u16 = 80;
/// The first with path hashes: Valkey 9.2's.
pub const VERSION_PATH_HASHES: u16 = 81;
