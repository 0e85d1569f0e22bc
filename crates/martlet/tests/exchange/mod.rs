//! Files that go from server to server: another server's file is read here to the last field's expiry, and
//! Martlet's there, and back.
//!
//! The other servers are the `redis-server` in the path and those that `MARTLET_PEERS` names (programs,
//! separated by colons). Files of servers that are seldom at hand are recorded in `files/`; with
//! `MARTLET_WRITE_FILES=1` the peers at hand record theirs again, before the files are read.

mod modules;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::{EXPIRY_MS, Size, dump, fill, fill_documents, has_field_expiry};
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

/// A server program.
#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    /// Such as `redis` or `valkey`.
    kind: String,
    version: (u32, u32),
    arguments: Vec<String>,
}

impl Program {
    fn ours() -> Program {
        let arguments = ["server", "--enable-debug-command", "yes"].map(String::from).to_vec();
        Program { path: OURS.into(), kind: "martlet".into(), version: (0, 0), arguments }
    }

    /// Reads a program's version; `None` if it cannot be run.
    fn find(path: &Path) -> Option<Program> {
        let output = Command::new(path).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let kind = text.split_whitespace().next()?.to_lowercase();
        let words = || text.split_whitespace();
        let version = words().find_map(|word| word.strip_prefix("v=")).or_else(|| words().nth(3))?;
        let mut numbers = version.split('.').map_while(|number| number.parse().ok());
        let version = match (numbers.next()?, numbers.next()?) {
            // Between two releases: Valkey 8.0 and 8.1, or Redis 7.4 and 8.0, are those that are exchanged
            // with.
            (255, _) => (8, if kind == "valkey" { 1 } else { 0 }),
            version => version,
        };
        Some(Program { path: path.into(), kind, version, arguments: Vec::new() })
    }

    /// This program with more arguments.
    fn with(&self, arguments: &[&str]) -> Program {
        let mut program = self.clone();
        program.arguments.extend(arguments.iter().map(|argument| (*argument).to_string()));
        program
    }

    fn name(&self) -> String {
        format!("{} {}.{}", self.kind, self.version.0, self.version.1)
    }

    /// `rdb-version` for files that it reads.
    fn rdb_version(&self) -> &'static str {
        match (self.kind.as_str(), self.version) {
            ("valkey", (9.., _)) => "80",
            ("valkey", _) | (_, (7, 2 | 3)) => "11",
            (_, (7, 0 | 1)) => "10",
            (_, (7.., _)) => "12",
            (_, (5.., _)) => "9",
            (_, (4, _)) => "8",
            (_, (3, 2)) => "7",
            _ => "6",
        }
    }

    /// Starts it over the directory's files.
    fn start(&self, directory: &Path) -> Server {
        let mut arguments = self.arguments.clone();
        arguments.extend(["--save".to_string(), String::new()]);
        Server::start_in(directory, &self.path, &arguments)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    /// Why it refuses to start over the directory's files.
    fn refusal(&self, directory: &Path) -> String {
        let server = Server::start_in(directory, &self.path, &self.arguments);
        server.err().expect("the start is refused").to_string()
    }
}

/// The servers that files are exchanged with.
fn peers() -> Vec<Program> {
    let mut peers = Vec::new();
    if is_installed("redis-server") {
        peers.extend(Program::find(Path::new("redis-server")));
    }
    match std::env::var_os("MARTLET_PEERS").filter(|paths| !paths.is_empty()) {
        None => println!("MARTLET_PEERS is not set: files are not exchanged with other versions"),
        Some(paths) => {
            for path in std::env::split_paths(&paths) {
                peers
                    .push(Program::find(&path).unwrap_or_else(|| panic!("{} cannot be run", path.display())));
            }
        }
    }
    peers
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

fn run(server: &Server, line: &str) -> Reply {
    connect(server).command(&line.split(' ').collect::<Vec<_>>()).unwrap()
}

fn content(server: &Server) -> Vec<String> {
    dump(&mut connect(server)).unwrap()
}

/// Waits until INFO says this.
fn wait_for(server: &Server, line: &str) {
    let says = || String::from_utf8_lossy(run(server, "INFO").text().unwrap()).contains(line);
    while !says() {}
}

/// Saves in the background, as far as that is not the tool's own way, and stops.
fn save_and_stop(server: Server) {
    assert!(!run(&server, "BGSAVE").is_error(), "{}", server.log());
    wait_for(&server, "bgsave_in_progress:0");
    wait_for(&server, "last_bgsave_status:ok");
    stop(server);
}

fn stop(server: Server) {
    let _ = connect(&server).command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());
}

