//! HOTKEYS: sessions that count which keys cost most.

use martlet_base::number::parse_i64;
use martlet_command::{Cursor, Error, Flags, Group, Outcome, Tip, command, container};

use super::{Call, ServerCommand, ServerHandler};
use crate::hotkeys::{Report, SessionOptions};
use crate::slow_path::SlowPathReason;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&HOTKEYS];

const FLAGS: Flags = Flags::ADMIN.with(Flags::NOSCRIPT);
/// The metrics that there are.
const METRICS_MAX: i64 = 2;

static HOTKEYS: ServerCommand = container("hotkeys", -2, &[&GET, &HELP, &RESET, &START, &STOP]).doc(
    Group::Server,
    "8.6.0",
    "Depends on subcommand",
    "A container for commands that track hot keys.",
);

static START: ServerCommand = command("hotkeys|start", -2, start as ServerHandler)
    .flags(FLAGS)
    .syntax("metrics=METRICS(count:i ?CPU ?NET) ?k:i=COUNT ?seconds:i=DURATION ?ratio:i=SAMPLE ?slots=SLOTS(count:i *slot:i)")
    .doc(Group::Server, "8.6.0", "O(1)", "Begins to count which keys cost most.")
    .tips(&[Tip::REQUEST_SPECIAL]);

fn start(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    if shared.hotkeys.is_active() {
        return Err(IN_PROGRESS);
    }
    let options = parse(call)?;
    if !shared.hotkeys.start(options, call.worker.now_ms) {
        return Err(IN_PROGRESS);
    }
    shared.slow_path_reasons.hold(SlowPathReason::HotKeys);
    call.reply.ok();
    Ok(())
}

const IN_PROGRESS: Error = Error::Fixed("ERR hotkey tracking session already in progress");

fn parse(call: &Call<'_>) -> Result<SessionOptions, Error> {
    let mut rest = call.rest(2);
    if !rest.option("metrics", 1) {
        return Err(Error::Fixed("ERR METRICS parameter is required"));
    }
    let (cpu, net) = metrics(&mut rest)?;
    let mut options = SessionOptions { cpu, net, count: 10, duration_ms: 0, sample_ratio: 1 };
    loop {
        if rest.option("count", 1) {
            options.count = within(&mut rest, 64, "ERR COUNT must be between 1 and 64")? as usize;
        } else if rest.option("duration", 1) {
            let text = "ERR DURATION must be between 1 and 1000000";
            options.duration_ms = within(&mut rest, 1_000_000, text)? * 1000;
        } else if rest.option("sample", 1) {
            let ratio = within(&mut rest, i64::from(i32::MAX), "ERR SAMPLE ratio must be positive")?;
            options.sample_ratio = ratio as u32;
        } else if rest.option("slots", 1) {
            return Err(Error::Fixed("ERR SLOTS parameter cannot be used in non-cluster mode"));
        } else {
            rest.finish()?;
            return Ok(options);
        }
    }
}

/// Whether time and network are to be counted.
fn metrics(rest: &mut Cursor<'_>) -> Result<(bool, bool), Error> {
    let count = within(rest, METRICS_MAX, "ERR METRICS count must be > 0 and <= 2")?;
    let (mut cpu, mut net) = (false, false);
    for _ in 0..count {
        if rest.left() == 0 {
            return Err(Error::Fixed("ERR METRICS count does not match number of metric types provided"));
        }
        if rest.word("cpu") {
            if std::mem::replace(&mut cpu, true) {
                return Err(Error::Fixed("ERR METRICS CPU defined more than once!"));
            }
        } else if rest.word("net") {
            if std::mem::replace(&mut net, true) {
                return Err(Error::Fixed("ERR METRICS NET defined more than once!"));
            }
        } else {
            // Metrics of later versions mean nothing here.
            rest.skip(1);
        }
    }
    if !cpu && !net {
        return Err(Error::Fixed("ERR METRICS no valid metrics passed. Supported: CPU|NET"));
    }
    Ok((cpu, net))
}

