//! Simulates Sentinels by seeds: `simulate SENTINELS SERVERS FIRST_SEED SEEDS [FAULTS_MS] [operator]`. Ends
//! with 1 when one fails.

use martlet_sentinel::simulation::{Options, run};

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [sentinels, servers, first, count, rest @ ..] = &arguments[..] else {
        eprintln!("usage: simulate SENTINELS SERVERS FIRST_SEED SEEDS [FAULTS_MS] [operator]");
        std::process::exit(2);
    };
    let mut options =
        Options { sentinels: *sentinels as usize, servers: *servers as usize, ..Options::default() };
    options.has_operator = std::env::args().any(|argument| argument == "operator");
    if let Some(faults_ms) = rest.first() {
        options.faults_ms = *faults_ms as i64;
    }
    let mut failed = 0;
    for seed in *first..first + count {
        match run(&options, seed) {
            Ok(summary) => println!("seed {seed}: {summary:?}"),
            Err(text) => {
                println!("{text}");
                failed += 1;
            }
        }
    }
    println!("{count} seeds of {sentinels} Sentinels and {servers} servers, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}