/// The same lines, or what differs.
fn assert_same(found: &[String], expected: &[String], what: &str) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{what}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// How each key is encoded.
fn encodings(server: &Server) -> Vec<String> {
    let mut client = connect(server);
    let mut lines = Vec::new();
    for db in 0..10 {
        client.command(&["SELECT", &db.to_string()]).unwrap();
        let keys = client.command(&["KEYS", "*"]).unwrap();
        for key in keys.items().unwrap() {
            let key = key.text().unwrap();
            let encoding = client.command(&[b"OBJECT", b"ENCODING".as_slice(), key]).unwrap();
            lines.push(format!("{db} {} {:?}", key.escape_ascii(), encoding));
        }
    }
    lines.sort();
    lines
}

/// Takes data from one server to the other, changes it there, and takes it back.
fn goes_there_and_back(writer: &Program, reader: &Program, has_timed: bool, save: impl Fn(Server)) {
    let what = format!("{} to {}", writer.name(), reader.name());
    println!("{what}");
    let directory = tempfile::tempdir().unwrap();
    let server = writer.start(directory.path());
    fill(&mut connect(&server), Size::Large, has_timed).unwrap();
    let (before, encoded) = (content(&server), encodings(&server));
    assert!(before.len() > 100);
    save(server);
    let server = reader.start(directory.path());
    assert_same(&content(&server), &before, &what);
    for line in
        ["SET s:2 changed", "RPUSH l12 9 end", "SADD i16_12 x", "ZADD z12 8 m8", "HSET h12 f8 v", "DEL s:3"]
    {
        assert!(!run(&server, line).is_error(), "{line}");
    }
    let changed = content(&server);
    save(server);
    let server = writer.start(directory.path());
    assert_same(&content(&server), &changed, &format!("{what} and back"));
    if writer.kind == "martlet" {
        let apart = ["s:2 ", "l12 ", "i16_12 ", "z12 ", "h12 ", "s:3 "];
        let same = |line: &&String| !apart.iter().any(|key| line.contains(&format!("0 {key}")));
        let again = encodings(&server);
        let (again, encoded): (Vec<_>, Vec<_>) =
            (again.iter().filter(same).collect(), encoded.iter().filter(same).collect());
        assert_eq!(again, encoded, "{what} and back");
    }
    stop(server);
}

/// Whether hashes of this program have fields that expire.
fn knows_field_expiry(program: &Program) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let server = program.start(directory.path());
    has_field_expiry(&mut connect(&server)).unwrap()
}

#[test]
fn rdb_files_go_both_ways() {
    for peer in peers() {
        let has_timed = knows_field_expiry(&peer);
        let ours = Program::ours().with(&["--rdb-version", peer.rdb_version()]);
        goes_there_and_back(&peer, &ours, has_timed, save_and_stop);
        goes_there_and_back(&ours, &peer, has_timed, save_and_stop);
        // Nothing has to be said for Redis 7.0 and later, nor for Valkey 8; it is for Valkey's own version.
        if peer.version >= (7, 0) && peer.rdb_version() != "80" {
            goes_there_and_back(&Program::ours(), &peer, has_timed, save_and_stop);
        }
    }
}

#[test]
fn append_only_files_go_both_ways() {
    let ours = Program::ours();
    let mut pairs = vec![(ours.clone(), ours.clone(), true)];
    for peer in peers().into_iter().filter(|peer| peer.version >= (7, 0)) {
        let has_timed = knows_field_expiry(&peer);
        let ours = ours.with(&["--rdb-version", peer.rdb_version()]);
        pairs.extend([(peer.clone(), ours.clone(), has_timed), (ours, peer, has_timed)]);
    }
    for (writer, reader, has_timed) in pairs {
        for preamble in ["yes", "no"] {
            let options = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
            let rewrite_and_stop = |server: Server| {
                assert!(!run(&server, "BGREWRITEAOF").is_error());
                wait_for(&server, "aof_rewrite_scheduled:0");
                wait_for(&server, "aof_rewrite_in_progress:0");
                // Behind the base.
                run(&server, "RPUSH l12 behind");
                run(&server, "LREM l12 1 behind");
                stop(server);
            };
            goes_there_and_back(&writer.with(&options), &reader.with(&options), has_timed, rewrite_and_stop);
            // Without a rewrite: every command as it was recorded.
            goes_there_and_back(&writer.with(&options), &reader.with(&options), has_timed, stop);
        }
    }
}

