//! The append-only file of whole processes: an old one that is taken over, a torn end, and the tool that checks them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::{Size, dump, fill};
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

/// Starts a server of ours, or another one, with an append-only file in `directory`.
fn start(program: &str, directory: &Path, arguments: &[&str]) -> std::io::Result<Server> {
    let mut all = if program == OURS { vec!["server", "--enable-debug-command", "yes"] } else { vec![] };
    all.extend(["--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
    all.extend(arguments);
    Server::start_in(directory, Path::new(program), &all)
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

fn run(server: &Server, db: usize, line: &str) -> Reply {
    let mut client = connect(server);
    client.command(&["SELECT", &db.to_string()]).unwrap();
    client.command(&line.split(' ').collect::<Vec<_>>()).unwrap()
}

fn stop(server: Server) {
    let _ = Client::connect(server.address()).unwrap().command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());
}

#[test]
fn a_single_file_of_old_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &[]).unwrap();
    fill(&mut connect(&server), Size::Small, true).unwrap();
    run(&server, 0, "SAVE");
    let before = dump(&mut connect(&server)).unwrap();
    stop(server);
    fs::remove_dir_all(directory.path().join("appendonlydir")).unwrap();
    let mut single = fs::read(directory.path().join("dump.rdb")).unwrap();
    single
        .extend_from_slice(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$4\r\ntail\r\n$1\r\n1\r\n");
    fs::write(directory.path().join("appendonly.aof"), &single).unwrap();
    fs::remove_file(directory.path().join("dump.rdb")).unwrap();
    let (status, text) = check(&[directory.path().join("appendonly.aof").to_str().unwrap()], "");
    assert!(status == 0 && text.contains("RDB preamble is OK, proceeding with AOF tail"), "{text}");
    let server = start(OURS, directory.path(), &[]).unwrap();
    let after = dump(&mut connect(&server)).unwrap();
    let tail = after.iter().filter(|line| !before.contains(line)).collect::<Vec<_>>();
    assert!(tail.len() == 1 && tail[0].starts_with("0 tail") && after.len() == before.len() + 1, "{tail:?}");
}

#[test]
fn a_torn_end_is_cut_off_also_before_a_file_that_was_only_listed() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &[]).unwrap();
    run(&server, 0, "SET k 1");
    drop(server);
    let files = directory.path().join("appendonlydir");
    let append = |name: &str, text: &str| {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(files.join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append(
        "appendonly.aof.1.incr.aof",
        "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n2\r\n*3\r\n$3",
    );
    append("appendonly.aof.2.incr.aof", "");
    append("appendonly.aof.manifest", "file appendonly.aof.2.incr.aof seq 2 type i\n");
    assert!(start(OURS, directory.path(), &["--aof-load-truncated", "no"]).is_err());
    let server = start(OURS, directory.path(), &[]).unwrap();
    assert_eq!(run(&server, 0, "GET k").text(), Some(b"1".as_slice()), "{}", server.log());
    run(&server, 0, "SET k 3");
    drop(server);
    let server = start(OURS, directory.path(), &["--aof-load-truncated", "no"]).unwrap();
    assert_eq!(run(&server, 0, "GET k").text(), Some(b"3".as_slice()));
    drop(server);
    append("appendonly.aof.1.incr.aof", "*1\r\n$4");
    let error = start(OURS, directory.path(), &[]).err().expect("the file in the middle is damaged");
    assert!(error.to_string().contains("is not the last file"), "{error}");
}

#[test]
fn rewrites_that_fail_leave_a_list_that_loads() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &[]).unwrap();
    fill(&mut connect(&server), Size::Small, true).unwrap();
    let files = directory.path().join("appendonlydir");
    let listed = || fs::read_to_string(files.join("appendonly.aof.manifest")).unwrap();
    // No file can be made by this name.
    let obstacle = files.join(format!("temp-rewriteaof-bg-{}.aof", server.pid()));
    fs::create_dir(&obstacle).unwrap();
    for failure in 1..=2 {
        assert!(!run(&server, 0, "BGREWRITEAOF").is_error());
        for line in ["rewrite_scheduled:0", "rewrite_in_progress:0", "last_bgrewrite_status:err"] {
            ask_until(&server, "INFO persistence", &format!("aof_{line}"));
        }
        run(&server, 0, &format!("SET behind:{failure} 1"));
    }
    let increments = listed().lines().count() - 1;
    assert!(increments >= 3, "{}", server.log());
    let line = |i| format!("file appendonly.aof.{i}.incr.aof seq {i} type i\n");
    let all: String = (1..=increments).map(line).collect();
    assert_eq!(listed(), format!("file appendonly.aof.1.base.rdb seq 1 type b\n{all}"));
    let before = dump(&mut connect(&server)).unwrap();
    drop(server);
    let server = start(OURS, directory.path(), &[]).unwrap();
    assert_eq!(dump(&mut connect(&server)).unwrap(), before);
    assert!(!run(&server, 0, "BGREWRITEAOF").is_error());
    ask_until(&server, "INFO persistence", "aof_last_bgrewrite_status:ok");
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    let rewritten = listed();
    assert_eq!(rewritten.lines().count(), 2, "{rewritten}");
    assert!(rewritten.starts_with("file appendonly.aof.2.base.rdb seq 2 type b\n"), "{rewritten}");
    drop(server);
    let server = start(OURS, directory.path(), &[]).unwrap();
    assert_eq!(dump(&mut connect(&server)).unwrap(), before);
}

