//! Host names: looked up by separate threads, so that a silent name server delays nothing else.
//!
//! Invariant: a name's last known address is answered at once; only the first look-up is waited for, and not
//! for long.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;

/// How long the first look-up of a name is waited for.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// When a name is looked up again.
const REFRESH_AFTER: Duration = Duration::from_secs(1);
/// Names that are remembered.
const NAMES_MAX: usize = 10_000;

struct Name {
    ip: Option<IpAddr>,
    asked: Instant,
    /// The look-up that is under way.
    pending: Option<Receiver<Option<IpAddr>>>,
}

/// See the [module docs](self).
#[derive(Default)]
pub(super) struct Resolver {
    names: HashMap<String, Name>,
}

impl Resolver {
    /// The address of a host.
    pub fn resolve(&mut self, host: &str) -> Option<IpAddr> {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(host) {
            self.names.retain(|_, name| name.pending.is_some());
        }
        let is_new = !self.names.contains_key(host);
        let name = self.names.entry(host.into()).or_insert_with(|| Name {
            ip: None,
            asked: monotonic(),
            pending: Some(look_up(host)),
        });
        if !is_new && name.pending.is_none() && name.asked.elapsed() > REFRESH_AFTER {
            name.asked = monotonic();
            name.pending = Some(look_up(host));
        }
        let wait = if is_new { FIRST_WAIT } else { Duration::ZERO };
        if let Some(pending) = &name.pending {
            match pending.recv_timeout(wait) {
                Ok(ip) => {
                    // One that cannot be looked up just now is most likely still there.
                    name.ip = ip.or(name.ip);
                    name.pending = None;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => name.pending = None,
            }
        }
        name.ip
    }
}

/// Begins a look-up.
fn look_up(host: &str) -> Receiver<Option<IpAddr>> {
    let (sender, receiver) = channel();
    let host = host.to_owned();
    let started = std::thread::Builder::new().name("resolver".into()).spawn(move || {
        let found = (host.as_str(), 0).to_socket_addrs().ok();
        // IPv4 first, as Redis' default is.
        let ips: Vec<IpAddr> = found.into_iter().flatten().map(|address| address.ip()).collect();
        let first = ips.iter().find(|ip| ip.is_ipv4()).or(ips.first());
        let _ = sender.send(first.copied());
    });
    // Without a thread the sender is gone, and the look-up has failed.
    drop(started);
    receiver
}

#[cfg(test)]
mod tests {
    use super::Resolver;

    #[test]
    fn names_resolve_or_do_not() {
        let mut resolver = Resolver::default();
        assert!(resolver.resolve("localhost").is_some_and(|ip| ip.is_loopback()));
        assert_eq!(resolver.resolve("no such host"), None);
    }
}
