//! Indexes of keys, and searches: the catalogue's place among files, replicas and threads.

pub mod cursors;
pub mod definitions;
pub mod job;
pub mod reply;
pub mod rows;
pub mod settings;

use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_indexes::Access;

use crate::runtime::Shared;
use martlet_command::Computing;

/// For how long a thread scans before other work has its turn.
const SCAN_TURN: Duration = Duration::from_millis(5);

/// Has the computing threads scan keys whenever an index waits for that.
pub fn begin(shared: &'static Shared) {
    shared.indexes.set_waker(Box::new(move || {
        // Each thread takes shards until none is left.
        (0..crate::computations::threads()).for_each(|_| order_scan(shared));
    }));
}

fn order_scan(shared: &'static Shared) {
    shared.computations.run(Box::new(move |computing| scan(shared, computing)));
}

fn scan(shared: &'static Shared, computing: &mut Computing) {
    let until: Instant = monotonic() + SCAN_TURN;
    let mut access = Access { keys: &mut computing.keys, outside: computing.outside };
    while shared.indexes.work(&mut access, &|| shared.clock.unix_ms()) {
        if monotonic() >= until {
            order_scan(shared);
            return;
        }
    }
}
