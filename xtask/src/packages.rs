//! `./x dist`: everything that a release has, in `target/dist`. `./x deb-test`: the Debian package installed,
//! started, upgraded and removed in a root of its own. `./x arm`: the core's tests and the raw-wire suite on
//! emulated aarch64.

mod arm;
mod deb;
mod dist;

pub use arm::{Options as ArmOptions, run as arm};
pub use deb::{Options as DebOptions, run as deb_test};
pub use dist::{Options as DistOptions, run as dist};
