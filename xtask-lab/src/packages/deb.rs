//! The Debian package: built, and tried in a clean root.

use super::write_executable;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use xtask::man;
use xtask::run::{Outcome, cargo, is_installed, root, step};

/// How it is tried.
#[derive(clap::Args)]
pub struct Options {
    /// The release of Debian in the root.
    #[arg(long, default_value = "bookworm")]
    suite: String,
}

/// The test's needs beyond a minimal Debian.
const INCLUDED: &str = "adduser,bash-completion,fish,logrotate,man-db,zsh";

/// The port in the package's configuration.
const PORT: u16 = 6379;

/// Whether what packs it is there.
///
/// # Errors
/// Where it is not.
pub fn check() -> Outcome {
    if is_installed("cargo-deb", "--version") {
        return Ok(());
    }
    Err("cargo-deb is not installed: cargo install cargo-deb --locked".into())
}

/// Packs the built program and the manual's pages, with this revision, into `target/dist`; returns the path.
///
/// # Errors
/// cargo-deb fails.
pub fn build(revision: u32) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let directory = root().join("target/dist");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(format!("martlet_{}-{revision}_amd64.deb", env!("CARGO_PKG_VERSION")));
    let version = format!("{}-{revision}", env!("CARGO_PKG_VERSION"));
    let output = path.to_string_lossy();
    cargo(&[
        "deb",
        "--package",
        "martlet",
        "--no-build",
        "--strip",
        "--deb-version",
        &version,
        "--output",
        &output,
    ])?;
    Ok(path)
}

/// Needs root, debootstrap and Debian's archive.
pub fn run(options: &Options) -> Outcome {
    check()?;
    if !is_installed("debootstrap", "--version") {
        return Err("debootstrap is not installed".into());
    }
    // The root has this machine's network: the test would write to a server there, and shut it down.
    if TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_ok() {
        return Err(format!("a server listens on port {PORT}, which the package's server will use").into());
    }
    cargo(&["build", "--release", "--locked", "--package", "martlet"])?;
    man::make(&root().join("target/release/martlet"))?;
    let (old, new) = (build(1)?, build(2)?);
    let clean = tempfile::tempdir()?;
    let place = clean.path();
    let include = format!("--include={INCLUDED}");
    step(Command::new("debootstrap").args(["--variant=minbase", &include, &options.suite]).arg(place))?;
    for (from, to) in [(old, "old.deb"), (new, "new.deb"), (root().join("packaging/deb-test.sh"), "test.sh")]
    {
        std::fs::copy(from, place.join(to))?;
    }
    // With such a policy no service is started while packages are installed: there is no process 1 for it.
    write_executable(&place.join("usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n")?;
    step(Command::new("chroot").arg(place).args(["sh", "/test.sh"]))
}
