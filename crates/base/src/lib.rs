//! What every other crate may use: clock, disk, randomness, hashing, number text, memory accounting, limits.
//!
//! Nothing here knows of keys, clients or commands. Clock, disk and randomness are passed in so that the
//! same engine runs against real time and in a seeded simulation.

// The first error of a build for another system: every other crate needs this one, and io-uring is a
// dependency on Linux only.
#[cfg(not(target_os = "linux"))]
compile_error!(
    "Martlet runs on Linux only. On macOS and Windows run it in its container: \
     docker build -f packaging/Dockerfile -t martlet . && docker run -p 6379:6379 -v martlet:/data martlet"
);

pub mod alloc;
pub mod background;
pub mod clock;
pub mod copy;
pub mod disk;
pub mod glob;
pub mod hash;
pub mod limits;
pub mod number;
pub mod prefetch;
pub mod publish;
pub mod random;
pub mod regex;
pub mod slot;
pub mod slot_ranges;
pub mod sync;
pub mod thread;