/// What `check-aof` prints with these arguments and this input, and its status.
fn check(arguments: &[&str], input: &str) -> (i32, String) {
    let mut all = vec!["check-aof"];
    all.extend(arguments);
    output(Command::new(OURS).args(all), input)
}

fn output(command: &mut Command, input: &str) -> (i32, String) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Who does not ask has closed its end.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code().unwrap(), text)
}

#[test]
fn the_tool_says_what_redis_check_aof_says() {
    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n";
    let is_installed = Command::new("redis-check-aof").arg("-v").output().is_ok();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file.aof");
    let name = path.to_str().unwrap();
    for (content, arguments, input, status, sign) in [
        (SET.into(), &[][..], "", 0, "is valid"),
        (String::new(), &[], "", 0, "is empty"),
        (format!("{SET}!!!"), &[], "", 1, "ok_up_to_line=8, diff=3"),
        (format!("{SET}*3\r\n$3\r\nSET"), &[], "", 1, "Expected to read 5 bytes, got 3 bytes"),
        (format!("{SET}*3\r\n+3\r\nSET\r\n"), &[], "", 1, "Expected prefix '$', got: '+'"),
        (format!("{SET}*1\r\n$5\r\nMULTI\r\n{SET}"), &[], "", 1, "Reached EOF before reading EXEC for MULTI"),
        (format!("{SET}*1\r\n$4\r\nexec\r\n"), &[], "", 1, "Unexpected EXEC in AOF"),
        ("*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n".into(), &[], "", 1, "Unexpected MULTI in AOF"),
        (format!("{SET}*1\r\n$4\r\nPINGxx"), &[], "", 1, "Expected \\r\\n, got: 7878"),
        (format!("{SET}*1\r\n$-5\r\n"), &[], "", 1, "is not in the suitable range"),
        (format!("{SET}*1\r\n$99999999\r\nabc"), &[], "", 1, "got 3 bytes"),
        (format!("{SET}!!!"), &["--fix"], "n\n", 1, "Aborting..."),
        (format!("{SET}!!!"), &["--fix"], "", 1, "Aborting..."),
        (format!("{SET}!!!"), &["--fix"], "y\n", 0, "Successfully truncated AOF"),
        (format!("#TS:5\r\n{SET}#TS:7\r\n{SET}"), &["--truncate-to-timestamp", "6"], "", 0, "to timestamp 6"),
        (
            format!("#TS:5\r\n{SET}"),
            &["--truncate-to-timestamp", "4"],
            "",
            1,
            "has nothing before timestamp 4",
        ),
        (format!("#TS:5\r\n{SET}"), &["--truncate-to-timestamp", "9"], "", 0, "Truncate nothing in AOF"),
        (SET.into(), &["--truncate-to-timestamp", "x"], "", 1, "Invalid timestamp, aborting..."),
        (SET.into(), &["--mend"], "", 1, "Usage: "),
    ] {
        let mut all = arguments.to_vec();
        all.push(name);
        fs::write(&path, &content).unwrap();
        let (ours, text) = check(&all, input);
        let left = fs::read(&path).unwrap();
        assert!(ours == status && text.contains(sign), "{content:?}: {ours}, {text}");
        if is_installed {
            fs::write(&path, &content).unwrap();
            let (theirs, their_text) = output(Command::new("redis-check-aof").args(&all), input);
            assert_eq!((ours, &left), (theirs, &fs::read(&path).unwrap()), "{content:?}: {their_text}");
            let text = text.replace("martlet check-aof", "redis-check-aof");
            assert_eq!(text, their_text, "{content:?}");
        }
    }
}

