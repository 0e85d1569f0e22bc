//! `./x dist`: every file of a release, in `target/dist`. `./x deb-test`: the Debian package installed,
//! started, upgraded and removed in a clean root. `./x packaging`: the other packaging files, checked by the
//! programs that read them. `./x arm`: the core's tests and the raw-wire suite on emulated aarch64.

mod arm;
mod deb;
mod dist;
mod files;
mod trial;

pub use arm::{Options as ArmOptions, run as arm};
pub use deb::{Options as DebOptions, run as deb_test};
pub use dist::{Options as DistOptions, check_targets, run as dist};
pub use files::{Options as FilesOptions, run as files};

use std::path::Path;
use xtask::run::Outcome;

fn write_executable(path: &Path, text: &str) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}
