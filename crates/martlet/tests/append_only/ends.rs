//! Torn and wrong ends of files: a torn end is cut off and stays beside the file, a wrong one refuses the
//! start.

use std::fs;
use std::path::Path;

use martlet_client::resp::Reply;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;

use super::{OURS, file_of, run, start, stop};

/// Commands as an array of bulk strings.
fn command(words: &[&str]) -> String {
    let head = format!("*{}\r\n", words.len());
    words.iter().fold(head, |text, word| format!("{text}${}\r\n{word}\r\n", word.len()))
}

/// The whole commands of a file.
fn whole() -> String {
    (0..10).fold(command(&["SELECT", "0"]), |text, at| {
        text + &command(&["SET", &format!("k{at}"), &format!("v{at}")])
    })
}

/// Ends of a file that no crash leaves.
fn wrong_ends() -> Vec<String> {
    let lf = |text: &str| text.replace("\r\n", "\n");
    vec![
        lf(&whole()),
        lf(&command(&["SET", "x", "y"])),
        lf(&command(&["SET", "x", "y"])).trim_end().into(),
        "*x".into(),
        "*-1".into(),
        "*0\r\n".into(),
        "*3\r\n$3\r\nSET\r\n:1".into(),
        "*2\r\n$3\r\nGETxx$1\r\nk\r\n".into(),
        "*2\r\n$3\r\nGET\n".into(),
        "\0\0\0\0\0\0\0\0".into(),
        "*3\r\n$3\r\nSET\r\n\0\0\0\0\0\0".into(),
        "SET x y\r\n".into(),
        "\r\n".into(),
        format!("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$9999\r\ny\r\n{}", whole()),
        format!("{}{}", command(&["MULTI"]), command(&["MULTI"])),
        format!("{}#TS:1\0\0\0", command(&["SET", "x", "y"])),
    ]
}

/// The files beside the one at `path` whose names begin with its own.
fn beside(path: &Path) -> Vec<(String, Vec<u8>)> {
    let own = path.file_name().unwrap().to_str().unwrap();
    let mut found: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter_map(|entry| Some((entry.file_name().to_str()?.strip_prefix(own)?.to_owned(), entry.path())))
        .filter(|(rest, _)| !rest.is_empty())
        .map(|(rest, path)| (rest, fs::read(path).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn a_wrong_end_refuses_the_start_with_its_place_and_leaves_the_file_as_it_was() {
    for end in wrong_ends() {
        for before in [String::new(), whole()] {
            let text = format!("{before}{end}");
            let (directory, path) = file_of(&text);
            let error = start(OURS, directory.path(), &[]).err().unwrap_or_else(|| panic!("{text:?} loads"));
            let error = error.to_string();
            assert!(error.contains("appendonly.aof.1.incr.aof"), "{error}");
            assert!(error.contains("offset"), "{text:?}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(beside(&path), []);
        }
    }
}

#[test]
fn a_wrong_end_is_found_in_every_kind_of_file() {
    for end in wrong_ends() {
        // The single file of Redis before 7, which is taken over first.
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("appendonly.aof"), format!("{}{end}", whole())).unwrap();
        assert!(start(OURS, directory.path(), &[]).is_err(), "{end:?}");
        let moved = directory.path().join("appendonlydir/appendonly.aof");
        assert_eq!(fs::read_to_string(&moved).unwrap(), format!("{}{end}", whole()));
        // A base of commands, behind which nothing follows.
        let (directory, path) = file_of("");
        let base = path.with_file_name("appendonly.aof.1.base.aof");
        fs::rename(&path, &base).unwrap();
        let manifest = path.with_file_name("appendonly.aof.manifest");
        fs::write(manifest, "file appendonly.aof.1.base.aof seq 1 type b\n").unwrap();
        fs::write(&base, format!("{}{end}", whole())).unwrap();
        assert!(start(OURS, directory.path(), &[]).is_err(), "{end:?}");
        assert_eq!(fs::read_to_string(&base).unwrap(), format!("{}{end}", whole()));
    }
    // Commands behind an RDB file in one.
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &[]).unwrap();
    run(&server, 0, "SET k 1");
    run(&server, 0, "BGREWRITEAOF");
    super::ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    stop(server);
    let files = directory.path().join("appendonlydir");
    let preamble = fs::read(files.join("appendonly.aof.2.base.rdb")).unwrap();
    for end in wrong_ends() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = [preamble.as_slice(), end.as_bytes()].concat();
        fs::write(directory.path().join("appendonly.aof"), &bytes).unwrap();
        assert!(start(OURS, directory.path(), &[]).is_err(), "{end:?}");
        assert_eq!(fs::read(directory.path().join("appendonlydir/appendonly.aof")).unwrap(), bytes);
    }
}

#[test]
fn a_torn_end_stays_beside_the_file() {
    let ends = [
        "*",
        "*3",
        "*3\r",
        "*3\r\n$",
        "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1\r\ny",
        "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$9999\r\ny\r\n*3\r\n and no commands",
        "#TS:12",
        "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$2\r\nk0\r\n$1\r\n2\r\n",
    ];
    let (directory, path) = file_of(&whole());
    for (number, end) in ends.iter().enumerate() {
        fs::write(&path, whole() + end).unwrap();
        let mut server = start(OURS, directory.path(), &[]).unwrap();
        assert_eq!(run(&server, 0, "GET k0").text(), Some(b"v0".as_slice()));
        assert_eq!(run(&server, 0, "DBSIZE"), Reply::Int(10));
        let name = format!(".cut-{}", number + 1);
        assert!(server.logged(&name, 1) > 0, "{}", server.log());
        server.kill();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole(), "{end:?}");
        assert!(beside(&path).contains(&(name.clone(), end.as_bytes().to_vec())), "{end:?}");
    }
    assert_eq!(beside(&path).len(), ends.len());
    fs::write(&path, whole() + "*").unwrap();
    drop(start(OURS, directory.path(), &[]).unwrap());
    assert_eq!(beside(&path).len(), ends.len(), "the oldest has gone");
}

