//! Signals that stop the server.
//!
//! Invariant: the handler runs on a separate thread, never in a signal's context.

use std::io;

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

/// Ignores the signals of a terminal or peer that went away, and of a file that may not grow: the write says
/// so itself.
pub fn ignore_hangups() {
    system::ignore_signal(SIGHUP);
    system::ignore_signal(SIGPIPE);
    system::ignore_signal(SIGXFSZ);
}

/// Calls `handler` for each SIGINT and SIGTERM.
///
/// # Errors
/// When the handlers or the thread cannot be set up.
pub fn watch_signals(mut handler: impl FnMut(ShutdownSignal) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            handler(match signal {
                SIGINT => ShutdownSignal::Interrupt,
                _ => ShutdownSignal::Terminate,
            });
        }
    })?;
    Ok(())
}

/// Ends the process at once, with status 1, whatever its threads do.
pub fn exit_at_once() -> ! {
    signal_hook::low_level::exit(1)
}
