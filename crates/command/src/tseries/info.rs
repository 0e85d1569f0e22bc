//! TS.INFO.

use martlet_protocol::reply::Reply;
use martlet_spec::module::TIME_SERIES;
use martlet_spec::{Acl, Command, Flags, Group, Outcome, command};
use martlet_tseries::store::Encoding;
use martlet_values::time_series::TimeSeries;

use super::{READ_ONLY, READS, arity, links, peek, read, reply};
use crate::Handler;
use crate::context::Context;

pub(super) static INFO: Command<Handler> = command("ts.info", -2, info as Handler)
    .flags(Flags::READONLY)
    .keys(READS)
    .acl(READ_ONLY.with(Acl::FAST))
    .follows_links()
    .syntax("key:k0 ?DEBUG")
    .doc(Group::Module(&TIME_SERIES), "1.0.0", "O(1)", "Returns facts about a time series.");

fn info(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 3 {
        return Err(arity(ctx));
    }
    let key = ctx.key(1);
    read(ctx.keys, &key)?;
    links::lock(ctx.keys, [&key])?;
    let has_chunks = ctx.argc() == 3 && ctx.arg(2).eq_ignore_ascii_case(b"DEBUG");
    let Context { keys, reply, .. } = ctx;
    let Some(series) = peek(keys, &key) else { return Ok(()) };
    let (facts, settings) = (series.info(), series.settings());
    // In RESP2 an array of names and values.
    reply.map(if has_chunks { 16 } else { 14 });
    let number = |reply: &mut Reply, name: &str, number: u64| {
        reply.simple(name);
        reply.int(number as i64);
    };
    number(reply, "totalSamples", facts.total_samples);
    number(reply, "memoryUsage", (size_of::<TimeSeries>() + series.heap_bytes()) as u64);
    number(reply, "firstTimestamp", facts.first_timestamp);
    number(reply, "lastTimestamp", facts.last_timestamp);
    number(reply, "retentionTime", settings.retention_ms);
    number(reply, "chunkCount", facts.chunk_count as u64);
    number(reply, "chunkSize", facts.chunk_bytes);
    reply.simple("chunkType");
    reply.simple(match facts.encoding {
        Encoding::Compressed => "compressed",
        Encoding::Uncompressed => "uncompressed",
    });
    reply.simple("duplicatePolicy");
    match settings.policy {
        Some(policy) => reply.simple(policy.name()),
        None => reply.null(),
    }
    reply.simple("labels");
    reply::labels(reply, &reply::pairs(&settings.labels), &reply::Shown::All);
    reply.simple("sourceKey");
    reply.bulk_or_null(links::source(keys, &key));
    reply.simple("rules");
    write_rules(reply, series, &links::destinations(keys, &key));
    number(reply, "ignoreMaxTimeDiff", settings.ignore_time_ms);
    reply.simple("ignoreMaxValDiff");
    reply.double(settings.ignore_value);
    if has_chunks {
        reply.simple("keySelfName");
        reply.bulk(key.bytes);
        reply.simple("Chunks");
        write_chunks(reply, series);
    }
    Ok(())
}

fn write_rules(reply: &mut Reply, series: &TimeSeries, tied: &[Box<[u8]>]) {
    let rules: Vec<_> = series.rules().iter().filter(|rule| tied.contains(&rule.destination)).collect();
    reply::map(reply, rules.len());
    for rule in rules {
        if !reply.is_resp3() {
            reply.array(4);
        }
        reply.bulk(&rule.destination);
        if reply.is_resp3() {
            reply.array(3);
        }
        reply.int(rule.buckets().duration() as i64);
        reply.simple(&rule.aggregator().name().to_uppercase());
        reply.int(rule.buckets().alignment() as i64);
    }
}

fn write_chunks(reply: &mut Reply, series: &TimeSeries) {
    reply.array(series.store().chunk_count());
    for chunk in series.store().chunks() {
        let (samples, bytes) = (chunk.len(), chunk.capacity_bytes);
        reply.map(5);
        let end = |time: Option<u64>| time.map_or(-1, |time| time as i64);
        for (name, number) in [
            ("startTimestamp", end(chunk.first())),
            ("endTimestamp", end(chunk.last())),
            ("samples", samples as i64),
            ("size", bytes as i64),
        ] {
            reply.simple(name);
            reply.int(number);
        }
        reply.simple("bytesPerSample");
        let ratio = if samples == 0 { 0.0 } else { bytes as f32 / samples as f32 };
        reply.double(f64::from(ratio));
    }
}
