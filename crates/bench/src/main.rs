//! The load tester alone: the same as `martlet bench`, without the server beside it.

fn main() {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_name().map(|n| n.to_string_lossy().into_owned());
    let name = match name.as_deref() {
        Some(known @ ("redis-benchmark" | "valkey-benchmark" | "resp-benchmark")) => known.to_string(),
        _ => "bench".to_string(),
    };
    std::process::exit(martlet_bench::cli::main(&name, &arguments.collect::<Vec<_>>()));
}
