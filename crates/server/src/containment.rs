//! Containing a panic: a request that panics before its first change costs its own client only.
//!
//! The panic hook decides, before anything is unwound. It lets the thread unwind to [`contain`] if the thread
//! is inside it and its [`ChangeMark`] is not set: then the shards that the request has locked are unchanged,
//! and are unlocked. In every other case the process ends with its report (`crash.rs`): half changed data is
//! neither served nor saved, and a missing thread of the server leaves a server that hangs.
//!
//! Invariant: the mark is set wherever a panic must not be survived inside [`contain`]: between requests
//! (parsing, prefetching under other locks), from a request's first change on, and while a handler runs that
//! changes the server's state beside keys, or has Lua's frames on its stack.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_engine::ChangeMark;

use crate::panic_text::{tell_panic, trace_text};
use crate::process::{Trace, trace_here};

/// A panic that was contained: its message, its place, and where the thread was.
pub(crate) struct Contained {
    message: String,
    place: String,
    trace: Trace,
}

thread_local! {
    /// The mark of the thread's worker, inside [`contain`].
    static MARK: Cell<Option<&'static ChangeMark>> = const { Cell::new(None) };
    /// The panic that the thread unwinds for.
    static UNWINDING: RefCell<Option<Contained>> = const { RefCell::new(None) };
}

/// A trace is being written; until it is, further panics log their message only.
static IS_TRACING: AtomicBool = AtomicBool::new(false);

/// Runs requests; a panic of one that has changed nothing ends them, and is returned. The mark is as it was
/// afterwards, also for a caller that is inside a request itself.
pub(crate) fn contain<R>(mark: &'static ChangeMark, work: impl FnOnce() -> R) -> Result<R, Contained> {
    let was_set = mark.is_set();
    mark.set();
    let outer = MARK.replace(Some(mark));
    let result = catch_unwind(AssertUnwindSafe(work));
    MARK.set(outer);
    match was_set {
        true => mark.set(),
        false => mark.begin_request(),
    }
    // Only the hook decides; without it (unit tests) the panic continues.
    result.map_err(|payload| UNWINDING.take().unwrap_or_else(|| resume_unwind(payload)))
}

/// Whether the panic hook may return, so that the thread unwinds to [`contain`]. A second panic while the
/// thread unwinds ends the process.
pub(crate) fn may_unwind(message: &str, place: &str) -> bool {
    if MARK.get().is_none_or(ChangeMark::is_set) {
        return false;
    }
    UNWINDING.with_borrow_mut(|unwinding| {
        let is_contained = unwinding.is_none();
        if is_contained {
            let (message, place) = (message.to_owned(), place.to_owned());
            *unwinding = Some(Contained { message, place, trace: trace_here() });
        }
        is_contained
    })
}

impl Contained {
    /// Logs the panic. Resolving a trace's symbols takes long, so a separate thread does it. Nothing is
    /// locked.
    pub(crate) fn report(self, client: &str) {
        tell_panic(&self.message, &self.place);
        tracing::error!(
            "The request had changed nothing: its client is closed, the server continues. {client}"
        );
        if IS_TRACING.swap(true, Ordering::AcqRel) {
            return;
        }
        let name = "panic-report".to_owned();
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            let text = trace_text(&self.trace);
            tracing::error!("Where the thread was:\n{text}");
            IS_TRACING.store(false, Ordering::Release);
        });
        if spawned.is_err() {
            IS_TRACING.store(false, Ordering::Release);
        }
    }
}
