//! Files that take or give nothing for any time: requests that read or write them wait outside the gate, with
//! nothing locked, and no other thread waits for them.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use martlet_base::disk::GatedDisk;
use martlet_base::disk::faults::{FaultyDisk, Operation};
use martlet_keyspace::{ExpiryChange, Key};
use martlet_persistence::load::Source;

use super::stalled_disk::{ask, client};
use crate::config::{Config, ConfigStore, SavePoint, TlsAuthClients};
use crate::logging::Log;
use crate::persistence::settings::settings;
use crate::runtime::Shared;
use crate::runtime::Worker;
use martlet_persistence::start::{announce, load_at_start};

/// A thread that waits with the gate closed, or inside it, waits for ever.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that a pipe takes without a reader.
const PIPE_BYTES: usize = 65_536;

fn server(config: &Config, file: Option<PathBuf>, disk: FaultyDisk) -> &'static Shared {
    let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
    let store = ConfigStore::with_file(config.clone(), file, 0o022);
    let mut shared = Shared::new(store, registry, 1, None).unwrap();
    shared.persistence.disk = GatedDisk::new(Arc::new(disk));
    let shared: &'static Shared = Box::leak(Box::new(shared));
    crate::reconfigure::install(shared);
    shared.storage().start_threads().unwrap();
    announce(shared.storage());
    load_at_start(shared.storage(), &settings(config)).unwrap();
    shared
}

/// The answers to a client's requests, on a thread of the server.
fn send(shared: &'static Shared, requests: &'static str) -> Receiver<String> {
    let (done, answers) = channel();
    std::thread::spawn(move || {
        let mut worker = Worker::new(shared, 0, &crate::wiring::HOOKS);
        let (client, _end) = client(&mut worker);
        let mut answer = ask(&mut worker, client, requests.as_bytes());
        while !worker.ready.is_empty() {
            // A slice ends with a request that took long.
            worker.process_ready();
            worker.leave();
            answer.extend(ask(&mut worker, client, b""));
        }
        let _ = done.send(String::from_utf8(answer).unwrap());
    });
    answers
}

/// Another thread closes the gate, changes a key, and opens it.
fn assert_nobody_is_held_up(shared: &'static Shared) {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        let mut keys = martlet_engine::Keys::new(
            shared.engine,
            shared.storage().loader(0),
            martlet_base::random::Random::from_entropy(),
        );
        keys.alone(|keys| keys.set_str(&Key::new(b"k"), b"v", ExpiryChange::Clear));
        let _ = done.send(());
    });
    ended.recv_timeout(LIMIT).expect("the disk is waited for inside the gate, or with the gate closed");
}

/// The answer to a request that waits for the disk, and for nothing else, until `go_on`.
fn answer_after(shared: &'static Shared, answers: &Receiver<String>, go_on: impl FnOnce()) -> String {
    assert_nobody_is_held_up(shared);
    assert_eq!(answers.try_recv(), Err(TryRecvError::Empty));
    go_on();
    answers.recv_timeout(LIMIT).unwrap()
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Opens the pipe's writing end once a thread has opened it for reading: that waits for its bytes now.
fn await_reader(path: &Path) -> File {
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Ok(file) => return file,
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Opens the pipe's reading end, and waits until a thread has filled it: that waits to write more.
fn await_writer(path: &Path) -> File {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    while rustix::io::ioctl_fionread(&file).unwrap() < PIPE_BYTES as u64 {
        std::thread::yield_now();
    }
    rustix::io::ioctl_fionbio(&file, false).unwrap();
    file
}

/// Stops the disk at the next operation of a kind. The receiver reports that; dropping the sender ends it.
fn stop_at(disk: &FaultyDisk, operation: Operation) -> (Receiver<()>, Sender<()>) {
    let ((reached, is_reached), (go_on, stalled)) = (channel(), channel::<()>());
    disk.plan(move |_, next, _| {
        if next == operation {
            let _ = reached.send(());
            // Until the sender is dropped.
            let _ = stalled.recv();
        }
        None
    });
    (is_reached, go_on)
}

fn sound() -> FaultyDisk {
    FaultyDisk::new(|_, _, _| None)
}

#[test]
fn config_rewrite_keeps_nobody_waiting_in_exec_either() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { dir: directory.path().into(), ..Config::default() };
    for (requests, expected) in [
        ("CONFIG REWRITE\r\nPING\r\n", "+OK\r\n+PONG\r\n"),
        (
            "MULTI\r\nPING\r\nCONFIG SET hz 33\r\nCONFIG REWRITE\r\nGET k\r\nEXEC\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n+PONG\r\n+OK\r\n+OK\r\n$-1\r\n",
        ),
    ] {
        let path = directory.path().join("martlet.conf");
        let _ = std::fs::remove_file(&path);
        make_pipe(&path);
        let shared = server(&config, Some(path.clone()), sound());
        let answers = send(shared, requests);
        let mut file = await_reader(&path);
        let answer = answer_after(shared, &answers, move || file.write_all(b"# a comment\n").unwrap());
        assert_eq!(answer, expected);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# a comment\n"), "{text}");
        assert_eq!(text.contains("\nhz 33\n"), requests.starts_with("MULTI"), "{text}");
    }
}

#[test]
fn an_error_of_the_disk_stands_where_the_answer_belongs() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { dir: directory.path().into(), ..Config::default() };
    let shared = server(&config, Some(directory.path().join("none/martlet.conf")), sound());
    let answers = send(shared, "MULTI\r\nCONFIG REWRITE\r\nPING\r\nCONFIG REWRITE\r\nEXEC\r\nPING\r\n");
    let error = "-ERR Rewriting config file: No such file or directory\r\n";
    assert_eq!(
        answers.recv_timeout(LIMIT).unwrap(),
        format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n{error}+PONG\r\n{error}+PONG\r\n")
    );
}

