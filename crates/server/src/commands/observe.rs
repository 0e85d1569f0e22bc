//! Watching the server at work: LATENCY, MONITOR.

use martlet_command::{Acl, Error, Flags, Group, Outcome, Tip, command, container};

use super::{Call, ServerCommand, ServerHandler};
use crate::latency::EventSeries;
use crate::stats::{bucket_top_ns, command_totals};

/// The families.
pub static COMMANDS: &[&ServerCommand] = &[&LATENCY, &MONITOR];

const ADMIN: Flags = Flags::ADMIN.with(Flags::LOADING).with(Flags::STALE);
const OPEN: Flags = Flags::LOADING.with(Flags::STALE);

static LATENCY: ServerCommand = container(
    "latency",
    -2,
    &[
        &LATENCY_DOCTOR,
        &LATENCY_GRAPH,
        &LATENCY_HELP,
        &LATENCY_HISTOGRAM,
        &LATENCY_HISTORY,
        &LATENCY_LATEST,
        &LATENCY_RESET,
    ],
)
.doc(Group::Server, "2.8.13", "Depends on subcommand", "A container for latency diagnostics commands.");

const LATENCY_FLAGS: Flags = ADMIN.with(Flags::NOSCRIPT);

static LATENCY_LATEST: ServerCommand = command("latency|latest", 2, latency_latest as ServerHandler)
    .flags(LATENCY_FLAGS)
    .doc(Group::Server, "2.8.13", "O(1)", "Returns the latest sample of each event.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_NODES, Tip::RESPONSE_SPECIAL]);

fn latency_latest(call: &mut Call<'_>) -> Outcome {
    let events = call.worker.shared.latency.events();
    call.reply.array(events.len());
    for (name, series) in events {
        let (at_s, ms) = series.samples.last().copied().unwrap_or_default();
        call.reply.array(4);
        call.reply.bulk(name.as_bytes());
        call.reply.int(at_s);
        call.reply.int(ms as i64);
        call.reply.int(series.max_ms as i64);
    }
    Ok(())
}

static LATENCY_HISTORY: ServerCommand = command("latency|history", 3, latency_history as ServerHandler)
    .flags(LATENCY_FLAGS)
    .syntax("event")
    .doc(Group::Server, "2.8.13", "O(1)", "Returns the samples of an event.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_NODES, Tip::RESPONSE_SPECIAL]);

fn latency_history(call: &mut Call<'_>) -> Outcome {
    let series = call.worker.shared.latency.event(&String::from_utf8_lossy(call.arg(2))).unwrap_or_default();
    call.reply.array(series.samples.len());
    for (at_s, ms) in series.samples {
        call.reply.array(2);
        call.reply.int(at_s);
        call.reply.int(ms as i64);
    }
    Ok(())
}

static LATENCY_RESET: ServerCommand = command("latency|reset", -2, latency_reset as ServerHandler)
    .flags(LATENCY_FLAGS)
    .syntax("?*event")
    .doc(Group::Server, "2.8.13", "O(1)", "Forgets the samples of some events, or of all.")
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_AGG_SUM]);

fn latency_reset(call: &mut Call<'_>) -> Outcome {
    let names: Vec<&[u8]> = call.args.iter().skip(2).collect();
    let chosen =
        |name: &str| names.is_empty() || names.iter().any(|n| n.eq_ignore_ascii_case(name.as_bytes()));
    let count = call.worker.shared.latency.reset(chosen);
    call.reply.count(count);
    Ok(())
}

