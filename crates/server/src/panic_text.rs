//! Panics and traces as the log shows them.

use std::fmt::Write as _;

use crate::process::Trace;

/// A panic in the words that Redis has for it: assertions are one thing, whatever else another.
pub fn tell_panic(message: &str, place: &str) {
    if message.starts_with("assertion") {
        tracing::error!("=== ASSERTION FAILED ===");
        tracing::error!("==> {place} '{message}'");
    } else {
        tracing::error!("------------------------------------------------");
        tracing::error!("!!! Software Failure. Press left mouse button to continue");
        tracing::error!("Guru Meditation: {message} #{place}");
        tracing::error!("------------------------------------------------");
    }
}

/// One thread's trace, with the names of its functions.
pub fn trace_text(trace: &Trace) -> String {
    let mut text = String::new();
    add_trace(&mut text, trace, "");
    text
}

pub fn add_trace(text: &mut String, trace: &Trace, mark: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{} {}{mark}", trace.thread, trace.name);
    for &address in &trace.addresses {
        let mut is_named = false;
        backtrace::resolve(address as *mut std::ffi::c_void, |symbol| {
            is_named = true;
            let name = symbol.name().map(|name| format!("{name:#}")).unwrap_or_else(|| "?".into());
            let _ = write!(text, "{address:#x} {name}");
            if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
                let _ = write!(text, " at {}:{line}", file.display());
            }
            text.push('\n');
        });
        if !is_named {
            let _ = writeln!(text, "{address:#x}");
        }
    }
}
