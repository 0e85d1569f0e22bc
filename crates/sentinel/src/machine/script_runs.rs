//! Scripts: their arguments, and their outcome.

use super::{Output, Sentinel};
use crate::address::Address;
use crate::events::Level;
use crate::instance::InstanceId;
use crate::scripts::{Ending, JobId};

/// What Redis reports as the signal of a script that could not be started.
const NOT_STARTED_SIGNAL: i32 = 99;

impl Sentinel {
    pub(super) fn schedule_script(&mut self, argv: Vec<String>) {
        let id = JobId(self.fresh_id());
        self.scripts.schedule(id, argv);
    }

    /// Runs the client reconfiguration script, if there is one, when a primary's address has changed.
    pub(super) fn call_reconfig_script(&mut self, id: InstanceId, role: &str, from: &Address, to: &Address) {
        let primary = self.get(id);
        let Some(script) = primary.settings.client_reconfig_script.clone() else { return };
        let mut argv = vec![script, primary.name.clone(), role.into(), "start".into()];
        for address in [from, to] {
            argv.extend([self.announced(address).to_owned(), address.port.to_string()]);
        }
        self.schedule_script(argv);
    }

    /// Starts scripts whose time has come, and ends those that run for too long.
    pub(super) fn run_scripts(&mut self) {
        for (id, argv) in self.scripts.start_due(self.now_ms) {
            self.output(Output::RunScript(id, argv));
        }
        for (path, pid) in self.scripts.overdue(self.now_ms, self.timing.script_max_runtime_ms) {
            self.global_event(Level::Warning, "-script-timeout", &format!("{path} {pid}"));
            self.output(Output::KillScript(pid));
        }
    }

    /// A script runs.
    pub fn script_started(&mut self, now_ms: i64, id: JobId, pid: u32) {
        self.now_ms = now_ms;
        self.scripts.started(id, pid);
        self.global_event(Level::Debug, "+script-child", &pid.to_string());
    }

    /// A script could not be started for want of resources; it is tried again later.
    pub fn script_not_started(&mut self, now_ms: i64, id: JobId) {
        self.end_script(now_ms, id, Ending { status: 0, signal: NOT_STARTED_SIGNAL });
    }

    /// A script has ended.
    pub fn script_ended(&mut self, now_ms: i64, id: JobId, pid: u32, ending: Ending) {
        let Ending { status, signal } = ending;
        self.now_ms = now_ms;
        self.global_event(Level::Debug, "-script-child", &format!("{pid} {status} {signal}"));
        self.end_script(now_ms, id, ending);
    }

    fn end_script(&mut self, now_ms: i64, id: JobId, ending: Ending) {
        self.now_ms = now_ms;
        let delay_ms = self.timing.script_retry_delay_ms;
        if let Some(path) = self.scripts.ended(id, ending, now_ms, delay_ms) {
            let Ending { status, signal } = ending;
            self.global_event(Level::Warning, "-script-error", &format!("{path} {signal} {status}"));
        }
    }
}
