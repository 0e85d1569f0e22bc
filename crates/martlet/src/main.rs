//! The multi-call binary: `martlet TOOL …`, or the tool that the name it is called by says.

use std::ffi::OsString;

#[global_allocator]
static ALLOCATOR: martlet_base::alloc::Accounting = martlet_base::alloc::Accounting;

fn main() {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| "martlet".into());
    let rest: Vec<OsString> = arguments.collect();
    std::process::exit(run(&program, &rest));
}

fn run(program: &OsString, arguments: &[OsString]) -> i32 {
    let name = program.to_string_lossy();
    match arguments.first().and_then(|first| first.to_str()) {
        Some("server") => martlet_server::server::main(&name, &arguments[1..]),
        _ => martlet_server::server::main(&name, arguments),
    }
}
