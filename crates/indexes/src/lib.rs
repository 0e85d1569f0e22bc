//! The indexes over a server's keys: which there are, how they follow the keys, and the scans of keys that
//! were there before. What an index is, and how it answers, is `search`'s; this crate knows keys, but no
//! client.
//!
//! Invariant: once its scan has ended, an index has exactly the documents that the keys hold, whenever no
//! shard is locked by a thread that changes them.

mod access;
mod aggregation;
mod agreed;
mod agreement;
mod catalogue;
mod collect;
mod definitions;
mod document;
mod filter;
mod following;
mod hybrid;
mod index;
mod loading;
mod prefix_set;
mod prefixes;
mod progress;
mod row_values;
mod run;
mod scan;
mod shared_map;
#[cfg(test)]
mod testing;

pub use access::Access;
pub use aggregation::Aggregation;
pub use agreed::{join, split};
pub use agreement::{DEFINE, DIGEST_OF_NONE};
pub use catalogue::{Catalogue, INDEXES_MAX};
pub use definitions::{Changed, Command};
pub use hybrid::{EndedIn, HybridPart, HybridResults, HybridRow, HybridRun};
pub use index::{DIALECTS, KeyIndex};
pub use loading::{Loaded, Loader, NamedValue, SortReader};
pub use progress::Progress;
pub use run::{Profiled, Results, Row, Run};
pub use scan::Waker;
