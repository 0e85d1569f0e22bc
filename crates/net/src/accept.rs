//! What both backends think of an `accept` that fails.

use std::time::Duration;

use rustix::io::Errno;

/// How long accepting rests after it failed for want of descriptors or memory.
pub const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Errors that concern one pending connection, after which the next one may be accepted at once.
///
/// Linux passes errors of the pending connection's network on through `accept`, see its manual page.
pub fn is_passing(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INTR
            | Errno::AGAIN
            | Errno::CANCELED
            | Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NONET
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::PROTO
            | Errno::TIMEDOUT
    )
}
