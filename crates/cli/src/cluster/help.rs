//! `help`: the subcommands and their options.

use super::words::Words;
use super::{Failed, Manager, Outcome, SUBCOMMANDS};
use std::fmt::Write;

/// Prints the help; like redis-cli, which has done no work then, with the status of a failure.
pub fn run(manager: &Manager) -> Outcome {
    print!("{}", text(manager.words));
    Err(Failed)
}

/// The text, to the byte as redis-cli has it.
pub fn text(words: &Words) -> String {
    let mut out = "Cluster Manager Commands:\n".to_string();
    for subcommand in SUBCOMMANDS {
        let _ = writeln!(out, "  {:<15}{}", subcommand.name, subcommand.arguments);
        let options = if words.allows_few_primaries { subcommand.valkey_options } else { subcommand.options };
        for option in options {
            let _ = writeln!(out, "{:15}  --cluster-{option}", "");
        }
    }
    out + "\nFor check, fix, reshard, del-node, set-timeout, info, rebalance, call, import, backup you can specify \
        the host and port of any working node in the cluster.\n\nCluster Manager Options:\n  \
        --cluster-yes  Automatic yes to cluster commands prompts\n\n"
}
