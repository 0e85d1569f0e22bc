//! Simulates Sentinels and servers by seeds: `simulate SENTINELS SERVERS FIRST_SEED SEEDS FAULTS_MS
//! SYNC_REPLICAS [gentle|kills] [operator] [failovers]`. Ends with 1 when one fails.

use martlet_sentinel::simulation::{Faults, Options, Summary, run};

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let &[sentinels, servers, first, count, faults_ms, sync_replicas] = &arguments[..] else {
        eprintln!("usage: simulate SENTINELS SERVERS FIRST_SEED SEEDS FAULTS_MS SYNC_REPLICAS [WORD...]");
        std::process::exit(2);
    };
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    let options = Options {
        sentinels: sentinels as usize,
        servers: servers as usize,
        sync_replicas: sync_replicas as usize,
        faults_ms: faults_ms as i64,
        has_operator: has("operator"),
        has_failovers: has("failovers"),
        faults: match (has("gentle"), has("kills")) {
            (true, _) => Faults::Gentle,
            (_, true) => Faults::Kills,
            _ => Faults::All,
        },
        ..Options::default()
    };
    let (mut failed, mut sum) = (0, Summary::default());
    for seed in first..first + count {
        match run(&options, seed) {
            Ok(summary) => sum += summary,
            Err(text) => {
                println!("{text}");
                failed += 1;
            }
        }
    }
    println!("{options:?}: {count} seeds from {first}, {failed} failed; {sum:?}");
    std::process::exit(i32::from(failed > 0));
}
