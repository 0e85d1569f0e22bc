//! Searches and aggregations as jobs: some hundred microseconds in their client's turn, and the rest, if
//! there is one, on a thread of its own while the client waits.

use std::sync::Mutex;
use std::time::Duration;

use martlet_base::clock::monotonic;
use martlet_base::sync::lock;
use martlet_command::{Block, Computation, Outcome, TimeoutReply, Wait};
use martlet_indexes::Access;
use martlet_protocol::reply::Reply;

use crate::runtime::call::Call;

/// For how long a job runs in its client's turn.
const INLINE: Duration = Duration::from_micros(500);

/// Work that ends in a reply, by steps of bounded length.
pub trait Job: Send + 'static {
    /// A step; whether the job has come to its end.
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool;

    /// Writes the reply.
    fn finish(self, access: &mut Access<'_>, now_ms: i64, reply: &mut Reply);
}

/// Runs a job, whose client may have to wait for it.
///
/// # Errors
/// None of its own: those of the job are in its reply.
pub fn run(call: &mut Call<'_>, mut job: impl Job) -> Outcome {
    let (began, now_ms) = (monotonic(), call.worker.now_ms);
    let mut access = Access { keys: &mut call.worker.keys, outside: None };
    loop {
        if job.step(&mut access, now_ms) {
            job.finish(&mut access, now_ms, call.reply);
            return Ok(());
        }
        if !call.deny_blocking && began.elapsed() >= INLINE {
            return leave(call, job);
        }
    }
}

/// Leaves the rest of a job to another thread; the client waits.
fn leave(call: &mut Call<'_>, job: impl Job) -> Outcome {
    let (left, clock) = (Mutex::new(Some(job)), call.worker.shared.clock.clone());
    let computation = Computation::new(move |computing, reply| {
        let Some(mut job) = lock(&left).take() else { return };
        let mut access = Access { keys: &mut computing.keys, outside: computing.outside };
        let now_ms = clock.unix_ms();
        while !job.step(&mut access, now_ms) {}
        job.finish(&mut access, now_ms, reply);
    });
    let block = Block::new(Wait::Computed(computation), None, TimeoutReply::Null);
    call.worker.block(call.connection, call.entry, &call.args, Box::new(block));
    Ok(())
}
