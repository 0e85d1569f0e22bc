//! A stream as the commands that make it.

use martlet_types::stream::{Group, Id, Idempotency, Stream};

use crate::commands::{Commands, number, text};

pub(super) fn stream(stream: &Stream, key: &[u8], out: &mut Commands<'_>) {
    let log = stream.log();
    let last_id = number(log.last_id());
    let gone = gone_records(stream);
    if log.is_empty() && gone.is_empty() {
        // The entry is trimmed as soon as it is added.
        let id = if log.last_id() == Id::MIN { b"0-1".to_vec() } else { last_id.clone() };
        out.put(&[b"XADD", key, b"MAXLEN", b"0", &id, b"x", b"y"]);
    }
    let mut ids = gone.iter().copied().peekable();
    for entry in log.range(Id::MIN, Id::MAX) {
        while let Some(id) = ids.next_if(|id| *id < entry.id) {
            out.put(&[b"XADD", key, &number(id), b"x", b"y"]);
        }
        let id = number(entry.id);
        let fields: Vec<_> = entry.fields.flat_map(|(name, value)| [text(name), text(value)]).collect();
        let fields = fields.iter().map(Vec::as_slice);
        out.put(&[b"XADD", key, &id].into_iter().chain(fields).collect::<Vec<_>>());
    }
    ids.for_each(|id| out.put(&[b"XADD", key, &number(id), b"x", b"y"]));
    if let Some(table) = stream.idempotency() {
        idempotency(out, key, stream, table, &gone);
    }
    let (added, deleted) = (number(log.entries_added()), number(log.max_deleted_id()));
    out.put(&[b"XSETID", key, &last_id, b"ENTRIESADDED", &added, b"MAXDELETEDID", &deleted]);
    stream.groups().for_each(|(name, members)| group(out, key, name, members));
}

/// The names under which producers have added entries. Those of deleted entries were added again, so that
/// their records can follow, and are removed after that.
fn idempotency(out: &mut Commands<'_>, key: &[u8], stream: &Stream, table: &Idempotency, gone: &[Id]) {
    let limits = stream.idempotency_limits();
    let (duration, max) = (number(limits.duration_s), number(limits.max_records));
    out.put(&[b"XCFGSET", key, b"IDMP-DURATION", &duration, b"IDMP-MAXSIZE", &max]);
    let log = stream.log();
    for (producer, _) in table.producers() {
        for (name, id) in table.records(producer) {
            if log.contains(id) || gone.binary_search(&id).is_ok() {
                out.put(&[b"XIDMPRECORD", key, producer, name, &number(id)]);
            }
        }
    }
    if gone.is_empty() {
    } else if log.is_empty() {
        out.put(&[b"XTRIM", key, b"MAXLEN", b"0"]);
    } else if log.max_deleted_id() == Id::MIN {
        out.put(&[b"XTRIM", key, b"MINID", &number(log.first_id())]);
    } else {
        gone.iter().for_each(|id| out.put(&[b"XDEL", key, &number(*id)]));
    }
}

fn group(out: &mut Commands<'_>, key: &[u8], name: &[u8], group: &Group) {
    let last_id = number(group.last_id);
    let read = group.entries_read.map_or_else(|| b"-1".to_vec(), number);
    out.put(&[b"XGROUP", b"CREATE", key, name, &last_id, b"ENTRIESREAD", &read]);
    for (_, consumer) in group.consumers() {
        out.put(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer.name()]);
        for id in consumer.pending_from(Id::MIN) {
            let Some(pending) = group.pending(id) else { continue };
            let (time, count) = (number(pending.delivered_ms), number(pending.deliveries));
            let options: [&[u8]; 6] = [b"TIME", &time, b"RETRYCOUNT", &count, b"JUSTID", b"FORCE"];
            let claim = [b"XCLAIM", key, name, consumer.name(), b"0", &number(id)];
            out.put(&claim.into_iter().chain(options).collect::<Vec<_>>());
        }
    }
    for id in group.released() {
        let Some(pending) = group.pending(id) else { continue };
        let (id, count) = (number(id), number(pending.deliveries));
        let release: [&[u8]; 10] =
            [b"XNACK", key, name, b"FAIL", b"IDS", b"1", &id, b"RETRYCOUNT", &count, b"FORCE"];
        out.put(&release);
    }
}

/// The ids of entries that are gone, but that producers are remembered to have added; ascending. Without a
/// deletion by id, only of those before the first entry: no command takes out others without a trace.
fn gone_records(stream: &Stream) -> Vec<Id> {
    let log = stream.log();
    let bound = if log.max_deleted_id() == Id::MIN && !log.is_empty() { log.first_id() } else { Id::MAX };
    let Some(table) = stream.idempotency() else { return Vec::new() };
    let records = table.producers().flat_map(|(producer, _)| table.records(producer));
    let is_gone = |id: &Id| *id != Id::MIN && *id < bound && !log.contains(*id);
    let mut ids: Vec<Id> = records.map(|(_, id)| id).filter(is_gone).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
