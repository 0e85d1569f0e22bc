//! Rows of aggregations on the wire.

use martlet_base::number::NumberBuffer;
use martlet_indexes::Aggregation;
use martlet_json::value::Node;
use martlet_protocol::reply::Reply;
use martlet_search::aggregate::pipeline::Shown;
use martlet_search::aggregate::value::Value;
use martlet_search::number;

use super::job::TIMED_OUT;
use super::reply::write_value as write_json;

/// How values are shown.
#[derive(Copy, Clone, Debug)]
pub struct Shape {
    /// FORMAT EXPAND.
    pub is_expanded: bool,
}

/// Writes up to `most` of the rows that are there.
pub fn write(aggregation: &mut Aggregation, most: usize, shape: Shape, is_partial: bool, reply: &mut Reply) {
    let (total, count) = (aggregation.total(), aggregation.ready().min(most));
    let with_scores = aggregation.has_scores();
    if !reply.is_resp3() {
        reply.array(1 + count * (1 + usize::from(with_scores)));
        reply.count(total as usize);
        aggregation.take(count, |row| {
            row.score().into_iter().for_each(|score| reply.double(score));
            let properties: Vec<_> = row.properties().collect();
            reply.array(2 * properties.len());
            write_properties(&properties, shape, reply);
        });
        return;
    }
    reply.map(5);
    reply.simple("attributes");
    reply.array(0);
    reply.simple("total_results");
    reply.count(total as usize);
    reply.simple("format");
    reply.simple(if shape.is_expanded { "EXPAND" } else { "STRING" });
    reply.simple("results");
    reply.array(count);
    aggregation.take(count, |row: Shown<'_>| {
        reply.map(2 + usize::from(with_scores));
        if let Some(score) = row.score() {
            reply.simple("score");
            reply.double(score);
        }
        reply.simple("extra_attributes");
        let properties: Vec<_> = row.properties().collect();
        reply.map(properties.len());
        write_properties(&properties, shape, reply);
        reply.simple("values");
        reply.array(0);
    });
    reply.simple("warning");
    let warning = aggregation.warning().map(ToString::to_string);
    reply.array(usize::from(is_partial) + usize::from(warning.is_some()));
    if is_partial {
        reply.simple(TIMED_OUT);
    }
    warning.into_iter().for_each(|warning| reply.simple(&warning.replace(['\r', '\n'], " ")));
}

fn write_properties(properties: &[(&[u8], &Value)], shape: Shape, reply: &mut Reply) {
    for (name, value) in properties {
        reply.bulk(name);
        write_value(value, shape, reply);
    }
}

/// Writes a value. Arrays are at most as deep as reducers make them.
pub fn write_value(value: &Value, shape: Shape, reply: &mut Reply) {
    match value {
        Value::Null => reply.null(),
        Value::Number(number) if shape.is_expanded => reply.double(*number),
        Value::Number(value) => reply.bulk(number::format(*value, &mut NumberBuffer::new())),
        // The values of a path.
        Value::Text(text) if shape.is_expanded && text.starts_with(b"[") => {
            match martlet_json::text::parse(text, None) {
                Ok(values) => write_json(Node::Value(&values), reply),
                Err(_) => reply.bulk(text),
            }
        }
        Value::Text(text) => reply.bulk(text),
        Value::Array(values) => {
            reply.array(values.len());
            // As deep as an expression may nest them.
            values.iter().for_each(|value| write_value(value, shape, reply));
        }
    }
}
