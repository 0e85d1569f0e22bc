//! `daemonize`, `pidfile` and `logfile`: a Sentinel in the background.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::ReservedPort;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use super::{OURS, until};

#[test]
fn a_sentinel_in_the_background_says_who_it_is_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let [file, pid_file, log] = ["s.conf", "s.pid", "s.log"].map(|name| directory.path().join(name));
    let port = ReservedPort::take().unwrap();
    let text = format!(
        "port {}\ndaemonize yes\npidfile {}\nlogfile {}\ndir {}\n",
        port.number(),
        pid_file.display(),
        log.display(),
        directory.path().display()
    );
    fs::write(&file, text).unwrap();
    let begun = Command::new(OURS).arg("sentinel").arg(&file).output().unwrap();
    assert!(begun.status.success(), "{begun:?}");
    let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
    until("an answer", || {
        let reply = Client::connect(address).and_then(|mut client| client.command(&["PING"]));
        reply.is_ok_and(|reply| reply == Reply::Simple("PONG".into()))
    });
    let pid: i32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = status.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // No session's leader, and without a terminal.
    assert!(fields[3] != pid.to_string() && fields[4] == "0", "{status}");
    assert!(fs::read_to_string(&log).unwrap().contains("Sentinel ID is"));
    assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
    until("its end", || !fs::exists(format!("/proc/{pid}")).unwrap());
    assert!(!pid_file.exists());
}
