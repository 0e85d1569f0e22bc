//! `martlet check-aof`, beside redis-check-aof if that is installed.

use martlet_testkit::peers::is_installed;
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::OURS;

/// What `check-aof` prints with these arguments and this input, and its status.
pub fn check(arguments: &[&str], input: &str) -> (i32, String) {
    let mut all = vec!["check-aof"];
    all.extend(arguments);
    output(Command::new(OURS).args(all), input)
}

fn output(command: &mut Command, input: &str) -> (i32, String) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A tool that does not ask has closed its end.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code().unwrap(), text)
}

#[test]
fn the_tool_says_what_redis_check_aof_says() {
    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n";
    let has_peer = is_installed("redis-check-aof");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file.aof");
    let name = path.to_str().unwrap();
    for (content, arguments, input, status, sign) in [
        (SET.into(), &[][..], "", 0, "is valid"),
        (String::new(), &[], "", 0, "is empty"),
        (format!("{SET}!!!"), &[], "", 1, "ok_up_to_line=8, diff=3"),
        (format!("{SET}*3\r\n$3\r\nSET"), &[], "", 1, "Expected to read 5 bytes, got 3 bytes"),
        (format!("{SET}*3\r\n+3\r\nSET\r\n"), &[], "", 1, "Expected prefix '$', got: '+'"),
        (format!("{SET}*1\r\n$5\r\nMULTI\r\n{SET}"), &[], "", 1, "Reached EOF before reading EXEC for MULTI"),
        (format!("{SET}*1\r\n$4\r\nexec\r\n"), &[], "", 1, "Unexpected EXEC in AOF"),
        ("*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n".into(), &[], "", 1, "Unexpected MULTI in AOF"),
        (format!("{SET}*1\r\n$4\r\nPINGxx"), &[], "", 1, "Expected \\r\\n, got: 7878"),
        (format!("{SET}*1\r\n$-5\r\n"), &[], "", 1, "is not in the suitable range"),
        (format!("{SET}*1\r\n$99999999\r\nabc"), &[], "", 1, "got 3 bytes"),
        (format!("{SET}!!!"), &["--fix"], "n\n", 1, "Aborting..."),
        (format!("{SET}!!!"), &["--fix"], "", 1, "Aborting..."),
        (format!("{SET}!!!"), &["--fix"], "y\n", 0, "Successfully truncated AOF"),
        (format!("#TS:5\r\n{SET}#TS:7\r\n{SET}"), &["--truncate-to-timestamp", "6"], "", 0, "to timestamp 6"),
        (
            format!("#TS:5\r\n{SET}"),
            &["--truncate-to-timestamp", "4"],
            "",
            1,
            "has nothing before timestamp 4",
        ),
        (format!("#TS:5\r\n{SET}"), &["--truncate-to-timestamp", "9"], "", 0, "Truncate nothing in AOF"),
        (SET.into(), &["--truncate-to-timestamp", "x"], "", 1, "Invalid timestamp, aborting..."),
        (SET.into(), &["--mend"], "", 1, "Usage: "),
    ] {
        let mut all = arguments.to_vec();
        all.push(name);
        fs::write(&path, &content).unwrap();
        let (ours, text) = check(&all, input);
        let left = fs::read(&path).unwrap();
        let (kept, text): (Vec<&str>, Vec<&str>) =
            text.split_inclusive('\n').partition(|line| line.starts_with("The bytes cut off are kept as "));
        let (kept, text) = (kept.concat(), text.concat());
        assert_eq!(kept.is_empty(), left.len() == content.len(), "{content:?}: {kept}");
        if let Some(kept) = kept.trim_end().strip_prefix("The bytes cut off are kept as ") {
            assert_eq!([left.as_slice(), &fs::read(kept).unwrap()].concat(), content.as_bytes());
        }
        assert!(ours == status && text.contains(sign), "{content:?}: {ours}, {text}");
        if has_peer {
            fs::write(&path, &content).unwrap();
            let (theirs, their_text) = output(Command::new("redis-check-aof").args(&all), input);
            assert_eq!((ours, &left), (theirs, &fs::read(&path).unwrap()), "{content:?}: {their_text}");
            let text = text.replace("martlet check-aof", "redis-check-aof");
            assert_eq!(text, their_text, "{content:?}");
        }
    }
}
