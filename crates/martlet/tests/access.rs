//! Users and roles of whole processes: those of a configuration file and of an ACL file, from start to start,
//! and the faults of such files; subscribers that lose a channel.

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
    fs::write(directory.path().join("roles.acl"), "role bad,name +get\n").unwrap();
    for (arguments, expected) in [
        (&["--user", "foo", "--user", "foo"][..], "Error in user declaration 'foo': Duplicate user found."),
        (&["--user", "foo", "bar"], "Error in user declaration 'user': Syntax error"),
        (&["--user", "foo", "on", "baz"], "Error in user declaration 'foo': Syntax error"),
        (&["--user", "foo", "+nosuch"], "Error loading ACL rule '+nosuch' for the user named 'foo'"),
        (&["--user", "a b"], "Spaces not allowed in ACL usernames"),
        (&["--aclfile", "missing.acl"], "Error loading ACLs, opening file 'missing.acl'"),
        (&["--aclfile", "users.acl"], "WARNING: Duplicate user 'a' found on line 2."),
        (&["--aclfile", "users.acl", "--user", "foo"], "is very likely to lead to configuration errors"),
        (&["--role", "dup", "--role", "dup"], "Error in role declaration 'dup': Duplicate role found."),
        (&["--role", "", "+get"], "Role names can't be empty"),
        (&["--role", "r", "+get", ">password"], "Error in role declaration '>password': Syntax error"),
        (&["--role", "r", "+nosuch"], "Error loading ACL role 'r': Error in ACL SETROLE modifier '+nosuch'"),
        (&["--user", "foo", "role=none"], "Error loading ACL rule 'role=none' for the user named 'foo'"),
        (&["--aclfile", "roles.acl"], "invalid role name 'bad,name': Role names can't contain commas. "),
        (&["--aclfile", "users.acl", "--role", "r"], "with roles defined in redis.conf"),
    ] {
        let said = refusal(directory.path(), arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn roles_of_a_configuration_file_are_written_back_before_their_users() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("martlet.conf");
    // A user may stand before its role.
    fs::write(&path, "user worker on nopass role=app.read-only\nrole app.read-only ~r:* +get\nport 0\n")
        .unwrap();
    let path_text = path.display().to_string();
    let before = {
        let (_server, mut client) = start(directory.path(), &[&path_text]);
        assert_eq!(text(&ask(&mut client, "ACL DRYRUN worker GET r:1")), "OK");
        assert_eq!(text(&ask(&mut client, "ACL SETROLE second ~s:* +set (+get ~t:*)")), "OK");
        assert_eq!(text(&ask(&mut client, "ACL SETROLE third +@read")), "OK");
        assert_eq!(text(&ask(&mut client, "ACL SETUSER other role=second,app.read-only")), "OK");
        assert_eq!(text(&ask(&mut client, "CONFIG REWRITE")), "OK");
        text(&ask(&mut client, "ACL LIST"))
    };
    let written = fs::read_to_string(&path).unwrap();
    let is_ours = |line: &&str| line.starts_with("role ") || line.starts_with("user ");
    let mut lines: Vec<&str> = written.lines().filter(is_ours).collect();
    lines.sort_unstable();
    assert_eq!(lines.join("\n"), before);
    let (_server, mut client) = start(directory.path(), &[&path_text]);
    assert_eq!(text(&ask(&mut client, "ACL LIST")), before);
    let held = "ERR Role 'second' is assigned to one or more users. Remove it from them first.";
    assert_eq!(text(&ask(&mut client, "ACL DELROLE third second")), held);
    assert_eq!(text(&ask(&mut client, "ACL ROLES")), "app.read-only\nsecond\nthird");
    assert_eq!(ask(&mut client, "ACL DELROLE third none").integer(), Some(1));
    assert_eq!(text(&ask(&mut client, "CONFIG REWRITE")), "OK");
    assert!(!fs::read_to_string(&path).unwrap().contains("role third"));
}

#[test]
fn roles_of_a_file_are_saved_and_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.acl");
    let lines = "user bob on nopass role=viewer\nrole viewer ~* &* +@read\n\
                 user default on nopass ~* &* +@all role=viewer\n";
    fs::write(&path, lines).unwrap();
    let (_server, mut client) = start(directory.path(), &["--aclfile", "users.acl"]);
    assert_eq!(text(&ask(&mut client, "ACL SETROLE writer ~* +set")), "OK");
    assert_eq!(text(&ask(&mut client, "ACL SETUSER bob role=viewer,writer")), "OK");
    assert_eq!(text(&ask(&mut client, "ACL SAVE")), "OK");
    let saved = fs::read_to_string(&path).unwrap();
    assert_eq!(saved.trim_end(), text(&ask(&mut client, "ACL LIST")));
    assert!(
        saved
            .starts_with("role viewer ~* &* -@all +@read\nrole writer ~* resetchannels -@all +set\nuser bob")
    );
    for _ in 0..3 {
        assert_eq!(text(&ask(&mut client, "ACL LOAD")), "OK");
        assert_eq!(saved.trim_end(), text(&ask(&mut client, "ACL LIST")));
        assert_eq!(text(&ask(&mut client, "ACL DRYRUN bob SET k v")), "OK");
    }
    for (file, fault) in [
        ("role dup ~*\nrole dup +get\n", "Duplicate role 'dup' found on line 2."),
        ("role\n", "users.acl:1: role line requires a role name."),
        ("role r >password\n", "users.acl:1: Error in ACL SETROLE modifier '>password': Syntax error."),
    ] {
        fs::write(&path, file).unwrap();
        let refused = text(&ask(&mut client, "ACL LOAD"));
        assert!(refused.contains(fault), "{refused}");
    }
    assert_eq!(saved.trim_end(), text(&ask(&mut client, "ACL LIST")));
}

#[test]
fn subscribers_that_lose_a_channel_of_a_role_are_disconnected() {
    let directory = tempfile::tempdir().unwrap();
    let (server, mut client) = start(directory.path(), &["--port", "0"]);
    for request in [
        "ACL SETROLE listener +@pubsub +ping &news:* ~*",
        "ACL SETROLE other +ping &news:*",
        "ACL SETUSER ann on nopass role=listener",
        "ACL SETUSER bob on nopass role=listener,other",
    ] {
        assert_eq!(text(&ask(&mut client, request)), "OK", "{request}");
    }
    let subscriber = |name: &str, request: &str| {
        let mut client = Client::connect(server.address()).unwrap();
        assert_eq!(text(&ask(&mut client, &format!("AUTH {name} x"))), "OK");
        assert!(matches!(ask(&mut client, request), Reply::Array(_)), "{request}");
        client
    };
    let mut ann = subscriber("ann", "SSUBSCRIBE news:a");
    let mut bob = subscriber("bob", "SUBSCRIBE news:b");
    assert_eq!(text(&ask(&mut client, "ACL SETROLE listener resetchannels &alerts:*")), "OK");
    // Another role of this user still has the channel.
    assert!(ann.command(&["PING"]).is_err() && bob.command(&["PING"]).is_ok());
    let mut ann = subscriber("ann", "PSUBSCRIBE alerts:*");
    assert_eq!(text(&ask(&mut client, "ACL SETUSER bob resetroles")), "OK");
    assert!(bob.command(&["PING"]).is_err() && ann.command(&["PING"]).is_ok());
    assert_eq!(text(&ask(&mut client, "ACL SETUSER ann role=other")), "OK");
    assert!(ann.command(&["PING"]).is_err());
}
