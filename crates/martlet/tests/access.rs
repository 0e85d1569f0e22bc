//! Users of whole processes: those of a configuration file and of an ACL file, from start to start, and the
//! faults of such files.

use std::fs;
use std::path::Path;
use std::process::Command;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

fn ask(client: &mut Client, request: &str) -> Reply {
    let words: Vec<&str> = request.split(' ').collect();
    client.command(&words).unwrap()
}

/// A reply of texts, in one text.
fn text(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => items.iter().map(text).collect::<Vec<_>>().join("\n"),
        Reply::Bulk(bytes) | Reply::Simple(bytes) | Reply::Error(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        other => panic!("{other:?}"),
    }
}

fn start(directory: &Path, arguments: &[&str]) -> (Server, Client) {
    let all = [&["server"], arguments].concat();
    let server = Server::start_in(directory, Path::new(OURS), &all).unwrap();
    let client = Client::connect(server.address()).unwrap();
    (server, client)
}

/// The message of a server that does not start.
fn refusal(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(OURS);
    command.arg("server").args(arguments).args(["--port", "0"]).current_dir(directory);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn users_of_a_configuration_file_are_written_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("martlet.conf");
    let lines = "requirepass lost\nuser default on nopass ~* &* +@all\n\
                 user worker on >pw ~job:* ( +get ~other ) +@all -@dangerous\n";
    fs::write(&path, lines).unwrap();
    let path_text = path.display().to_string();
    let before = {
        let (_server, mut client) = start(directory.path(), &[&path_text]);
        assert_eq!(text(&ask(&mut client, "AUTH worker pw")), "OK");
        assert_eq!(text(&ask(&mut client, "SET job:1 x")), "OK");
        assert!(text(&ask(&mut client, "SET other x")).starts_with("NOPERM "));
        assert_eq!(ask(&mut client, "GET other"), Reply::NullBulk);
        assert!(text(&ask(&mut client, "CONFIG GET port")).starts_with("NOPERM "));
        assert_eq!(text(&ask(&mut client, "AUTH default x")), "OK");
        assert_eq!(text(&ask(&mut client, "ACL SETUSER other +get %R~a")), "OK");
        assert_eq!(text(&ask(&mut client, "CONFIG REWRITE")), "OK");
        text(&ask(&mut client, "ACL LIST"))
    };
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(
        written.lines().filter(|line| line.starts_with("user ")).collect::<Vec<_>>().join("\n"),
        before
    );
    assert!(written.contains("user other off sanitize-payload %R~a resetchannels -@all +get"));
    let (_server, mut client) = start(directory.path(), &[&path_text]);
    assert_eq!(text(&ask(&mut client, "ACL LIST")), before);
}

#[test]
fn users_of_a_file_are_saved_and_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.acl");
    fs::write(&path, "user alice on nopass ~* +@all &*\nuser bob on nopass ~* +@all &x\n").unwrap();
    let (server, mut client) = start(directory.path(), &["--aclfile", "users.acl"]);
    assert_eq!(text(&ask(&mut client, "ACL USERS")), "alice\nbob\ndefault");
    assert_eq!(text(&ask(&mut client, "ACL SETUSER carol on >pw")), "OK");
    assert_eq!(text(&ask(&mut client, "ACL SAVE")), "OK");
    let saved = fs::read_to_string(&path).unwrap();
    assert_eq!(saved.trim_end(), text(&ask(&mut client, "ACL LIST")));

    // A fault changes nothing.
    fs::write(&path, "user alice on\nuser alice off\nuser dora +nosuch\n").unwrap();
    let refused = text(&ask(&mut client, "ACL LOAD"));
    assert!(refused.contains("Duplicate user 'alice' found on line 2."), "{refused}");
    assert!(refused.contains("users.acl:3: Error in applying operation '+nosuch'"), "{refused}");
    assert_eq!(saved.trim_end(), text(&ask(&mut client, "ACL LIST")));

    // Only those are disconnected whose users are gone or have lost a channel.
    let login = |name: &str| {
        let mut client = Client::connect(server.address()).unwrap();
        assert_eq!(text(&ask(&mut client, &format!("AUTH {name} pw"))), "OK");
        client
    };
    let (mut alice, mut bob, mut carol) = (login("alice"), login("bob"), login("carol"));
    ask(&mut bob, "SUBSCRIBE x");
    fs::write(&path, "user alice on nopass ~* +@all &y\nuser bob on nopass ~* +@all &y\n").unwrap();
    assert_eq!(text(&ask(&mut client, "ACL LOAD")), "OK");
    assert_eq!(text(&ask(&mut alice, "PING")), "PONG");
    assert!(bob.command(&["PING"]).is_err() && carol.command(&["PING"]).is_err());
    assert_eq!(text(&ask(&mut client, "CONFIG SET requirepass pw")), "OK");
    let mut stranger = Client::connect(server.address()).unwrap();
    assert!(text(&ask(&mut stranger, "PING")).starts_with("NOAUTH "));
}

#[test]
fn what_is_wrong_with_users_ends_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users.acl");
    fs::write(&file, "user a on\nuser a on\n").unwrap();
    for (arguments, expected) in [
        (&["--user", "foo", "--user", "foo"][..], "Error in user declaration 'foo': Duplicate user found."),
        (&["--user", "foo", "bar"], "Error in user declaration 'user': Syntax error"),
        (&["--user", "foo", "on", "baz"], "Error in user declaration 'foo': Syntax error"),
        (&["--user", "foo", "+nosuch"], "Error loading ACL rule '+nosuch' for the user named 'foo'"),
        (&["--user", "a b"], "Spaces not allowed in ACL usernames"),
        (&["--aclfile", "missing.acl"], "Error loading ACLs, opening file 'missing.acl'"),
        (&["--aclfile", "users.acl"], "WARNING: Duplicate user 'a' found on line 2."),
        (&["--aclfile", "users.acl", "--user", "foo"], "is very likely to lead to configuration errors"),
    ] {
        let said = refusal(directory.path(), arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}
