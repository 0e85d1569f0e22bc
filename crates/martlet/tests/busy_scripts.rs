//! Other clients beside a script that runs longer than `busy-reply-threshold`: those of its own thread, and
//! those whose command waits for the script's keys.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const LOOP: &str = "while true do end";
const WRITE_AND_LOOP: &str = "redis.call('SET', KEYS[1], 'v') while true do end";
/// Has to run alone.
const LOOP_ALONE: &str = "redis.call('DBSIZE') while true do end";
const CONFIGURATIONS: [[&str; 4]; 4] = [
    ["--io-backend", "uring", "--io-threads", "1"],
    ["--io-backend", "epoll", "--io-threads", "1"],
    ["--io-backend", "uring", "--io-threads", "2"],
    ["--io-backend", "epoll", "--io-threads", "2"],
];

fn start(configuration: &[&str], threshold: &str) -> Server {
    let mut arguments = vec!["server", "--save", "", "--busy-reply-threshold", threshold];
    arguments.extend(configuration);
    Server::start(Path::new(OURS), &arguments).unwrap()
}

/// A client that fails rather than wait for ever.
fn connect(server: &Server) -> Client {
    let client = Client::connect(server.address()).unwrap();
    client.stream().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client
}

fn is_error(reply: &Reply, code: &str) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with(code.as_bytes()))
}

#[track_caller]
fn assert_error(reply: &Reply, code: &str) {
    assert!(is_error(reply, code), "{reply:?} is not {code}");
}

fn run(client: &mut Client, words: &[&str]) -> Reply {
    client.command(words).unwrap()
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned()
}

/// Returns once the client has learnt that a script is busy.
fn await_busy(client: &mut Client) {
    while !is_error(&run(client, &["GET", "other"]), "BUSY ") {}
}

fn kill(client: &mut Client) {
    assert_eq!(text(&run(client, &["SCRIPT", "KILL"])), "OK");
}

const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";

#[test]
fn clients_of_its_own_thread_are_served_until_it_is_killed() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration, "20");
        let mut clients: Vec<Client> = (0..4).map(|_| connect(&server)).collect();
        let mut looping = connect(&server);
        assert_eq!(text(&run(&mut looping, &["SET", "other", "v"])), "OK");
        // Requests behind the script wait for its end, in the same piece or later.
        let pipeline = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{LOOP}\r\n$1\r\n0\r\nPING one\r\n", LOOP.len());
        looping.send_raw(pipeline.as_bytes()).unwrap();
        for client in &mut clients {
            await_busy(client);
        }
        looping.send(&["ECHO", "two"]).unwrap();
        let mut late = connect(&server);
        await_busy(&mut late);
        assert_error(&run(&mut late, &["FUNCTION", "KILL"]), "BUSY ");
        assert_error(&run(&mut late, &["SHUTDOWN"]), "BUSY ");
        assert_error(&run(&mut late, &["EVAL", LOOP, "0"]), "BUSY ");
        assert_eq!(text(&run(&mut late, &["MULTI"])), "OK");
        assert_error(&run(&mut late, &["SET", "x", "y"]), "BUSY ");
        assert_error(&run(&mut late, &["EXEC"]), "EXECABORT ");
        assert_eq!(text(&run(&mut late, &["RESET"])), "RESET");
        kill(&mut late);
        assert_error(&looping.read_reply().unwrap(), KILLED);
        assert_eq!([(); 2].map(|()| text(&looping.read_reply().unwrap())), ["one", "two"]);
        assert_error(&run(&mut late, &["SCRIPT", "KILL"]), "NOTBUSY ");
        for client in &mut clients {
            assert_eq!(text(&run(client, &["GET", "other"])), "v");
        }
        assert!(is_error(&run(&mut late, &["GET"]), "ERR wrong number"));
    }
}

