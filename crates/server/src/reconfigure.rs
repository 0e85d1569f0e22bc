//! Side effects of CONFIG SET on what threads share: what listens where, the default user's password.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config::Config;
use crate::listeners;
use crate::shared::{Mail, Shared};
use crate::worker::TCP;

/// Puts the hooks in place.
pub fn install(shared: &'static Shared) {
    let require = move |_: &Config, new: &Config| {
        shared.access.require_password(new.requirepass.as_deref());
        Ok(())
    };
    shared.config.on_change(&["requirepass"], Box::new(require));
    shared.config.on_change(&["port", "bind"], Box::new(move |old, new| relisten(shared, old, new)));
}

/// Listens on the new addresses, then gives up the old ones; on failure the old ones stay.
fn relisten(shared: &'static Shared, old: &Config, new: &Config) -> Result<(), String> {
    let refusal = match old.bind == new.bind {
        true => "Unable to listen on this port. Check server logs.",
        false => "Failed to bind to specified addresses.",
    };
    let listeners = listeners::tcp(new, Duration::ZERO).map_err(|_| refusal.to_owned())?;
    shared.port.store(u32::from(new.port), Ordering::Relaxed);
    shared.send(
        0,
        Mail::Run(Box::new(move |worker| {
            worker.unlisten(TCP);
            for listener in listeners {
                worker.listen(listener.socket, TCP);
            }
        })),
    );
    Ok(())
}
