//! Side effects of CONFIG SET on what threads share: what listens where, the default user's password.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config::Config;
use crate::listeners::{self, Kind};
use crate::shared::{Mail, Shared};
use crate::slow_path::SlowPathReason;
use crate::worker::{TCP, TLS};

/// Puts the hooks in place.
pub fn install(shared: &'static Shared) {
    let require = move |_: &Config, new: &Config| {
        shared.access.require_password(new.requirepass.as_deref());
        Ok(())
    };
    shared.config.on_change(&["requirepass"], Box::new(require));
    let import = move |_: &Config, new: &Config| {
        shared.slow_path_reasons.switch(SlowPathReason::Importing, new.import_mode);
        Ok(())
    };
    shared.config.on_change(&["import-mode"], Box::new(import));
    crate::tls::install(shared);
    let plain = move |old: &Config, new: &Config| relisten(shared, Kind::Plain, TCP, old, new);
    shared.config.on_change(&["port", "bind"], Box::new(plain));
    let tls = move |old: &Config, new: &Config| relisten(shared, Kind::Tls, TLS, old, new);
    shared.config.on_change(&["tls-port", "bind"], Box::new(tls));
}

/// Listens on the new addresses, then gives up the old ones; on failure the old ones stay.
fn relisten(shared: &'static Shared, kind: Kind, tag: u32, old: &Config, new: &Config) -> Result<(), String> {
    let refusal = match old.bind == new.bind {
        true => "Unable to listen on this port. Check server logs.",
        false => "Failed to bind to specified addresses.",
    };
    let listeners = listeners::tcp(new, kind, Duration::ZERO).map_err(|_| refusal.to_owned())?;
    shared.port.store(u32::from(listeners::first_port(new)), Ordering::Relaxed);
    shared.send(
        0,
        Mail::Run(Box::new(move |worker| {
            worker.unlisten(tag);
            for listener in listeners {
                worker.listen(listener.socket, tag);
            }
        })),
    );
    Ok(())
}
