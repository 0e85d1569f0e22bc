//! The demonstration for a command line that names no server: one is started from this program, loaded and
//! ended.

use crate::cli::options::Settings;
use crate::job::Job;
use crate::live::Line;
use crate::servers::{free_port, start};
use crate::{errln, outln};
use std::time::Duration;

/// The canonical workload: name, load, request, pipeline.
const STEPS: [(&str, &str, usize); 5] = [
    ("SET", "SET {key uniform 1000000} {value 64}", 1),
    ("GET", "GET {key uniform 1000000}", 1),
    ("SET, pipeline 64", "SET {key uniform 1000000} {value 64}", 64),
    ("GET, pipeline 64", "GET {key uniform 1000000}", 64),
    ("9 GET : 1 SET, pipeline 16", "", 16),
];

/// Runs the demonstration; gives the exit code.
pub fn main(settings: &Settings) -> i32 {
    match run(settings) {
        Ok(()) => 0,
        Err(error) => {
            errln!("{error}");
            1
        }
    }
}

fn run(settings: &Settings) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
    let port = free_port()?;
    outln!("No server on port {}: starting one on port {port} for a demonstration.\n", settings.port);
    let arguments = ["server", "--port", &port.to_string(), "--save", ""].map(String::from);
    let _server = start(program.as_os_str(), &arguments, port)?;
    outln!(
        "{:<28} {:>12} {:>9} {:>9} {:>14} {:>14}",
        "workload",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "server us/req",
        "client us/req"
    );
    for (name, template, pipeline) in STEPS {
        let mut own = settings.clone();
        (own.port, own.pipeline, own.duration) = (port, pipeline, Some(Duration::from_secs(2)));
        own.templates = match template {
            "" => {
                vec![b"9:GET {key zipfian 1000000}".into(), b"1:SET {key zipfian 1000000} {value 64}".into()]
            }
            one => vec![one.as_bytes().into()],
        };
        let job = Job::new(&own)?;
        let plan = job.plan(&job.target)?;
        let measured = job.measure(&plan, &mut Line::new(name, &plan))?;
        let all = measured.result.all_latencies();
        let cost = measured.cost.unwrap_or_default();
        outln!(
            "{name:<28} {:>12.0} {:>9.3} {:>9.3} {:>14.2} {:>14.2}",
            measured.result.rate(),
            all.percentile_ms(50.0),
            all.percentile_ms(99.0),
            cost.user_us + cost.system_us,
            cost.client_us
        );
        if let Some(reason) = measured.result.partial {
            return Err(format!("PARTIAL RESULT: {reason}"));
        }
    }
    outln!("\nNext: martlet bench --help, or docs/bench.md");
    Ok(())
}