#[test]
fn a_function_is_named_before_it_is_busy_and_no_longer_than_it_runs() {
    for configuration in &CONFIGURATIONS[2..] {
        let server = start(configuration, "600000");
        let (mut looping, mut other) = (connect(&server), connect(&server));
        let library = "#!lua name=lib\nredis.register_function('spin', function() while true do end end)";
        run(&mut looping, &["FUNCTION", "LOAD", library]);
        // The other I/O thread's client: the looping one's is taken until the function is busy.
        looping.send(&["FCALL", "spin", "1", "key", "arg"]).unwrap();
        let named = |client: &mut Client| {
            let Reply::Array(stats) = run(client, &["FUNCTION", "STATS"]) else { panic!("no array") };
            assert_eq!(text(&stats[0]), "running_script");
            match &stats[1] {
                Reply::Array(fields) => Some(fields.clone()),
                _ => None,
            }
        };
        let fields = (0..1_000_000).find_map(|_| named(&mut other)).unwrap();
        assert_eq!([0, 1, 2, 4].map(|at| text(&fields[at])), ["name", "spin", "command", "duration_ms"]);
        let Reply::Array(words) = &fields[3] else { panic!("no array") };
        assert_eq!(words.iter().map(text).collect::<Vec<_>>(), ["FCALL", "spin", "1", "key", "arg"]);
        assert_eq!(text(&run(&mut other, &["FUNCTION", "KILL"])), "OK");
        assert_error(&looping.read_reply().unwrap(), KILLED);
        assert_eq!(named(&mut other), None);
    }
}

#[test]
fn functions_and_scripts_of_transactions_are_busy_as_well() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration, "20");
        let (mut looping, mut other) = (connect(&server), connect(&server));
        let library = "#!lua name=lib\nredis.register_function('spin', function() while true do end end)";
        run(&mut looping, &["FUNCTION", "LOAD", library]);
        looping.send(&["FCALL", "spin", "0"]).unwrap();
        await_busy(&mut other);
        assert_error(&run(&mut other, &["SCRIPT", "KILL"]), "BUSY ");
        let Reply::Array(stats) = run(&mut other, &["FUNCTION", "STATS"]) else { panic!("no array") };
        assert!(
            matches!(&stats[..2], [name, Reply::Array(_)] if text(name) == "running_script"),
            "{stats:?}"
        );
        assert_eq!(text(&run(&mut other, &["FUNCTION", "KILL"])), "OK");
        assert_error(&looping.read_reply().unwrap(), KILLED);

        run(&mut looping, &["MULTI"]);
        run(&mut looping, &["SET", "before", "1"]);
        run(&mut looping, &["EVAL", LOOP, "0"]);
        run(&mut looping, &["SET", "behind", "1"]);
        looping.send(&["EXEC"]).unwrap();
        await_busy(&mut other);
        kill(&mut other);
        let Reply::Array(replies) = looping.read_reply().unwrap() else { panic!("no array") };
        assert_error(&replies[1], KILLED);
        assert_eq!(text(&run(&mut other, &["GET", "before"])), "1");
        assert_eq!(text(&run(&mut other, &["GET", "behind"])), "1");
    }
}

#[test]
fn who_waits_for_what_it_has_is_answered() {
    for configuration in CONFIGURATIONS {
        // Long enough that some of the requests are there before.
        let server = start(&configuration, "200");
        let mut looping = connect(&server);
        for (script, keys) in [(WRITE_AND_LOOP, "1"), (LOOP_ALONE, "1")] {
            let mut waiting: Vec<Client> = (0..8).map(|_| connect(&server)).collect();
            looping.send(&["EVAL", script, keys, "k"]).unwrap();
            let requests: [&[&str]; 8] = [
                &["SET", "k", "x"],
                &["MSET", "k", "x", "l", "y"],
                &["FLUSHALL"],
                &["DBSIZE"],
                &["INFO"],
                &["EVAL", "return redis.call('GET', 'k')", "0"],
                &["WATCH", "k"],
                &["SCAN", "0"],
            ];
            for (client, request) in waiting.iter_mut().zip(requests) {
                client.send(request).unwrap();
            }
            for client in &mut waiting {
                // Whether the script had begun is unknown.
                let _answered = client.read_reply().unwrap();
            }
            await_busy(&mut waiting[0]);
            if script == LOOP_ALONE {
                kill(&mut waiting[1]);
                assert_error(&looping.read_reply().unwrap(), KILLED);
                assert!(run(&mut waiting[2], &["DBSIZE"]).integer().is_some());
            } else {
                assert_error(&run(&mut waiting[1], &["SCRIPT", "KILL"]), "UNKILLABLE ");
                // Clients that watch or wait leave while their keys' shards are locked.
                waiting.truncate(2);
                waiting[1].send(&["SHUTDOWN", "NOSAVE"]).unwrap();
                assert!(server.wait().unwrap());
                break;
            }
        }
    }
}

