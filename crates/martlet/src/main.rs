//! The multi-call binary: `martlet TOOL …`, or the tool that the name it is called by says.

mod check_aof;
mod check_rdb;
mod convert;
mod tools;

use std::ffi::OsString;

#[global_allocator]
static ALLOCATOR: martlet_base::alloc::Accounting = martlet_base::alloc::Accounting;

fn main() {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| "martlet".into());
    let rest: Vec<OsString> = arguments.collect();
    std::process::exit(tools::run(&program, &rest));
}
