//! `call` and `set-timeout`: one command for every node.

use super::{Manager, Outcome};
use crate::format::{Output, Style};
use std::io::{self, Write};

/// The shortest node timeout that is set.
const NODE_TIMEOUT_MIN_MS: i64 = 100;

/// `call`
pub fn run(manager: &Manager) -> Outcome {
    let (address, words) = manager.arguments.split_at(1);
    let (host, port) = manager.given_address(address)?;
    let mut cluster = manager.load(&host, port)?;
    manager.log.info(format_args!(">>> Calling"));
    let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    println!(" {}", shown.join(" "));
    let style = Style {
        element_delimiter: manager.settings.style.element_delimiter.clone(),
        reply_delimiter: Vec::new(),
        ..Style::new(Output::Raw)
    };
    for node in &mut cluster.nodes {
        let is_left_out = match node.primary {
            Some(_) => manager.options.only_primaries,
            None => manager.options.only_replicas,
        };
        if is_left_out {
            continue;
        }
        let Some(mut connection) = node.take_connection() else { continue };
        let Ok(reply) = connection.command(words) else {
            println!("{node}: Failed!");
            continue;
        };
        let line = [format!("{node}: ").as_bytes(), &style.text(&reply), b"\n"].concat();
        // A standard output that is gone ends the program by its signal.
        let _ = io::stdout().write_all(&line);
    }
    Ok(())
}

/// `set-timeout`
pub fn set_timeout(manager: &Manager) -> Outcome {
    let (host, port) = manager.given_address(&manager.arguments[..1])?;
    let timeout_ms = manager.text_argument(1)?.parse().unwrap_or(0);
    if timeout_ms < NODE_TIMEOUT_MIN_MS {
        return manager.refuse("Setting a node timeout of less than 100 milliseconds is a bad idea.");
    }
    let mut cluster = manager.load(&host, port)?;
    manager.log.info(format_args!(">>> Reconfiguring node timeout in every cluster node...\n"));
    let (mut set, mut failed) = (0, 0);
    for node in &mut cluster.nodes {
        let done = node
            .ask(format!("CONFIG SET cluster-node-timeout {timeout_ms}"))
            .and_then(|_| node.ask("CONFIG REWRITE"));
        match done {
            Ok(_) => {
                manager.log.warning(format_args!("*** New timeout set for {node}\n"));
                set += 1;
            }
            Err(refusal) => {
                let why = refusal.text();
                manager.log.error(format_args!("ERR setting node-timeout for {node}: {why}\n"));
                failed += 1;
            }
        }
    }
    manager.log.info(format_args!(">>> New node timeout set. {set} OK, {failed} ERR.\n"));
    Ok(())
}
