//! JSON documents in whole processes: restarts, replicas, transactions, scripts, and what tools show.

use std::path::Path;
use std::process::Command;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::{dump, fill_documents};
use martlet_testkit::server::Server;

use crate::module_types::until;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

fn start(directory: &Path, arguments: &[&str]) -> Server {
    let all = [&["server", "--enable-debug-command", "yes"], arguments].concat();
    Server::start_in(directory, Path::new(OURS), &all).unwrap()
}

fn connect(server: &Server) -> Client {
    let mut client = Client::connect(server.address()).unwrap();
    client.command(&["SELECT", "3"]).unwrap();
    client
}

fn ask(client: &mut Client, words: &[&str]) -> String {
    match client.command(words).unwrap() {
        Reply::Error(text) => format!("-{}", String::from_utf8_lossy(&text)),
        reply => match (reply.text(), reply.integer()) {
            (Some(text), _) => String::from_utf8_lossy(text).into_owned(),
            (None, Some(number)) => number.to_string(),
            (None, None) => format!("{reply:?}"),
        },
    }
}

/// All commands that change documents, with places within places and errors.
const CHANGES: [&str; 16] = [
    "JSON.SET json:0 $.new [1,2,3]",
    "JSON.SET json:0 $.b[2].c 7 XX",
    "JSON.SET floats $ [0.1,2,3.5] FPHA BF16",
    "JSON.MSET json:0 $.a 5 json:9 $ [] json:3 $ {}",
    "JSON.MERGE json:0 $ {\"b\":null,\"m\":{\"x\":1}}",
    "JSON.NUMINCRBY json:0 $..* 1.5",
    "JSON.NUMMULTBY json:1 $[*] 2",
    "JSON.NUMPOWBY json:0 $.a 2",
    "JSON.STRAPPEND json:0 $.text \"more\"",
    "JSON.ARRAPPEND json:9 $ 1 2 null",
    "JSON.ARRINSERT json:9 $ 1 [true]",
    "JSON.ARRPOP json:2 $ 0",
    "JSON.ARRTRIM json:1 $ 1 -2",
    "JSON.TOGGLE json:9 $..*",
    "JSON.CLEAR json:6 $['member 1']",
    "JSON.DEL json:6 $..y",
];

fn change(client: &mut Client) {
    for line in CHANGES {
        let words: Vec<&str> = if line.contains("member 1") {
            vec!["JSON.CLEAR", "json:6", "$['member 1']"]
        } else {
            line.split(' ').collect()
        };
        let reply = ask(client, &words);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
}

#[test]
fn documents_survive_restarts_and_reach_replicas() {
    let [directory, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let server = start(directory.path(), &["--appendonly", "yes"]);
    fill_documents(&mut connect(&server)).unwrap();
    let replica = start(other.path(), &["--repl-diskless-sync-delay", "0"]);
    let port = server.address().port().to_string();
    let mut client = Client::connect(replica.address()).unwrap();
    ask(&mut client, &["REPLICAOF", "127.0.0.1", &port]);
    let content = |server: &Server| dump(&mut Client::connect(server.address()).unwrap()).unwrap();
    until("the replica has the documents", || content(&replica) == content(&server));
    // From here on by the replication stream.
    change(&mut connect(&server));
    let changed = content(&server);
    assert!(changed.len() == 9, "{changed:?}");
    until("the replica has the changes", || content(&replica) == changed);
    let digests = [&server, &replica].map(|server| ask(&mut connect(server), &["DEBUG", "DIGEST"]));
    assert_eq!(digests[0], digests[1]);
    // Every change as it was recorded; then from the file's new base.
    let mut client = connect(&server);
    assert_eq!(ask(&mut client, &["DEBUG", "LOADAOF"]), "OK");
    assert_eq!(
        (content(&server), ask(&mut client, &["DEBUG", "DIGEST"])),
        (changed.clone(), digests[0].clone())
    );
    assert_eq!(ask(&mut client, &["DEBUG", "RELOAD"]), "OK");
    assert_eq!((content(&server), ask(&mut client, &["DEBUG", "DIGEST"])), (changed, digests[0].clone()));
}

#[test]
fn transactions_and_scripts_change_documents_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    ask(&mut client, &["JSON.SET", "d", "$", r#"{"a":1,"l":[]}"#]);
    for words in [&["MULTI"][..], &["JSON.NUMINCRBY", "d", "$.a", "1"], &["JSON.ARRAPPEND", "d", "$.l", "2"]]
    {
        ask(&mut client, words);
    }
    let replies = client.command(&["EXEC"]).unwrap();
    assert_eq!(replies.items().map(<[Reply]>::len), Some(2));
    let script = "redis.call('JSON.SET', KEYS[1], '$.s', '\"x\"'); \
                  redis.call('MOVE', KEYS[1], 5); \
                  return redis.call('JSON.SET', KEYS[1], '$.a', '1')";
    let reply = ask(&mut client, &["EVAL", script, "1", "d"]);
    assert!(reply.starts_with("-ERR new objects must be created at the root"), "{reply}");
    ask(&mut client, &["SELECT", "5"]);
    assert_eq!(ask(&mut client, &["JSON.GET", "d"]), r#"{"a":2,"l":[2],"s":"x"}"#);
    let script = "return cjson.decode(redis.call('JSON.GET', KEYS[1], '.')).a";
    assert_eq!(ask(&mut client, &["EVAL", script, "1", "d"]), "2");
}

#[test]
fn tools_show_documents() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    ask(&mut client, &["JSON.SET", "d", "$", r#"{"a":[1,null]}"#]);
    assert_eq!(ask(&mut client, &["SAVE"]), "OK");
    let file = directory.path().join("dump.rdb");
    let run = |arguments: &[&str]| {
        let output = Command::new(OURS).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let lines = run(&["convert", file.to_str().unwrap(), "-", "--json-lines"]);
    assert!(lines.contains(r#""key":"d","type":"ReJSON-RL""#), "{lines}");
    assert!(lines.contains(r#""value":{"a":[1,null]}"#), "{lines}");
    assert!(run(&["check-rdb", file.to_str().unwrap()]).contains("[info] 1 keys read"));
}
