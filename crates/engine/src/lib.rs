//! Access to keys: shard locks and the gate, and the view of the keyspace that command handlers get.
//!
//! Two levels, nothing else. A command locks the shards of its keys in ascending order, runs, unlocks. A
//! command that needs the whole store closes the [`Gate`], waits until every thread is out, and runs alone.
//! No handler runs outside both.

mod counters;
mod effects;
mod engine;
mod evict;
mod follow;
mod hidden;
mod hooks;
mod key_counts;
mod keys;
mod lazyfree;
mod names;
mod shards;
mod snapshot;
mod touch;
mod undo;
mod walk;

pub use martlet_base::sync::{Alone, Beside, Gate, Outside};
pub use martlet_spec::EventClass;

pub use counters::{ChangeMark, Counter, Counters};
pub use effects::{Cause, Deletion, Deletions, Effects, Invalidation, KeyChanges, KeyEvent};
pub use engine::{Engine, ShardState, TrackingTotals};
pub use evict::{EvictFirst, EvictionPolicy, Evictor};
pub use follow::Follower;
pub use hidden::HiddenSlots;
pub use hooks::{Awaited, Hooks, ReadyKey, ReadyKeys, Waiter, WatchFlag};
pub use keys::moment::Contended;
pub use keys::names::NameCut;
pub use keys::slots::SlotPlace;
pub use keys::{Expired, Keys, ShardBusy, TimedParts, View, WrongType, in_view};
pub use lazyfree::LazyFree;
pub use names::NamedKey;
pub use snapshot::{HeldBytes, SavedKey, SavedKeys, SavedValue, Snapshot};
pub use touch::{Lrfu, Touch};
pub use walk::Walk;
