//! Ctrl-C during a session: it ends a wait, not the program.
//!
//! Invariant: a wait that looks at [`wake`] ends by Ctrl-C also where the signal comes just before it begins,
//! or to another thread.

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Readable from Ctrl-C on until [`take`].
static WAKE: OnceLock<OwnedFd> = OnceLock::new();

/// Catches Ctrl-C from now on.
pub fn catch() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
        if let Some(wake) = WAKE.get() {
            // It cannot fail but by being full, and then it is readable.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }
    if let Ok(wake) = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) {
        WAKE.get_or_init(|| wake);
    }
    let handler: extern "C" fn(libc::c_int) = note;
    // SAFETY: sigaction is plain data, for which zeroes are valid: no flags, so that calls are not restarted.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the action lives during the call. Its handler touches an atomic and makes one system call,
    // which leaves errno alone.
    unsafe { libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut()) };
}

/// Whether Ctrl-C was pressed since this was asked last.
pub fn take() -> bool {
    if let Some(wake) = wake() {
        let _ = rustix::io::read(wake, &mut [0; 8]);
    }
    INTERRUPTED.swap(false, Ordering::SeqCst)
}

/// The descriptor that a wait for something else looks at as well; `None` before [`catch`].
pub fn wake() -> Option<BorrowedFd<'static>> {
    WAKE.get().map(AsFd::as_fd)
}

/// Waits until there is something to read.
///
/// # Errors
/// `Interrupted` by Ctrl-C, which [`take`] still reports; the kernel's.
pub fn wait_readable(what: impl AsFd) -> io::Result<()> {
    let Some(wake) = wake() else { return Ok(()) };
    let mut waits = [PollFd::from_borrowed_fd(wake, PollFlags::IN), PollFd::new(&what, PollFlags::IN)];
    loop {
        match poll(&mut waits, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) if !waits[0].revents().is_empty() => return Err(io::ErrorKind::Interrupted.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Leaves all signals to other threads.
pub fn block_in_this_thread() {
    // SAFETY: sigset_t is plain data, which the first call fills in and the second one reads.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}