#[test]
fn a_script_that_runs_alone_is_killed_from_any_thread() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration, "50");
        let mut looping = connect(&server);
        for turn in 0..4 {
            looping.send(&["EVAL", LOOP_ALONE, "0"]).unwrap();
            let mut clients: Vec<Client> = (0..4).map(|_| connect(&server)).collect();
            clients[0].send(&["FLUSHALL"]).unwrap();
            let _refused_or_done = clients[0].read_reply().unwrap();
            clients.iter_mut().for_each(await_busy);
            kill(&mut clients[turn]);
            assert_error(&looping.read_reply().unwrap(), KILLED);
            for client in &mut clients {
                assert!(run(client, &["DBSIZE"]).integer().is_some());
            }
        }
    }
}

#[test]
fn those_who_block_or_watch_may_go_while_it_runs() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration, "20");
        let (mut looping, mut other) = (connect(&server), connect(&server));
        let mut blocked = connect(&server);
        let mut watching = connect(&server);
        run(&mut watching, &["WATCH", "k"]);
        blocked.send(&["BLPOP", "k", "0"]).unwrap();
        while !text(&run(&mut other, &["INFO", "clients"])).contains("blocked_clients:1") {}
        looping.send(&["EVAL", "redis.call('GET', 'x') while true do end", "1", "k"]).unwrap();
        await_busy(&mut other);
        drop(blocked);
        assert_eq!(text(&run(&mut watching, &["UNWATCH"])), "OK");
        await_busy(&mut connect(&server));
        kill(&mut other);
        assert_error(&looping.read_reply().unwrap(), KILLED);
        // Neither is there any more, once the script's end has been noticed everywhere.
        let is_over = |info: String| {
            ["blocked_clients:0", "watching_clients:0", "total_watched_keys:0", "total_blocking_keys:0"]
                .iter()
                .all(|line| info.contains(line))
        };
        while !is_over(text(&run(&mut other, &["INFO", "clients"]))) {}
        run(&mut looping, &["RPUSH", "k", "element"]);
        assert_eq!(run(&mut looping, &["LLEN", "k"]).integer(), Some(1));
        assert_eq!(text(&run(&mut watching, &["MULTI"])), "OK");
        run(&mut watching, &["SET", "y", "1"]);
        assert!(matches!(run(&mut watching, &["EXEC"]), Reply::Array(_)));
    }
}

#[test]
fn its_client_may_send_much_or_go() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration, "20");
        let mut other = connect(&server);
        let mut looping = connect(&server);
        looping.send(&["EVAL", LOOP, "0"]).unwrap();
        await_busy(&mut other);
        let many = 40_000;
        let stream = looping.stream().try_clone().unwrap();
        std::thread::scope(|scope| {
            // More than is received while the script runs.
            scope.spawn(move || std::io::Write::write_all(&mut &stream, &b"PING 12345678\r\n".repeat(many)));
            for _ in 0..100 {
                await_busy(&mut other);
            }
            kill(&mut other);
            assert_error(&looping.read_reply().unwrap(), KILLED);
            (0..many).for_each(|_| assert_eq!(text(&looping.read_reply().unwrap()), "12345678"));
        });
        looping.send(&["EVAL", LOOP, "0"]).unwrap();
        await_busy(&mut other);
        drop(looping);
        await_busy(&mut other);
        kill(&mut other);
        while !text(&run(&mut other, &["INFO", "clients"])).contains("connected_clients:1\r\n") {}
    }
}

#[test]
fn shutdown_nosave_ends_it_on_its_own_thread() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration, "20");
        let (mut looping, mut other) = (connect(&server), connect(&server));
        looping.send(&["EVAL", WRITE_AND_LOOP, "1", "k"]).unwrap();
        await_busy(&mut other);
        assert_error(&run(&mut other, &["SCRIPT", "KILL"]), "UNKILLABLE ");
        other.send(&["SHUTDOWN", "NOSAVE"]).unwrap();
        assert!(other.read_reply().is_err(), "the connection ends");
        assert!(std::net::TcpStream::connect(server.address()).is_err(), "nobody is let in any more");
        assert!(server.wait().unwrap());
    }
}

