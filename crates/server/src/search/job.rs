//! Searches and aggregations as jobs: some hundred microseconds in their client's turn, and the rest, if
//! there is one, on a thread of its own while the client waits.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_base::sync::lock;
use martlet_command::{Block, Computation, Error, Outcome, TimeoutReply, Wait};
use martlet_indexes::Access;
use martlet_protocol::reply::Reply;

use crate::runtime::call::Call;

/// For how long a job runs in its client's turn.
const INLINE: Duration = Duration::from_micros(500);
/// The error of a job that was ended by its time limit, and also the warning.
pub const TIMED_OUT: &str = "Timeout limit was reached";

/// Work that ends in a reply, by steps of bounded length.
pub trait Job: Send + 'static {
    /// A step; whether the job has come to its end.
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool;

    /// Whether it is for another thread from its beginning: a step may take long, or it goes on with earlier
    /// work, which would be lost if a thread that serves clients gave up.
    fn leaves_at_once(&self) -> bool {
        false
    }

    /// The time limit is reached: the next steps lead to a reply with what is there.
    fn end_early(&mut self);

    /// Writes the reply.
    fn finish(self, reply: &mut Reply);
}

/// The time limit of a job.
#[derive(Copy, Clone, Debug)]
pub struct TimeLimit {
    end: Option<Instant>,
    is_failure: bool,
}

impl TimeLimit {
    /// A limit of some milliseconds from now on, none if that is 0. Whether a job beyond it is an error.
    pub fn new(timeout_ms: u64, is_failure: bool) -> TimeLimit {
        let end = monotonic().checked_add(Duration::from_millis(timeout_ms)).filter(|_| timeout_ms > 0);
        TimeLimit { end, is_failure }
    }

    /// Ends the job if its time is over.
    ///
    /// # Errors
    /// It is over, and that is an error.
    fn check(&mut self, job: &mut impl Job) -> Result<(), Error> {
        if self.end.is_some_and(|end| monotonic() >= end) {
            if self.is_failure {
                return Err(Error::Fixed(TIMED_OUT));
            }
            self.end = None;
            job.end_early();
        }
        Ok(())
    }
}

/// Runs a job, whose client may have to wait for it.
///
/// # Errors
/// The time limit. Errors of the job are in its reply.
pub fn run(call: &mut Call<'_>, mut job: impl Job, mut limit: TimeLimit) -> Outcome {
    if job.leaves_at_once() && !call.deny_blocking {
        return leave(call, job, limit);
    }
    let (began, now_ms) = (monotonic(), call.worker.now_ms);
    loop {
        let mut access = Access { keys: &mut call.worker.keys, outside: None };
        let is_done = job.step(&mut access, now_ms);
        if access.gave_up() {
            return Ok(());
        }
        if is_done {
            job.finish(call.reply);
            return Ok(());
        }
        limit.check(&mut job)?;
        if !call.deny_blocking && began.elapsed() >= INLINE {
            return leave(call, job, limit);
        }
    }
}

/// Leaves the rest of a job to another thread; the client waits.
fn leave(call: &mut Call<'_>, job: impl Job, limit: TimeLimit) -> Outcome {
    let (left, shared) = (Mutex::new(Some((job, limit))), call.worker.shared);
    let computation = Computation::new(move |computing, reply| {
        let Some((mut job, mut limit)) = lock(&left).take() else { return };
        let mut access = Access { keys: &mut computing.keys, outside: computing.outside };
        while !job.step(&mut access, shared.clock.unix_ms()) {
            if let Err(error) = limit.check(&mut job) {
                reply.error(error.to_string());
                return;
            }
        }
        job.finish(reply);
    });
    let block = Block::new(Wait::Computed(computation), None, TimeoutReply::Null);
    call.worker.block(call.connection, call.entry, &call.args, Box::new(block));
    Ok(())
}
