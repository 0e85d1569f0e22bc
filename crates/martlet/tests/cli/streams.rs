//! Replies of any length, in memory that does not grow with them.

use super::{ours, responder, run};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::{Sender, channel};

const REPLY_BYTES: usize = 256 << 20;
const MEMORY_MAX_KB: u64 = 24 * 1024;

/// Answers every connection's first request with a string of this many bytes, whose end it sends on a signal.
fn long_answer() -> (String, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (go_on, waits) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut request, chunk) = ([0; 1024], vec![b'x'; 1 << 20]);
            let _ = stream.read(&mut request).unwrap();
            write!(stream, "*1\r\n${REPLY_BYTES}\r\n").unwrap();
            for _ in 0..REPLY_BYTES / chunk.len() {
                stream.write_all(&chunk).unwrap();
            }
            waits.recv().unwrap();
            stream.write_all(b"\r\n").unwrap();
        }
    });
    (port, go_on)
}

/// The most memory that a running process has had, in KB.
fn peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_long_reply_is_printed_as_it_arrives() {
    let (port, go_on) = long_answer();
    for (form, around) in [("--raw", 1), ("--no-raw", 6), ("--json", 5)] {
        let mut command = ours();
        command.args(["-2", "-p", &port, form, "GET", "long"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let most = REPLY_BYTES - (1 << 20);
        let printed = std::io::copy(&mut (&mut out).take(most as u64), &mut std::io::sink()).unwrap();
        let peak_kb = peak_kb(child.id());
        assert!(peak_kb <= MEMORY_MAX_KB, "{form}: {peak_kb} KB");
        go_on.send(()).unwrap();
        let rest = std::io::copy(&mut out, &mut std::io::sink()).unwrap();
        assert_eq!((printed + rest) as usize, REPLY_BYTES + around, "{form}");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn what_comes_in_pieces_and_together_is_told_apart() {
    let port = responder::start();
    let word = responder::hex(b">2\r\n+pushed\r\n:1\r\n$5\r\nfirst\r\n");
    let got = run(ours(), &["-p", &port, "-3", "-r", "2", "REPLY", &word], b"");
    assert_eq!(got.text(), "first\nfirst\n");
    let got = run(ours(), &["-p", &port, "-3", "--show-pushes", "yes", "REPLY", &word], b"");
    assert_eq!(got.text(), "pushed\n1\nfirst\n");
}
