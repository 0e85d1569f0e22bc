//! Results on the wire.

use martlet_base::number::{NumberBuffer, format_f64};
use martlet_indexes::{Loaded, NamedValue, Results, Row};
use martlet_json::value::{Node, Number, View};
use martlet_protocol::reply::Reply;
use martlet_search::exec::Explanation;
use martlet_search::index::sortables::Sortable;
use martlet_search::request::{Format, Search};

use super::job::TIMED_OUT;

/// The figures beside the rows of a reply.
#[derive(Copy, Clone, Debug)]
pub struct Summary {
    /// How many documents match.
    pub total: usize,
    /// How many rows the reply has.
    pub rows: usize,
    /// The search was ended early.
    pub is_partial: bool,
}

impl Summary {
    fn of(results: &Results) -> Summary {
        Summary { total: results.total, rows: results.rows.len(), is_partial: results.is_partial }
    }
}

/// Writes the results of FT.SEARCH.
pub fn write(request: &Search, results: &Results, reply: &mut Reply) {
    write_around(request, Summary::of(results), reply, |reply| {
        results.rows.iter().for_each(|row| write_row(request, row, reply));
    });
}

/// Writes a reply whose rows `write_rows` writes, each as [`write_row`] does.
pub fn write_around(
    request: &Search,
    summary: Summary,
    reply: &mut Reply,
    write_rows: impl FnOnce(&mut Reply),
) {
    if !reply.is_resp3() {
        reply.array(1 + summary.rows * (1 + parts_of_row(request)));
        reply.count(summary.total);
        return write_rows(reply);
    }
    reply.map(5);
    write_pairs(request, summary, reply, write_rows);
}

/// As [`write`] in RESP3, with a further pair that `more` writes.
pub fn write_with(request: &Search, results: &Results, reply: &mut Reply, more: impl FnOnce(&mut Reply)) {
    let write_rows = |reply: &mut Reply| {
        results.rows.iter().for_each(|row| write_row(request, row, reply));
    };
    write_around_with(request, Summary::of(results), reply, write_rows, more);
}

/// As [`write_around`] in RESP3, with a further pair that `more` writes.
pub fn write_around_with(
    request: &Search,
    summary: Summary,
    reply: &mut Reply,
    write_rows: impl FnOnce(&mut Reply),
    more: impl FnOnce(&mut Reply),
) {
    reply.map(6);
    write_pairs(request, summary, reply, write_rows);
    more(reply);
}

fn write_pairs(request: &Search, summary: Summary, reply: &mut Reply, write_rows: impl FnOnce(&mut Reply)) {
    begin_pairs(summary.total as u64, request.query.format, summary.rows, reply);
    write_rows(reply);
    end_map(summary.is_partial.then_some(TIMED_OUT), reply);
}

/// The pairs of all results behind the map's head, up to the first of `rows`.
pub(super) fn begin_pairs(total: u64, format: Format, rows: usize, reply: &mut Reply) {
    reply.simple("attributes");
    reply.array(0);
    reply.simple("total_results");
    reply.unsigned(total);
    reply.simple("format");
    reply.simple(if format == Format::Expand { "EXPAND" } else { "STRING" });
    reply.simple("results");
    reply.array(rows);
}

/// The map's end behind the last row.
pub(super) fn end_map(warning: Option<&str>, reply: &mut Reply) {
    reply.simple("warning");
    reply.array(usize::from(warning.is_some()));
    warning.iter().for_each(|warning| reply.simple(warning));
}

/// The number of replies that a row has besides its key.
fn parts_of_row(request: &Search) -> usize {
    let parts = [request.with_scores, request.with_payloads, request.with_sort_keys, !request.no_content];
    parts.into_iter().filter(|is_wanted| *is_wanted).count()
}

/// Writes a row: several replies in RESP2, a map in RESP3.
pub fn write_row(request: &Search, row: &Row, reply: &mut Reply) {
    if reply.is_resp3() {
        return write_map(request, row, reply);
    }
    reply.bulk(&row.hit.key);
    if request.with_scores {
        write_score(row, reply);
    }
    if request.with_payloads {
        reply.bulk_or_null(row.hit.payload.as_deref());
    }
    if request.with_sort_keys {
        write_sort_key(row, reply);
    }
    if request.no_content {
        return;
    }
    match &row.fields {
        None => reply.null_array(),
        Some(fields) => {
            reply.array(2 * fields.len());
            write_fields(fields, reply);
        }
    }
}

fn write_map(request: &Search, row: &Row, reply: &mut Reply) {
    reply.map(2 + parts_of_row(request));
    reply.simple("id");
    reply.bulk(&row.hit.key);
    if request.with_scores {
        reply.simple("score");
        write_score(row, reply);
    }
    if request.with_payloads {
        reply.simple("payload");
        reply.bulk_or_null(row.hit.payload.as_deref());
    }
    if request.with_sort_keys {
        reply.simple("sortkey");
        write_sort_key(row, reply);
    }
    if !request.no_content {
        reply.simple("extra_attributes");
        let fields = row.fields.as_deref().unwrap_or_default();
        reply.map(fields.len());
        write_fields(fields, reply);
    }
    reply.simple("values");
    reply.array(0);
}

fn write_fields(fields: &[NamedValue], reply: &mut Reply) {
    for (name, value) in fields {
        reply.bulk(name);
        match value {
            Loaded::Null => reply.null(),
            Loaded::Text(text) => reply.bulk(text),
            Loaded::Expanded(values) => {
                reply.array(values.len());
                values.iter().for_each(|value| write_value(Node::Value(value), reply));
            }
        }
    }
}

pub(super) fn write_value(node: Node<'_>, reply: &mut Reply) {
    match node.view() {
        View::Null => reply.null(),
        View::Bool(bool) => reply.int(i64::from(bool)),
        View::Number(Number::Int(number)) => reply.int(number),
        View::Number(number) => reply.double(number.as_f64()),
        View::Text(text) => reply.bulk(text.as_bytes()),
        View::Array(elements) => {
            reply.array(elements.len());
            elements.iter().for_each(|element| write_value(element, reply));
        }
        View::Object(object) => {
            reply.map(object.len());
            for member in object.members() {
                reply.bulk(member.name().as_bytes());
                write_value(Node::Value(member.value()), reply);
            }
        }
    }
}

fn write_score(row: &Row, reply: &mut Reply) {
    match &row.hit.explanation {
        None => reply.double(row.hit.score),
        Some(explanation) => {
            reply.array(2);
            reply.double(row.hit.score);
            write_explanation(explanation, reply);
        }
    }
}

fn write_explanation(explanation: &Explanation, reply: &mut Reply) {
    if explanation.parts.is_empty() {
        reply.simple(&explanation.text);
        return;
    }
    reply.array(2);
    reply.simple(&explanation.text);
    reply.array(explanation.parts.len());
    explanation.parts.iter().for_each(|part| write_explanation(part, reply));
}

/// `#` before a number, `$` before a text.
fn write_sort_key(row: &Row, reply: &mut Reply) {
    match &row.hit.sortable {
        Some(Sortable::Number(number)) => {
            let mut buffer = NumberBuffer::new();
            reply.bulk(&[b"#", format_f64(*number, &mut buffer)].concat());
        }
        Some(Sortable::Text(text)) => reply.bulk(&[b"$", &**text].concat()),
        Some(Sortable::Missing) | None => reply.null(),
    }
}
