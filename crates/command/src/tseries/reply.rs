//! Samples, labels and rows in replies.

use martlet_base::number::{NumberBuffer, format_f64_capital};
use martlet_protocol::reply::Reply;
use martlet_tseries::query::Rows;
use martlet_tseries::sample::Sample;
use martlet_tseries::series::Labels;

/// A value: a double, in RESP2 a simple string.
#[inline]
pub(super) fn value(reply: &mut Reply, value: f64) {
    if reply.is_resp3() {
        return reply.double(value);
    }
    let mut buffer = NumberBuffer::new();
    let text = format_f64_capital(value, &mut buffer);
    let out = reply.raw();
    out.push(b'+');
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// A sample, or an empty array.
pub(super) fn sample(reply: &mut Reply, sample: Option<Sample>) {
    let Some(sample) = sample else { return reply.array(0) };
    reply.array(2);
    reply.int(sample.timestamp as i64);
    value(reply, sample.value);
}

/// Rows of timestamps, each followed by its values.
pub(super) fn rows(reply: &mut Reply, rows: &Rows, width: usize) {
    reply.array(rows.len());
    rows_after_header(reply, rows, width);
}

/// The rows of an array whose header has been written, or will be.
pub(super) fn rows_after_header(reply: &mut Reply, rows: &Rows, width: usize) {
    for (timestamp, values) in rows.timestamps.iter().zip(rows.values.chunks_exact(width.max(1))) {
        reply.array(1 + width);
        reply.int(*timestamp as i64);
        values.iter().for_each(|number| value(reply, *number));
    }
}

/// The beginning of a map, which is an array of pairs in RESP2.
pub(super) fn map(reply: &mut Reply, pairs: usize) {
    if reply.is_resp3() { reply.map(pairs) } else { reply.array(pairs) }
}

/// A label in a map.
pub(super) fn label(reply: &mut Reply, name: &[u8], value: Option<&[u8]>) {
    if !reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(name);
    reply.bulk_or_null(value);
}

/// The labels to show.
#[derive(Clone, Debug, Default)]
pub(super) enum Shown<'a> {
    /// None.
    #[default]
    Nothing,
    /// WITHLABELS.
    All,
    /// SELECTED_LABELS.
    Selected(Vec<&'a [u8]>),
}

/// The labels of a series that are to be shown.
pub(super) fn labels(reply: &mut Reply, labels: &[(&[u8], &[u8])], shown: &Shown<'_>) {
    match shown {
        Shown::Nothing => map(reply, 0),
        Shown::All => {
            map(reply, labels.len());
            labels.iter().for_each(|(name, value)| label(reply, name, Some(value)));
        }
        Shown::Selected(names) => {
            map(reply, names.len());
            for wanted in names {
                match labels.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)) {
                    Some((name, value)) => label(reply, name, Some(value)),
                    None => label(reply, wanted, None),
                }
            }
        }
    }
}

/// Labels as pairs of their texts.
pub(super) fn pairs(labels: &Labels) -> Vec<(&[u8], &[u8])> {
    labels.iter().map(|(name, value)| (&**name, &**value)).collect()
}
