//! The data set on disk, of whole processes: what one saved the next has, and a damaged file is refused.

use std::fs;
use std::path::Path;

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;

fn start(directory: &Path, arguments: &[&str]) -> std::io::Result<Server> {
    let mut all = vec!["server", "--enable-debug-command", "yes"];
    all.extend(arguments);
    Server::start_in(directory, Path::new(env!("CARGO_BIN_EXE_martlet")), &all)
}

/// A reply as it is shown.
fn run(server: &Server, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    format!("{:?}", Client::connect(server.address()).unwrap().command(&words).unwrap())
}

/// Fills some databases with all types in all encodings; returns the digest.
fn fill(server: &Server) -> String {
    let mut client = Client::connect(server.address()).unwrap();
    for (count, db) in [(3, 0), (700, 0), (40, 3), (10, 9)] {
        client.command(&["SELECT", &db.to_string()]).unwrap();
        for i in 0..count {
            let (i, value) = (i.to_string(), "v".repeat(i * 2));
            for words in [
                ["SET", &format!("s{count}:{i}"), &value].as_slice(),
                &["RPUSH", &format!("l{count}"), &i, &value],
                &["SADD", &format!("i{count}"), &i],
                &["SADD", &format!("t{count}"), &value],
                &["ZADD", &format!("z{count}"), &i, &value],
                &["HSET", &format!("h{count}"), &i, &value],
                &["HSET", &format!("hx{count}"), &i, &value],
                &["HPEXPIREAT", &format!("hx{count}"), "4000000000000", "FIELDS", "1", &i],
            ] {
                let reply = client.command(words).unwrap();
                assert!(!reply.is_error(), "{words:?}: {reply:?}");
            }
        }
        client.command(&["PEXPIREAT", &format!("l{count}"), "4000000000000"]).unwrap();
    }
    run(server, "DEBUG DIGEST")
}

#[test]
fn what_was_saved_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--rdbcompression", "no"]).unwrap();
    let digest = fill(&server);
    assert_eq!(run(&server, "SAVE"), run(&server, "DEBUG RELOAD"));
    assert_eq!(run(&server, "DEBUG DIGEST"), digest);
    let _ = Client::connect(server.address()).unwrap().command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());

    let server = start(directory.path(), &["--save", ""]).unwrap();
    assert_eq!(run(&server, "DEBUG DIGEST"), digest);
    let _ = Client::connect(server.address()).unwrap().command(&["SHUTDOWN", "SAVE"]);
    assert!(server.wait().unwrap());

    let server = start(directory.path(), &["--save", ""]).unwrap();
    assert_eq!(run(&server, "DEBUG DIGEST"), digest);
    run(&server, "FLUSHALL");
    let _ = Client::connect(server.address()).unwrap().command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());

    let server = start(directory.path(), &["--save", ""]).unwrap();
    assert_eq!(run(&server, "DEBUG DIGEST"), digest, "nothing was to be saved");
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_file_that_cannot_be_read_refuses_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.rdb");
    let server = start(directory.path(), &[]).unwrap();
    fill(&server);
    run(&server, "SAVE");
    drop(server);
    let whole = fs::read(&file).unwrap();
    for (damaged, reason) in [
        (&b"REDIS0010"[..], "unexpected end, at offset 9"),
        (&whole[..whole.len() / 2], "unexpected end, at offset"),
        (&whole[..whole.len() - 1], "unexpected end, at offset"),
        (b"", "unexpected end, at offset 0"),
        (b"REDIS0010\xfe\x20\0\x01k\x01v\xff\0\0\0\0\0\0\0\0", "databases allows, at offset 16"),
        (b"REDIS0010\0\x01k\x01v\0\x01k\x01v\xff\0\0\0\0\0\0\0\0", "a key that is there already, at offset"),
        (b"REDIS0010\x0f\x01k", "values of type stream cannot be held, at offset 10"),
    ] {
        fs::write(&file, damaged).unwrap();
        let error = start(directory.path(), &[]).err().expect("refused").to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!(fs::read(&file).unwrap(), damaged);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(start(directory.path(), &[]).is_err());
}

#[test]
fn reloading_takes_options() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]).unwrap();
    run(&server, "SET k 1");
    run(&server, "SAVE");
    run(&server, "SET k 2");
    assert!(run(&server, "DEBUG RELOAD NOSAVE NOFLUSH").starts_with("Error"));
    run(&server, "SET other 1");
    run(&server, "DEBUG RELOAD NOSAVE NOFLUSH MERGE");
    assert_eq!(run(&server, "MGET k other"), run(&server, "MGET other k"));
    run(&server, "DEBUG RELOAD NOSAVE");
    assert!(run(&server, "DBSIZE").contains('1'));
}
