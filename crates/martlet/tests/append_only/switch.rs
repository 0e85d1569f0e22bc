//! CONFIG SET appendonly yes either makes its promises good before its OK, or is refused and changes nothing.

use std::fs;
use std::path::Path;

use martlet_client::resp::Reply;
use martlet_testkit::server::{ReservedPort, Server};

use super::full_disk::limit_files;
use super::{OURS, ask_until, connect, run};

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => String::from_utf8_lossy(other.text().unwrap_or_default()).into_owned(),
    }
}

/// A server without an append-only file, whose settings are to stay.
fn without_file(directory: &Path) -> Server {
    let arguments = ["server", "--save", "", "--appendfsync", "always", "--enable-protected-configs", "yes"];
    Server::start_in(directory, Path::new(OURS), &arguments).unwrap()
}

/// What CONFIG GET says of all parameters.
fn configuration(server: &Server) -> String {
    format!("{:?}", run(server, 0, "CONFIG GET *"))
}

const REFUSAL: &str = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs.";

/// Nothing has changed, and the file can be switched on once the obstacle is gone.
fn stays_off(server: &Server, before: &str, remove_obstacle: impl FnOnce()) {
    assert_eq!(configuration(server), before);
    assert!(text(&run(server, 0, "INFO persistence")).contains("aof_enabled:0"));
    assert_eq!(text(&run(server, 0, "SET k 1")), "OK");
    remove_obstacle();
    assert_eq!(text(&run(server, 0, "CONFIG SET appendonly yes")), "OK");
    ask_until(server, "INFO persistence", "aof_rewrite_in_progress:0");
    assert!(text(&run(server, 0, "INFO persistence")).contains("aof_enabled:1"));
    assert_eq!(text(&run(server, 0, "SET k 2")), "OK");
}

#[test]
fn switching_on_is_refused_where_no_directory_or_file_can_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let server = without_file(directory.path());
    let files = directory.path().join("appendonlydir");
    let before = configuration(&server);
    fs::write(&files, "a file stands in the way").unwrap();
    assert_eq!(text(&run(&server, 0, "CONFIG SET appendonly yes")), REFUSAL);
    fs::remove_file(&files).unwrap();
    let obstacle = files.join("temp-appendonly.aof.incr");
    fs::create_dir_all(obstacle.join("with something in it")).unwrap();
    assert_eq!(text(&run(&server, 0, "CONFIG SET appendonly yes")), REFUSAL);
    stays_off(&server, &before, || fs::remove_dir_all(&files).unwrap());
}

#[test]
fn switching_on_is_refused_where_the_disk_takes_no_byte() {
    let directory = tempfile::tempdir().unwrap();
    let server = without_file(directory.path());
    let before = configuration(&server);
    limit_files(&server, Some(1));
    assert_eq!(text(&run(&server, 0, "CONFIG SET appendonly yes")), REFUSAL);
    stays_off(&server, &before, || limit_files(&server, None));
    let names: Vec<_> = fs::read_dir(directory.path().join("appendonlydir")).unwrap().collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn of_several_parameters_all_change_or_none_does() {
    let directory = tempfile::tempdir().unwrap();
    let server = without_file(directory.path());
    let taken = ReservedPort::take().unwrap();
    let holder = std::net::TcpListener::bind(("127.0.0.1", taken.number())).unwrap();
    let free = ReservedPort::take().unwrap();
    let (taken, free) = (taken.number().to_string(), free.number().to_string());
    fs::write(directory.path().join("appendonlydir"), "a file stands in the way").unwrap();
    let before = configuration(&server);
    let users = format!("{:?}", run(&server, 0, "ACL LIST"));
    for line in [
        format!("CONFIG SET maxmemory 1gb requirepass x port {free} appendonly yes"),
        format!("CONFIG SET appendonly yes requirepass x port {free} dir {}", directory.path().display()),
        format!("CONFIG SET requirepass x loglevel debug port {taken}"),
        format!("CONFIG SET port {free} tls-port {taken}"),
        format!("CONFIG SET port {free} tls-port {taken} tls-cert-file /nowhere.crt"),
        format!("CONFIG SET port {free} requirepass x dir /nowhere/at/all"),
        "CONFIG SET requirepass x maxclients 4000000000".into(),
        "CONFIG SET requirepass x maxmemory none".into(),
        "CONFIG SET requirepass x logfile other.log".into(),
        "CONFIG SET requirepass x bind 192.0.2.1".into(),
        "CONFIG SET requirepass x tls-port 1 tls-cert-file /nowhere.crt".into(),
    ] {
        let reply = run(&server, 0, &line);
        assert!(reply.is_error(), "{line}: {reply:?}");
        assert_eq!(configuration(&server), before, "{line}");
        // New connections come where they came before, without a password.
        assert_eq!(text(&run(&server, 0, "PING")), "PONG", "{line}");
        assert_eq!(format!("{:?}", run(&server, 0, "ACL LIST")), users, "{line}");
        assert!(std::net::TcpStream::connect(format!("127.0.0.1:{free}")).is_err(), "{line}");
    }
    drop(holder);
}

#[test]
fn the_directory_stays_while_it_has_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let server = without_file(directory.path());
    run(&server, 0, "CONFIG SET appendonly yes");
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    let line = format!("CONFIG SET dir {}", other.path().display());
    let refusal = text(&run(&server, 0, &line));
    assert!(refusal.contains("argument 'dir'") && refusal.contains("set appendonly to no"), "{refusal}");
    run(&server, 0, "CONFIG SET appendonly no");
    assert_eq!(text(&run(&server, 0, &line)), "OK");
    assert_eq!(text(&run(&server, 0, "CONFIG SET appendonly yes")), "OK");
    ask_until(&server, "INFO persistence", "aof_rewrite_in_progress:0");
    assert!(other.path().join("appendonlydir/appendonly.aof.manifest").exists());
}

/// What `always` would acknowledge before there is a first base is in no file that is loaded.
#[test]
fn writes_are_refused_from_when_the_first_base_fails_until_one_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let server = without_file(directory.path());
    run(&server, 0, "SET k 1");
    let files = directory.path().join("appendonlydir");
    let obstacle = files.join(format!("temp-rewriteaof-bg-{}.aof", server.pid()));
    fs::create_dir_all(&obstacle).unwrap();
    assert_eq!(text(&run(&server, 0, "CONFIG SET appendonly yes")), "OK");
    ask_until(&server, "INFO persistence", "aof_last_bgrewrite_status:err");
    ask_until(&server, "SET k 2", "MISCONF Errors writing to the AOF file: ");
    assert_eq!(text(&run(&server, 0, "GET k")), "1");
    fs::remove_dir(&obstacle).unwrap();
    ask_until(&server, "SET k 3", "OK");
    ask_until(&server, "INFO persistence", "aof_last_bgrewrite_status:ok");
    drop(connect(&server));
    drop(server);
    let arguments = ["server", "--save", "", "--appendonly", "yes"];
    let server = Server::start_in(directory.path(), Path::new(OURS), &arguments).unwrap();
    assert_eq!(text(&run(&server, 0, "GET k")), "3");
}