/// Whether a program has JSON documents.
fn knows_documents(program: &Program) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let server = program.start(directory.path());
    fill_documents(&mut connect(&server)).unwrap()
}

#[test]
fn documents_go_both_ways() {
    let ours = Program::ours();
    let mut pairs = vec![(ours.clone(), ours.clone())];
    for peer in peers().into_iter().filter(knows_documents) {
        pairs.extend([(peer.clone(), ours.clone()), (ours.clone(), peer)]);
    }
    for (writer, reader) in pairs {
        let no_preamble: &[&str] = &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
        let mut ways = vec![&["--appendonly", "no"][..], &["--appendonly", "yes"]];
        ways.extend((writer.kind == "martlet").then_some(no_preamble));
        for options in ways {
            let what = format!("{} to {}, {options:?}", writer.name(), reader.name());
            let save = |server: Server| {
                if options[1] == "no" {
                    return save_and_stop(server);
                }
                assert!(!run(&server, "BGREWRITEAOF").is_error());
                wait_for(&server, "aof_rewrite_scheduled:0");
                wait_for(&server, "aof_rewrite_in_progress:0");
                stop(server);
            };
            let directory = tempfile::tempdir().unwrap();
            let server = writer.with(options).start(directory.path());
            assert!(fill_documents(&mut connect(&server)).unwrap());
            let before = content(&server);
            save(server);
            // RediSearch, which comes with ReJSON, does not start without the preamble.
            let server = reader.with(&options[..2]).start(directory.path());
            assert_same(&content(&server), &before, &what);
            let mut client = connect(&server);
            for line in
                ["SELECT 3", "JSON.NUMINCRBY json:0 $.b[0] 1", "JSON.ARRPOP json:1", "JSON.DEL json:3"]
            {
                let reply = client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
                assert!(!reply.is_error(), "{line}: {reply:?}");
            }
            drop(client);
            let changed = content(&server);
            stop_after(options, server);
            let server = writer.with(options).start(directory.path());
            assert_same(&content(&server), &changed, &format!("{what} and back"));
            stop(server);
        }
        payloads_go(&writer, &reader);
    }
}

/// Stops a server so that its files have all: a file of commands has them as they were recorded.
fn stop_after(options: &[&str], server: Server) {
    if options[1] == "no" { save_and_stop(server) } else { stop(server) }
}

/// Documents go from one server to the other by DUMP and RESTORE.
fn payloads_go(from: &Program, to: &Program) {
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let servers = [from.start(directories[0].path()), to.start(directories[1].path())];
    let mut clients = servers.each_ref().map(connect);
    fill_documents(&mut clients[0]).unwrap();
    clients[1].command(&["SELECT", "3"]).unwrap();
    for i in 0..7 {
        let key = format!("json:{i}");
        let payload = clients[0].command(&["DUMP", &key]).unwrap();
        let payload = payload.text().expect("a payload");
        let reply = clients[1].command(&[b"RESTORE", key.as_bytes(), b"0", payload]).unwrap();
        assert!(!reply.is_error(), "{key} from {} to {}: {reply:?}", from.name(), to.name());
        let texts = clients.each_mut().map(|client| client.command(&["JSON.GET", &key]).unwrap());
        assert_eq!(format!("{:?}", texts[0]), format!("{:?}", texts[1]), "{key}");
    }
}

