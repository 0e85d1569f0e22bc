//! Side effects of CONFIG SET on what threads share: what listens where, the default user's password, the
//! append-only file.
//!
//! Invariant: every step that can fail runs in a hook before the configuration is published and can be
//! undone; every step that cannot be undone runs after it and cannot fail.

use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_engine::Outside;

use crate::config::{Acquired, Config, Prepared};
use crate::listeners::{self, Kind, Listener};
use crate::runtime::{Mail, Shared};
use crate::runtime::{TCP, TLS};
use crate::slow_path::SlowPathReason;
use crate::tls::{self, Made};

/// Puts the hooks in place.
pub fn install(shared: &'static Shared) {
    let require = move |_: &Config, new: &Config| {
        shared.access.require_password(new.requirepass.as_deref());
    };
    shared.config.on_published(&["requirepass"], Box::new(require));
    let import = move |_: &Config, new: &Config| {
        shared.slow_path_reasons.switch(SlowPathReason::Importing, new.import_mode);
    };
    shared.config.on_published(&["import-mode"], Box::new(import));
    let check = move |_: &Config, new: &Config| check_compatibility(shared, new);
    shared.config.on_published(&["cluster-compatibility-sample-ratio"], Box::new(check));
    check_compatibility(shared, &shared.config.snapshot());
    install_tls(shared);
    install_listeners(shared, &["port", "bind"], Kind::Plain, TCP);
    install_listeners(shared, &["tls-port", "bind"], Kind::Tls, TLS);
    shared.config.on_change(&["dir"], Box::new(stay_with_log));
    let prepare = move |outside: &Outside, old: &Config, new: &Config| {
        if new.appendonly && !old.appendonly {
            shared.storage().prepare_log(outside, &crate::persistence::settings::settings(new))?;
        }
        Ok(Acquired::nothing())
    };
    shared.config.on_read(&["appendonly"], Box::new(prepare));
}

/// Has requests looked at for whether a cluster could run them, where there is none.
fn check_compatibility(shared: &Shared, config: &Config) {
    let is_on = crate::settings::compatibility_sample_percent(config) > 0;
    shared.slow_path_reasons.switch(SlowPathReason::Compatibility, is_on);
}

/// One hook refuses what cannot be used, the other puts to use what the first has read.
/// Files that have changed since the last set was read so do not matter to a change that is refused.
fn install_tls(shared: &'static Shared) {
    let prepared: &'static Prepared<Made> = Box::leak(Box::default());
    let read = move |outside: &Outside, _: &Config, new: &Config| {
        let made = Made::of(outside, new).map_err(|why| {
            tracing::warn!("{why}");
            "Unable to update TLS configuration. Check server logs.".to_owned()
        })?;
        let apply = move || {
            prepared.keep(made);
            Ok(())
        };
        Ok(Acquired { apply: Box::new(apply), undo: Box::new(|| drop(prepared.take())) })
    };
    shared.config.on_read(tls::PARAMETERS, Box::new(read));
    let follow = move |_: &Config, _: &Config| {
        prepared.take().into_iter().for_each(|made| shared.tls.take_up(made));
    };
    shared.config.on_published(tls::PARAMETERS, Box::new(follow));
}

/// Listens on the addresses of the new configuration before it is published, and gives up the old ones after
/// that.
fn install_listeners(shared: &'static Shared, names: &'static [&'static str], kind: Kind, tag: u32) {
    let prepared: &'static Prepared<Vec<Listener>> = Box::leak(Box::default());
    let prepare = move |old: &Config, new: &Config| {
        let refusal = match old.bind == new.bind {
            true => "Unable to listen on this port. Check server logs.",
            false => "Failed to bind to specified addresses.",
        };
        prepared.prepare(|| {
            let replaced = shared.listening(tag);
            listeners::tcp(new, kind, Duration::ZERO, &replaced).map_err(|_| refusal.to_owned())
        })
    };
    shared.config.on_change(names, Box::new(prepare));
    let follow = move |_: &Config, new: &Config| {
        let Some(listeners) = prepared.take() else { return };
        shared.port.store(u32::from(listeners::first_port(new)), Ordering::Relaxed);
        // The old addresses are closed when the client gets its answer.
        shared.end_listening(tag);
        listeners.iter().for_each(|listener| shared.note_listening(tag, &listener.socket));
        let relisten = move |worker: &mut crate::runtime::Worker| {
            worker.unlisten(tag);
            for listener in listeners {
                worker.listen(listener.socket, tag);
            }
        };
        shared.send(0, Mail::Run(Box::new(relisten)));
    };
    shared.config.on_published(names, Box::new(follow));
}

/// Refuses another directory while there is an append-only file: its present files would stay in the old
/// directory, its next files would go to the new one, and neither directory would load.
fn stay_with_log(old: &Config, new: &Config) -> Result<(), String> {
    if old.appendonly && new.appendonly && old.dir != new.dir {
        return Err("The append-only file is in the old directory: set appendonly to no before".into());
    }
    Ok(())
}
