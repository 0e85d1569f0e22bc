//! DEBUG REPL-PAUSE: the step of a full sync at which the process stops itself, for tests of what its peers
//! see in that time.
//!
//! Invariant: the step stays until it is changed: every full sync stops there.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::process::stop_process;

/// See the [module docs](self).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PausePoint {
    /// None.
    Clear,
    /// A primary has begun the snapshot for its replicas.
    AfterFork,
    /// A replica is about to open its second connection.
    BeforeRdbChannel,
    /// A replica is about to apply the part of the stream that came beside the data set.
    OnStreamingReplBuf,
}

impl PausePoint {
    const NAMES: [(&'static str, PausePoint); 4] = [
        ("clear", PausePoint::Clear),
        ("after-fork", PausePoint::AfterFork),
        ("before-rdb-channel", PausePoint::BeforeRdbChannel),
        ("on-streaming-repl-buf", PausePoint::OnStreamingReplBuf),
    ];

    /// The point of this name.
    pub fn named(name: &[u8]) -> Option<PausePoint> {
        let found = PausePoint::NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
        found.map(|(_, point)| *point)
    }
}

/// The point at which the process stops.
#[derive(Debug, Default)]
pub struct Pause(AtomicU8);

impl Pause {
    /// Chooses the point.
    pub fn set(&self, point: PausePoint) {
        self.0.store(point as u8, Ordering::Relaxed);
    }

    /// Stops the process here, if this is the point, until it is continued.
    pub fn at(&self, point: PausePoint) {
        if self.0.load(Ordering::Relaxed) == point as u8 {
            tracing::info!("Process is about to stop.");
            stop_process();
            tracing::info!("Process has been continued.");
        }
    }
}
