//! `./x fuzz`: the targets of `fuzz/` under libFuzzer, guided by coverage.
//!
//! The flags are those that cargo-fuzz gives. Coverage instrumentation works on the stable toolchain too;
//! with a nightly one the address sanitizer joins in. Where the instrumented build fails, the seeds and
//! mutations of them still run. `liveness` needs none of that: see its module.

use crate::lab;
use crate::run::{Outcome, cargo, is_installed, root, step};
use std::process::Command;

/// Instrumentation that libFuzzer steers by.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1";
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// The targets, as fuzz/Cargo.toml names them.
const TARGETS: &[&str] = &[
    "acl_rules",
    "append_log",
    "cluster_bus",
    "json_cbor",
    "json_path",
    "json_text",
    "native_scripts",
    "nodes_conf",
    "request_parser",
    "reply_decoder",
    "rdb_file",
    "rdb_packed",
    "rdb_payload",
    "module_payloads",
    "script_calls",
    "script_libraries",
    "sketch_chunks",
    "sketch_fields",
    "search_expression",
    "search_create",
    "search_request",
    "search_aggregate",
    "series_chunk",
    "series_filter",
    "series_saved",
    "vector_set",
    "commands",
];

/// All that can be asked for.
fn targets() -> Vec<&'static str> {
    TARGETS.iter().copied().chain([LIVENESS]).collect()
}

/// Random requests against real processes, which needs no instrumentation.
const LIVENESS: &str = "liveness";

/// The crate that has them.
const PACKAGE: &str = "martlet-fuzz";
/// Longest input, in bytes.
const MAX_LEN: usize = 4096;
/// Most that one allocation may ask for, in MB: an input is small, so a decoder that asks for more believes
/// an announced length.
const ALLOCATION_MB: usize = 256;

/// What to fuzz, and how long.
#[derive(clap::Args)]
pub struct Options {
    /// One target; all in turn when absent.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(targets()))]
    target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// The first seed of `liveness` or of `--servers`; by the clock when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// The server that `liveness` runs, in place of a fresh build with assertions.
    #[arg(long)]
    program: Option<std::path::PathBuf>,
    /// Runs scripts on a process of the server's, beside a real one where there is one, instead of the
    /// targets.
    #[arg(long)]
    servers: bool,
}

/// Replays the seeds on the stable toolchain, then fuzzes.
pub fn run(options: &Options) -> Outcome {
    if options.servers {
        return beside_a_real_one(options);
    }
    if options.target.as_deref().is_none_or(|chosen| chosen == LIVENESS) {
        liveness(options)?;
        if options.target.is_some() {
            return Ok(());
        }
    }
    // The seeds and random mutations of them: an ordinary test.
    cargo(&["test", "-q", "-p", PACKAGE])?;
    let triple = if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { TRIPLE };
    let corpus = root().join("fuzz/corpus");
    cargo(&["run", "-q", "-p", PACKAGE, "--bin", "write_seeds", "--", &corpus.to_string_lossy()])?;
    let nightly = is_installed("cargo", "+nightly");
    let Some(program_dir) = build(triple, nightly) else {
        eprintln!(
            "x: the targets do NOT build with coverage here: only the seeds and their mutations were run"
        );
        return Ok(());
    };
    for target in TARGETS {
        if options.target.as_deref().is_some_and(|chosen| chosen != *target) {
            continue;
        }
        let artifacts = root().join("fuzz/artifacts").join(target);
        std::fs::create_dir_all(&artifacts)?;
        step(
            Command::new(program_dir.join(target))
                .arg(corpus.join(target))
                .arg(format!("-max_total_time={}", options.seconds))
                .arg(format!("-max_len={MAX_LEN}"))
                .arg(format!("-artifact_prefix={}/", artifacts.display()))
                .arg(format!("-malloc_limit_mb={ALLOCATION_MB}"))
                .args(["-print_final_stats=1", "-verbosity=0", "-timeout=20", "-rss_limit_mb=4096"]),
        )?;
    }
    Ok(())
}

/// Any request in any context, by the lab's program.
fn liveness(options: &Options) -> Outcome {
    let (seconds, seed) = (options.seconds.to_string(), options.seed.map(|seed| seed.to_string()));
    let program = options.program.as_ref().map(|program| program.to_string_lossy());
    let mut words = vec![LIVENESS, "--seconds", &seconds];
    words.extend(seed.iter().flat_map(|seed| ["--seed", seed]));
    words.extend(program.iter().flat_map(|program| ["--program", program]));
    lab::run(&words)
}

/// Programs of `script_calls` on servers: the one that crashes is replaced, so that the run goes on. Built
/// without optimisation, in which frames are largest and Lua's own assertions are in.
fn beside_a_real_one(options: &Options) -> Outcome {
    cargo(&["build", "-q", "-p", "martlet", "--bin", "martlet"])?;
    let seconds = options.seconds.to_string();
    let seed = options.seed.map(|seed| seed.to_string());
    let mut words = vec!["run", "-q", "-p", PACKAGE, "--bin", "script_servers", "--", "--seconds", &seconds];
    if let Some(seed) = &seed {
        words.extend(["--seed", seed]);
    }
    if !is_installed("redis-server", "--version") {
        eprintln!("x: no redis-server: outcomes are compared with nothing");
        words.push("--no-peer");
    }
    cargo(&words)
}

/// The folder of the built targets, by the best toolchain that builds them.
fn build(triple: &str, nightly: bool) -> Option<std::path::PathBuf> {
    let target_dir = root().join("target/fuzz-coverage");
    let build = |toolchain: Option<&str>, flags: &str| {
        let mut command = Command::new("cargo");
        command.args(toolchain).args(["build", "-q", "-p", PACKAGE, "--features", "libfuzzer"]);
        command.args(["--target", triple]).current_dir(root());
        command.env("CARGO_TARGET_DIR", &target_dir).env("RUSTFLAGS", flags);
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env_remove("RUSTUP_TOOLCHAIN");
        step(&mut command).is_ok()
    };
    let built = nightly && build(Some("+nightly"), &format!("{COVERAGE} -Zsanitizer=address"));
    if !built {
        eprintln!("x: no nightly toolchain that builds the targets: fuzzing WITHOUT the address sanitizer");
    }
    (built || build(None, COVERAGE)).then(|| target_dir.join(triple).join("debug"))
}
