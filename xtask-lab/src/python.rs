//! `./x bench-python`: the load tester's Python wheel. It is built by maturin, installed beside
//! resp-benchmark 0.1.7 into an environment below `target/`, and the two classes are compared against a
//! Martlet server: signatures, attributes, the keys of a load, the figures of a run. It has a separate build
//! directory, so that it can be built while cargo works on the workspace.

use crate::tools::{prepare_resp_benchmark, tools_environment};
use martlet_testkit::server::Server;
use std::path::PathBuf;
use std::process::Command;
use xtask::run::{Outcome, built, in_root, root, step};

/// The comparison to make.
#[derive(clap::Args)]
pub struct Options {
    /// The server's program.
    #[arg(long, default_value_os_t = in_root("target/debug/martlet"))]
    ours: PathBuf,
}

/// Builds, installs and compares; where there is no Python or no package registry it says so and passes.
pub fn run(options: &Options) -> Outcome {
    match prepare() {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(error) => {
            eprintln!("x: {error}; the Python class has NOT been tried");
            return Ok(());
        }
    }
    let (python, wheels) = (tools_environment().join("bin/python"), root().join("target/wheels"));
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels)?;
    }
    step(
        Command::new(&python)
            .args(["-m", "maturin", "build", "--quiet", "--manifest-path"])
            .arg(root().join("python/Cargo.toml"))
            .arg("--interpreter")
            .arg(&python)
            .arg("--target-dir")
            .arg(root().join("target/python"))
            .arg("--out")
            .arg(&wheels),
    )?;
    let wheel = std::fs::read_dir(&wheels)?.next().ok_or("maturin has written no wheel")??.path();
    step(
        Command::new(&python)
            .args(["-m", "pip", "install", "-q", "--no-deps", "--force-reinstall"])
            .arg(&wheel),
    )?;
    let server = Server::start(&built(&options.ours)?, &["server"])?;
    let port = server.address().port().to_string();
    step(Command::new(&python).arg(root().join("python/tests/same_class.py")).arg(port))
}

/// Installs resp-benchmark and maturin; false where there is no Python.
fn prepare() -> Result<bool, Box<dyn std::error::Error>> {
    if !prepare_resp_benchmark()? {
        return Ok(false);
    }
    let environment = tools_environment();
    if !environment.join("bin/maturin").exists() {
        step(Command::new(environment.join("bin/python")).args([
            "-m",
            "pip",
            "install",
            "-q",
            "maturin>=1.7,<2",
        ]))?;
    }
    Ok(true)
}
