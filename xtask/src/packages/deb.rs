//! The Debian package: built, and tried in a clean root.

use crate::man;
use crate::run::{Outcome, cargo, is_installed, root, step};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How it is tried.
#[derive(clap::Args)]
pub struct Options {
    /// The release of Debian in the root.
    #[arg(long, default_value = "bookworm")]
    suite: String,
}

/// What the test needs beside what every Debian has.
const INCLUDED: &str = "adduser,bash-completion,fish,logrotate,man-db,zsh";

/// Packs what is built and the manual's pages, with this revision, into `target/dist`; gives its path.
///
/// # Errors
/// Where cargo-deb is missing, or fails.
pub fn build(revision: u32) -> Result<PathBuf, Box<dyn std::error::Error>> {
    if !is_installed("cargo-deb", "--version") {
        return Err("cargo-deb is not installed: cargo install cargo-deb --locked".into());
    }
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

fn write_executable(path: &Path, text: &str) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}
