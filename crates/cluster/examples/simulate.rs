//! Simulates clusters by seeds: `simulate NODES FIRST_SEED SEEDS [FAULTS_MS] [operator]`. Ends with 1 when
//! one fails.

use martlet_cluster::simulation::{Options, run};

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [nodes, first, count, rest @ ..] = &arguments[..] else {
        eprintln!("usage: simulate NODES FIRST_SEED SEEDS [FAULTS_MS] [operator]");
        std::process::exit(2);
    };
    let mut options = Options::of_nodes(*nodes as usize);
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
    println!("{count} seeds of {nodes} nodes, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}
