//! CLUSTER SLOT-STATS: how the slots of this shard are used.

use martlet_base::hash::shard_of_slot;
use martlet_cluster::machine::parse_slot;
use martlet_cluster::slots::{SLOTS, SlotSet};
use martlet_cluster::views;
use martlet_command::{Error, Flags, Group, Outcome, Tip, command};

use super::super::{Call, ServerCommand, ServerHandler};
use super::{node, reply_error};
use crate::config::SlotMetrics;

/// A slot's metric: its name and its figure.
struct Metric {
    name: &'static str,
    is_on: fn(SlotMetrics) -> bool,
    measure: fn(&mut Call<'_>, u16) -> Result<u64, Error>,
}

/// In the order of the reply.
const METRICS: [Metric; 5] = [
    Metric {
        name: "key-count",
        is_on: |_| true,
        measure: |call, slot| Ok(super::tell::keys_in_slot(call, slot) as u64),
    },
    Metric {
        name: "cpu-usec",
        is_on: |on| on.cpu,
        measure: |call, slot| Ok(node(call)?.usage.of(slot).ns / 1_000),
    },
    Metric { name: "memory-bytes", is_on: |on| on.mem, measure: |call, slot| Ok(bytes_in_slot(call, slot)) },
    Metric {
        name: "network-bytes-in",
        is_on: |on| on.net,
        measure: |call, slot| Ok(node(call)?.usage.of(slot).bytes_in),
    },
    Metric {
        name: "network-bytes-out",
        is_on: |on| on.net,
        measure: |call, slot| Ok(node(call)?.usage.of(slot).bytes_out),
    },
];

pub(super) static SLOT_STATS: ServerCommand = command("cluster|slot-stats", -4, slot_stats as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE).with(Flags::WALK))
    .syntax(
        "filter(slotsrange=SLOTSRANGE(start-slot:i end-slot:i)|orderby=ORDERBY(metric ?limit:i=LIMIT \
         ?order(ASC|DESC)))",
    )
    .doc(
        Group::Cluster,
        "8.2.0",
        "O(N) for N slots and their keys, O(N*log(N)) in order",
        "Returns the use of the node's slots.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_SHARDS]);

fn slot_stats(call: &mut Call<'_>) -> Outcome {
    let own = node(call)?.read(|cluster| views::own_slots(cluster).clone());
    let mut words = call.rest(2);
    let usage = if call.argc() == 5 && words.option("slotsrange", 2) {
        let first = parse_slot(words.value()?).map_err(reply_error)?;
        let last = parse_slot(words.value()?).map_err(reply_error)?;
        if first > last {
            let text = format!("ERR Start slot number {first} is greater than end slot number {last}");
            return Err(Error::Text(text));
        }
        Usage {
            ordered_by: None,
            slots: (first..=last).filter(|slot| own.contains(*slot)).map(|slot| (slot, 0)).collect(),
        }
    } else if words.option("orderby", 1) {
        in_order(call, &own)?
    } else {
        return Err(Error::subcommand_syntax(&call.args));
    };
    let on = call.worker.config().cluster_slot_stats_enabled;
    let metrics: Vec<&Metric> = METRICS.iter().filter(|metric| (metric.is_on)(on)).collect();
    call.reply.array(usage.slots.len());
    for (slot, ordered_by) in usage.slots {
        call.reply.array(2);
        call.reply.int(i64::from(slot));
        call.reply.map(metrics.len());
        for metric in &metrics {
            let value = match usage.ordered_by {
                Some(name) if name == metric.name => ordered_by,
                _ => (metric.measure)(call, slot)?,
            };
            call.reply.bulk(metric.name.as_bytes());
            call.reply.int(value as i64);
        }
    }
    Ok(())
}

/// The slots of a reply, each with the figure of the metric that orders them: the reply shows the same
/// figure.
struct Usage {
    ordered_by: Option<&'static str>,
    slots: Vec<(u16, u64)>,
}

/// The slots of ORDERBY, in its order.
fn in_order(call: &mut Call<'_>, own: &SlotSet) -> Result<Usage, Error> {
    let on = call.worker.config().cluster_slot_stats_enabled;
    let mut words = call.rest(3);
    let name = words.value()?;
    let is_named = |metric: &&Metric| name.eq_ignore_ascii_case(metric.name.as_bytes()) && (metric.is_on)(on);
    let metric =
        METRICS.iter().find(is_named).ok_or(Error::Fixed("ERR Unrecognized sort metric for ORDERBY."))?;
    let (mut limit, mut is_descending) = (None, None);
    while words.left() > 0 {
        let is_again = if words.option("limit", 1) {
            const OUT_OF_RANGE: Error =
                Error::Fixed("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");
            let number = words.int().map_err(|_| OUT_OF_RANGE)?;
            let number = u16::try_from(number).ok().filter(|number| (1..=SLOTS).contains(number));
            limit.replace(number.ok_or(OUT_OF_RANGE)?).is_some()
        } else if words.word("asc") {
            is_descending.replace(false).is_some()
        } else if words.word("desc") {
            is_descending.replace(true).is_some()
        } else {
            return Err(Error::Syntax);
        };
        if is_again {
            return Err(Error::Fixed("ERR Multiple filters of the same type are disallowed."));
        }
    }
    let mut usage = Vec::with_capacity(own.len());
    for slot in own.iter() {
        usage.push((slot, (metric.measure)(call, slot)?));
    }
    views::order_usage(&mut usage, is_descending.unwrap_or(true), usize::from(limit.unwrap_or(SLOTS)));
    Ok(Usage { ordered_by: Some(metric.name), slots: usage })
}

/// Bytes of a slot's keys. Its shard is unlocked now and then, as there may be many.
fn bytes_in_slot(call: &mut Call<'_>, slot: u16) -> u64 {
    let (mut bytes, mut from) = (0, None);
    loop {
        let visited =
            call.worker.keys.visit_shard(shard_of_slot(slot), |keys| keys.bytes_in_slot(slot, from));
        let Some((part, next)) = visited else { return bytes };
        bytes += part as u64;
        from = next;
        if from.is_none() {
            return bytes;
        }
    }
}
