//! The one table of tools: names, links and what each does. Dispatch and the help come from it.
//!
//! Invariant: a word that names neither a tool nor a file never starts a server.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use martlet_server::config::REDIS_VERSION;

use crate::{check_aof, check_rdb, convert};

/// One of the programs in this binary.
struct Tool {
    /// The word after `martlet`.
    name: &'static str,
    /// Names of links that are this tool, with those programs' command lines.
    links: &'static [&'static str],
    /// Its description, for the help.
    about: &'static str,
    /// Runs it; gives the exit status.
    run: fn(&Call) -> i32,
}

/// How a tool was called.
struct Call<'a> {
    /// The program's name as its caller gave it.
    program: &'a OsStr,
    /// The tool's name in its messages: the link's, or `martlet TOOL`.
    name: &'a str,
    /// The further words.
    arguments: &'a [OsString],
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "server",
        links: &["redis-server", "valkey-server"],
        about: "serve; takes a redis.conf and redis-server's options, as does martlet without a tool",
        run: serve,
    },
    Tool {
        name: "bench",
        links: &["redis-benchmark", "valkey-benchmark", "resp-benchmark"],
        about: "measure a server's throughput, latency and CPU, compare two, check answers under load",
        run: bench,
    },
    Tool {
        name: "cli",
        links: &["redis-cli", "valkey-cli"],
        about: "send commands, typed or from a script; redis-cli's options",
        run: |call| martlet_cli::main(call.name, call.arguments),
    },
    Tool {
        name: "sentinel",
        links: &["redis-sentinel", "valkey-sentinel"],
        about: "watch servers, and have a replica take the place of a primary that is down",
        run: |call| martlet_sentinel::main(call.name, call.arguments),
    },
    Tool {
        name: "metrics",
        links: &[],
        about: "serve a server's metrics, and a page about it, over HTTP",
        run: |call| martlet_metrics::main(call.name, call.arguments),
    },
    Tool {
        name: "check-aof",
        links: &["redis-check-aof", "valkey-check-aof"],
        about: "say how far an append-only file is whole, and mend it if asked to",
        run: |call| {
            martlet_cli::end_with_reader();
            check_aof::main(call.name, call.arguments)
        },
    },
    Tool {
        name: "check-rdb",
        links: &["redis-check-rdb", "valkey-check-rdb"],
        about: "say whether an RDB file is whole",
        run: |call| {
            martlet_cli::end_with_reader();
            check_rdb::main(call.name, call.arguments)
        },
    },
    Tool {
        name: "convert",
        links: &[],
        about: "turn an RDB file into another version, or into lines of JSON",
        run: |call| {
            martlet_cli::end_with_reader();
            convert::main(call.arguments)
        },
    },
];

/// The word that makes a Sentinel of Redis' server, wherever it stands among its arguments.
const SENTINEL_MODE: &str = "--sentinel";

/// The server shows the program as it was named in the list of processes.
fn serve(call: &Call) -> i32 {
    if call.arguments.iter().any(|argument| argument == SENTINEL_MODE) {
        return martlet_sentinel::main(call.name, call.arguments);
    }
    martlet_server::server::main(&call.program.to_string_lossy(), call.arguments)
}

/// The load tester knows itself by the name of the link, or as `bench`.
fn bench(call: &Call) -> i32 {
    let name = call.name.strip_prefix("martlet ").unwrap_or(call.name);
    match call.arguments.split_first() {
        Some((first, rest)) if name == "bench" && first == "reproduce" => martlet_reproduce::main(rest),
        _ => martlet_bench::cli::main(name, call.arguments),
    }
}

/// Finds the tool that the program's name or its first argument says and runs it; gives the exit status.
pub fn run(program: &OsStr, arguments: &[OsString]) -> i32 {
    let link = Path::new(program).file_name().and_then(OsStr::to_str);
    if let Some((tool, name)) = link.and_then(linked) {
        return (tool.run)(&Call { program, name, arguments });
    }
    let as_server = Call { program, name: "martlet", arguments };
    let Some((first, rest)) = arguments.split_first() else { return serve(&as_server) };
    if let Some(tool) = TOOLS.iter().find(|tool| first == tool.name) {
        let name = format!("martlet {}", tool.name);
        return (tool.run)(&Call { program, name: &name, arguments: rest });
    }
    // The reader of standard output may have gone.
    let say = |text: String| drop(std::io::stdout().write_all(text.as_bytes()));
    match (first.to_str(), rest) {
        (Some("--help" | "-h"), []) => say(help()),
        (Some("--version" | "-v"), []) => say(format!("{}\n", version())),
        (Some(word), _) if !word.starts_with('-') && !word.contains('/') && is_missing(word) => {
            eprintln!("{}", unknown(word));
            return 1;
        }
        _ => return serve(&as_server),
    }
    0
}

fn is_missing(file: &str) -> bool {
    Path::new(file).try_exists().is_ok_and(|exists| !exists)
}

/// The tool that a link of this name is, with that name.
fn linked(link: &str) -> Option<(&'static Tool, &'static str)> {
    TOOLS.iter().find_map(|tool| Some((tool, *tool.links.iter().find(|name| **name == link)?)))
}

fn version() -> String {
    format!(
        "Martlet {} (as Redis {REDIS_VERSION}) malloc=mimalloc bits={}",
        env!("CARGO_PKG_VERSION"),
        usize::BITS
    )
}

fn help() -> String {
    let mut text = format!("{}\n\nUsage: martlet TOOL …   (each with --help)\n", version());
    text.push_str("       martlet [/path/to/redis.conf] [options]   the same as martlet server\n\nTools:\n");
    for tool in TOOLS {
        let _ = writeln!(text, "  {:<10} {}", tool.name, tool.about);
        if !tool.links.is_empty() {
            let _ = writeln!(text, "  {:<10} also as a link named {}", "", tool.links.join(" or "));
        }
    }
    text
}

/// The message about a word that is neither a tool nor a file.
fn unknown(word: &str) -> String {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    format!(
        "martlet: '{word}' is not one of the tools ({}), and there is no configuration file of that name.\n\
         martlet --help describes the tools.",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_and_link_is_one_tools() {
        let mut names: Vec<_> = TOOLS.iter().flat_map(|tool| tool.links.iter().chain([&tool.name])).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(linked("redis-check-aof").map(|(tool, _)| tool.name), Some("check-aof"));
        assert!(linked("martlet").is_none());
    }
}
