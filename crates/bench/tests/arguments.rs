//! Arguments reach the server as the command line has them, whichever bytes and quotes they hold.

use crate::common::{Answer, Stub, said, tool};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// The arguments of requests.
type Requests = Arc<Mutex<Vec<Vec<Vec<u8>>>>>;

/// A server that keeps the arguments of each request.
fn recorder() -> (Stub, Requests) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let seen = kept.clone();
    let stub = Stub::start(move |arguments, _| {
        let owned = arguments.iter().map(|argument| argument.to_vec()).collect();
        seen.lock().expect("no test panics there").push(owned);
        Answer::from("+OK\r\n")
    });
    (stub, kept)
}

fn os(words: &[&[u8]]) -> Vec<OsString> {
    words.iter().map(|word| OsStr::from_bytes(word).to_os_string()).collect()
}

/// Runs, and checks that this request was sent, and no other but AUTH.
fn sends(program: &str, line: &[&[u8]], input: &[u8], expected: &[&[u8]]) {
    let (stub, kept) = recorder();
    let mut command = tool(program);
    command.args(["-p", &stub.port, "-c", "1", "-n", "3"]).args(os(line));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("piped").write_all(input).expect("is read");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{line:?}: {}", said(&output));
    let mut requests = kept.lock().expect("no test panics there").clone();
    requests.sort();
    requests.dedup();
    assert!(requests.iter().any(|request| request == expected), "{line:?}: {requests:?}");
    assert!(
        requests.iter().all(|request| request == expected || request[0] == b"AUTH"),
        "{line:?}: {requests:?}"
    );
}

/// Alone, in the classic report and in ours, in templates and after `-x`.
#[test]
fn bytes_that_are_not_utf8_are_sent_as_they_are() {
    let expected: &[&[u8]] = &[b"SET", b"k\xff\xfe", b"\xc3"];
    let json = tempfile::tempdir().expect("a directory");
    let json = json.path().join(OsStr::from_bytes(b"\xff.json"));
    let json = json.as_os_str().as_bytes();
    for (program, line) in [
        ("redis-benchmark", &[&b"SET"[..], b"k\xff\xfe", b"\xc3"][..]),
        ("redis-benchmark", &[b"-q", b"--", b"SET", b"k\xff\xfe", b"\xc3"]),
        ("bench", &[b"--json", json, b"SET", b"k\xff\xfe", b"\xc3"]),
        ("bench", &[b"--json", json, b"SET k\xff\xfe \xc3"]),
        ("bench", &[b"--command", b"SET k\xff\xfe \xc3"]),
        ("bench", &[b"--load", b"SET k\xff\xfe \xc3", b"-r", b"3", b"SET", b"k\xff\xfe", b"\xc3"]),
        ("bench", &[b"-a", b"\xfe", b"--user", b"\xfd", b"--command=1:SET k\xff\xfe \xc3"]),
        ("resp-benchmark", &[b"SET k\xff\xfe \xc3"]),
    ] {
        sends(program, line, b"", expected);
    }
    assert!(OsStr::from_bytes(json).to_string_lossy().ends_with("\u{fffd}.json"));
    for program in ["redis-benchmark", "bench"] {
        let own: &[&[u8]] = if program == "bench" { &[b"--json", json] } else { &[] };
        sends(program, &[own, &[b"-x", b"SET", b"k\xff\xfe"]].concat(), b"\xc3", expected);
    }
    let (stub, kept) = recorder();
    let mut command = tool("bench");
    command.args(["-p", &stub.port, "-n", "1", "-c", "1"]).args(os(&[b"-a", b"\xfe\xff", b"PING"]));
    let output = command.output().expect("runs");
    assert!(output.status.success(), "{}", said(&output));
    let auth: &[&[u8]] = &[b"AUTH", b"\xfe\xff"];
    assert!(kept.lock().expect("no test panics there").iter().any(|request| request == auth));
}

/// Words that a shell has split are not split again.
#[test]
fn spaces_quotes_and_backslashes_of_an_argument_are_its_own() {
    let words: &[&[u8]] = &[b"SET", b"it\"s a 'key'", b"\\x\\\\y \"z"];
    sends("redis-benchmark", words, b"", words);
    sends("bench", &[&[&b"--rate"[..], b"1000"], words].concat(), b"", words);
    let tagged: &[&[u8]] = &[b"SET", b"\"{user1000}.x", b" v "];
    sends("bench", &[&[&b"--rate"[..], b"1000"], tagged].concat(), b"", tagged);
    // A placeholder's words belong together, in a text or apart.
    let expected: &[&[u8]] = &[b"SET", b"key_0000000000", b"a b"];
    sends("bench", &[b"--rate", b"1000", b"SET", b"{key", b"uniform", b"1}", b"a b"], b"", expected);
    sends("bench", &[b"SET {key uniform 1} 'a b'"], b"", expected);
}

#[test]
fn what_has_to_be_text_is_refused_by_its_name() {
    for (program, line, code, expected) in [
        ("bench", &[&b"-h"[..], b"a\xff"][..], 1, "-h: 'a\u{fffd}' is not UTF-8"),
        ("bench", &[b"--rate", b"5\xff", b"PING"], 1, "--rate: '5\u{fffd}' is not UTF-8"),
        ("bench", &[b"null", b"-p\xff"], 1, "'-p\u{fffd}' is not UTF-8"),
        ("bench", &[b"report", b"/none/\xff"], 1, "/none/\u{fffd}: No such file"),
        ("resp-benchmark", &[b"-n", b"5\xff"], 2, "argument -n: '5\u{fffd}' is not UTF-8"),
    ] {
        let output = tool(program).args(os(line)).output().expect("runs");
        assert_eq!(output.status.code(), Some(code), "{line:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{line:?}: {}", said(&output));
    }
}

/// `-h` is the host, in redis-benchmark as well: alone it brings the message and the options.
#[test]
fn the_options_are_listed() {
    for program in ["redis-benchmark", "valkey-benchmark", "bench"] {
        let asked = tool(program).arg("--help").output().expect("runs");
        let options = said(&asked);
        assert!(asked.status.success() && options.contains("  -n REQUESTS "), "{options}");
        let tools = "martlet bench resp|report|null|calibrate|persistence|reproduce";
        assert!(options.contains(tools), "{options}");
        let output = tool(program).arg("-h").output().expect("runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{program}: {text}");
        assert!(
            text.starts_with("Invalid option \"-h\" or option argument missing\n\n"),
            "{program}: {text}"
        );
        assert!(text.contains(options.trim()), "{program}: {text}");
    }
}
