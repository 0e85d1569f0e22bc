//! The log of a crash, and the process' exit status.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use martlet_client::blocking::Client;
use martlet_client::resp::encode_request;
use martlet_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};

fn start(arguments: &[&str]) -> Server {
    let mut all = vec!["server", "--enable-debug-command", "yes", "--io-threads", "2"];
    all.extend(arguments);
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &all).unwrap()
}

fn send(server: &Server, signal: Signal) {
    kill_process(Pid::from_raw(server.pid() as i32).unwrap(), signal).unwrap();
}

/// Asks for something that may have no answer.
fn ask(server: &Server, line: &str) {
    let mut client = Client::connect(server.address()).unwrap();
    let _ = client.command(&line.split(' ').collect::<Vec<_>>());
}

/// All of these are in the text, in this order.
fn assert_in_order(text: &str, signs: &[&str]) {
    let mut rest = text;
    for sign in signs {
        let at = rest.find(sign).unwrap_or_else(|| panic!("no {sign} in its place in:\n{text}"));
        rest = &rest[at + sign.len()..];
    }
}

#[test]
fn a_signal_is_reported_and_ends_the_process() {
    let server = start(&["--timeout", "77"]);
    let mut client = Client::connect(server.address()).unwrap();
    client.command(&["CONFIG", "SET", "requirepass", "secret-word"]).unwrap();
    let _ = client.command(&["DEBUG", "SEGFAULT"]);
    let (status, log) = server.end().unwrap();
    assert_eq!(status.signal(), Some(11));
    let signs = [
        "=== REDIS BUG REPORT START: Cut & paste starting from here ===\n",
        "crashed by signal: 11, si_code: ",
        "Accessing address: 0x",
        "------ STACK TRACE ------",
        " *\n0x",
        "segfault",
        "------ STACK TRACE DONE ------",
        "------ INFO OUTPUT ------\n# Server\n",
        "# Keyspace\n",
        "------ CONFIG OUTPUT ------",
        "timeout 77\n",
        "requirepass (redacted)\n",
        "=== REDIS BUG REPORT END.",
    ];
    assert_in_order(&log, &signs);
    assert!(!log.contains("secret-word") && log.matches("STACK TRACE -").count() == 1, "{log}");
    assert!(log.contains(" io-1\n"), "{log}");
}

#[test]
fn a_signal_from_outside_is_reported_unless_that_is_switched_off() {
    for is_wanted in ["yes", "no"] {
        let server = start(&["--crash-log-enabled", is_wanted]);
        send(&server, Signal::ABORT);
        let (status, log) = server.end().unwrap();
        assert_eq!(status.signal(), Some(6));
        assert_eq!(log.contains("crashed by signal: 6"), is_wanted == "yes", "{log}");
        assert_eq!(log.contains("Killed by PID: "), is_wanted == "yes", "{log}");
    }
}

#[test]
fn a_defect_is_reported_and_ends_the_process() {
    let server = start(&[]);
    ask(&server, "DEBUG PANIC");
    let (status, log) = server.end().unwrap();
    assert_eq!(status.signal(), Some(6));
    assert_in_order(
        &log,
        &["BUG REPORT START", "Guru Meditation: asked for by DEBUG PANIC #", "INFO OUTPUT"],
    );

    // In a transaction, which holds its keys: the report comes to its end nevertheless.
    let server = start(&[]);
    let mut client = Client::connect(server.address()).unwrap();
    for line in ["MULTI", "MSET a 1 b 2", "DEBUG PANIC"] {
        client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
    }
    let _ = client.command(&["EXEC"]);
    let (_, log) = server.end().unwrap();
    assert_in_order(&log, &["BUG REPORT START", "# Server", "CONFIG OUTPUT", "BUG REPORT END"]);

    let server = start(&["--use-exit-on-panic", "yes", "--crash-log-enabled", "no"]);
    ask(&server, "DEBUG ASSERT");
    let (status, log) = server.end().unwrap();
    assert_eq!(status.code(), Some(1));
    assert_in_order(&log, &["=== ASSERTION FAILED ===", "debug.rs:"]);
    assert!(!log.contains("BUG REPORT"), "{log}");
}

/// Sends requests in one write; what comes back until the server closes the connection.
fn exchange(server: &Server, lines: &[&str]) -> String {
    let mut client = Client::connect(server.address()).unwrap();
    let mut bytes = Vec::new();
    for line in lines {
        encode_request(&line.split(' ').collect::<Vec<_>>(), &mut bytes);
    }
    client.send_raw(&bytes).unwrap();
    String::from_utf8(client.read_to_end().unwrap()).unwrap()
}

