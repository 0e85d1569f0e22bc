//! The scripts that run, as processes of their own.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use crate::machine::Sentinel;
use crate::scripts::{Ending, JobId};

/// Exit status of a script that cannot be run at all, and is not tried again.
const CANNOT_RUN: Ending = Ending { status: 2, signal: 0 };

/// See the [module docs](self).
#[derive(Default)]
pub(super) struct Children {
    running: BTreeMap<JobId, Child>,
}

impl Children {
    /// Starts a script.
    pub fn start(&mut self, job: JobId, argv: &[String], sentinel: &mut Sentinel, now_ms: i64) {
        let Some((path, arguments)) = argv.split_first() else { return };
        match Command::new(path).args(arguments).stdin(Stdio::null()).spawn() {
            Ok(child) => {
                sentinel.script_started(now_ms, job, child.id());
                self.running.insert(job, child);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory) => {
                sentinel.script_not_started(now_ms, job);
            }
            Err(_) => sentinel.script_ended(now_ms, job, 0, CANNOT_RUN),
        }
    }

    /// Reports ended scripts to the state machine.
    pub fn collect(&mut self, sentinel: &mut Sentinel, now_ms: i64) {
        self.running.retain(|job, child| {
            let Ok(Some(status)) = child.try_wait() else { return true };
            let ending = Ending { status: status.code().unwrap_or(0), signal: status.signal().unwrap_or(0) };
            sentinel.script_ended(now_ms, *job, child.id(), ending);
            false
        });
    }

    /// Kills a script.
    pub fn kill(&mut self, pid: u32) {
        if let Some(child) = self.running.values_mut().find(|child| child.id() == pid) {
            let _ = child.kill();
        }
    }
}
