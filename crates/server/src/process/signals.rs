//! Signals that stop the server.
//!
//! What always holds: the handler given runs on a thread of its own, never in a signal's context; a second SIGINT ends the
//! process at once, whatever that thread does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::system;

/// A signal that asks the server to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownSignal {
    /// SIGINT: `shutdown-on-sigint` says how.
    Interrupt,
    /// SIGTERM: `shutdown-on-sigterm` says how.
    Terminate,
}

/// Ignores the signals of a terminal or peer that went away, and of a file that may not grow: the write says so itself.
pub fn ignore_hangups() {
    system::ignore_signal(SIGHUP);
    system::ignore_signal(SIGPIPE);
    system::ignore_signal(SIGXFSZ);
}

/// Calls `handler` for each SIGINT and SIGTERM, and exits with status 1 at the second SIGINT.
///
/// # Errors
/// When the handlers or the thread cannot be set up.
pub fn watch_signals(mut handler: impl FnMut(ShutdownSignal) + Send + 'static) -> io::Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    // The order counts: the first SIGINT finds the flag down and raises it.
    signal_hook::flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&interrupted))?;
    signal_hook::flag::register(SIGINT, interrupted)?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let (signal, name) = match signal {
                SIGINT => (ShutdownSignal::Interrupt, "SIGINT"),
                _ => (ShutdownSignal::Terminate, "SIGTERM"),
            };
            tracing::warn!("Received {name} scheduling shutdown...");
            handler(signal);
        }
    })?;
    Ok(())
}