#[test]
fn a_panic_that_has_changed_nothing_costs_its_client_alone() {
    for threads in ["1", "4"] {
        let mut server = start(&["--io-threads", threads, "--appendonly", "yes"]);
        let mut other = Client::connect(server.address()).unwrap();
        let mut ask = |line: &str| {
            let reply = other.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
            String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned()
        };
        // Requests before it in the pipeline have run, those behind it have not.
        exchange(&server, &["SET a 1", "DEBUG PANIC-AT READ a", "SET a 2"]);
        assert_eq!(ask("GET a"), "1");
        // Its keys are free, of one shard and of all that a transaction holds, and behind the gate.
        exchange(&server, &["WATCH w", "MULTI", "GET a", "GET b", "DEBUG PANIC-AT READ a", "EXEC"]);
        exchange(&server, &["MULTI", "DBSIZE", "SORT l BY w*", "DEBUG PANIC-AT READ a", "EXEC"]);
        exchange(&server, &["CLIENT TRACKING ON", "GET a", "DEBUG PANIC-AT READ a"]);
        assert_eq!(ask("MSET a 3 b 4 w 5"), "OK");
        assert_eq!(ask("FLUSHALL"), "OK");
        assert_eq!(ask("SET a 6"), "OK");
        assert!(!server.has_exited());
        for line in [
            "Guru Meditation: asked for by DEBUG PANIC-AT #",
            "The request had changed nothing: its client is closed",
        ] {
            assert_eq!(server.logged(line, 4), 4, "{}", server.log());
        }
        assert!(!server.log().contains("BUG REPORT"), "{}", server.log());
    }
}

#[test]
fn a_panic_amid_a_change_ends_the_process() {
    for lines in [
        &["DEBUG PANIC-AT CHANGE a"][..],
        &["MULTI", "SET b 1", "DEBUG PANIC-AT READ a", "EXEC"],
        &["MULTI", "EVAL return{} 0", "DEBUG PANIC-AT READ a", "EXEC"],
    ] {
        let server = start(&[]);
        exchange(&server, lines);
        let (status, log) = server.end().unwrap();
        assert_eq!(status.signal(), Some(6));
        assert_in_order(&log, &["BUG REPORT START", "asked for by DEBUG PANIC-AT", "BUG REPORT END"]);
        assert!(!log.contains("had changed nothing"), "{log}");
    }
}

#[test]
fn an_alarm_shows_where_all_threads_are_and_stops_nothing() {
    let server = start(&[]);
    for round in 1..=3 {
        // An alarm during the last one's report is let go.
        while server.log().matches("STACK TRACE DONE").count() < round {
            send(&server, Signal::ALARM);
        }
        let mut client = Client::connect(server.address()).unwrap();
        assert_eq!(client.command(&["PING"]).unwrap().text(), Some(b"PONG".as_slice()));
    }
    assert_in_order(&server.log(), &["WATCHDOG TIMER EXPIRED", "Received SIGALRM from PID", "poll"]);
}

#[test]
fn the_watchdog_shows_what_a_thread_is_busy_with() {
    let server = start(&["--watchdog-period", "1"]);
    let mut client = Client::connect(server.address()).unwrap();
    let mut command = |line: &str| client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
    // Two background steps are the least, as in Redis.
    let is_set = |reply: martlet_client::resp::Reply, value: &str| {
        assert_eq!(reply.items().unwrap()[1].text(), Some(value.as_bytes()));
    };
    is_set(command("CONFIG GET watchdog-period"), "200");
    command("CONFIG SET hz 100");
    command("CONFIG SET watchdog-period 30");
    is_set(command("CONFIG GET watchdog-period"), "30");
    // Each sleep is several periods long; the report may be written a moment after it. A machine that is busy
    // with something else may have held up another command for as long, which is reported, too.
    let is_reported = (0..50).any(|_| {
        assert_eq!(command("DEBUG SLEEP 0.2").text(), Some(b"OK".as_slice()));
        let log = server.log();
        log.find("debug::sleep").is_some_and(|at| log[at..].contains("STACK TRACE DONE"))
    });
    assert!(is_reported, "{}", server.log());
    assert_in_order(&server.log(), &["WATCHDOG TIMER EXPIRED", "STACK TRACE", " *", "debug::sleep", "poll"]);
    assert!(!server.log().contains("Received SIGALRM"));
}
