//! Results on the wire.

use martlet_base::number::{NumberBuffer, format_f64};
use martlet_indexes::{Loaded, NamedValue, Results, Row};
use martlet_json::value::{Node, Number, View};
use martlet_protocol::reply::Reply;
use martlet_search::exec::Explanation;
use martlet_search::index::documents::Sortable;
use martlet_search::request::{Format, Search};

use super::job::TIMED_OUT;

/// Writes the results of FT.SEARCH.
pub fn write(request: &Search, results: &Results, reply: &mut Reply) {
    if reply.is_resp3() {
        reply.map(5);
        write_pairs(request, results, reply);
    } else {
        let extra = [request.with_scores, request.with_payloads, request.with_sort_keys, !request.no_content];
        let replies = 1 + extra.into_iter().filter(|is_wanted| *is_wanted).count();
        reply.array(1 + results.rows.len() * replies);
        reply.count(results.total);
        results.rows.iter().for_each(|row| write_row(request, row, reply));
    }
}

fn write_row(request: &Search, row: &Row, reply: &mut Reply) {
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

/// As [`write`] in RESP3, with a further pair that `more` writes.
pub fn write_with(request: &Search, results: &Results, reply: &mut Reply, more: impl FnOnce(&mut Reply)) {
    reply.map(6);
    write_pairs(request, results, reply);
    more(reply);
}

fn write_pairs(request: &Search, results: &Results, reply: &mut Reply) {
    reply.simple("attributes");
    reply.array(0);
    reply.simple("total_results");
    reply.count(results.total);
    reply.simple("format");
    reply.simple(if request.query.format == Format::Expand { "EXPAND" } else { "STRING" });
    reply.simple("results");
    reply.array(results.rows.len());
    for row in &results.rows {
        let extra = [request.with_scores, request.with_payloads, request.with_sort_keys, !request.no_content];
        reply.map(2 + extra.into_iter().filter(|is_wanted| *is_wanted).count());
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
    reply.simple("warning");
    reply.array(usize::from(results.is_partial));
    if results.is_partial {
        reply.simple(TIMED_OUT);
    }
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
        View::Bool(bool) => reply.bool(bool),
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
