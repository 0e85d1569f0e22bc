//! Servers with values of Redis 8's module types: what their tests ask of them.

use std::path::Path;
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::dump;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const PATIENCE: Duration = Duration::from_secs(30);

/// A server in the directory that takes DEBUG.
pub fn start(directory: &Path, arguments: &[&str]) -> Server {
    let all = [&["server", "--enable-debug-command", "yes"], arguments].concat();
    Server::start_in(directory, Path::new(OURS), &all).unwrap()
}

/// A connection to it.
pub fn connect(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

/// All keys with their values.
pub fn content(server: &Server) -> Vec<String> {
    dump(&mut connect(server)).unwrap()
}

/// The reply to a request whose words have no blanks.
pub fn ask(client: &mut Client, line: &str) -> Reply {
    client.command(&line.split(' ').collect::<Vec<_>>()).unwrap()
}

/// As [`ask`]; the reply is no error.
pub fn ask_ok(client: &mut Client, line: &str) {
    let reply = ask(client, line);
    assert!(!reply.is_error(), "{line}: {reply:?}");
}

/// Waits until a condition holds, for a time.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} never came true");
        std::thread::sleep(Duration::from_millis(10));
    }
}
