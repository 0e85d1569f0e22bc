//! Rows of FT.AGGREGATE on the wire.

use martlet_base::number::NumberBuffer;
use martlet_indexes::Aggregation;
use martlet_json::text::parse;
use martlet_json::value::Node;
use martlet_protocol::reply::Reply;
use martlet_search::aggregate::pipeline::Shown;
use martlet_search::aggregate::value::Value;
use martlet_search::request::Format;

use super::reply::{begin_pairs, end_map, write_value};

/// What rows show beside their properties.
#[derive(Copy, Clone)]
struct Layout {
    format: Format,
    scores: bool,
    payloads: bool,
    sort_keys: bool,
    properties: bool,
}

impl Layout {
    /// Replies of a row.
    fn width(self) -> usize {
        [self.scores, self.payloads, self.sort_keys, self.properties]
            .into_iter()
            .filter(|shown| *shown)
            .count()
    }
}

/// Writes the first `count` of an aggregation's rows that are ready, and gives them up.
pub fn write(aggregation: &mut Aggregation, count: usize, warning: Option<&str>, reply: &mut Reply) {
    if reply.is_resp3() {
        reply.map(5);
    }
    write_pairs(aggregation, count, warning, reply);
}

/// As [`write`] of all rows in RESP3, with a further pair that `more` writes.
pub fn write_with(
    aggregation: &mut Aggregation,
    warning: Option<&str>,
    reply: &mut Reply,
    more: impl FnOnce(&mut Reply),
) {
    reply.map(6);
    write_pairs(aggregation, usize::MAX, warning, reply);
    more(reply);
}

/// Rows behind the head of a map of RESP3, or the whole reply of RESP2.
fn write_pairs(aggregation: &mut Aggregation, count: usize, warning: Option<&str>, reply: &mut Reply) {
    let request = aggregation.request();
    let layout = Layout {
        format: request.query.format,
        scores: request.with_scores,
        payloads: request.with_payloads,
        sort_keys: request.with_sort_keys,
        properties: !request.no_content,
    };
    let count = count.min(aggregation.ready());
    let total = aggregation.take_total(count);
    if reply.is_resp3() {
        begin_pairs(total, layout.format, count, reply);
        aggregation.take(count, |row| write_map(&row, layout, reply));
        end_map(warning, reply);
    } else {
        reply.array(1 + count * layout.width());
        reply.unsigned(total);
        aggregation.take(count, |row| write_row(&row, layout, reply));
    }
}

fn write_row(row: &Shown<'_>, layout: Layout, reply: &mut Reply) {
    if layout.scores {
        reply.double(row.score());
    }
    if layout.payloads {
        reply.null();
    }
    if layout.sort_keys {
        reply.null();
    }
    if layout.properties {
        reply.array(2 * row.properties().count());
        write_properties(row, layout.format, reply);
    }
}

fn write_map(row: &Shown<'_>, layout: Layout, reply: &mut Reply) {
    reply.map(layout.width() + 1);
    if layout.scores {
        reply.simple("score");
        reply.double(row.score());
    }
    if layout.payloads {
        reply.simple("payload");
        reply.null();
    }
    if layout.sort_keys {
        reply.simple("sortkey");
        reply.null();
    }
    if layout.properties {
        reply.simple("extra_attributes");
        reply.map(row.properties().count());
        write_properties(row, layout.format, reply);
    }
    reply.simple("values");
    reply.array(0);
}

fn write_properties(row: &Shown<'_>, format: Format, reply: &mut Reply) {
    for (name, value) in row.properties() {
        reply.bulk(name);
        write_property(value, format, reply);
    }
}

/// Writes the value of a property.
pub(crate) fn write_property(value: &Value, format: Format, reply: &mut Reply) {
    match value {
        Value::Null => reply.null(),
        Value::Number(number) if format == Format::Expand => write_number(*number, reply),
        Value::Path(path) if format == Format::Expand => match parse(&path.text, None) {
            Ok(values) => write_value(Node::Value(&values), reply),
            Err(_) => reply.bulk(&path.text),
        },
        Value::Array(values) => {
            reply.array(values.len());
            values.iter().for_each(|value| write_property(value, format, reply));
        }
        value => reply.bulk(value.to_text(&mut NumberBuffer::new())),
    }
}

/// A number as such: an integer if it is one.
fn write_number(number: f64, reply: &mut Reply) {
    let integer = number as i64;
    match integer as f64 == number {
        true => reply.int(integer),
        false => reply.double(number),
    }
}