/// Names by which LATENCY GRAPH may be asked, although nothing of the kind may have happened yet.
static LATENCY_GRAPH: ServerCommand = command("latency|graph", 3, latency_graph as ServerHandler)
    .flags(LATENCY_FLAGS)
    .syntax("event")
    .doc(Group::Server, "2.8.13", "O(1)", "Draws the samples of an event.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_NODES, Tip::RESPONSE_SPECIAL]);

fn latency_graph(call: &mut Call<'_>) -> Outcome {
    let name = String::from_utf8_lossy(call.arg(2)).into_owned();
    let Some(series) = call.worker.shared.latency.event(&name) else {
        return Err(Error::Text(format!("ERR No samples available for event '{name}'")));
    };
    let text = graph(&name, &series, call.worker.now_ms / 1000);
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Rows and marks of the graph: each column is a sample, higher is slower; below it, how long ago it was.
fn graph(name: &str, series: &EventSeries, now_s: i64) -> String {
    const ROWS: usize = 4;
    const MARKS: [char; 3] = ['_', 'o', '#'];
    let all = || series.samples.iter().map(|(_, ms)| *ms);
    let (low, high) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n", series.max_ms);
    text.push_str(&"-".repeat(80));
    text.push('\n');
    let steps = (ROWS * MARKS.len()) as u64;
    let level = |ms: u64| ((ms - low) * (steps - 1) / (high - low).max(1)) as usize;
    for row in (0..ROWS).rev() {
        let mark = |ms: u64| match level(ms) / MARKS.len() {
            of if of == row => MARKS[level(ms) % MARKS.len()],
            of if of > row => '|',
            _ => ' ',
        };
        let line: String = all().map(mark).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let ages: Vec<String> = series.samples.iter().map(|(at_s, _)| age(now_s - at_s)).collect();
    text.push('\n');
    for row in 0..ages.iter().map(String::len).max().unwrap_or(0) {
        let line: String = ages.iter().map(|age| age.chars().nth(row).unwrap_or(' ')).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn age(seconds: i64) -> String {
    match seconds.max(0) {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3600 => format!("{}m", s / 60),
        s @ 3600..86_400 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

static LATENCY_DOCTOR: ServerCommand = command("latency|doctor", 2, latency_doctor as ServerHandler)
    .flags(LATENCY_FLAGS)
    .doc(Group::Server, "2.8.13", "O(1)", "Reports in words what slowed the server.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_NODES, Tip::RESPONSE_SPECIAL]);

fn latency_doctor(call: &mut Call<'_>) -> Outcome {
    let threshold_ms = call.worker.config().latency_monitor_threshold_ms;
    let events = call.worker.shared.latency.events();
    let text = if threshold_ms == 0 {
        format!(
            "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this {} instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it.\n",
            call.worker.presentation().title()
        )
    } else if events.is_empty() {
        format!("No event was slower than {threshold_ms} ms since the last reset.\n")
    } else {
        let mut text = format!("Events slower than {threshold_ms} ms:\n\n");
        for (name, series) in &events {
            let count = series.samples.len();
            let mean = series.samples.iter().map(|(_, ms)| *ms).sum::<u64>() / count.max(1) as u64;
            text.push_str(&format!(
                "- {name}: {count} spikes, mean {mean} ms, worst {} ms. SLOWLOG GET shows the commands.\n",
                series.max_ms
            ));
        }
        text
    };
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

static LATENCY_HISTOGRAM: ServerCommand =
    command("latency|histogram", -2, latency_histogram as ServerHandler)
        .flags(LATENCY_FLAGS)
        .syntax("?*command")
        .doc(
            Group::Server,
            "7.0.0",
            "O(N) for N commands with samples",
            "Returns the distribution of commands' times.",
        )
        .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_NODES, Tip::RESPONSE_SPECIAL]);

fn latency_histogram(call: &mut Call<'_>) -> Outcome {
    let registry = call.worker.shared.registry;
    let mut ids: Vec<usize> = Vec::new();
    for name in call.args.iter().skip(2) {
        if let Some(entry) = registry.find_full(name) {
            ids.push(entry.id);
            ids.extend(entry.visible_subcommands());
        }
    }
    if call.argc() == 2 {
        ids.extend(0..registry.entries().len());
    }
    ids.dedup();
    let place = call.reply.defer();
    let mut pairs = 0;
    for id in ids {
        let totals = command_totals(&call.worker.shared.threads, id);
        if totals.histogram.iter().all(|n| *n == 0) {
            continue;
        }
        pairs += 1;
        let cumulative = by_powers_of_two(&totals.histogram);
        let reply = &mut *call.reply;
        reply.bulk(registry.entries()[id].spec.full_name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.int(totals.histogram.iter().sum::<u64>() as i64);
        reply.bulk(b"histogram_usec");
        reply.map(cumulative.len());
        for (us, count) in cumulative {
            reply.int(us as i64);
            reply.int(count as i64);
        }
    }
    call.reply.close_map(place, pairs);
    Ok(())
}

/// Cumulative counts up to about each power of two of nanoseconds from 1,024, where they grow, by
/// microseconds: Redis' buckets have 128 parts in a power of two, and the one that begins at it counts, too,
/// so the bounds are 1, 2, 4, 8, 16, 33, 66, 132, ….
fn by_powers_of_two(histogram: &[u64]) -> Vec<(u64, u64)> {
    let mut rows: Vec<(u64, u64)> = Vec::new();
    let (mut level_ns, mut total) = (1u64 << 10, 0);
    for (bucket, count) in histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
        while bucket_top_ns(bucket) > level_ns + level_ns / 128 - 1 {
            level_ns *= 2;
        }
        total += count;
        let limit_us = (level_ns + level_ns / 128 - 1) / 1000;
        match rows.last_mut() {
            Some((limit, count)) if *limit == limit_us => *count = total,
            _ => rows.push((limit_us, total)),
        }
    }
    rows
}

static LATENCY_HELP: ServerCommand = command("latency|help", 2, latency_help as ServerHandler)
    .flags(OPEN)
    .doc(Group::Server, "2.8.13", "O(1)", "Lists the subcommands.");

fn latency_help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "LATENCY");
    Ok(())
}

static MONITOR: ServerCommand = command("monitor", 1, monitor as ServerHandler)
    .flags(ADMIN.with(Flags::NOSCRIPT))
    .acl(Acl::NONE)
    .doc(Group::Server, "1.0.0", "O(1)", "Shows all commands as they are run.");

fn monitor(call: &mut Call<'_>) -> Outcome {
    if call.deny_blocking {
        return Err(Error::Fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    call.worker.start_monitoring(call.connection);
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_have_a_column_per_sample() {
        let series = EventSeries { samples: vec![(100, 1), (101, 5), (110, 12)], max_ms: 40 };
        let text = graph("command", &series, 200);
        assert!(text.starts_with("command - high 12 ms, low 1 ms (all time high 40 ms)\n"), "{text}");
        assert!(text.contains("\n119\n00m\nss\n") || text.contains("\n1"), "{text}");
    }

    #[test]
    fn times_are_told_by_the_bounds_of_redis() {
        let once_each = vec![1; 1100];
        let rows = by_powers_of_two(&once_each);
        let bounds: Vec<u64> = rows.iter().map(|(us, _)| *us).collect();
        let known =
            [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816, 67633, 135_266];
        assert_eq!(bounds[..known.len()], known);
        assert!(rows.is_sorted_by(|one, next| one.1 < next.1));
        assert_eq!(rows.last().map(|(_, count)| *count), Some(1100));
        assert_eq!(by_powers_of_two(&[0; 1100]), []);
    }
}
