//! The thread `replica`: connects to the primary, receives a snapshot or continues with the stream, and
//! acknowledges its offset. It sees no key, and is outside the gate while it waits for the network.
//!
//! Invariant: it works for the generation that it has begun with, and ends its work as soon as that is over.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::handshake::{Handshake, Progress};
use super::link::{Ended, Link, PERIOD, broken, set_state};
use super::load;
use super::state::LinkState;
use crate::config::Primary;
use crate::replication::failover_state::State;
use crate::runtime::Shared;

/// Begins to copy the primary, if one is configured, once the data is there.
pub fn begin(shared: &'static Shared) {
    if shared.is_replica() {
        start(shared);
    }
}

/// Starts the thread, unless it runs.
pub fn start(shared: &'static Shared) {
    let link = &shared.replication.replica.link;
    if link.is_started.swap(true, Ordering::SeqCst) {
        return;
    }
    let started = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(io::Error::from)
        .and_then(|event| {
            let _ = link.event.set(event);
            std::thread::Builder::new().name("replica".into()).spawn(move || run(shared))
        });
    if let Err(error) = started {
        tracing::error!("No thread for replication: {error}");
        link.is_started.store(false, Ordering::SeqCst);
    }
}

/// The thread's loop.
fn run(shared: &'static Shared) {
    crate::process::guard_thread();
    let replica = &shared.replication.replica;
    while !shared.stopping.load(Ordering::Relaxed) {
        let (generation, primary) = replica.task();
        let Some(primary) = primary else {
            replica.sleep(generation, Duration::MAX);
            continue;
        };
        let began = shared.clock.raw();
        let ended = follow(shared, generation, &primary);
        let mut was_up = false;
        replica.update(|status| {
            if status.generation == generation {
                was_up = status.state == LinkState::Connected;
                if was_up {
                    status.down_since_s = Some(shared.clock.unix_ms() / 1000);
                }
                status.state = LinkState::Connect;
            }
        });
        match ended {
            Err(Ended::Broken(why)) => {
                tracing::warn!("{why}");
                let lasted = Duration::from_nanos(shared.clock.elapsed_ns(began, shared.clock.raw()));
                replica.sleep(generation, pause(was_up, lasted));
            }
            Err(Ended::Unloadable { why, from }) => {
                let pause = replica.note_unloadable(generation, why, from);
                replica.sleep(generation, pause);
            }
            Ok(()) | Err(Ended::Changed) => {}
        }
    }
}

/// How long to wait after an attempt that lasted this long. A link that was up is made again at once, before
/// the primary's backlog has moved on; but attempts begin no more often than once in a period.
fn pause(was_up: bool, lasted: Duration) -> Duration {
    if was_up { PERIOD.saturating_sub(lasted) } else { PERIOD }
}

/// Copies the primary until something ends that.
fn follow(shared: &'static Shared, generation: u64, primary: &Primary) -> Result<(), Ended> {
    set_state(shared, generation, LinkState::Connecting);
    let Primary { host, port } = primary;
    tracing::info!("Connecting to MASTER {host}:{port}");
    let mut link = Link::open(shared, generation, primary)?;
    tracing::info!("Non blocking connect for SYNC fired the event.");
    link.set_state(LinkState::Handshake);
    let progress = link.shake_hands()?;
    if shared.replication.failover.state() == State::InProgress {
        match &progress {
            Progress::Rejected(_) => load::abort_failover(shared, generation),
            _ => drop(shared.end_failover()),
        }
    }
    match progress {
        Progress::Rejected(why) => return Err(broken(why)),
        Progress::Partial { id } => {
            if !load::go_on(shared, generation, id) {
                return Err(Ended::Changed);
            }
            tracing::info!("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.");
        }
        Progress::Full { id, offset } => {
            link.set_state(LinkState::Sync);
            link.synchronize(Some((id, offset)))?;
        }
        Progress::Legacy | Progress::More => {
            link.set_state(LinkState::Sync);
            link.synchronize(None)?;
        }
        Progress::Channel(dialect) => return link.synchronize_by_channel(primary, dialect),
    }
    link.stream(primary, None, None)
}

impl Link {
    fn shake_hands(&mut self) -> Result<Progress, Ended> {
        let mut out = Vec::new();
        let mut handshake = Handshake::begin(self.greeting(), &mut out);
        loop {
            if !out.is_empty() {
                self.send(&out)?;
                out.clear();
            }
            self.wait(true, PERIOD, "Timeout connecting to the MASTER...")?;
            let progress = handshake.receive(&std::mem::take(&mut self.received), &mut out)?;
            if progress != Progress::More {
                self.received = handshake.into_rest();
                if !out.is_empty() {
                    self.send(&out)?;
                }
                return Ok(progress);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_up_is_made_again_at_once_but_in_no_tight_loop() {
        let ms = Duration::from_millis;
        for (was_up, lasted_ms, pause_ms) in [
            (true, 60_000, 0),
            (true, 1_000, 0),
            (true, 1, 999),
            (true, 0, 1_000),
            (false, 0, 1_000),
            (false, 60_000, 1_000),
        ] {
            assert_eq!(pause(was_up, ms(lasted_ms)), ms(pause_ms), "{was_up} {lasted_ms}");
        }
    }
}
