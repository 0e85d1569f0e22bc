//! A Martlet primary with two replicas, and three Sentinels, one of them real where it is installed, that
//! fail over while a client library writes. No acknowledged write may be lost: servers wait for replicas.

use super::running::{Error, Tour, ask, commands, until};
use martlet_testkit::server::{ReservedPort, Server};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use xtask::run::{Outcome, is_installed, root};

/// A real one.
const PEER: &str = "redis-sentinel";
/// A library learns of a failover by failing requests: it continues for a while.
const REQUESTS_AFTER_FAILOVER: u64 = 500;
/// Starts as a primary; once the Sentinels have another they make it a replica.
const SERVER: [&str; 7] = [
    "server",
    "--repl-diskless-sync-delay",
    "0",
    "--martlet-sync-replicas",
    "2",
    "--min-replicas-max-lag",
    "60",
];

/// A Sentinel's process; dropping it kills it.
struct Sentinel {
    child: Child,
    port: ReservedPort,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sentinel {
    fn start(folder: &Path, index: usize, primary: u16) -> Result<Sentinel, Error> {
        let port = ReservedPort::take()?;
        let file = folder.join(format!("{index}.conf"));
        let lines = format!(
            "port {}\nsentinel monitor mymaster 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds mymaster 1500\nsentinel failover-timeout mymaster 10000\n",
            port.number()
        );
        std::fs::write(&file, lines)?;
        let mut command = if index == 0 && is_installed(PEER, "--version") {
            Command::new(PEER)
        } else {
            let mut command = Command::new(root().join("target/debug/martlet"));
            command.arg("sentinel");
            command
        };
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Sentinel { child: quiet.arg(file).spawn()?, port })
    }

    fn ask(&self, words: &[&str]) -> Result<String, Error> {
        ask(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number())), words)
    }

    /// The port of the primary that it reports to clients.
    fn primary(&self) -> Result<u16, Error> {
        let address = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"])?;
        Ok(address.split(' ').nth(1).ok_or("no address")?.parse()?)
    }

    /// Whether it knows of the two others, and of two replicas that are there.
    fn knows_all(&self) -> Result<bool, Error> {
        let told = self.ask(&["SENTINEL", "MASTER", "mymaster"])?;
        let replicas = self.ask(&["SENTINEL", "REPLICAS", "mymaster"])?;
        let are_there = replicas.matches("flags slave master-link").count() == 2
            || replicas.matches("flags slave link").count() == 2;
        Ok(told.contains("num-slaves 2") && told.contains("num-other-sentinels 2") && are_there)
    }
}

/// Has a library's program tour new servers under new Sentinels.
pub fn tour(program: Command) -> Outcome {
    let folder = tempfile::tempdir()?;
    let server = root().join("target/debug/martlet");
    let start = |index: usize| {
        let directory = folder.path().join(index.to_string());
        std::fs::create_dir(&directory)?;
        Server::start_in(&directory, &server, &SERVER)
    };
    let mut servers = (0..3).map(start).collect::<std::io::Result<Vec<_>>>()?;
    let primary = servers[0].address().port();
    for replica in &servers[1..] {
        ask(replica.address(), &["REPLICAOF", "127.0.0.1", &primary.to_string()])?;
    }
    let sentinels =
        (0..3).map(|index| Sentinel::start(folder.path(), index, primary)).collect::<Result<Vec<_>, _>>()?;
    await_whole(&servers, &sentinels)?;
    let ports: Vec<String> = sentinels.iter().map(|sentinel| sentinel.port.number().to_string()).collect();
    let mut tour = Tour::start(program, "SENTINEL_PORTS", &ports.join(","))?;
    let changed = change(folder.path(), &mut servers, &sentinels, &mut tour);
    tour.end(changed)
}

fn await_whole(servers: &[Server], sentinels: &[Sentinel]) -> Outcome {
    for sentinel in sentinels {
        // One that has just been started does not listen yet.
        until("Sentinels that know each other", || Ok(sentinel.knows_all().unwrap_or(false)))?;
    }
    until("replicas", || {
        let told = servers.iter().map(|server| ask(server.address(), &["INFO", "replication"]));
        let told = told.collect::<Result<Vec<_>, _>>()?;
        let up = told.iter().filter(|info| info.contains("master_link_status:up")).count();
        Ok(up == 2 && told.iter().any(|info| info.contains("connected_slaves:2")))
    })
}

/// Has an operator fail over, then kills the primary and starts it again, under a running tour.
fn change(folder: &Path, servers: &mut Vec<Server>, sentinels: &[Sentinel], tour: &mut Tour) -> Outcome {
    let first = servers[0].address();
    tour.until("the tour's writes", || Ok(commands(first)? > REQUESTS_AFTER_FAILOVER))?;
    sentinels[1].ask(&["SENTINEL", "FAILOVER", "mymaster"])?;
    let second = succeed(first.port(), servers, sentinels, tour)?;
    await_whole(servers, sentinels)?;
    let index = servers.iter().position(|server| server.address() == second).ok_or("a foreign address")?;
    servers[index].kill();
    tour.until("a failover", || Ok(sentinels[1].primary()? != second.port()))?;
    let directory = folder.join(index.to_string());
    let killed = servers.remove(index);
    servers.push(killed.restart_in(&directory, &root().join("target/debug/martlet"), &SERVER)?);
    succeed(second.port(), servers, sentinels, tour)?;
    Ok(())
}

/// Waits until another server has taken over, and the library writes to it; its address.
fn succeed(
    before: u16,
    servers: &[Server],
    sentinels: &[Sentinel],
    tour: &mut Tour,
) -> Result<SocketAddr, Error> {
    for sentinel in sentinels {
        tour.until("a failover", || Ok(sentinel.primary()? != before))?;
    }
    let port = sentinels[0].primary()?;
    let server = servers.iter().find(|server| server.address().port() == port).ok_or("a foreign address")?;
    let address = server.address();
    tour.until(
        "its replicas",
        || Ok(ask(address, &["INFO", "replication"])?.contains("connected_slaves:2")),
    )?;
    let since = commands(address)?;
    tour.until("writes to the new primary", || Ok(commands(address)? > since + REQUESTS_AFTER_FAILOVER))?;
    Ok(address)
}
