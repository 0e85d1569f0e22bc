//! Any request in any context: does the server live, and is the next client answered? A short run of what
//! `./x fuzz liveness` does for an hour, after every sequence that has once shown something.

use martlet_testkit::liveness::{self, Limits, Options};
use std::path::Path;
use std::time::Duration;

/// How long rounds are begun.
const TIME: Duration = Duration::from_secs(8);
/// Steps of a round.
const STEPS: usize = 600;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_martlet"))
}

#[test]
fn sequences_that_have_ended_a_server_do_so_no_more() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/liveness");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let finding = liveness::replay(program(), &text, Limits::default()).unwrap();
        assert!(finding.is_none(), "{}: {finding:#?}", path.display());
        count += 1;
    }
    assert!(count > 0, "no sequences");
}

#[test]
fn any_request_leaves_the_server_alive() {
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let options = Options { seed, time: TIME, steps: STEPS, limits: Limits::default() };
    let outcome = liveness::run(program(), &options, |line| eprintln!("{line}")).unwrap();
    assert!(outcome.findings.is_empty(), "{}", outcome.findings.join("\n"));
    // Requests that are all refused would show nothing.
    assert!(outcome.refused * 4 < outcome.steps * 3, "{outcome:?}");
}

/// The run's findings are shown where the server is stopped.
#[test]
fn a_server_that_ends_is_found_and_the_sequence_is_short() {
    let text = "@server one-thread\n0 PING\n1 SET a b\n1 DEBUG PANIC-AT READ a\n0 PING";
    let finding = liveness::replay(program(), text, Limits::default()).unwrap().unwrap();
    assert!(finding.place.contains("asked for by DEBUG PANIC-AT"), "{finding:#?}");
    let text = "@server replica\n0 PING\n1 DEBUG SEGFAULT\n0 PING";
    let finding = liveness::replay(program(), text, Limits::default()).unwrap().unwrap();
    assert!(finding.place.contains("crashed by signal: 11"), "{finding:#?}");
}

/// The table is the server's own: every command that it lists is drawn from.
#[test]
fn the_table_has_every_command_with_its_grammar() {
    let table = liveness::table_of(program()).unwrap();
    let find = |words: &[&str]| table.commands.iter().find(|command| command.words == words);
    for words in
        [&["get"][..], &["clusterscan"], &["config", "set"], &["debug", "reload"], &["xgroup", "create"]]
    {
        assert!(find(words).is_some(), "{words:?}");
    }
    assert!(table.commands.len() > 400, "{}", table.commands.len());
    // What takes arguments says which, but for what only servers say to each other.
    let silent = table.commands.iter().filter(|command| {
        let least = command.arity.unsigned_abs() as usize;
        command.arguments.is_empty() && least > command.words.len() && command.words[0] != "debug"
    });
    let silent: Vec<String> = silent.map(|command| command.words.join(" ")).collect();
    assert!(silent.len() < 20, "{silent:?}");
    assert!(table.payloads.len() > 30 && table.parameters.len() > 200);
}
