//! INFO's figures on the threads and their loops.

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;
use std::path::Path;

const BACKENDS: [&str; 2] = ["auto", "epoll"];

fn start(arguments: &[&str]) -> Server {
    let arguments = [&["server", "--enable-debug-command", "yes"], arguments].concat();
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap()
}

fn info(client: &mut Client, section: &str) -> String {
    let reply = client.command(&["INFO", section]).unwrap();
    String::from_utf8_lossy(reply.text().unwrap()).into_owned()
}

/// A field of INFO.
fn field(client: &mut Client, section: &str, name: &str) -> u64 {
    let text = info(client, section);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Sends requests in one piece and reads a reply to each.
fn pipeline(client: &mut Client, requests: &[&[&str]]) {
    use std::io::Write;
    let mut bytes = Vec::new();
    for request in requests {
        write!(bytes, "*{}\r\n", request.len()).unwrap();
        request.iter().for_each(|word| write!(bytes, "${}\r\n{word}\r\n", word.len()).unwrap());
    }
    client.stream().write_all(&bytes).unwrap();
    requests.iter().for_each(|_| assert!(!client.read_reply().unwrap().is_error()));
}

#[test]
fn a_request_counts_once_in_the_time_of_its_loop() {
    for backend in BACKENDS {
        let server = start(&["--io-threads", "1", "--io-backend", backend]);
        let mut client = Client::connect(server.address()).unwrap();
        let count: &[&str] = &["BITCOUNT", "long"];
        pipeline(&mut client, &[&["SETRANGE", "long", "4194304", "x"], count]);
        pipeline(&mut client, &[&["MULTI"], count, count, count, count, count, count, &["EXEC"]]);
        let commands_us = field(&mut client, "stats", "eventloop_duration_cmd_sum");
        let longest_us = field(&mut client, "debug", "eventloop_duration_max");
        // Last, since each question takes a loop.
        let loops_us = field(&mut client, "stats", "eventloop_duration_sum");
        assert!(0 < commands_us && commands_us <= loops_us, "{backend}: {commands_us} {loops_us}");
        assert!(longest_us <= loops_us, "{backend}: {longest_us} {loops_us}");
        // MULTI, EXEC and its commands; queued ones have not run.
        assert_eq!(field(&mut client, "debug", "eventloop_cmd_per_cycle_max"), 2 + 6, "{backend}");
        let loops = field(&mut client, "stats", "eventloop_cycles");
        assert!(field(&mut client, "stats", "eventloop_cycles") > loops, "{backend}");
    }
}

#[test]
fn the_debug_section_is_shown_by_its_name_only() {
    let server = start(&[]);
    let mut client = Client::connect(server.address()).unwrap();
    for section in ["default", "all", "everything"] {
        assert!(!info(&mut client, section).contains("# Debug"), "{section}");
    }
    assert!(info(&mut client, "debug").starts_with("# Debug\r\n"));
}

#[test]
fn every_thread_tells_of_its_connections() {
    let server = start(&["--io-threads", "2"]);
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(server.address()).unwrap()).collect();
    clients.iter_mut().for_each(|client| assert!(!client.command(&["PING"]).unwrap().is_error()));
    let text = info(&mut clients[0], "threads");
    let threads: Vec<&str> = text.lines().filter(|line| line.starts_with("io_thread_")).collect();
    assert_eq!(threads.len(), 2, "{text}");
    for (number, line) in threads.iter().enumerate() {
        assert!(line.starts_with(&format!("io_thread_{number}:clients=3,reads=")), "{text}");
    }
    assert!(field(&mut clients[0], "stats", "io_threaded_reads_processed") >= 3);
}

#[test]
fn keys_that_are_asked_for_together_are_counted() {
    let server = start(&["--io-threads", "1"]);
    let mut client = Client::connect(server.address()).unwrap();
    let get: &[&str] = &["GET", "key:1"];
    pipeline(&mut client, &[get; 16]);
    // Small values are in the caches anyway.
    assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_batches"), 0);
    pipeline(&mut client, &[&["DEBUG", "POPULATE", "100000"]]);
    pipeline(&mut client, &[get; 16]);
    assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_batches"), 1);
    assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_entries"), 16);
    // The keys of one request, too, if they are several.
    pipeline(&mut client, &[&["MGET", "key:1", "key:2", "key:3"]]);
    assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_batches"), 1);
    pipeline(&mut client, &[&["DEL", "key:1", "key:2", "key:3", "key:4", "no:1"]]);
    assert_eq!(field(&mut client, "stats", "io_threaded_total_prefetch_batches"), 2);
}