#[test]
fn acl_save_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.acl");
    let config = Config { dir: directory.path().into(), aclfile: path.clone(), ..Config::default() };
    let shared = server(&config, None, sound());
    let rules = crate::access::rules(shared.access.table(), &config);
    let Ok(_) = shared.access.change(|users| {
        for number in 0..2 * PIPE_BYTES / 20 {
            users.insert(martlet_acl::User::new(format!("user-{number}").as_bytes(), &rules));
        }
        Ok::<(), std::convert::Infallible>(())
    });
    let temporary = directory.path().join(format!("users.acl.{}.tmp", std::process::id()));
    make_pipe(&temporary);
    let answers = send(shared, "ACL SAVE\r\n");
    let mut file = await_writer(&temporary);
    let answer = answer_after(shared, &answers, move || {
        std::thread::spawn(move || file.read_to_end(&mut Vec::new()));
    });
    // A pipe cannot be forced to disk.
    assert!(answer.starts_with("-ERR There was an error trying to save the ACLs."), "{answer}");
}

#[test]
fn acl_load_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.acl");
    let config = Config { dir: directory.path().into(), aclfile: path.clone(), ..Config::default() };
    let shared = server(&config, None, sound());
    make_pipe(&path);
    let answers = send(shared, "ACL LOAD\r\nACL USERS\r\n");
    let mut file = await_reader(&path);
    let users = b"user default on nopass ~* &* +@all\nuser loaded on nopass +get\n";
    let answer = answer_after(shared, &answers, move || file.write_all(users).unwrap());
    assert_eq!(answer, "+OK\r\n*2\r\n$7\r\ndefault\r\n$6\r\nloaded\r\n");
}

#[test]
fn certificates_keep_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("certificate");
    let config = Config {
        dir: directory.path().into(),
        tls_cert_file: Some(path.clone()),
        tls_key_file: Some(directory.path().join("key")),
        tls_auth_clients: TlsAuthClients::No,
        ..Config::default()
    };
    let shared = server(&config, None, sound());
    make_pipe(&path);
    let answers = send(shared, "CONFIG SET hz 33 tls-port 7\r\nCONFIG GET hz\r\n");
    let file = await_reader(&path);
    let answer = answer_after(shared, &answers, move || drop(file));
    assert_eq!(
        answer,
        "-ERR CONFIG SET failed (possibly related to argument 'tls-port') - Unable to update TLS \
         configuration. Check server logs.\r\n*2\r\n$2\r\nhz\r\n$2\r\n10\r\n"
    );
}

#[test]
fn the_file_of_a_save_in_the_background_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { dir: directory.path().into(), ..Config::default() };
    let disk = sound();
    let shared = server(&config, None, disk.clone());
    let (is_reached, go_on) = stop_at(&disk, Operation::Create);
    let answers = send(shared, "BGSAVE\r\n");
    is_reached.recv_timeout(LIMIT).unwrap();
    assert_nobody_is_held_up(shared);
    assert_eq!(answers.recv_timeout(LIMIT).unwrap(), "+Background saving started\r\n");
    drop(go_on);
    shared.persistence.background.wait();
    assert_eq!(shared.persistence.facts().saves, 1);
}

#[test]
fn a_save_that_cannot_make_its_file_fails_and_the_next_one_succeeds() {
    use martlet_base::disk::faults::{Fault, errno};
    let directory = tempfile::tempdir().unwrap();
    let config = Config { dir: directory.path().into(), ..Config::default() };
    let disk = sound();
    let shared = server(&config, None, disk.clone());
    disk.plan(|_, operation, _| (operation == Operation::Create).then_some(Fault::Refuse(errno::ENOSPC)));
    for is_sound in [false, true] {
        send(shared, "BGSAVE\r\n").recv_timeout(LIMIT).unwrap();
        shared.persistence.background.wait();
        assert_eq!(shared.persistence.facts().is_background_sound, is_sound);
        disk.plan(|_, _, _| None);
    }
}

