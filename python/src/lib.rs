//! The load tester's resp-benchmark side as a Python module. The interpreter's lock is free while a run goes
//! on, and Ctrl-C ends it.

use martlet_bench::cli::resp::{self, RespSettings};
use martlet_bench::engine::INTERRUPTED;
use martlet_bench::output;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often a wait asks Python whether a signal has come: only the interpreter knows.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);
/// Calls of this process that are under way, in all of Python's threads.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A call that is under way. The last one to end takes back what an interrupt has asked of all of them.
struct Running;

impl Running {
    fn begin() -> Running {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if RUNNING.fetch_sub(1, Ordering::SeqCst) == 1 {
            INTERRUPTED.store(false, Ordering::SeqCst);
        }
    }
}

/// Does the work on a thread of its own while this one answers Python's signals. If one of them raises, as
/// Ctrl-C does, the work is told to end, is waited for, and the exception is the result.
fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let _running = Running::begin();
    let (done, mut outcome) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || done.send(work()));
        let mut raised = None;
        loop {
            let result;
            (result, outcome) = py.detach(move || (outcome.recv_timeout(SIGNALS_EVERY), outcome));
            match result {
                Ok(result) => return raised.map_or(Ok(result), Err),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the run ended without a result"));
                }
            }
            if raised.is_none()
                && let Err(error) = py.check_signals()
            {
                INTERRUPTED.store(true, Ordering::SeqCst);
                raised = Some(error);
            }
        }
    })
}

/// Runs one benchmark or load: requests per second, mean and 99th percentile in milliseconds, connections.
#[pyfunction]
#[pyo3(signature = (host, port, username, password, cluster, cores, command, connections, pipeline, count, seconds, load, quiet))]
#[allow(clippy::too_many_arguments)]
fn benchmark(
    py: Python<'_>,
    host: String,
    port: u16,
    username: String,
    password: String,
    cluster: bool,
    cores: &str,
    command: String,
    connections: usize,
    pipeline: usize,
    count: u64,
    seconds: u64,
    load: bool,
    quiet: bool,
) -> PyResult<(f64, f64, f64, usize)> {
    let cores = resp::cores(cores).map_err(PyValueError::new_err)?;
    let pipeline = pipeline.max(1);
    let settings = RespSettings {
        host,
        port,
        username: username.into_bytes(),
        password: password.into_bytes(),
        cluster,
        cores,
        command: command.into_bytes(),
        connections,
        pipeline,
        count,
        seconds,
        load,
        quiet,
    };
    match interruptible(py, || resp::benchmark(&settings))? {
        Ok((r, None)) => Ok((r.qps, r.avg_latency_ms, r.p99_latency_ms, r.connections)),
        Ok((_, Some(reason))) | Err(reason) => Err(PyRuntimeError::new_err(reason)),
    }
}

/// Sends one command; the text of a simple reply. An error reply raises.
#[pyfunction]
fn send(
    py: Python<'_>,
    host: String,
    port: u16,
    username: String,
    password: String,
    command: Vec<String>,
) -> PyResult<String> {
    let (username, password) = (username.into_bytes(), password.into_bytes());
    let settings = RespSettings { host, port, username, password, ..RespSettings::default() };
    interruptible(py, || resp::send(&settings, &command))?.map_err(PyRuntimeError::new_err)
}

/// Runs the resp-benchmark command line; the exit code.
#[pyfunction]
fn command_line(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
    // The process is this tool's alone.
    martlet_bench::cli::prepare();
    py.detach(|| output::exit_code(resp::main(&arguments)))
}

#[pymodule]
fn _martlet_bench(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(benchmark, module)?)?;
    module.add_function(wrap_pyfunction!(send, module)?)?;
    module.add_function(wrap_pyfunction!(command_line, module)?)
}
