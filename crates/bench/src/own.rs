//! Runs that redis-benchmark does not know: mixes, sessions, replay, open loop, comparisons, sweeps, targets.

use crate::cli::options::Settings;
use crate::engine::INTERRUPTED;
use crate::job::{Job, exit_code};
use crate::live::{Line, Live};
use crate::report::Report;
use crate::{errln, out};
use std::sync::atomic::Ordering;

/// Runs the settings; returns the exit code.
pub fn main(settings: &Settings) -> i32 {
    loop {
        let code = dispatch(settings).unwrap_or_else(|error| {
            errln!("{error}");
            1
        });
        if !settings.repeat || code != 0 || INTERRUPTED.load(Ordering::Relaxed) {
            return code;
        }
    }
}

fn dispatch(settings: &Settings) -> Result<i32, String> {
    crate::report::check_files(settings)?;
    let job = Job::new(settings)?;
    if settings.hot_key {
        return crate::check::hot_key(&job);
    }
    if settings.verify {
        return crate::check::verify(&job);
    }
    if settings.vs.is_some() || settings.vs_start.is_some() {
        return crate::compare::main(&job);
    }
    if !settings.sweeps.is_empty() {
        return crate::explore::sweep(&job);
    }
    if !settings.slo.is_empty() {
        return crate::explore::slo(&job);
    }
    let plan = job.plan(&job.target)?;
    job.load(&job.target)?;
    let measured = match settings.live.then(|| Live::start(&plan)).flatten() {
        Some(mut screen) => job.measure(&plan, &mut screen)?,
        None => job.measure(&plan, &mut Line::new("", &plan))?,
    };
    let report = Report::of(&plan, &measured);
    if settings.csv || settings.quiet {
        out!("{}", report.brief(settings.csv));
        let partial = report.partial.iter().map(|reason| format!("PARTIAL RESULT: {reason}"));
        let warning = report.warning.iter().map(|warning| format!("WARNING: {warning}"));
        partial.chain(warning).for_each(|line| errln!("{line}"));
    } else {
        out!("{}", report.text());
    }
    report.write_files(&job.settings)?;
    Ok(exit_code(&measured))
}
