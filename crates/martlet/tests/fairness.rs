//! One client's requests do not delay another's: turns are counted, from the server's own statistics, not
//! time.

use martlet_client::blocking::Client;
use martlet_client::resp::{Reply, encode_request};
use martlet_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// Costly requests that lie before the server at once: more than one receive takes in.
const COSTLY: usize = 4_000;
/// Most of them that may run before a request that arrived behind them all; a slice of 0.5 ms has room for
/// far fewer.
const BEFORE_OTHERS_MAX: usize = 600;

/// Calls of a command, as `INFO commandstats` has them.
fn calls(info: &Reply, command: &str) -> usize {
    let Reply::Bulk(text) = info else { panic!("INFO's reply: {info:?}") };
    let text = String::from_utf8_lossy(text);
    let start = format!("cmdstat_{command}:calls=");
    let calls = text.lines().find_map(|line| line.strip_prefix(&start));
    calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// What `INFO commandstats` says to `other`, which asks after `costly` has sent its requests. All of them lie
/// there before the server takes its next turn.
fn info_sent_behind(server: &Server, costly: &mut Client, requests: &[u8], other: &mut Client) -> Reply {
    let pid = Pid::from_raw(server.pid() as i32).unwrap();
    martlet_testkit::server::stop(pid).unwrap();
    costly.send_raw(requests).unwrap();
    other.send(&["INFO", "commandstats"]).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    other.read_reply().unwrap()
}

#[test]
fn messages_are_delivered_before_many_more_are_published() {
    const SUBSCRIBERS: usize = 200;
    /// They have room for no more than the cost of 2 MB of messages.
    const BEFORE_OTHERS_MAX: usize = 200;
    for backend in ["auto", "epoll"] {
        let arguments = ["server", "--io-threads", "1", "--io-backend", backend];
        let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap();
        let [mut publisher, mut other] = [(); 2].map(|()| Client::connect(server.address()).unwrap());
        let mut subscribers: Vec<Client> =
            (0..SUBSCRIBERS).map(|_| Client::connect(server.address()).unwrap()).collect();
        for subscriber in &mut subscribers {
            subscriber.command(&["SUBSCRIBE", "c"]).unwrap();
        }
        let mut publish = Vec::new();
        encode_request(&["PUBLISH", "c", &"m".repeat(200)], &mut publish);
        let info = info_sent_behind(&server, &mut publisher, &publish.repeat(1_000), &mut other);
        let before = calls(&info, "publish");
        assert!(before <= BEFORE_OTHERS_MAX, "{backend}: {before} ran before another client's request");
        for _ in 0..1_000 {
            assert_eq!(publisher.read_reply().unwrap(), Reply::Int(SUBSCRIBERS as i64), "{backend}");
        }
    }
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

        let request = b"*5\r\n$4\r\nSORT\r\n$1\r\nk\r\n$5\r\nLIMIT\r\n$1\r\n0\r\n$1\r\n1\r\n".repeat(COSTLY);
        let info = info_sent_behind(&server, &mut costly, &request, &mut other);
        let before = calls(&info, "sort");
        assert!(
            before <= BEFORE_OTHERS_MAX,
            "{backend}: {before} of {COSTLY} ran before another client's request"
        );
        for _ in 0..COSTLY {
            let Reply::Array(sorted) = costly.read_reply().unwrap() else { panic!("SORT's reply") };
            assert_eq!(sorted.len(), 1, "{backend}");
        }
        assert_eq!(calls(&other.command(&["INFO", "commandstats"]).unwrap(), "sort"), COSTLY, "{backend}");
    }
}
