//! The load tester's resp-benchmark side as a Python module. The interpreter's lock is free while a run goes
//! on.

use martlet_bench::cli::resp::{self, RespSettings};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

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
        username,
        password,
        cluster,
        cores,
        command,
        connections,
        pipeline,
        count,
        seconds,
        load,
        quiet,
    };
    match py.detach(|| resp::benchmark(&settings)) {
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
    let settings = RespSettings { host, port, username, password, ..RespSettings::default() };
    py.detach(|| resp::send(&settings, &command)).map_err(PyRuntimeError::new_err)
}

/// Runs the resp-benchmark command line; the exit code.
#[pyfunction]
fn command_line(py: Python<'_>, arguments: Vec<String>) -> i32 {
    py.detach(|| resp::main(&arguments))
}

#[pymodule]
fn _martlet_bench(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(benchmark, module)?)?;
    module.add_function(wrap_pyfunction!(send, module)?)?;
    module.add_function(wrap_pyfunction!(command_line, module)?)
}
