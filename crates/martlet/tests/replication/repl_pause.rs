//! DEBUG REPL-PAUSE: the process stops itself at a step of a full sync over two connections, and what its
//! peer says in that time.

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};

use super::replica::{ask, assert_equal, field, ours};
use super::wait_until;

/// Whether all of a process stands still.
fn is_stopped(server: &Server) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    // The state follows the name, which is in parentheses.
    state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

fn continue_process(server: &Server) {
    kill_process(Pid::from_raw(server.pid() as i32).unwrap(), Signal::CONT).unwrap();
}

/// The state of the replica and of its second connection, by the primary's INFO.
fn replicas(primary: &mut Client) -> String {
    let info = ask(primary, "INFO replication");
    let lines = info.lines().filter(|line| line.starts_with("slave") && line.contains("ip="));
    lines
        .map(|line| {
            line.split(',')
                .filter(|part| part.contains("state=") || part.contains("type="))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn a_process_stops_where_it_is_asked_to() {
    let options = ["--repl-rdb-channel", "yes"];
    for (point, is_replicas) in
        [("before-rdb-channel", true), ("ON-STREAMING-REPL-BUF", true), ("after-fork", false)]
    {
        let (top, mut primary) = ours(&options);
        let (own, mut replica) = ours(&options);
        assert_eq!(ask(&mut primary, "DEBUG POPULATE 1000"), "OK");
        let (stopping, asked) = if is_replicas { (&own, &mut replica) } else { (&top, &mut primary) };
        assert_eq!(ask(asked, &format!("DEBUG REPL-PAUSE {point}")), "OK");
        let line = format!("REPLICAOF 127.0.0.1 {}", top.address().port());
        assert_eq!(ask(&mut replica, &line), "OK");
        wait_until("it stops", || is_stopped(stopping));
        if point == "before-rdb-channel" {
            // The second connection, which would bring the data set, has not been opened.
            wait_until("the replica is known", || replicas(&mut primary).contains("wait_bgsave"));
            assert!(!replicas(&mut primary).contains("rdb-channel"));
        } else if is_replicas {
            // The replica applies these writes once it goes on.
            assert_eq!(ask(&mut primary, "SET during 1"), "OK");
        }
        continue_process(stopping);
        wait_until("the link", || field(&mut replica, "master_link_status") == "up");
        assert_equal(&mut primary, &mut replica);
        assert_eq!(stopping.logged("Process is about to stop.", 1), 1, "{point}");
        assert_eq!(stopping.logged("Process has been continued.", 1), 1, "{point}");
        let asked = if is_replicas { &mut replica } else { &mut primary };
        assert_eq!(ask(asked, "DEBUG REPL-PAUSE clear"), "OK");
        let wrong = "ERR unknown subcommand or wrong number of arguments for 'repl-pause'. Try DEBUG HELP.";
        for words in ["DEBUG REPL-PAUSE", "DEBUG REPL-PAUSE nowhere", "DEBUG REPL-PAUSE clear x"] {
            let reply = ask(asked, words);
            assert_eq!(reply.to_lowercase(), wrong.to_lowercase(), "{words}");
        }
    }
}