/// How large files may become that a process writes, in bytes; a full disk, as far as it can tell.
fn limit_files(server: &Server, bytes: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let pid = Pid::from_raw(server.pid() as i32);
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// Asks until the reply has this text.
fn ask_until(server: &Server, line: &str, wanted: &str) {
    let mut client = Client::connect(server.address()).unwrap();
    let words: Vec<_> = line.split(' ').collect();
    for _ in 0..1_000_000 {
        let reply = client.command(&words).unwrap();
        let text = match &reply {
            Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
            other => String::from_utf8_lossy(other.text().unwrap_or_default()).into_owned(),
        };
        if text.contains(wanted) {
            return;
        }
    }
    panic!("{line} never answers {wanted}");
}

#[test]
fn a_full_disk_refuses_writes_and_loses_none_that_it_took() {
    const REFUSAL: &str = "MISCONF Errors writing to the AOF file: File too large";
    for policy in ["always", "everysec"] {
        let directory = tempfile::tempdir().unwrap();
        let server = start(OURS, directory.path(), &["--appendfsync", policy]).unwrap();
        run(&server, 0, "SET before 1");
        limit_files(&server, Some(20_000));
        // More than fits: of the replies to these, those that the disk did not take are owed.
        let mut writer = Client::connect(server.address()).unwrap();
        let value = "v".repeat(1000);
        for i in 0..40 {
            writer.send(&["SET", &format!("k{i}"), &value]).unwrap();
        }
        // A write that came before the refusal was known would not be answered, since the disk has not taken it.
        ask_until(&server, "INFO persistence", "aof_last_write_status:err");
        ask_until(&server, "SET probe 1", REFUSAL);
        ask_until(&server, "PING", "MISCONF");
        ask_until(&server, "GET before", "1");
        limit_files(&server, None);
        ask_until(&server, "SET probe 2", "OK");
        let mut taken = Vec::new();
        for i in 0..40 {
            match writer.read_reply().unwrap() {
                Reply::Error(text) => assert!(text.starts_with(b"MISCONF"), "{text:?}"),
                _ => taken.push(format!("k{i}")),
            }
        }
        assert!(!taken.is_empty());
        let log = server.log();
        assert!(log.contains("Error writing to the AOF file") && log.contains("looks solved"), "{log}");
        // With `always` what was answered is on disk, however the process ends.
        if policy == "always" {
            drop(server)
        } else {
            stop(server)
        }
        let server = start(OURS, directory.path(), &[]).unwrap();
        for key in taken.iter().map(String::as_str).chain(["before", "probe"]) {
            assert_eq!(run(&server, 0, &format!("EXISTS {key}")).integer(), Some(1), "{policy}: {key}");
        }
    }
}

#[test]
fn a_directory_that_cannot_be_made_refuses_the_start() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("appendonlydir"), "a file").unwrap();
    assert!(start(OURS, directory.path(), &[]).is_err());
    assert_eq!(fs::read(directory.path().join("appendonlydir")).unwrap(), b"a file");
}

/// Starts a server to which the modes of files and directories apply, also if it is root's; `None` if there is no way to.
fn start_unprivileged(directory: &Path, arguments: &[&str]) -> Option<std::io::Result<Server>> {
    let mut all = vec!["--bounding-set=-dac_override,-dac_read_search", OURS, "server"];
    let is_installed = Command::new("setpriv").arg("--version").output().is_ok();
    let program = match rustix::process::geteuid().is_root() {
        true if !is_installed => return None,
        true => "setpriv",
        false => all.remove(1),
    };
    if program == OURS {
        all.remove(0);
    }
    all.extend(arguments);
    Some(Server::start_in(directory, Path::new(program), &all))
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_directory_that_may_not_be_written_refuses_the_start_and_later_only_what_needs_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, files) = (directory.path(), directory.path().join("appendonlydir"));
    let options = ["--appendonly", "yes", "--appendfsync", "always", "--save", "3600 1000000"];
    let start = || start_unprivileged(path, &options);
    set_mode(path, 0o555);
    let Some(refused) = start() else {
        set_mode(path, 0o755);
        return println!("setpriv is not installed: root may write everywhere");
    };
    let text = refused.err().expect("there is no place for the files").to_string();
    assert!(text.contains("Can't open or create append-only dir appendonlydir: Permission denied"), "{text}");
    set_mode(path, 0o755);
    let server = start().unwrap().unwrap();
    run(&server, 0, "SET before 1");
    set_mode(&files, 0o555);
    for i in 0..3 {
        run(&server, 0, "BGREWRITEAOF");
        ask_until(&server, "INFO persistence", "aof_last_bgrewrite_status:err");
        assert!(!run(&server, 0, &format!("SET during{i} 1")).is_error());
    }
    assert!(server.log().contains("incr.aof: Permission denied"), "{}", server.log());
    set_mode(path, 0o555);
    run(&server, 0, "BGSAVE");
    ask_until(&server, "SET probe 1", "MISCONF Redis is configured to save RDB snapshots");
    assert_eq!(run(&server, 0, "GET during2").text(), Some(b"1".as_slice()));
    set_mode(path, 0o755);
    run(&server, 0, "BGSAVE");
    ask_until(&server, "SET probe 1", "OK");
    drop(server);
    let server = start().unwrap().expect("the files are there, and nothing has to be made");
    run(&server, 0, "SET after 1");
    set_mode(&files, 0o755);
    run(&server, 0, "BGREWRITEAOF");
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0");
    drop(server);
    let server = start().unwrap().unwrap();
    for key in ["before", "during0", "during1", "during2", "probe", "after"] {
        assert_eq!(run(&server, 0, &format!("EXISTS {key}")).integer(), Some(1), "{key}");
    }
    assert_eq!(fs::read_dir(&files).unwrap().count(), 3);
}

