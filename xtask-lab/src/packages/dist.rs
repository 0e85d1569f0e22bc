//! A release in `target/dist`: archives of programs for each machine, the Debian package, the source and its
//! formula, and their checksums. A program is tried before it is packed.

use super::trial::Program;
use super::{arm, deb};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::man;
use xtask::run::{Outcome, is_installed, root, step};

/// The static build's target.
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";
/// This machine's, as archives are named by it.
const NATIVE_TARGET: &str = "x86_64-unknown-linux-gnu";

/// How a release is built.
#[derive(clap::Args)]
pub struct Options {
    /// Where the archives will be found: the address in the Homebrew formula.
    #[arg(long)]
    url: Option<String>,
    /// A target whose archive is left out, where its compiler or library is not to be had.
    #[arg(long, value_name = "TARGET", value_parser = [STATIC_TARGET, arm::TARGET])]
    without: Vec<String>,
}

/// Builds all of it.
pub fn run(options: &Options) -> Outcome {
    let directory = root().join("target/dist");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory)?;
    let is_wanted = |target: &str| !options.without.iter().any(|other| other == target);
    // Before what takes a quarter of an hour each.
    deb::check()?;
    for target in [STATIC_TARGET, arm::TARGET].into_iter().filter(|target| is_wanted(target)) {
        check_target(target)?;
    }
    let native = build(&mut cargo(), None)?;
    try_out(&Program::new(&[], &native))?;
    man::make(&native)?;
    pack(&directory, &native, NATIVE_TARGET)?;
    if is_wanted(STATIC_TARGET) {
        let program = build(&mut cargo(), Some(STATIC_TARGET))?;
        try_static(&program)?;
        pack(&directory, &program, STATIC_TARGET)?;
    }
    if is_wanted(arm::TARGET) {
        let program = build(&mut arm::cargo(), Some(arm::TARGET))?;
        try_out(&Program::new(&arm::LAUNCHER, &program))?;
        pack(&directory, &program, arm::TARGET)?;
    }
    deb::build(1)?;
    source(&directory, options.url.as_deref())?;
    checksums(&directory)?;
    options.without.iter().for_each(|target| println!("left out: {target}"));
    Ok(())
}

/// Whether the needs of a build for a target are there.
///
/// # Errors
/// Names the missing ones.
fn check_target(target: &str) -> Outcome {
    if target == arm::TARGET {
        arm::check()?;
    } else if !is_installed("musl-gcc", "--version") {
        return Err("musl-gcc is not installed (in Debian: musl-tools)".into());
    }
    let mut rustc = Command::new("rustc");
    let library =
        rustc.current_dir(root()).args(["--print", "target-libdir", "--target", target]).output()?;
    match Path::new(String::from_utf8(library.stdout)?.trim()).is_dir() {
        true => Ok(()),
        false => Err(format!("the target is not installed: rustup target add {target}").into()),
    }
}

/// That the program's sources compile for the other targets of a release, where what that needs is installed.
///
/// # Errors
/// Where they do not.
pub fn check_targets() -> Outcome {
    for (target, mut cargo) in [(STATIC_TARGET, cargo()), (arm::TARGET, arm::cargo())] {
        match check_target(target) {
            Ok(()) => step(cargo.args(["check", "--package", "martlet", "--target", target]))?,
            Err(missing) => eprintln!("x: {missing}; {target} is NOT checked"),
        }
    }
    Ok(())
}

/// cargo for this machine.
fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}

/// Builds the program for a target, or for this machine; gives its path.
fn build(cargo: &mut Command, target: Option<&str>) -> Result<PathBuf, Box<dyn std::error::Error>> {
    cargo.args(["build", "--release", "--locked", "--package", "martlet"]);
    cargo.args(target.iter().flat_map(|target| ["--target", target]));
    step(cargo)?;
    Ok(root().join("target").join(target.unwrap_or_default()).join("release/martlet"))
}

/// Tries a program in its own directory.
fn try_out(program: &Program) -> Outcome {
    program.try_out(&tempfile::tempdir()?.path().join("data"))
}

/// Tries the static program where there is nothing else.
fn try_static(path: &Path) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        eprintln!("x: only root may change its root: the static program is NOT tried in an empty one");
        return try_out(&Program::new(&[], path));
    }
    let place = tempfile::tempdir()?;
    Program::in_empty_root(place.path(), path)?.try_out(&place.path().join("data"))
}

/// What an archive and a folder in it are called.
fn name(what: &str) -> String {
    format!("martlet-{}-{what}", env!("CARGO_PKG_VERSION"))
}

/// An archive of the program, without its symbols, and its further files.
fn pack(directory: &Path, program: &Path, target: &str) -> Outcome {
    let name = name(target);
    let folder = directory.join(&name);
    std::fs::create_dir_all(&folder)?;
    let strip = if target == arm::TARGET { "aarch64-linux-gnu-strip" } else { "strip" };
    step(Command::new(strip).arg("-o").arg(folder.join("martlet")).arg(program))?;
    println!("{target}: a program of {} bytes", folder.join("martlet").metadata()?.len());
    for file in ["LICENSE", "README.md", "CHANGELOG.md", "packaging/martlet.conf"] {
        let file = root().join(file);
        std::fs::copy(&file, folder.join(file.file_name().unwrap_or_default()))?;
    }
    step(Command::new("cp").arg("-r").arg(root().join("target/man")).arg(folder.join("man")))?;
    let archive = format!("{name}.tar.gz");
    step(Command::new("tar").current_dir(directory).args([
        "--owner=0",
        "--group=0",
        "-czf",
        &archive,
        &name,
    ]))?;
    Ok(std::fs::remove_dir_all(folder)?)
}

/// The source as it is committed, and the formula that builds it.
fn source(directory: &Path, url: Option<&str>) -> Outcome {
    let name = name("source");
    let archive = directory.join(format!("{name}.tar.gz"));
    let prefix = format!("--prefix={name}/");
    step(Command::new("git").current_dir(root()).args(["archive", &prefix, "-o"]).arg(&archive).arg("HEAD"))?;
    let Some(url) = url else {
        eprintln!("x: there is no formula without --url");
        return Ok(());
    };
    let sum = checksum(&archive)?;
    let formula = std::fs::read_to_string(root().join("packaging/homebrew/martlet.rb"))?
        .replace("@URL@", &format!("{}/{name}.tar.gz", url.trim_end_matches('/')))
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@SHA256@", &sum);
    Ok(std::fs::write(directory.join("martlet.rb"), formula)?)
}

/// SHA-256 of a file, in hexadecimal digits.
fn checksum(path: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let output = Command::new("sha256sum").arg(path).output()?;
    let text = String::from_utf8(output.stdout)?;
    let sum = text.split_whitespace().next().filter(|sum| sum.len() == 64);
    sum.map(str::to_owned).ok_or_else(|| format!("sha256sum {}: {}", path.display(), output.status).into())
}

/// `SHA256SUMS`, which `sha256sum --check` reads.
fn checksums(directory: &Path) -> Outcome {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    let mut text = String::new();
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        text.push_str(&format!("{}  {name}\n", checksum(file)?));
    }
    std::fs::write(directory.join("SHA256SUMS"), &text)?;
    print!("{text}");
    Ok(())
}
