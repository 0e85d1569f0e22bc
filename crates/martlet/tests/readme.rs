//! The README's transcript of the first five minutes: each command gives the printed reply.
//! `MARTLET_WRITE_README=1 cargo test -p martlet --test all readme` writes the present replies.

use martlet_testkit::server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_martlet");
const BEGIN: &str =
    "<!-- transcript: MARTLET_WRITE_README=1 cargo test -p martlet --test all readme -->\n\n```console\n";
const END: &str = "```\n\n<!-- end of transcript -->";
const PROMPT: &str = "$ ";

/// The output of a command line, typed in a shell beside the server.
fn print(line: &str, port: u16, directory: &Path) -> String {
    let line = line.replace("martlet cli", &format!("martlet cli -p {port}"));
    let mut path = vec![Path::new(PROGRAM).parent().unwrap().to_path_buf()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(directory)
        .env("PATH", std::env::join_paths(path).unwrap())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_first_five_minutes_are_as_the_readme_says() {
    let readme = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
    let text = std::fs::read_to_string(&readme).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the transcript's begin");
    let (there, after) = rest.split_once(END).expect("the transcript's end");
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(directory.path(), Path::new(PROGRAM), &["server", "--save", ""]).unwrap();
    let mut now = String::new();
    for line in there.lines().filter_map(|line| line.strip_prefix(PROMPT)) {
        let printed = print(line, server.address().port(), directory.path());
        now.push_str(&format!("{PROMPT}{line}\n{printed}"));
    }
    if std::env::var_os("MARTLET_WRITE_README").is_some() {
        std::fs::write(&readme, [before, BEGIN, &now, END, after].concat()).unwrap();
        return;
    }
    assert!(now.lines().count() > 10, "{now}");
    assert_eq!(now, there, "the README's transcript is not what its commands print");
}