/// Facts about a stream and its groups; Redis' fields on idempotency since 8.6 are left out.
fn streams(server: &Server) -> Vec<String> {
    let requests = ["XINFO STREAM k", "XRANGE k - +", "XPENDING k g", "XPENDING k h", "XINFO STREAM empty"];
    let told = |request: &str| match run(server, request) {
        Reply::Array(fields) if request.starts_with("XINFO") => {
            let is_common = |field: &[Reply]| {
                let name = field[0].text().map(String::from_utf8_lossy).unwrap_or_default();
                !["idmp-", "pids-", "iids-"].iter().any(|start| name.starts_with(start))
            };
            format!("{:?}", fields.chunks(2).filter(|field| is_common(field)).collect::<Vec<_>>())
        }
        reply => format!("{reply:?}"),
    };
    requests.map(told).to_vec()
}

#[test]
fn streams_go_both_ways() {
    let mut pairs = vec![(Program::ours(), Program::ours())];
    for peer in peers().into_iter().filter(|peer| peer.version >= (7, 0)) {
        pairs.extend([(peer.clone(), Program::ours()), (Program::ours(), peer)]);
    }
    for (writer, reader) in pairs {
        for options in [&["--appendonly", "no"][..], &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]]
        {
            let what = format!("{} to {}, {options:?}", writer.name(), reader.name());
            let directory = tempfile::tempdir().unwrap();
            let server = writer.with(options).start(directory.path());
            for seq in 1..60 {
                run(&server, &format!("XADD k 1-{seq} f {seq} name value{seq}"));
            }
            for request in [
                "XADD k 18446744073709551615-1 other -70000",
                "XDEL k 1-30 1-31",
                "XGROUP CREATE k g 0",
                "XGROUP CREATE k h $ ENTRIESREAD 5",
                "XGROUP CREATE empty g $ MKSTREAM",
                "XREADGROUP GROUP g one COUNT 9 STREAMS k >",
                "XREADGROUP GROUP g two COUNT 5 STREAMS k >",
                "XACK k g 1-1 1-12",
                "XGROUP CREATECONSUMER k h idle",
            ] {
                assert!(!run(&server, request).is_error(), "{request}");
            }
            let before = streams(&server);
            if options[1] == "no" {
                save_and_stop(server);
            } else {
                assert!(!run(&server, "BGREWRITEAOF").is_error());
                wait_for(&server, "aof_rewrite_scheduled:0");
                wait_for(&server, "aof_rewrite_in_progress:0");
                stop(server);
            }
            let server = reader.with(options).start(directory.path());
            assert_same(&streams(&server), &before, &what);
            stop(server);
        }
    }
}

/// What there is of arrays.
fn arrays(server: &Server) -> Vec<String> {
    let requests = [
        "ARSCAN k 0 18446744073709551614",
        "ARNEXT k",
        "ARSCAN ring 0 100",
        "ARLASTITEMS ring 100",
        "ARNEXT ring",
        "ARSCAN one 0 100",
        "ARNEXT one",
        "TTL one",
    ];
    requests.map(|request| format!("{:?}", run(server, request))).to_vec()
}

#[test]
fn arrays_go_both_ways() {
    let mut pairs = vec![(Program::ours(), Program::ours())];
    for peer in peers().into_iter().filter(|peer| peer.kind == "redis" && peer.version >= (8, 8)) {
        pairs.extend([(peer.clone(), Program::ours()), (Program::ours(), peer)]);
    }
    let all = [
        &["--appendonly", "no"][..],
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"],
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "yes"],
    ];
    for (writer, reader) in pairs {
        for (options, rewrites) in all.iter().flat_map(|options| [(options, true), (options, false)]) {
            let what = format!("{} to {}, {options:?}, {rewrites}", writer.name(), reader.name());
            let directory = tempfile::tempdir().unwrap();
            let server = writer.with(options).start(directory.path());
            for index in 0..200 {
                run(&server, &format!("ARMSET k {index} value{index} {} {index}.5", 1_000_000 * index));
            }
            for request in [
                "ARSET k 9223372036854775700 far 007 9223372036854775807 -1 2.0",
                "ARSEEK k 18446744073709551615",
                "ARDELRANGE k 20 30 5000000 7000000",
                "ARDEL k 1 2 3 99",
                "ARRING ring 5 a b c d e f g",
                "ARRING ring 7 h",
                "ARINSERT one a",
                "ARSEEK one 0",
            ] {
                assert!(!run(&server, request).is_error(), "{request}");
            }
            let before = arrays(&server);
            if options[1] == "no" {
                save_and_stop(server);
            } else {
                if rewrites {
                    assert!(!run(&server, "BGREWRITEAOF").is_error());
                    wait_for(&server, "aof_rewrite_scheduled:0");
                    wait_for(&server, "aof_rewrite_in_progress:0");
                }
                run(&server, "ARSET one 9 later");
                run(&server, "ARDEL one 9");
                stop(server);
            }
            let server = reader.with(options).start(directory.path());
            assert_same(&arrays(&server), &before, &what);
            stop(server);
        }
    }
}

