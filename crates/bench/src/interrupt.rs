//! The reasons to end all runs: Ctrl-C, and standard output that cannot be written. Every wait checks them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set by Ctrl-C, and when standard output cannot be written: runs end at once and keep their figures.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static OUTPUT_FAILED: AtomicBool = AtomicBool::new(false);

/// Why runs are to end, once they are.
pub fn interruption() -> Option<String> {
    INTERRUPTED.load(Ordering::Relaxed).then(|| match output_has_failed() {
        true => "standard output cannot be written".into(),
        false => "interrupted".into(),
    })
}

/// Whether standard output could not be written.
pub fn output_has_failed() -> bool {
    OUTPUT_FAILED.load(Ordering::Relaxed)
}

/// Ends what runs, as standard output cannot be written; false if that is known already.
pub(crate) fn output_fails() -> bool {
    let is_first = !OUTPUT_FAILED.swap(true, Ordering::SeqCst);
    INTERRUPTED.store(true, Ordering::SeqCst);
    is_first
}

/// Makes Ctrl-C set `INTERRUPTED`; a second one ends the process.
pub fn catch_interrupt() {
    extern "C" fn on_interrupt(_: libc::c_int) {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            // SAFETY: _exit is safe in a signal handler.
            unsafe { libc::_exit(130) };
        }
    }
    let handler: extern "C" fn(libc::c_int) = on_interrupt;
    // SAFETY: the handler only touches an atomic and _exit.
    unsafe {
        libc::signal(libc::SIGINT, handler as libc::sighandler_t);
        libc::signal(libc::SIGTERM, handler as libc::sighandler_t);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}
