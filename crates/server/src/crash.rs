//! The report of a crash in the log: in the order of Redis' report, and with its headings.
//!
//! Invariant: a part that may be out of reach because the crashed thread holds it is waited for no longer
//! than [`INFO_LIMIT`].

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::commands::info;
use crate::config::parameters_set;
use crate::containment;
use crate::logging::Log;
use crate::panic_text::{add_trace, tell_panic};
use crate::process::{Cause, Signal, Trace, end_after_panic, other_traces, watch_crashes};
use crate::runtime::Shared;
use crate::runtime::Worker;

/// How long one section of INFO may take: more than a machine with other work to do holds a thread up.
const INFO_LIMIT: Duration = Duration::from_secs(3);

/// Reports signals that end the process, and panics, from now on.
///
/// # Errors
/// When the operating system refuses what that takes; a line for the log.
pub fn install(shared: &'static Shared, log: &Arc<Log>) -> Result<(), String> {
    let log = Arc::clone(log);
    watch_crashes(move |cause, trace| report(shared, &log, cause, trace))
        .map_err(|error| format!("Can't watch for crashes: {error}"))?;
    // A thread that died with a shard locked would leave a server that hangs, and half changed data would be
    // served and saved.
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let message = (payload.downcast_ref::<String>().map(String::as_str))
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a text");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        if !containment::may_unwind(message, &place) {
            end_after_panic(message.to_owned(), place, shared.config.snapshot().use_exit_on_panic);
        }
    }));
    Ok(())
}

fn report(shared: &'static Shared, log: &Log, cause: &Cause, trace: &Trace) {
    let is_wanted = shared.config.snapshot().crash_log_enabled;
    match cause {
        Cause::Alarm(signal) => {
            log.raw("\n--- WATCHDOG TIMER EXPIRED ---\n");
            // Otherwise the watchdog of this process has sent it.
            if let Some((pid, uid)) = signal.sender.filter(|&(pid, _)| pid as u32 != std::process::id()) {
                tracing::warn!("Received SIGALRM from PID: {pid}, UID: {uid}");
            }
            log.raw(&stack_traces(trace));
            log.raw("------\n");
            return;
        }
        _ if is_wanted => {
            log.raw("\n\n=== REDIS BUG REPORT START: Cut & paste starting from here ===\n");
        }
        _ => {}
    }
    match cause {
        Cause::Panic(message, place) => tell_panic(message, place),
        Cause::Signal(signal) if is_wanted => tell_signal(signal),
        _ => {}
    }
    if is_wanted {
        log.raw(&stack_traces(trace));
        log.raw("\n------ INFO OUTPUT ------\n");
        tell_info(shared, log);
        log.raw("\n------ CONFIG OUTPUT ------\n");
        log.raw(&parameters_set(&shared.config.snapshot()));
        log.raw(
            "\n=== REDIS BUG REPORT END. Make sure to include from START to END. ===\n\n       \
             Please report the crash with all of this to the makers of Martlet.\n\n",
        );
    }
    log.finish();
}

/// Writes INFO as far as possible: locks of the crashed thread are never released.
fn tell_info(shared: &'static Shared, log: &Log) {
    let (sender, sections) = channel();
    let body = move || {
        let mut worker = Worker::new(shared, shared.storage().saver(0), &crate::wiring::HOOKS);
        for name in info::section_names() {
            let text = info::render(&mut worker, [name.as_bytes()].into_iter());
            // The waiting thread has given up.
            let _ = sender.send(text.replace('\r', ""));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("crash-info".into()).spawn(body) {
        return log.raw(&format!("not to be had: {error}\n"));
    }
    loop {
        match sections.recv_timeout(INFO_LIMIT) {
            Ok(text) => log.raw(&text),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                return log
                    .raw("The rest is not available: the crashed thread holds a lock that it takes.\n");
            }
        }
    }
}

fn tell_signal(signal: &Signal) {
    let Signal { number, code, instruction, address, sender } = signal;
    let version = env!("CARGO_PKG_VERSION");
    tracing::error!("Martlet {version} crashed by signal: {number}, si_code: {code}");
    match sender {
        Some((pid, uid)) => tracing::error!("Killed by PID: {pid}, UID: {uid}"),
        None => tracing::error!("Accessing address: {address:#x}"),
    }
    tracing::error!("Crashed running the instruction at: {instruction:#x}");
}

/// Where each thread is; the one that met the cause has a star.
fn stack_traces(trace: &Trace) -> String {
    let mut text = String::from("\n------ STACK TRACE ------\n");
    add_trace(&mut text, trace, " *");
    for other in other_traces(trace.thread) {
        add_trace(&mut text, &other, "");
    }
    text.push_str("\n------ STACK TRACE DONE ------\n");
    text
}
