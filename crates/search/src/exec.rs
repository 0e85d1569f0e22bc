//! Evaluation: which documents of a partition a query finds, and their scores.
//!
//! A query is a [`Plan`], whose leaves name terms and ranges. Bound to a partition it becomes a [`Run`], which
//! goes through the partition a window at a time: first the documents of each node as a set of bits, then, where
//! scores or places are asked for, what the leaves have of each document that was found. Between two windows the
//! partition is not borrowed, and may change: documents that come meanwhile are beyond the run's end.

mod gather;
mod near;
mod plan;
mod run;
mod score;

pub use plan::{Children, Expansion, Frequencies, Order, Plan};
pub use run::Run;
pub use score::{Explanation, Scorer, Scoring, Statistics};
