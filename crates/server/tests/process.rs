//! Start-up of a whole process: background, pid file, title, log, signals, supervisor.
//!
//! The program tests itself: called with `MARTLET_TEST_PIPE` it is a server without clients, which reports
//! each of its steps as a line on that pipe; else it starts such servers and reads their lines. It has no
//! test harness, since going to the background takes a process with one thread.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use martlet_server::config::{AnySurroundings, REDIS_VERSION};
use martlet_server::startup::{Serving, Start, prepare};
use rustix::process::{Pid, Signal, kill_process};

fn main() {
    if let Some(pipe) = std::env::var_os("MARTLET_TEST_PIPE") {
        std::process::exit(serve(&pipe));
    }
    type Test = fn(&Path);
    let tests: [(&str, Test); 5] = [
        ("serves in the foreground until SIGTERM", serves_in_the_foreground),
        ("goes to the background", goes_to_the_background),
        ("shows its title", shows_its_title),
        ("tells systemd", tells_systemd),
        ("refuses a bad configuration", refuses_a_bad_configuration),
    ];
    for (name, test) in tests {
        let directory = tempfile::tempdir().unwrap();
        test(&directory.path().canonicalize().unwrap());
        println!("test {name} ... ok");
    }
}

/// A server without clients.
fn serve(pipe: &OsString) -> i32 {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let prepared = match prepare("martlet", &arguments, &AnySurroundings) {
        Start::Exit(status) => return status,
        Start::Run(prepared) => prepared,
    };
    let (sender, signals) = channel();
    prepared.on_shutdown_signal(move |signal| sender.send(signal).unwrap()).unwrap();
    prepared.ready(&Serving { addresses: vec!["*:0".into()], threads: 1, ..Serving::default() });
    let mut pipe = File::options().append(true).open(pipe).unwrap();
    writeln!(pipe, "{}", std::process::id()).unwrap();
    writeln!(pipe, "{:?}", signals.recv().unwrap()).unwrap();
    prepared.finish();
    writeln!(pipe, "done").unwrap();
    0
}

/// A server under test.
struct Server {
    child: std::process::Child,
    lines: std::io::Lines<BufReader<File>>,
    /// Its process id, which is not the child's when it went to the background.
    pid: Pid,
}

impl Server {
    /// Starts a server in `directory` and waits until it is ready.
    fn start(directory: &Path, arguments: &[&str], environment: &[(&str, &Path)]) -> Self {
        let pipe = directory.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments).current_dir(directory).env("MARTLET_TEST_PIPE", &pipe);
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let child = command.spawn().unwrap();
        // Opened for writing too, so that reading waits for the server whenever it opens its end.
        let pipe = File::options().read(true).write(true).open(&pipe).unwrap();
        let mut lines = BufReader::new(pipe).lines();
        let pid: i32 = lines.next().unwrap().unwrap().parse().unwrap();
        Self { child, lines, pid: Pid::from_raw(pid).unwrap() }
    }

    fn next(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }
}

fn serves_in_the_foreground(directory: &Path) {
    let mut server = Server::start(directory, &["--pidfile", "m.pid", "--logfile", "m.log"], &[]);
    assert_eq!(server.pid.as_raw_nonzero().get(), server.child.id() as i32);
    let pid = std::fs::read_to_string(directory.join("m.pid")).unwrap();
    assert_eq!(pid, format!("{}\n", server.child.id()));
    server.signal(Signal::HUP);
    server.signal(Signal::TERM);
    assert_eq!((server.next(), server.next()), ("Terminate".into(), "done".into()));
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(!directory.join("m.pid").exists());
    let log = std::fs::read_to_string(directory.join("m.log")).unwrap();
    let prefix = format!("{}:M ", server.child.id());
    assert!(log.lines().all(|line| line.starts_with(&prefix)), "{log}");
    for text in ["* Listening on *:0", "* Ready to accept connections tcp"] {
        assert!(log.contains(text), "{text} in {log}");
    }
}

