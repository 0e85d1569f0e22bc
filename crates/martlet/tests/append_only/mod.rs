//! The append-only file of whole processes: loading, cutting and refusing at the start, a disk that refuses,
//! times of rewrites, waiting clients, and the tool that checks it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::{Size, dump, fill};
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;
use martlet_testkit::wait::until;

mod ends;
mod full_disk;
mod rules;
mod switch;
mod tool;

use tool::check;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

/// Starts a Martlet server, or another one, with an append-only file in `directory`.
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

/// Longest time of any step. The disk may be busy with other processes' writes.
const PATIENCE: Duration = Duration::from_secs(240);

/// Asks until the reply has this text.
fn ask_until(server: &Server, line: &str, wanted: &str) {
    let mut client = Client::connect(server.address()).unwrap();
    let words: Vec<_> = line.split(' ').collect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reply = client.command(&words).unwrap();
        let text = match &reply {
            Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
            other => String::from_utf8_lossy(other.text().unwrap_or_default()).into_owned(),
        };
        if text.contains(wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "{line} never answers {wanted}, but {text}\n{}", server.log());
    }
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

/// As in Redis 8.6, the end must be shorter than the parameter, whatever `aof-load-truncated` says.
#[test]
fn an_end_that_is_no_command_is_cut_off_up_to_a_length() {
    const OPTION: &str = "--aof-load-corrupt-tail-max-size";
    for (before, tail) in
        [("", "garbage\r\nxx"), ("*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n2\r\n", "?")]
    {
        let directory = tempfile::tempdir().unwrap();
        let server = start(OURS, directory.path(), &[]).unwrap();
        run(&server, 0, "SET k 1");
        drop(server);
        let file = directory.path().join("appendonlydir/appendonly.aof.1.incr.aof");
        let whole = fs::read(&file).unwrap();
        let damaged = [&whole, before.as_bytes(), tail.as_bytes()].concat();
        fs::write(&file, &damaged).unwrap();
        for options in [&[][..], &[OPTION, &tail.len().to_string()]] {
            let error = start(OURS, directory.path(), options).err().expect("the end is damaged");
            assert!(error.to_string().contains("Bad file format"), "{error}");
            assert_eq!(fs::read(&file).unwrap(), damaged);
        }
        let options = [OPTION, &(tail.len() + 1).to_string(), "--aof-load-truncated", "no"];
        let server = start(OURS, directory.path(), &options).unwrap();
        assert_eq!(run(&server, 0, "GET k").text(), Some(b"1".as_slice()), "{}", server.log());
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
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

#[test]
fn a_directory_that_cannot_be_made_refuses_the_start() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("appendonlydir"), "a file").unwrap();
    assert!(start(OURS, directory.path(), &[]).is_err());
    assert_eq!(fs::read(directory.path().join("appendonlydir")).unwrap(), b"a file");
}

/// Starts a server to which the modes of files and directories apply, also if it is root's; `None` if there
/// is no way to.
fn start_unprivileged(directory: &Path, arguments: &[&str]) -> Option<std::io::Result<Server>> {
    let mut all = vec!["--bounding-set=-dac_override,-dac_read_search", OURS, "server"];
    let program = match rustix::process::geteuid().is_root() {
        true if !is_installed("setpriv") => return None,
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
        return;
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
    assert!(server.logged("incr.aof: Permission denied", 1) > 0, "{}", server.log());
    // The failure is reported a moment before there is room for the next save.
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    set_mode(path, 0o555);
    run(&server, 0, "BGSAVE");
    ask_until(&server, "SET probe 1", "MISCONF Redis is configured to save RDB snapshots");
    assert_eq!(run(&server, 0, "GET during2").text(), Some(b"1".as_slice()));
    ask_until(&server, "INFO persistence", "rdb_bgsave_in_progress:0");
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

/// A directory with an append-only file of these commands, and the path of the file.
fn file_of(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("appendonlydir");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("appendonly.aof.manifest"), "file appendonly.aof.1.incr.aof seq 1 type i\n")
        .unwrap();
    let path = files.join("appendonly.aof.1.incr.aof");
    fs::write(&path, text).unwrap();
    (directory, path)
}

#[test]
fn a_file_that_runs_scripts_refuses_the_start() {
    let eval = "*4\r\n$4\r\nEVAL\r\n$31\r\nredis.call('set', KEYS[1], '1')\r\n$1\r\n1\r\n$1\r\nk\r\n";
    let in_transaction = format!("*1\r\n$5\r\nMULTI\r\n{eval}*1\r\n$4\r\nEXEC\r\n");
    for text in [eval, &in_transaction] {
        let (directory, path) = file_of(text);
        let error = start(OURS, directory.path(), &[]).err().unwrap().to_string();
        assert!(
            error.contains("Command 'eval' in the append only file appendonly.aof.1.incr.aof at offset"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_command_that_is_none_refuses_the_start() {
    for (words, what) in [
        (&["bla\n", "1"][..], "Unknown command 'bla\\n'"),
        (&["cluster"], "wrong number of arguments for 'cluster' command"),
        (&["cluster", "slots-x"], "unknown subcommand 'slots-x' of 'cluster'"),
        (&["CLUSTER", "slots", "x"], "wrong number of arguments for 'cluster|slots' command"),
        (&["SET", "key"], "wrong number of arguments for 'set' command"),
    ] {
        let command = |words: &[&str]| {
            let head = format!("*{}\r\n", words.len());
            words.iter().fold(head, |text, word| format!("{text}${}\r\n{word}\r\n", word.len()))
        };
        let known = command(&["SET", "key", "1"]);
        let text = format!("{known}{}", command(words));
        let (directory, path) = file_of(&text);
        let error = start(OURS, directory.path(), &[]).err().unwrap().to_string();
        let place =
            format!("reading the append only file appendonly.aof.1.incr.aof at offset {}", known.len());
        assert!(error.contains(&format!("{what} {place}")), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn commands_in_a_file_that_is_not_listed_are_not_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(OURS, directory.path(), &[]).unwrap();
    run(&server, 0, "SET kept 1");
    run(&server, 0, "CONFIG SET appendonly no");
    // Without records there is a base alone.
    run(&server, 0, "BGREWRITEAOF");
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    stop(server);
    let files = directory.path().join("appendonlydir");
    let manifest = fs::read_to_string(files.join("appendonly.aof.manifest")).unwrap();
    assert_eq!(manifest, "file appendonly.aof.2.base.rdb seq 2 type b\n");
    // The files after a crash between the naming of the next file of commands and its listing.
    fs::write(files.join("appendonly.aof.1.incr.aof"), "*3\r\n$3\r\nSET\r\n$5\r\nghost\r\n$1\r\n1\r\n")
        .unwrap();
    for _ in 0..2 {
        let server = start(OURS, directory.path(), &[]).unwrap();
        assert_eq!(run(&server, 0, "GET kept").text(), Some(b"1".as_slice()));
        assert_eq!(run(&server, 0, "GET ghost").text(), None);
        stop(server);
    }
}
