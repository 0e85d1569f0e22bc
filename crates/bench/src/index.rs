//! The index that the tests of search need, made before they run.
//!
//! Invariant: an index that is there already stays, whatever its schema.

use crate::cli::target::control_at;
use crate::control::reply_text;
use crate::plan::Target;
use martlet_client::resp::Reply;

/// The index' name.
pub const INDEX: &str = "myindex";
/// What the keys of its documents begin with.
pub const DOCUMENT_PREFIX: &str = "doc";

/// Creates the index of documents with a text, tags, a number and a vector of `dimension` components, at the
/// first node: a cluster's nodes pass a definition on.
///
/// # Errors
/// The server cannot be reached, or refuses, as one without search does.
pub fn create(target: &Target, dimension: usize) -> Result<(), String> {
    let Some(node) = target.nodes.first() else { return Ok(()) };
    let mut control = control_at(target, &node.address)?;
    let prefix = format!("{DOCUMENT_PREFIX}:");
    let dimension = dimension.to_string();
    let head = ["FT.CREATE", INDEX, "ON", "HASH", "PREFIX", "1", &prefix, "SCHEMA"];
    let fields = ["title", "TEXT", "kind", "TAG", "price", "NUMERIC"];
    let vector = ["embedding", "VECTOR", "HNSW", "6", "TYPE", "FLOAT32", "DIM", &dimension];
    let metric = ["DISTANCE_METRIC", "L2"];
    let words = [&head[..], &fields, &vector, &metric].concat();
    match control.command(&words).map_err(|error| error.to_string())? {
        Reply::Error(text) if !text.to_ascii_lowercase().ends_with(b"index already exists") => {
            Err(format!("FT.CREATE {INDEX}: {}", reply_text(&Reply::Error(text))))
        }
        _ => Ok(()),
    }
}