fn goes_to_the_background(directory: &Path) {
    let arguments = ["--daemonize", "yes", "--pidfile", "m.pid", "--logfile", "m.log", "--dir", "data"];
    std::fs::create_dir(directory.join("data")).unwrap();
    let mut server = Server::start(directory, &arguments, &[]);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let pid = server.pid.as_raw_nonzero().get();
    assert_ne!(pid, server.child.id() as i32);
    let proc = Path::new("/proc").join(pid.to_string());
    assert_eq!(std::fs::read_to_string(directory.join("data/m.pid")).unwrap(), format!("{pid}\n"));
    assert_eq!(std::fs::read_link(proc.join("fd/1")).unwrap(), Path::new("/dev/null"));
    assert_eq!(std::fs::read_link(proc.join("cwd")).unwrap(), directory.join("data"));
    // In a session that it does not lead.
    let stat = std::fs::read_to_string(proc.join("stat")).unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_string();
    assert_ne!(session, pid.to_string());
    server.signal(Signal::INT);
    assert_eq!((server.next(), server.next()), ("Interrupt".into(), "done".into()));
    assert!(directory.join("data/m.log").exists() && !directory.join("data/m.pid").exists());
}

fn shows_its_title(directory: &Path) {
    std::fs::write(directory.join("m.conf"), "port 7350\n").unwrap();
    let template =
        "TEST {title} {listen-addr} {config-file} and more than the arguments had room for, to be sure of it";
    let file = directory.join("m.conf");
    let arguments = [file.to_str().unwrap(), "--proc-title-template", template];
    let mut server = Server::start(directory, &arguments, &[("MARTLET_TEST_VARIABLE", Path::new("room"))]);
    let shown = std::fs::read(format!("/proc/{}/cmdline", server.child.id())).unwrap();
    let shown = String::from_utf8_lossy(&shown);
    let expected = template.replace("{title}", "martlet").replace("{listen-addr}", "*:7350");
    assert_eq!(shown.trim_end_matches('\0'), expected.replace("{config-file}", file.to_str().unwrap()));
    server.signal(Signal::TERM);
    assert_eq!((server.next(), server.next()), ("Terminate".into(), "done".into()));
    server.child.wait().unwrap();
}

fn tells_systemd(directory: &Path) {
    let path = directory.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let arguments = ["--supervised", "auto", "--daemonize", "yes"];
    let mut server = Server::start(directory, &arguments, &[("NOTIFY_SOCKET", &path)]);
    assert_eq!(server.pid.as_raw_nonzero().get(), server.child.id() as i32);
    let mut buffer = [0; 100];
    let mut heard = || {
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(heard(), "STATUS=Ready to accept connections\nREADY=1\n");
    server.signal(Signal::TERM);
    assert_eq!(
        (heard(), server.next(), server.next()),
        ("STOPPING=1\n".into(), "Terminate".into(), "done".into())
    );
    server.child.wait().unwrap();
}

fn refuses_a_bad_configuration(directory: &Path) {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments).current_dir(directory).env("MARTLET_TEST_PIPE", "none");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    std::fs::write(directory.join("bad.conf"), "port 1\nnonsense\n").unwrap();
    let file = directory.join("bad.conf").display().to_string();
    let error = format!(
        "\n*** FATAL CONFIG FILE ERROR (Redis {REDIS_VERSION}) ***\nReading the configuration file, at line 2 ({file})\n\
         >>> 'nonsense'\nBad directive or wrong number of arguments\n"
    );
    assert_eq!(run(&["bad.conf"]), (Some(1), String::new(), error.clone()));
    assert_eq!(run(&["--check-config", "bad.conf"]), (Some(1), String::new(), error));
    let (status, output, _) = run(&["none.conf"]);
    let missing = format!(
        "# Fatal error, can't open config file '{}/none.conf': No such file or directory\n",
        directory.display()
    );
    assert!(status == Some(1) && output.ends_with(&missing), "{output}");
    let (status, output, _) = run(&["--check-config", "--port", "1", "--socket-mark-id", "7"]);
    let warning =
        "WARNING: set, but without effect: socket-mark-id (this version does not mark its sockets)\n";
    assert_eq!((status, output), (Some(0), format!("The configuration is valid.\n{warning}")));
    let (status, output, _) = run(&["--version"]);
    assert!(
        status == Some(0)
            && output.starts_with(&format!("Redis server v={REDIS_VERSION} sha=00000000:0 malloc=")),
        "{output}"
    );
}
