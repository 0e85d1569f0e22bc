//! Evaluation: the documents of a partition that a query finds, and their scores.
//!
//! A [`Plan`] is a query without a partition: its leaves name terms and ranges. A [`Run`] is a plan bound to
//! a partition. It looks at a window of ids at a time: each node gives a set of bits, and for scores and
//! positions the leaves then give their entries of the documents in it. Between two windows the partition is
//! not borrowed. Documents that come in the meantime are beyond the run's end.

mod best;
mod evaluation;
mod expand;
mod gather;
mod matched;
mod near;
mod node;
mod plan;
mod planner;
mod prepared;
mod run;
mod score;
mod shapes;

pub use best::{Best, Hit, Ranking, Ranks};
pub use evaluation::{Distances, Evaluation, Found, KeyFilter, Match, Scores};
pub use matched::MatchedTerms;
pub use plan::{Children, Expansion, Order, Plan};
pub use planner::{Bounds, DistanceField, Planned, Planner, ShapeQuery};
pub use prepared::Prepared;
pub use run::Run;
pub use run::profile;
pub use score::{Explanation, MatchedTerm, Scorer, Scoring};
