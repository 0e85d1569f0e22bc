//! Indexes of keys, and searches: the catalogue's place among files, replicas and threads.

pub mod agreement;
pub mod cursors;
pub mod definitions;
pub mod figures;
pub mod job;
pub mod nodes;
pub mod parts;
pub mod reply;
pub mod rows;
pub mod settings;
pub mod spelled;
pub mod temporary;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use martlet_base::clock::monotonic;
use martlet_indexes::Access;

use crate::runtime::Shared;
use martlet_command::Computing;

/// For how long a thread scans before other work has its turn.
const SCAN_TURN: Duration = Duration::from_millis(5);

/// The threads that scan keys.
struct Scanners {
    shared: &'static Shared,
    /// Turns that are ordered, and have not begun. Each looks for work once it has begun, so as many as there
    /// are threads do for any amount of it.
    ordered: AtomicUsize,
    threads: usize,
}

/// Has the computing threads scan keys whenever an index waits for that.
pub fn begin(shared: &'static Shared) {
    let threads = crate::computations::threads();
    let scanners = Arc::new(Scanners { shared, ordered: AtomicUsize::new(0), threads });
    shared.indexes.set_waker(Box::new(move || {
        // Each thread takes shards until none is left.
        (0..threads).for_each(|_| order_turn(&scanners));
    }));
}

fn order_turn(scanners: &Arc<Scanners>) {
    let one_more = |ordered| (ordered < scanners.threads).then_some(ordered + 1);
    if scanners.ordered.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok() {
        let own = Arc::clone(scanners);
        scanners.shared.computations.run(Box::new(move |computing| {
            own.ordered.fetch_sub(1, Ordering::AcqRel);
            scan(&own, computing);
        }));
    }
}

fn scan(scanners: &Arc<Scanners>, computing: &mut Computing) {
    let (shared, until) = (scanners.shared, monotonic() + SCAN_TURN);
    let mut access = Access { keys: &mut computing.keys, outside: computing.outside };
    while shared.indexes.work(&mut access, &|| shared.clock.unix_ms()) {
        if monotonic() >= until {
            order_turn(scanners);
            return;
        }
    }
}