#[test]
fn a_transaction_that_switches_the_file_off_leaves_nothing_for_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &[]).unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    let mut ask = |line: &str| client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
    for line in ["MULTI", "SET k old", "CONFIG SET appendonly no", "EXEC", "SET k new"] {
        assert!(!ask(line).is_error(), "{line}");
    }
    assert!(!ask("CONFIG SET appendonly yes").is_error());
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0");
    assert!(!ask("SET other 1").is_error());
    drop(server);
    let server = start(OURS, directory.path(), &[]).unwrap();
    assert_eq!(run(&server, 0, "GET k").text(), Some(b"new".as_slice()));
    assert_eq!(run(&server, 0, "GET other").text(), Some(b"1".as_slice()));
}

#[test]
fn what_a_full_disk_did_not_take_was_not_answered() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &[]).unwrap();
    run(&server, 0, "SET before 1");
    limit_files(&server, Some(20_000));
    let mut writer = Client::connect(server.address()).unwrap();
    let value = "v".repeat(1000);
    for i in 0..40 {
        writer.send(&["SET", &format!("k{i}"), &value]).unwrap();
    }
    ask_until(&server, "INFO persistence", "aof_last_write_status:err");
    drop(server);
    let replies = writer.read_to_end().unwrap();
    let answered = replies.windows(5).filter(|bytes| bytes == b"+OK\r\n").count();
    let server = start(OURS, directory.path(), &[]).unwrap();
    let kept = run(&server, 0, "DBSIZE").integer().unwrap();
    assert!(kept < 41 && (answered as i64) < kept, "{answered} answered, {kept} kept");
}

#[test]
fn waitaof_answers_when_the_disk_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &["--appendfsync", "everysec"]).unwrap();
    for i in 0..3 {
        run(&server, 0, &format!("SET k{i} 1"));
        let reply = run(&server, 0, "WAITAOF 1 0 0");
        let counts: Vec<_> = reply.items().unwrap().iter().map(|item| item.integer().unwrap()).collect();
        assert_eq!(counts, [1, 0]);
    }
    assert!(run(&server, 0, "WAITAOF 2 0 0").is_error() && run(&server, 0, "WAITAOF 0 -1 0").is_error());
    // Nobody replicates: only the time ends it.
    assert_eq!(run(&server, 0, "WAITAOF 0 1 1").items().unwrap()[1].integer(), Some(0));
    run(&server, 0, "CONFIG SET appendonly no");
    assert!(run(&server, 0, "WAITAOF 1 0 0").is_error());
}

#[test]
fn a_file_that_has_grown_is_rewritten() {
    let directory = tempfile::tempdir().unwrap();
    let rule = ["--auto-aof-rewrite-percentage", "100", "--auto-aof-rewrite-min-size", "4kb"];
    let server = start(OURS, directory.path(), &rule).unwrap();
    let rewrites = |server: &Server| {
        let report = run(server, 0, "INFO persistence");
        let text = String::from_utf8_lossy(report.text().unwrap()).into_owned();
        text.lines().find_map(|line| line.strip_prefix("aof_rewrites:")?.parse::<u64>().ok()).unwrap()
    };
    let mut writes = 0;
    while rewrites(&server) == 0 {
        writes += 1;
        run(&server, 0, &format!("SET k {writes}-{}", "v".repeat(1000)));
    }
    assert!(writes >= 3, "four kilobytes were asked for, and {writes} writes of one were rewritten");
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    drop(server);
    let text = fs::read_to_string(directory.path().join("appendonlydir/appendonly.aof.manifest")).unwrap();
    assert!(!text.contains("appendonly.aof.1.base.rdb"), "{text}");
    let server = start(OURS, directory.path(), &[]).unwrap();
    assert!(run(&server, 0, "GET k").text().unwrap().starts_with(format!("{writes}-").as_bytes()));
}