/// Whatever redis-server refuses is refused here, too.
#[test]
fn no_file_loads_that_redis_refuses() {
    if !is_installed("redis-server") {
        return;
    }
    let torn = ["", "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1\r\ny", "*3\r\n$3", "*"].map(String::from);
    for end in wrong_ends().into_iter().chain(torn) {
        let text = whole() + &end;
        let outcome = |program: &str| {
            let (directory, path) = file_of(&text);
            let server: std::io::Result<Server> = start(program, directory.path(), &[]);
            let loads = server.is_ok();
            drop(server);
            (loads, fs::read_to_string(path).unwrap())
        };
        let (ours, theirs) = (outcome(OURS), outcome("redis-server"));
        assert!(theirs.0 || !ours.0, "{end:?} is refused by Redis only");
        // Both cut off the same bytes, or ours none.
        assert!(ours.1 == text || ours.1 == theirs.1, "{end:?}: {:?} and {:?}", ours.1, theirs.1);
    }
}

/// A library that never ends its run, as no server lets one in, does not hold up the start for good.
#[test]
fn a_library_without_an_end_refuses_the_start() {
    let code =
        "#!lua name=endless\nredis.register_function('f', function() return 1 end)\nwhile true  do end\n";
    let text = whole() + &command(&["FUNCTION", "LOAD", code]) + &command(&["SET", "after", "1"]);
    let (directory, path) = file_of(&text);
    let error = start(OURS, directory.path(), &[]).err().unwrap().to_string();
    assert!(error.contains("FUNCTION LOAD timeout") && error.contains("offset"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    // The same in an RDB file: a library that ends is saved, and changed to one that does not.
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["server", "--save", "", "--rdbcompression", "no", "--rdbchecksum", "no"];
    let server = Server::start_in(directory.path(), Path::new(OURS), &arguments).unwrap();
    let code = code.replace("while true  do", "while false do");
    let loaded = super::connect(&server).command(&["FUNCTION", "LOAD", &code]).unwrap();
    assert!(!loaded.is_error(), "{loaded:?}");
    run(&server, 0, "SET k 1");
    run(&server, 0, "SAVE");
    drop(server);
    let file = directory.path().join("dump.rdb");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(14).position(|window| window == b"while false do").unwrap();
    bytes[at..at + 14].copy_from_slice(b"while true  do");
    fs::write(&file, &bytes).unwrap();
    for arguments in [["--appendonly", "no"], ["--appendonly", "yes"]] {
        let all = [&["server", "--save", ""][..], &arguments].concat();
        let error = Server::start_in(directory.path(), Path::new(OURS), &all).err().unwrap().to_string();
        assert!(error.contains("FUNCTION LOAD timeout"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
}

/// What PFCOUNT keeps in the value is in the file, and loaded from it.
#[test]
fn what_reading_commands_have_changed_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let mut dumps = Vec::new();
    for _ in 0..2 {
        let server = start(OURS, directory.path(), &[]).unwrap();
        if dumps.is_empty() {
            for line in ["PFADD h a b", "PFADD t a", "PFCOUNT h", "PFCOUNT h t", "SET n 1"] {
                assert!(!run(&server, 0, line).is_error(), "{line}");
            }
            let transaction = [&["MULTI"][..], &["PFCOUNT", "t"], &["EXEC"]];
            let mut client = super::connect(&server);
            transaction.iter().for_each(|words| drop(client.command(words).unwrap()));
        }
        dumps.push(["GET h", "GET t", "DEBUG DIGEST"].map(|line| run(&server, 0, line)));
    }
    assert_eq!(dumps[0], dumps[1]);
}
