//! One shard of the keyspace: tables from key to value, and the index of expiries.
//!
//! Everything here is single-threaded by type: a [`Shard`] is changed through `&mut` only; the engine's locks
//! decide which thread has it. Time comes in as `now_ms`. Nothing here knows commands or clients.

mod db;
mod due;
mod entry;
mod expiry;
mod module;
mod segment;
mod shard;
mod sizes;
mod table;
mod value;
mod version;
mod view;

pub use db::{Access, Db, DeletedLive, ExpiryChange, Key, ObjectMut, key_hash, shard_of};
pub use due::DueClock;
pub use module::{CloneObject, ModuleObject, ModuleValue, ValueIndex};
pub use shard::{SCAN_POSITION_BITS, Shard};
pub use sizes::{SIZE_BINS, Sizes};
pub use table::{ORDERS, Plan, order_at, position_at};
pub use value::{Collection, Facts, Kind, Object, ObjectRef, StrValue, Value, ValueRef};
pub use version::{
    VERSION_ARRAYS, VERSION_IDEMPOTENCY, VERSION_MODULES, VERSION_OLDEST, VERSION_PATH_HASHES,
    VERSION_REDIS_LAST, VERSION_RELEASED, VERSION_STREAMS, VERSION_TIMED, VERSION_TIMED_MEMBERS,
    VERSION_VALKEY,
};
pub use view::{Detached, Entry};

/// Bytes of an entry's place in its table, at the usual load.
pub const PLACE_BYTES: usize = 10;