#[test]
fn with_a_threshold_of_zero_nothing_is_busy() {
    let server = start(&["--io-threads", "2"], "0");
    let mut looping = connect(&server);
    run(&mut looping, &["SET", "other", "v"]);
    // One of them belongs to the other thread. The thread that runs the script accepts no connection in that
    // time.
    let mut others = [(); 2].map(|()| connect(&server));
    others.iter_mut().for_each(|other| assert_eq!(text(&run(other, &["PING"])), "PONG"));
    looping.send(&["EVAL", LOOP, "0"]).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut other in others {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(text(&run(&mut other, &["GET", "other"])), "v");
                    run(&mut other, &["SCRIPT", "KILL"]);
                }
            });
        }
        let killed = looping.read_reply();
        is_over.store(true, Ordering::Relaxed);
        assert_error(&killed.unwrap(), KILLED);
    });
}

#[test]
fn replies_that_wait_for_the_disk_leave_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    for backend in ["uring", "epoll"] {
        let directory = directory.path().join(backend);
        std::fs::create_dir(&directory).unwrap();
        let arguments = [
            "server",
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--io-threads",
            "1",
            "--busy-reply-threshold",
            "1",
            "--io-backend",
            backend,
        ];
        let server = Server::start_in(&directory, Path::new(OURS), &arguments).unwrap();
        let (mut looping, mut other) = (connect(&server), connect(&server));
        let pipeline = format!(
            "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*3\r\n$4\r\nEVAL\r\n${}\r\n{LOOP}\r\n$1\r\n0\r\nSET a 2\r\n",
            LOOP.len()
        );
        for _ in 0..20 {
            looping.send_raw(pipeline.as_bytes()).unwrap();
            await_busy(&mut other);
            kill(&mut other);
            assert_eq!(text(&looping.read_reply().unwrap()), "OK");
            assert_error(&looping.read_reply().unwrap(), KILLED);
            assert_eq!(text(&looping.read_reply().unwrap()), "OK");
            assert_eq!(text(&run(&mut other, &["GET", "a"])), "2");
        }
    }
}

/// TIME stands still for a script until it is busy, and advances then.
#[test]
fn a_script_that_waits_for_a_moment_ends() {
    const WAIT: &str = "local function us() local t = redis.call('TIME'); return t[1] * 1000000 + t[2] end
        local start = us()
        while us() < start + 30000 do end
        return 'waited'";
    for configuration in CONFIGURATIONS {
        let server = start(&configuration, "20");
        let (mut client, mut other) = (connect(&server), connect(&server));
        assert_eq!(text(&run(&mut client, &["EVAL", WAIT, "0"])), "waited", "{configuration:?}");
        // Alone, with a key that expires in that time, and inside a transaction.
        run(&mut client, &["SET", "k", "v", "PX", "1"]);
        let alone = format!("redis.call('DBSIZE') {WAIT}");
        run(&mut client, &["MULTI"]);
        run(&mut client, &["EVAL", &alone, "0"]);
        run(&mut client, &["EXISTS", "k"]);
        let Reply::Array(replies) = run(&mut client, &["EXEC"]) else { panic!("no array") };
        assert_eq!(text(&replies[0]), "waited");
        assert_eq!(replies[1], Reply::Int(0));
        assert_eq!(text(&run(&mut other, &["PING"])), "PONG");
    }
}

#[test]
fn module_says_that_a_file_cannot_be_loaded_once_it_is_allowed() {
    let arguments = ["server", "--save", "", "--enable-module-command", "local"];
    let server = Server::start(Path::new(OURS), &arguments).unwrap();
    let mut client = connect(&server);
    for words in [&["MODULE", "LOAD", "/none.so"][..], &["MODULE", "LOADEX", "/none.so", "CONFIG", "a", "b"]]
    {
        let error = "ERR Error loading the extension. Please check the server logs.";
        assert_eq!(run(&mut client, words), Reply::Error(error.into()));
    }
    let error = "ERR Error unloading module: no such module with that name";
    assert_eq!(run(&mut client, &["MODULE", "UNLOAD", "none"]), Reply::Error(error.into()));
}
