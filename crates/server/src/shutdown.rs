//! The end of the server, by SHUTDOWN or by a signal.

use crate::process::ShutdownSignal;
use crate::shared::Shared;

/// Ends the server on a signal.
pub fn on_signal(shared: &'static Shared, _: ShutdownSignal) {
    begin(shared);
}

/// Ends the server: its threads leave their loops after what they are doing.
pub fn begin(shared: &'static Shared) {
    tracing::warn!("User requested shutdown...");
    shared.stop();
}
