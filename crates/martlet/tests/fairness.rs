//! One client's requests do not hold up another's: what is counted is turns, as the server's own statistics
//! tell them, not time.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// Costly requests that lie before the server at once: more than one receive takes in.
const COSTLY: usize = 4_000;
/// So many of them may run before a request that arrived behind them all; a slice of 0.5 ms has room for far
/// fewer.
const BEFORE_OTHERS_MAX: usize = 600;

/// Calls of SORT, as `INFO commandstats` has them.
fn sort_calls(info: &Reply) -> usize {
    let Reply::Bulk(text) = info else { panic!("INFO's reply: {info:?}") };
    let text = String::from_utf8_lossy(text);
    let calls = text.lines().find_map(|line| line.strip_prefix("cmdstat_sort:calls="));
    calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn requests_of_others_do_not_wait_for_a_long_pipeline_of_costly_ones() {
    for backend in ["auto", "epoll"] {
        let arguments = ["server", "--io-threads", "1", "--io-backend", backend];
        let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap();
        let mut costly = Client::connect(server.address()).unwrap();
        let mut other = Client::connect(server.address()).unwrap();
        let numbers: Vec<String> = (0..500).map(|number| (number * 7919 % 500).to_string()).collect();
        let mut push = vec!["RPUSH", "k"];
        push.extend(numbers.iter().map(String::as_str));
        costly.command(&push).unwrap();

        // All of it lies there before the server takes its next turn.
        let pid = Pid::from_raw(server.pid() as i32).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        costly
            .send_raw(&b"*5\r\n$4\r\nSORT\r\n$1\r\nk\r\n$5\r\nLIMIT\r\n$1\r\n0\r\n$1\r\n1\r\n".repeat(COSTLY))
            .unwrap();
        other.send(&["INFO", "commandstats"]).unwrap();
        kill_process(pid, Signal::CONT).unwrap();

        let before = sort_calls(&other.read_reply().unwrap());
        assert!(
            before <= BEFORE_OTHERS_MAX,
            "{backend}: {before} of {COSTLY} ran before another client's request"
        );
        for _ in 0..COSTLY {
            let Reply::Array(sorted) = costly.read_reply().unwrap() else { panic!("SORT's reply") };
            assert_eq!(sorted.len(), 1, "{backend}");
        }
        assert_eq!(sort_calls(&other.command(&["INFO", "commandstats"]).unwrap()), COSTLY, "{backend}");
    }
}