/// CONFIG SET and others that close the gate are answered while data is loaded.
#[test]
fn loading_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { dir: directory.path().into(), ..Config::default() };
    let path = settings(&config).rdb_path();
    let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
    let shared = Shared::new(ConfigStore::new(config.clone()), registry, 2, None).unwrap();
    let shared: &'static Shared = Box::leak(Box::new(shared));
    shared.storage().start_threads().unwrap();
    make_pipe(&path);
    announce(shared.storage());
    let (done, loaded) = channel();
    let pipe = path.clone();
    std::thread::spawn(move || {
        let reader = Box::new(File::open(pipe).unwrap());
        let source = Source { reader, len: PIPE_BYTES as u64, offset: 0 };
        let _ = done.send(shared.storage().load_received(&settings(&config), source));
    });
    let mut file = await_reader(&path);
    for bytes in [b"REDIS0011\xfa\x09redis".as_slice(), b"-ver\x057.2.4\xfa\x05x"] {
        assert_nobody_is_held_up(shared);
        file.write_all(bytes).unwrap();
    }
    assert_nobody_is_held_up(shared);
    drop(file);
    assert!(loaded.recv_timeout(LIMIT).unwrap().is_err(), "the file is not whole");
}

#[test]
fn flushall_keeps_nobody_waiting_and_no_file_brings_the_data_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = Config { dir: directory.path().into(), ..Config::default() };
    config.save.0 = vec![SavePoint { seconds: 3600, changes: 1 }];
    let disk = sound();
    let shared = server(&config, None, disk.clone());
    // A save that is about to give its file the name does so, and the empty one replaces it.
    let (is_reached, go_on) = stop_at(&disk, Operation::Rename);
    assert_eq!(
        send(shared, "SET a b\r\nBGSAVE\r\n").recv().unwrap(),
        "+OK\r\n+Background saving started\r\n"
    );
    is_reached.recv_timeout(LIMIT).unwrap();
    let answers = send(shared, "FLUSHALL ASYNC\r\n");
    while shared.persistence.background.running().is_some_and(|running| running.cut.is_wanted()) {
        std::thread::yield_now();
    }
    let answer = answer_after(shared, &answers, || drop(go_on));
    assert_eq!(answer, "+OK\r\n");
    shared.persistence.background.wait();
    let file = std::fs::read(settings(&config).rdb_path()).unwrap();
    assert!(!file.windows(4).any(|text| text == b"\x01a\x01b"));
}

#[test]
fn switching_the_append_only_file_off_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { dir: directory.path().into(), appendonly: true, ..Config::default() };
    let disk = sound();
    let shared = server(&config, None, disk.clone());
    let (is_reached, go_on) = stop_at(&disk, Operation::Sync);
    let answers = send(shared, "SET a b\r\nCONFIG SET appendonly no\r\n");
    is_reached.recv_timeout(LIMIT).unwrap();
    while shared.config.snapshot().appendonly {
        std::thread::yield_now();
    }
    assert_eq!(answer_after(shared, &answers, || drop(go_on)), "+OK\r\n+OK\r\n");
    let files = directory.path().join("appendonlydir");
    let mut written = Vec::new();
    for entry in std::fs::read_dir(files).unwrap() {
        File::open(entry.unwrap().path()).unwrap().read_to_end(&mut written).unwrap();
    }
    assert!(written.windows(4).any(|text| text == b"\nSET"), "what was recorded is in the file");
}

#[test]
fn the_log_keeps_nobody_waiting() {
    const LINES: usize = 100;
    let directory = tempfile::tempdir().unwrap();
    let config = Config { dir: directory.path().into(), logfile: "log".into(), ..Config::default() };
    let shared = server(&config, None, sound());
    let path = directory.path().join("log");
    make_pipe(&path);
    let log = Log::open(&config);
    log.start_thread().unwrap();
    let (done, answers) = channel();
    let logged = log.clone();
    std::thread::spawn(move || {
        logged.while_logging_here(|| {
            let script =
                "for i = 1, 100 do redis.log(redis.LOG_WARNING, redis.call('INCR', KEYS[1])) end return 1";
            let request =
                format!("*4\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n1\r\n$1\r\nn\r\n", script.len());
            let mut worker = Worker::new(shared, 0, &crate::wiring::HOOKS);
            let (client, _end) = client(&mut worker);
            let _ = done.send(ask(&mut worker, client, request.as_bytes()));
        });
    });
    assert_eq!(answers.recv_timeout(LIMIT).expect("the log is waited for"), b":1\r\n");
    assert_nobody_is_held_up(shared);
    let reading = std::thread::spawn(move || {
        let (mut text, mut file) = (String::new(), File::open(&path).unwrap());
        while text.lines().count() < LINES {
            let mut bytes = [0; 4096];
            let count = file.read(&mut bytes).unwrap();
            text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            if count == 0 {
                // The next batch opens it again.
                std::thread::yield_now();
            }
        }
        text
    });
    let text = reading.join().unwrap();
    let numbers: Vec<usize> =
        text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (1..=LINES).collect::<Vec<_>>());
    log.finish();
}
