//! FT.HYBRID: a search of texts and one of vectors over one index, whose results are fused into one list.
//!
//! Each of both keeps its best matches, as many as the window has places; a document is then scored by its
//! ranks in both lists, or by its scores.

mod fusion;
mod merging;
mod parts;
mod request;
mod searching;

pub use fusion::{Combine, Fused, Method, fuse, similarity};
pub use merging::{PartHit, fuse_parts};
pub use parts::aggregates;
pub use request::{Hybrid, Tail, VectorPart};
use searching::metric;
pub use searching::{HybridHit, HybridSearching};