#[test]
fn single_append_only_files_are_taken_over() {
    for peer in peers().into_iter().filter(|peer| peer.version < (7, 0)) {
        let preambles: &[&[&str]] = match peer.version {
            (4.., _) => &[&["--aof-use-rdb-preamble", "yes"], &["--aof-use-rdb-preamble", "no"]],
            _ => &[&[]],
        };
        for preamble in preambles {
            println!("{} to ours, {preamble:?}", peer.name());
            let directory = tempfile::tempdir().unwrap();
            let server = peer.with(&["--appendonly", "yes"]).with(preamble).start(directory.path());
            fill(&mut connect(&server), Size::Large, false).unwrap();
            assert!(!run(&server, "BGREWRITEAOF").is_error());
            wait_for(&server, "aof_rewrite_scheduled:0");
            wait_for(&server, "aof_rewrite_in_progress:0");
            run(&server, "RPUSH l12 behind the base");
            let before = content(&server);
            stop(server);
            let server = Program::ours().with(&["--appendonly", "yes"]).start(directory.path());
            assert_same(&content(&server), &before, &peer.name());
        }
    }
}

#[test]
fn how_keys_were_used_goes_both_ways() {
    for peer in peers().into_iter().filter(|peer| peer.version >= (5, 0)) {
        let ours = Program::ours().with(&["--rdb-version", peer.rdb_version()]);
        for (writer, reader) in [(&peer, &ours), (&ours, &peer)] {
            for (policy, option, ask, least, most) in [
                ("allkeys-lru", "IDLETIME", "IDLETIME", 10_000, 11_000),
                ("volatile-lfu", "FREQ", "FREQ", 77, 77),
            ] {
                let options = ["--maxmemory-policy", policy, "--lfu-decay-time", "0"];
                let directory = tempfile::tempdir().unwrap();
                let server = writer.with(&options).start(directory.path());
                let mut client = connect(&server);
                client.command(&["SET", "source", "v"]).unwrap();
                let payload = client.command(&["DUMP", "source"]).unwrap();
                let payload = payload.text().unwrap();
                let used = least.to_string();
                let words = [b"RESTORE".as_slice(), b"k", b"0", payload, option.as_bytes(), used.as_bytes()];
                assert!(!client.command(&words).unwrap().is_error());
                save_and_stop(server);
                let server = reader.with(&options).start(directory.path());
                let found = run(&server, &format!("OBJECT {ask} k")).integer().unwrap();
                let what = format!("{} to {}: {found}", writer.name(), reader.name());
                assert!((least..=most).contains(&found), "{what}");
                stop(server);
            }
        }
    }
}

const LOAD_FUNCTION: [&str; 3] =
    ["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() end)"];

#[test]
fn what_cannot_be_held_refuses_the_start_by_name_and_offset() {
    for peer in peers().into_iter().filter(|peer| peer.version >= (7, 0)) {
        let directory = tempfile::tempdir().unwrap();
        let server = peer.start(directory.path());
        run(&server, "SET before 1");
        let reply = connect(&server).command(&LOAD_FUNCTION).unwrap();
        assert!(!reply.is_error(), "{reply:?}");
        save_and_stop(server);
        let file = directory.path().join("dump.rdb");
        let ours = Program::ours().start(directory.path());
        let listed = connect(&ours).command(&["FUNCTION", "LIST"]).unwrap();
        assert_eq!(listed.items().map(<[Reply]>::len), Some(1), "{}", peer.name());
        let _ = connect(&ours).command(&["SHUTDOWN", "NOSAVE"]);
        drop(ours);
        // As release candidates of Redis 7.0 wrote it.
        let mut written = fs::read(&file).unwrap();
        let is_library = |found: &[u8]| found[0] == 245 && found.windows(5).any(|part| part == b"#!lua");
        let at = written.windows(12).position(is_library).unwrap();
        written[at] = 246;
        fs::write(&file, &written).unwrap();
        let refusal = Program::ours().refusal(directory.path());
        let sign = "Pre-GA function format not supported, at offset ";
        assert!(refusal.contains(sign), "{}: {refusal}", peer.name());
        assert_eq!(fs::read(&file).unwrap(), written);
    }
}

