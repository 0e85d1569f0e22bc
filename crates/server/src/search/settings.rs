//! The `search-*` parameters as limits of a search.

use martlet_search::exec::{Bounds, Scorer};
use martlet_search::request::Limits;

use crate::config::{Config, DefaultScorer, OnTimeout, RESULTS_MAX};

/// The limits of a request's arguments.
pub fn limits(config: &Config) -> Limits {
    let search = &config.search;
    let results = |limit: u64| if limit >= RESULTS_MAX { u64::MAX } else { limit };
    Limits {
        search_results: results(search.max_search_results),
        aggregate_results: results(search.max_aggregate_results),
        cursor_idle_ms: u32::try_from(search.cursor_max_idle_ms).unwrap_or(u32::MAX),
        dialect: search.default_dialect,
        timeout_ms: search.timeout_ms,
        ..Limits::default()
    }
}

/// How patterns of a query are bounded.
pub fn bounds(config: &Config) -> Bounds {
    let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    Bounds {
        prefix_min: size(config.search.min_prefix),
        expansions_max: size(config.search.max_prefix_expansions),
    }
}

/// The scorer of queries that name none.
pub fn scorer(config: &Config) -> Scorer {
    match config.search.default_scorer {
        DefaultScorer::Bm25Std => Scorer::Bm25Std,
        DefaultScorer::Bm25StdTanh => Scorer::Bm25StdTanh,
        DefaultScorer::Bm25StdNorm => Scorer::Bm25StdNorm,
        DefaultScorer::Bm25 => Scorer::Bm25,
        DefaultScorer::TfIdf => Scorer::TfIdf,
        DefaultScorer::TfIdfDocNorm => Scorer::TfIdfDocNorm,
        DefaultScorer::DisMax => Scorer::DisMax,
        DefaultScorer::DocScore => Scorer::DocScore,
        DefaultScorer::Hamming => Scorer::Hamming,
    }
}

/// Whether a search beyond its time limit is an error.
pub fn fails_late(config: &Config) -> bool {
    config.search.on_timeout == OnTimeout::Fail
}

/// Cursors of an index, at most.
pub fn cursors_max(config: &Config) -> usize {
    usize::try_from(config.search.index_cursor_limit).unwrap_or(usize::MAX)
}
