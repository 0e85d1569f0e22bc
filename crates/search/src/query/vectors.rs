//! Checks of a vector query against its field, and the query's options by their values.

use super::Options;
use super::ast::{Kind, Near, Node, Policy, VectorQuery};
use crate::Error;
use crate::number::{parse_c, parse_c_integer};
use crate::schema::{Algorithm, FieldKind, Vector};
use martlet_base::number::{NumberBuffer, format_f64_significant};

const INVALID_OPTION: &str = "Invalid option";
const INVALID_VALUE: &str = "Invalid value was given";
const NOT_HYBRID: &str = "hybrid query attributes were sent for a non-hybrid query";

/// The vector field of a query. Nothing is asked of a field that has no vectors: it matches nothing.
fn vector_field<'o>(query: &VectorQuery, options: &Options<'o>) -> Option<&'o Vector> {
    match &options.field(&query.field)?.kind {
        FieldKind::Vector(vector) => Some(vector),
        _ => None,
    }
}

/// Refuses a vector query that its field cannot answer.
pub(super) fn check_vector(query: &mut VectorQuery, options: &Options<'_>) -> Result<(), Error> {
    let Some(vector) = vector_field(query, options) else { return Ok(()) };
    let (given, expected) = (query.vector.len(), vector.dimension.saturating_mul(vector.element.bytes()));
    if given != expected {
        return Err(Error::new(format!(
            "Error parsing vector similarity query: query vector blob size ({given}) does not match index's \
             expected size ({expected})."
        )));
    }
    if let Near::Within(radius) = query.near
        && radius < 0.0
    {
        let mut buffer = NumberBuffer::new();
        let radius = String::from_utf8_lossy(format_f64_significant(radius, 6, &mut buffer)).into_owned();
        return Err(Error::new(format!(
            "Error parsing vector similarity query: negative radius ({radius}) given in a range query"
        )));
    }
    read_options(query, &vector.algorithm)
        .map_err(|text| Error::new(format!("Error parsing vector similarity parameters: {text}")))
}

/// The name for the distance, which the query gives in one of two ways.
pub(super) fn name_distance(query: &mut VectorQuery, options: &Options<'_>) -> Result<(), Error> {
    let yielded = query.yielded.take().filter(|_| vector_field(query, options).is_some());
    let Some(yielded) = yielded else { return Ok(()) };
    let own = [b"__", &*query.field, b"_score"].concat();
    if let Some(given) = query.distance_field.as_deref().filter(|given| !given.eq_ignore_ascii_case(&own)) {
        let (given, yielded) = (String::from_utf8_lossy(given), String::from_utf8_lossy(&yielded));
        return Err(Error::new(format!(
            "Distance field was specified twice for vector query: {given} and {yielded}"
        )));
    }
    query.distance_field = Some(yielded);
    Ok(())
}

/// Reads the options' texts; an error is the end of the reply's text.
fn read_options(query: &mut VectorQuery, algorithm: &Algorithm) -> Result<(), &'static str> {
    let is_flat = matches!(algorithm, Algorithm::Flat { .. });
    let (is_hnsw, is_vamana) =
        (matches!(algorithm, Algorithm::Hnsw { .. }), matches!(algorithm, Algorithm::Vamana { .. }));
    let mut capacity = None;
    let is_range = matches!(query.near, Near::Within(_));
    let is_hybrid = query.filter.is_some();
    for (name, value) in &query.options {
        let count =
            || parse_c_integer(value).and_then(|count| usize::try_from(count).ok()).filter(|c| *c > 0);
        match name.to_ascii_lowercase().as_slice() {
            b"ef_runtime" if is_hnsw && !is_range => set(&mut query.ef_runtime, count())?,
            b"search_window_size" if is_vamana => set(&mut query.ef_runtime, count())?,
            b"search_buffer_capacity" if is_vamana => set(&mut capacity, count())?,
            // A choice of how candidates are kept, which changes no result.
            b"use_search_history" if is_vamana => match value.to_ascii_lowercase().as_slice() {
                b"on" | b"off" | b"auto" => {}
                _ => return Err(INVALID_VALUE),
            },
            b"epsilon" if !is_flat && !is_range => {
                return Err("range query attributes were sent for a non-range query");
            }
            b"epsilon" if !is_flat => set(&mut query.epsilon, parse_c(value).filter(|part| *part > 0.0))?,
            b"batch_size" | b"hybrid_policy" if !is_hybrid => return Err(NOT_HYBRID),
            b"batch_size" => set(&mut query.batch_size, count())?,
            b"hybrid_policy" => {
                let policy = match value.to_ascii_lowercase().as_slice() {
                    b"batches" => Policy::Batches,
                    b"adhoc_bf" => Policy::AdHoc,
                    _ => return Err("invalid hybrid policy was given"),
                };
                set(&mut query.policy, Some(policy))?;
            }
            _ => return Err(INVALID_OPTION),
        }
    }
    // Candidates beyond the window are kept, and looked at.
    if let (Some(window), Some(capacity)) = (query.ef_runtime, capacity) {
        query.ef_runtime = Some(window.max(capacity));
    }
    match query.policy {
        Some(Policy::AdHoc) if query.batch_size.is_some() => {
            Err("'batch size' is irrelevant for 'ADHOC_BF' policy")
        }
        Some(Policy::AdHoc) if query.ef_runtime.is_some() => {
            Err("'EF_RUNTIME' is irrelevant for 'ADHOC_BF' policy")
        }
        _ => Ok(()),
    }
}

/// Sets an option that is given once, if its value could be read.
fn set<T>(option: &mut Option<T>, value: Option<T>) -> Result<(), &'static str> {
    if option.is_some() {
        return Err("Parameter was specified twice");
    }
    *option = Some(value.ok_or(INVALID_VALUE)?);
    Ok(())
}

/// Refuses names of distances that a field or another distance has.
pub(super) fn check_distance_fields(root: &Node, options: &Options<'_>) -> Result<(), Error> {
    let mut names = Vec::new();
    collect(root, &mut names);
    for (place, name) in names.iter().enumerate() {
        let shown = String::from_utf8_lossy(name);
        if options.field(name).is_some() {
            return Err(Error::new(format!("Property `{shown}` already exists in schema")));
        }
        if names[..place].contains(name) {
            return Err(Error::new(format!("Property `{shown}` specified more than once")));
        }
    }
    Ok(())
}

fn collect<'n>(node: &'n Node, names: &mut Vec<&'n [u8]>) {
    if let Kind::Vector(query) = &node.kind {
        names.extend(query.distance_field.as_deref());
    }
    node.children().iter().for_each(|child| collect(child, names));
}
