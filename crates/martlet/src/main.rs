//! The multi-call binary: `martlet TOOL …`, or the tool that the name it is called by says.

mod check_aof;
mod check_rdb;
mod convert;

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
    let link = std::path::Path::new(program).file_name().and_then(|name| name.to_str());
    if let Some(tool @ ("redis-benchmark" | "valkey-benchmark" | "resp-benchmark")) = link {
        return martlet_bench::cli::main(tool, arguments);
    }
    if let Some(tool @ ("redis-check-aof" | "valkey-check-aof")) = link {
        return check_aof::main(tool, arguments);
    }
    if let Some(tool @ ("redis-check-rdb" | "valkey-check-rdb")) = link {
        return check_rdb::main(tool, arguments);
    }
    match arguments.first().and_then(|first| first.to_str()) {
        Some("bench") => martlet_bench::cli::main("bench", &arguments[1..]),
        Some("check-aof") => check_aof::main("martlet check-aof", &arguments[1..]),
        Some("check-rdb") => check_rdb::main("martlet check-rdb", &arguments[1..]),
        Some("convert") => convert::main(&arguments[1..]),
        Some("server") => martlet_server::server::main(&name, &arguments[1..]),
        _ => martlet_server::server::main(&name, arguments),
    }
}
