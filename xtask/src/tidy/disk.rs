//! Rules on who waits for the disk: files are read and changed by threads outside the gate only.
//!
//! The compiler holds those to it that take the token of such a thread (`martlet_base::sync::Outside`). This
//! looks after the rest: who may make a token, and which files may call the file system without asking for
//! one.

/// Calls that make a token, and the files that may.
const TOKENS: &[(&str, &[&str])] = &[
    // Threads of files, links and the start, which are never I/O threads.
    (
        "Outside::of_background_thread()",
        &[
            "persistence/src/aof/rewrite.rs",
            "persistence/src/background.rs",
            "persistence/src/start.rs",
            "server/src/outgoing.rs",
            "server/src/replication/cron.rs",
            "server/src/replication/replica/full_sync.rs",
            "server/src/server.rs",
            "server/src/shutdown.rs",
        ],
    ),
    ("Outside::of_standstill()", &["engine/src/keys/alone.rs"]),
    // SAVE, SHUTDOWN, DEBUG RELOAD and LOADAOF.
    (
        ".standstill()",
        &["server/src/commands/persistence.rs", "server/src/runtime/saving.rs", "server/src/shutdown.rs"],
    ),
];

/// Crates that I/O threads run in.
const GATED: &[&str] = &[
    "acl", "bytecode", "command", "config", "engine", "journal", "keyspace", "process", "script", "server",
    "tls",
];
/// Calls of the file system.
const CALLS: &[&str] =
    &["fs::", "File::open(", "File::create(", "File::options(", "OpenOptions", ".canonicalize("];
/// Files of those crates that call it: what they do takes a token, is done at the start or the end, by a
/// thread of its own, or is about a file system without a disk (`/proc`).
const CALLERS: &[&str] = &[
    "access.rs",
    "cluster/mod.rs",
    "config/load.rs",
    "config/rewrite.rs",
    "config/value.rs",
    "listeners.rs",
    "logging.rs",
    "process/crash.rs",
    "process/limits.rs",
    "process/oom.rs",
    "process/system.rs",
    "process/title.rs",
    "process/usage.rs",
    "replication/sync.rs",
    "server.rs",
    "startup.rs",
    "tls.rs",
    "tls/client.rs",
];

/// Findings in the lines of a file, tests apart.
pub fn findings(path: &str, lines: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    let Some((crate_name, file)) = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
    else {
        return findings;
    };
    for (index, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for (call, files) in TOKENS {
            if code.contains(call) && !files.iter().any(|file| path.ends_with(file)) {
                findings.push(format!(
                    "{path}:{}: {call}; xtask/src/tidy/disk.rs lists the files that may",
                    index + 1
                ));
            }
        }
        let call = CALLS.iter().find(|call| code.contains(**call) && !code.starts_with("use "));
        if let Some(call) = call.filter(|_| GATED.contains(&crate_name))
            && !CALLERS
                .iter()
                .any(|caller| file.ends_with(caller) || caller.ends_with(&format!("{crate_name}/{file}")))
        {
            findings.push(format!(
                "{path}:{}: {call}; what waits for the disk takes a token (xtask/src/tidy/disk.rs)",
                index + 1
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_files_that_are_not_listed_are_found() {
        let count = |path: &str, line: &str| findings(path, &[line]).len();
        assert_eq!(count("crates/server/src/worker/mod.rs", "let text = std::fs::read(path);"), 1);
        assert_eq!(count("crates/server/src/worker/mod.rs", "let text = x; // std::fs::read(path);"), 0);
        assert_eq!(count("crates/server/src/access.rs", "let text = std::fs::read(path);"), 0);
        assert_eq!(count("crates/config/src/rewrite.rs", "let text = std::fs::read(path);"), 0);
        assert_eq!(count("crates/config/src/load.rs", "let text = std::fs::read(path);"), 0);
        assert_eq!(count("crates/config/src/words.rs", "let text = std::fs::read(path);"), 1);
        assert_eq!(count("crates/persistence/src/load.rs", "let file = File::open(path);"), 0);
        assert_eq!(count("crates/server/src/dispatch.rs", "f(&Outside::of_background_thread());"), 1);
        assert_eq!(count("crates/server/src/commands/config.rs", "f(&keys.standstill());"), 1);
    }
}
