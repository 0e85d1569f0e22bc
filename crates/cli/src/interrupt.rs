//! Ctrl-C while a session goes on: it ends what waits, not the program.
//!
//! Invariant: the handler only sets a flag; system calls that wait return `Interrupted`.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Catches Ctrl-C from now on.
pub fn catch() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
    }
    let handler: extern "C" fn(libc::c_int) = note;
    // SAFETY: sigaction is plain data, for which zeroes are valid: no flags, so that calls are not restarted.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the action lives during the call, and its handler touches an atomic only.
    unsafe { libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut()) };
}

/// Whether Ctrl-C was pressed since this was asked last.
pub fn take() -> bool {
    INTERRUPTED.swap(false, Ordering::SeqCst)
}
