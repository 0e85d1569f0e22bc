//! Servers with values of Redis 8's module types: what their tests ask of them.

use std::path::Path;
use std::process::Command;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::dump;
use martlet_testkit::server::Server;
pub use martlet_testkit::wait::until;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

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

/// The words of a text reply to a request.
fn text(client: &mut Client, line: &str) -> String {
    let reply = ask(client, line);
    reply
        .text()
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .unwrap_or_else(|| format!("{reply:?}"))
}

/// Runs the load tester, whose requests are all without errors.
fn load(server: &Server, arguments: &[&str]) {
    let port = server.address().port().to_string();
    let output = Command::new(OURS).args(["bench", "-p", &port]).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn the_load_tester_has_a_test_for_each_family() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    let tests = ["-t", "json.set,json.get,bf.add,ts.add,vadd,vsim,ft.hset,ft.search", "--dimension", "20"];
    // In redis-benchmark's form, and in the tester's own.
    for form in [&["-q"][..], &["--json", directory.path().join("run.json").to_str().unwrap()]] {
        ask_ok(&mut client, "FLUSHALL");
        ask_ok(&mut client, "CONFIG RESETSTAT");
        load(&server, &[&tests[..], &["-n", "2000", "-r", "4", "-P", "8", "--seed", "5"], form].concat());
        let document = text(&mut client, "JSON.GET json:000000000000");
        assert!(document.starts_with(r#"{"name":"user:00000000000"#) && document.len() == 100, "{document}");
        assert_eq!(ask(&mut client, "BF.CARD mybloom").integer(), Some(4));
        assert_eq!(ask(&mut client, "TS.GET series:000000000003").items().map(<[Reply]>::len), Some(2));
        assert_eq!(ask(&mut client, "VDIM myvectors").integer(), Some(20));
        assert_eq!(ask(&mut client, "VCARD myvectors").integer(), Some(4));
        let found = ask(&mut client, "FT.SEARCH myindex item LIMIT 0 0");
        assert_eq!(found.items().and_then(|items| items.first()?.integer()), Some(4));
        let document = ask(&mut client, "HSTRLEN doc:000000000003 embedding");
        assert_eq!(document.integer(), Some(80));
        let stats = text(&mut client, "INFO commandstats");
        let names =
            ["json.set", "json.get", "bf.add", "ts.add", "vadd", "vsim", "hset", "ft.search", "ft.create"];
        for name in names {
            let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
            let line = line.unwrap_or_else(|| panic!("no {name} in {stats}"));
            assert!(line.ends_with("rejected_calls=0,failed_calls=0"), "{line}");
        }
    }
    ask_ok(&mut client, "FLUSHALL");
    load(&server, &["-n", "100", "-t", "json.set,json.get,ts.add,vadd,vsim,ft.hset,ft.search", "-q"]);
    assert_eq!(ask(&mut client, "EXISTS doc:__rand_int__").integer(), Some(1));
    assert_eq!(ask(&mut client, "VDIM myvectors").integer(), Some(128));
    assert_eq!(ask(&mut client, "VCARD myvectors").integer(), Some(1), "one name without -r");
}
