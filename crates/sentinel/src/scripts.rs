//! Scripts that tell operators of events, and clients of a switch: a queue with limits on length, on how many
//! run, for how long, and how often one is tried.
//!
//! Invariant: a job is in the queue from when it is scheduled until it ended well, was given up, or was
//! pushed out by a younger one.

use std::collections::VecDeque;

use crate::limits::{SCRIPT_RUNS_MAX, SCRIPTS_QUEUED_MAX, SCRIPTS_RUNNING_MAX};

/// Which job; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// Exit status by which a script asks to be run again.
const STATUS_RETRY: i32 = 1;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Waits until a time; 0 for none.
    Scheduled {
        /// Not before this time, Unix milliseconds.
        not_before_ms: i64,
    },
    /// Runs.
    Running {
        /// Since when.
        since_ms: i64,
        /// Its process, once there is one.
        pid: Option<u32>,
        /// A kill signal was sent.
        is_killed: bool,
    },
}

/// A script to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which.
    pub id: JobId,
    /// The script and its arguments.
    pub argv: Vec<String>,
    /// Its state.
    pub state: JobState,
    /// How often it was run.
    pub runs: u32,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The exit status, 0 if a signal ended it.
    pub status: i32,
    /// The signal, 0 if none did.
    pub signal: i32,
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub struct ScriptQueue {
    jobs: VecDeque<Job>,
}

impl ScriptQueue {
    /// The jobs, the oldest first.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &Job> {
        self.jobs.iter()
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.jobs.iter().filter(|job| matches!(job.state, JobState::Running { .. })).count()
    }

    /// Adds a job; the oldest that waits goes if there are too many.
    pub fn schedule(&mut self, id: JobId, argv: Vec<String>) {
        self.jobs.push_back(Job { id, argv, state: JobState::Scheduled { not_before_ms: 0 }, runs: 0 });
        if self.jobs.len() > SCRIPTS_QUEUED_MAX {
            let waits = |job: &Job| matches!(job.state, JobState::Scheduled { .. });
            if let Some(oldest) = self.jobs.iter().position(waits) {
                self.jobs.remove(oldest);
            }
        }
    }

    /// The jobs whose time has come, which run from now on.
    pub fn start_due(&mut self, now_ms: i64) -> Vec<(JobId, Vec<String>)> {
        let mut room = SCRIPTS_RUNNING_MAX.saturating_sub(self.running());
        let mut due = Vec::new();
        for job in &mut self.jobs {
            match job.state {
                JobState::Scheduled { not_before_ms } if not_before_ms <= now_ms && room > 0 => {
                    job.state = JobState::Running { since_ms: now_ms, pid: None, is_killed: false };
                    job.runs += 1;
                    room -= 1;
                    due.push((job.id, job.argv.clone()));
                }
                _ => {}
            }
        }
        due
    }

    /// Notes the process of a job.
    pub fn started(&mut self, id: JobId, process: u32) {
        let job = self.jobs.iter_mut().find(|job| job.id == id);
        if let Some(JobState::Running { pid, .. }) = job.map(|job| &mut job.state) {
            *pid = Some(process);
        }
    }

    /// A job has ended. Gives the script's path if it ended badly and is not tried again.
    pub fn ended(&mut self, id: JobId, ending: Ending, now_ms: i64, delay_ms: i64) -> Option<String> {
        let at = self.jobs.iter().position(|job| job.id == id)?;
        let job = self.jobs.get_mut(at)?;
        let is_retried = ending.signal != 0 || ending.status == STATUS_RETRY;
        if is_retried && job.runs < SCRIPT_RUNS_MAX {
            let delay_ms = delay_ms.saturating_mul(1 << (job.runs.saturating_sub(1)));
            job.state = JobState::Scheduled { not_before_ms: now_ms.saturating_add(delay_ms) };
            return None;
        }
        let job = self.jobs.remove(at)?;
        let is_bad = ending.signal != 0 || ending.status != 0;
        job.argv.into_iter().next().filter(|_| is_bad)
    }

    /// Scripts and processes of jobs that run for too long, each once.
    pub fn overdue(&mut self, now_ms: i64, runtime_ms: i64) -> Vec<(String, u32)> {
        let mut overdue = Vec::new();
        for job in &mut self.jobs {
            if let JobState::Running { since_ms, pid: Some(pid), is_killed } = &mut job.state
                && now_ms - *since_ms > runtime_ms
                && !std::mem::replace(is_killed, true)
            {
                overdue.push((job.argv.first().cloned().unwrap_or_default(), *pid));
            }
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(count: u64) -> ScriptQueue {
        let mut queue = ScriptQueue::default();
        (0..count).for_each(|id| queue.schedule(JobId(id), vec![format!("/s{id}")]));
        queue
    }

    #[test]
    fn the_oldest_that_waits_goes_when_there_are_too_many() {
        let mut queue = queue(SCRIPTS_QUEUED_MAX as u64);
        assert_eq!(queue.start_due(5).len(), SCRIPTS_RUNNING_MAX);
        assert!(queue.start_due(5).is_empty());
        queue.schedule(JobId(999), vec!["/last".into()]);
        assert_eq!(queue.jobs().len(), SCRIPTS_QUEUED_MAX);
        assert!(queue.jobs().all(|job| job.id != JobId(16)) && queue.jobs().any(|job| job.id == JobId(0)));
    }

    #[test]
    fn a_script_is_tried_ten_times_with_doubling_delays() {
        let mut queue = queue(1);
        let (mut now_ms, mut delays) = (0, Vec::new());
        for run in 1..=SCRIPT_RUNS_MAX {
            assert_eq!(queue.start_due(now_ms).len(), 1, "run {run}");
            let bad = queue.ended(JobId(0), Ending { status: 1, signal: 0 }, now_ms, 30_000);
            assert_eq!(bad.is_some(), run == SCRIPT_RUNS_MAX);
            let state = queue.jobs().next().map(|job| job.state);
            if let Some(JobState::Scheduled { not_before_ms }) = state {
                assert!(queue.start_due(not_before_ms - 1).is_empty());
                delays.push((not_before_ms - now_ms) / 30_000);
                now_ms = not_before_ms;
            }
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(queue.jobs().len(), 0);
    }

    #[test]
    fn a_script_that_fails_otherwise_is_given_up_and_one_that_hangs_is_killed_once() {
        let mut queue = queue(2);
        queue.start_due(0);
        assert_eq!(queue.ended(JobId(0), Ending { status: 2, signal: 0 }, 1, 1).as_deref(), Some("/s0"));
        queue.started(JobId(1), 77);
        assert!(queue.overdue(60_000, 60_000).is_empty());
        assert_eq!(queue.overdue(60_001, 60_000), [("/s1".to_owned(), 77)]);
        assert!(queue.overdue(70_000, 60_000).is_empty());
        assert_eq!(queue.ended(JobId(1), Ending { status: 0, signal: 9 }, 60_002, 1), None);
        assert_eq!(queue.jobs().len(), 1, "it is tried again");
    }
}