#[test]
fn a_command_that_is_not_known_refuses_the_start_by_name_and_offset() {
    for peer in peers().into_iter().filter(|peer| peer.version >= (7, 0)) {
        let directory = tempfile::tempdir().unwrap();
        let options = ["--appendonly", "yes"];
        let server = peer.with(&options).start(directory.path());
        run(&server, "SET before 1");
        let increment = directory.path().join("appendonlydir/appendonly.aof.1.incr.aof");
        let name = "FUNCTIOM";
        assert!(!connect(&server).command(&LOAD_FUNCTION).unwrap().is_error());
        stop(server);
        let mut written = fs::read(&increment).unwrap();
        let known = LOAD_FUNCTION[0].as_bytes();
        let at = written.windows(known.len()).position(|found| found == known).unwrap();
        written[at..at + name.len()].copy_from_slice(name.as_bytes());
        fs::write(&increment, &written).unwrap();
        // Before the name stand the counts of words and of its bytes.
        let at = at - format!("*{}\r\n${}\r\n", LOAD_FUNCTION.len(), name.len()).len();
        let refusal = Program::ours().with(&options).refusal(directory.path());
        let sign = format!(
            "Unknown command '{name}' reading the append only file appendonly.aof.1.incr.aof at offset {at}\n"
        );
        assert!(refusal.contains(&sign), "{}: {refusal}", peer.name());
        assert_eq!(fs::read(&increment).unwrap(), written);
    }
}

/// Has a peer save the data that the tests compare with.
fn write_file(peer: &Program, folder: &Path) {
    let directory = tempfile::tempdir().unwrap();
    let server = peer.start(directory.path());
    let mut client = connect(&server);
    let has_timed = has_field_expiry(&mut client).unwrap();
    fill(&mut client, Size::Small, has_timed).unwrap();
    assert!(!run(&server, "SAVE").is_error());
    stop(server);
    let name = format!("{}_{}_{}.rdb", peer.kind, peer.version.0, peer.version.1);
    fs::copy(directory.path().join("dump.rdb"), folder.join(name)).unwrap();
}

/// The recorded files, each with the server in its name.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchange/files");
    if std::env::var_os("MARTLET_WRITE_FILES").is_some() {
        fs::create_dir_all(&folder).unwrap();
        peers().iter().for_each(|peer| write_file(peer, &folder));
    }
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn files_of_every_version_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let server = Program::ours().start(directory.path());
    let mut client = connect(&server);
    fill(&mut client, Size::Small, true).unwrap();
    let timed = content(&server);
    let without: Vec<String> = timed.iter().filter(|line| !line.contains(" hx")).cloned().collect();
    let files = files();
    assert!(files.len() >= 9, "{files:?}");
    for file in files {
        fs::copy(&file, directory.path().join("dump.rdb")).unwrap();
        let name = file.file_stem().unwrap().to_str().unwrap();
        for line in ["DEBUG RELOAD NOSAVE", "DEBUG RELOAD"] {
            let reply = run(&server, line);
            assert!(!reply.is_error(), "{name}: {reply:?} {}", server.log());
            let found = content(&server);
            let expected = if found.iter().any(|line| line.contains(" hx")) { &timed } else { &without };
            // Redis 2.4 knows whole seconds only.
            let (exact, whole) = (format!(" {EXPIRY_MS} "), format!(" {} ", EXPIRY_MS / 1000 * 1000));
            let in_seconds = |line: &String| line.replace(&exact, &whole);
            let expected = match name {
                "redis_2_4" => expected.iter().map(in_seconds).collect(),
                _ => expected.clone(),
            };
            assert_same(&found, &expected, name);
        }
        let has_timed = content(&server).len() == timed.len();
        let knows_timed = ["redis_7_4", "redis_8_0", "redis_8_2", "redis_8_6", "valkey_9_1"];
        assert_eq!(has_timed, knows_timed.contains(&name), "{name}");
    }
}