/// The next argument, a number from 1 to `most`.
fn within(rest: &mut Cursor<'_>, most: i64, error: &'static str) -> Result<i64, Error> {
    let number = parse_i64(rest.value()?).filter(|number| (1..=most).contains(number));
    number.ok_or(Error::Fixed(error))
}

static STOP: ServerCommand = command("hotkeys|stop", 2, stop as ServerHandler)
    .flags(FLAGS)
    .doc(Group::Server, "8.6.0", "O(1)", "Ends the counting; its results stay.")
    .tips(&[Tip::REQUEST_SPECIAL]);

fn stop(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    if shared.hotkeys.stop(call.worker.now_ms) {
        shared.slow_path_reasons.release(SlowPathReason::HotKeys);
        call.reply.ok();
    } else {
        call.reply.null();
    }
    Ok(())
}

static RESET: ServerCommand = command("hotkeys|reset", 2, reset as ServerHandler)
    .flags(FLAGS)
    .doc(Group::Server, "8.6.0", "O(1)", "Forgets the results.")
    .tips(&[Tip::REQUEST_SPECIAL]);

fn reset(call: &mut Call<'_>) -> Outcome {
    if !call.worker.shared.hotkeys.reset() {
        return Err(Error::Fixed("ERR hotkey tracking session in progress, stop tracking first"));
    }
    call.reply.ok();
    Ok(())
}

static GET: ServerCommand = command("hotkeys|get", 2, get as ServerHandler)
    .flags(FLAGS)
    .doc(
        Group::Server,
        "8.6.0",
        "O(K) for K keys that are returned",
        "Returns the keys that cost most, by the metrics of HOTKEYS START.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_SPECIAL, Tip::RESPONSE_SPECIAL]);

fn get(call: &mut Call<'_>) -> Outcome {
    let Some(report) = call.worker.shared.hotkeys.report(call.worker.now_ms) else {
        call.reply.null();
        return Ok(());
    };
    // One map of several, as each node of a cluster returns one.
    call.reply.array(1);
    write_report(call, &report);
    Ok(())
}

fn write_report(call: &mut Call<'_>, report: &Report) {
    let reply = &mut *call.reply;
    let options = &report.options;
    reply.map(7 + 3 * usize::from(options.cpu) + 2 * usize::from(options.net));
    reply.bulk(b"tracking-active");
    reply.int(i64::from(report.is_active));
    reply.bulk(b"sample-ratio");
    reply.int(i64::from(options.sample_ratio));
    reply.bulk(b"selected-slots");
    // All of them, as one range.
    reply.array(1);
    reply.array(2);
    reply.int(0);
    reply.int(16_383);
    let mut field = |name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.int(value);
    };
    field("all-commands-all-slots-us", report.totals.ns.div_ceil(1000) as i64);
    field("net-bytes-all-commands-all-slots", report.totals.bytes as i64);
    field("collection-start-time-unix-ms", report.began_ms);
    field("collection-duration-ms", report.took_ms);
    if options.cpu {
        field("total-cpu-time-user-ms", (report.cpu.user_s * 1000.0) as i64);
        field("total-cpu-time-sys-ms", (report.cpu.system_s * 1000.0) as i64);
    }
    if options.net {
        field("total-net-bytes", report.totals.counted_bytes as i64);
    }
    // Only counted metrics are shown.
    let lists = [
        (options.cpu, "by-cpu-time-us", &report.by_ns, 1000),
        (options.net, "by-net-bytes", &report.by_bytes, 1),
    ];
    for (_, name, keys, unit) in lists.into_iter().filter(|(is_counted, ..)| *is_counted) {
        reply.bulk(name.as_bytes());
        reply.array(2 * keys.len());
        for (key, weight) in keys {
            reply.bulk(key);
            reply.int(weight.div_ceil(unit) as i64);
        }
    }
}

static HELP: ServerCommand = command("hotkeys|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Server, "8.6.1", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "HOTKEYS");
    Ok(())
}
