//! The prompt, as a person has it: `martlet cli` at a terminal.

use super::ours;
use super::terminal::Terminal;
use martlet_client::blocking::Client;
use martlet_testkit::server::Server;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

const CTRL_C: &str = "\x03";
const CTRL_R: &str = "\x12";

fn server() -> Server {
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &["server"]).unwrap()
}

/// A home, a server's port, and a size.
struct At<'a> {
    home: &'a Path,
    port: u16,
    columns: u16,
    environment: &'a [(&'a str, &'a str)],
    arguments: &'a [&'a str],
}

impl At<'_> {
    fn start(&self) -> Terminal {
        let mut command = ours();
        command.args(["-p", &self.port.to_string()]).args(self.arguments);
        for name in ["REDISCLI_AUTH", "FAKETTY", "NO_COLOR", "REDISCLI_HISTFILE", "REDISCLI_RCFILE", "LESS"] {
            command.env_remove(name);
        }
        command.envs([("TERM", "xterm-256color"), ("PAGER", "")]).env("HOME", self.home);
        command.envs(self.environment.iter().copied());
        Terminal::start(command, 24, self.columns)
    }
}

fn at(home: &Path, port: u16) -> At<'_> {
    At { home, port, columns: 100, environment: &[], arguments: &[] }
}

/// A terminal whose documentation is there: help has waited for it.
fn ready(at: At) -> Terminal {
    let prompt = format!("127.0.0.1:{}> ", at.port);
    let mut terminal = at.start();
    terminal.wait_for_last(&prompt);
    terminal.press("help ping\r");
    terminal.wait_for("group: connection");
    terminal.wait_for_last(&prompt);
    terminal
}

#[test]
fn the_prompt_says_where_one_is() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let mut terminal = at(home.path(), port).start();
    terminal.wait_for_last(&format!("127.0.0.1:{port}>"));
    terminal.press("select 3\r");
    terminal.wait_for_last(&format!("127.0.0.1:{port}[3]>"));
    terminal.press("multi\r");
    terminal.wait_for_last(&format!("127.0.0.1:{port}[3](TX)>"));
    terminal.press("discard\r");
    terminal.wait_for_last(&format!("127.0.0.1:{port}[3]>"));
    terminal.press("3 incr n\r");
    terminal.wait_for("(integer) 3");
    terminal.press("subscribe c\r");
    terminal.wait_for("Reading messages... (press Ctrl-C to quit or any key to type command)");
    // Any key, without Enter.
    terminal.press("p");
    terminal.wait_for(&format!("127.0.0.1:{port}[3](subscribed mode)> p"));
    terminal.press("ing\r");
    terminal.wait_for("1) \"pong\"");
    terminal.press(CTRL_C);
    terminal.wait_for_last(&format!("127.0.0.1:{port}[3]>"));
    terminal.press("quit\r");
    assert!(terminal.wait().success());
}

#[test]
fn hints_show_what_is_still_to_come() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let mut terminal = ready(at(home.path(), port));
    let prompt = format!("127.0.0.1:{port}> ");
    terminal.press("lpop ");
    terminal.wait_for_last(&format!("{prompt}lpop key [count]"));
    assert_eq!(terminal.color_of("key [count]"), vt100::Color::Idx(8));
    assert_eq!(terminal.color_of("lpop key"), vt100::Color::Idx(2));
    terminal.press("list ");
    terminal.wait_for_last(&format!("{prompt}lpop list [count]"));
    terminal.press("2");
    terminal.wait_for_last(&format!("{prompt}lpop list 2 [count]"));
    terminal.press(" ");
    terminal.wait_for_last(&format!("{prompt}lpop list 2"));
    terminal.press("\r");
    terminal.wait_for("(nil)");
    terminal.press(":set nohints\rlpop ");
    terminal.wait_for_last(&format!("{prompt}lpop"));
    terminal.press("\x15:set other\r");
    terminal.wait_for("unknown redis-cli preference 'other'");
    terminal.press("nosuch x");
    terminal.wait_for_last(&format!("{prompt}nosuch x"));
    assert_eq!(terminal.color_of("nosuch x"), vt100::Color::Idx(1));
}

#[test]
fn tab_completes_commands_subcommands_and_tokens() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let mut terminal = at(home.path(), port).start();
    let prompt = format!("127.0.0.1:{port}> ");
    terminal.wait_for_last(&prompt);
    // Waits for the documentation itself.
    terminal.press("config se\t");
    terminal.wait_for(&format!("{prompt}CONFIG SET"));
    terminal.press(" maxmemory-samples 7\r");
    terminal.wait_for("OK");
    terminal.press("xrange k - + co\t");
    terminal.wait_for(&format!("{prompt}xrange k - + COUNT"));
    terminal.press(" 1\r");
    terminal.wait_for("(empty array)");
    terminal.press("help @sorted\t");
    terminal.wait_for(&format!("{prompt}help @sorted-set"));
    terminal.press("\r");
    terminal.wait_for("ZUNIONSTORE destination numkeys key [key ...]");
}

#[test]
fn lines_are_remembered_found_again_and_kept() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let prompt = format!("127.0.0.1:{port}>");
    let mut terminal = at(home.path(), port).start();
    terminal.wait_for_last(&prompt);
    for line in ["set fruit apple", "auth secret", "2 auth secret", "get fruit"] {
        terminal.press(&format!("{line}\r"));
    }
    terminal.wait_for("\"apple\"");
    terminal.press("\x1b[A\x1b[A");
    terminal.wait_until("the line before the passwords", |screen| {
        let text = screen.contents();
        text.lines().last().is_some_and(|last| last.starts_with(&format!("{prompt} set fruit apple")))
    });
    terminal.press("\x15exit\r");
    assert!(terminal.wait().success());
    let kept = std::fs::read_to_string(home.path().join(".rediscli_history")).unwrap();
    assert_eq!(kept, "set fruit apple\nget fruit\nexit\n");

    let mut terminal = at(home.path(), port).start();
    terminal.wait_for_last(&prompt);
    terminal.press(&format!("{CTRL_R}appl"));
    terminal.wait_for("set fruit apple");
    terminal.press("\r");
    // A signal between two prompts ends nothing.
    terminal.wait_for(&format!("OK\n{prompt}"));
    terminal.press(CTRL_C);
    assert!(terminal.wait().success());
}

#[test]
fn open_quotes_go_on_and_pasted_lines_are_commands() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let mut terminal = at(home.path(), server.address().port()).start();
    terminal.wait_for("> ");
    terminal.press("set k \"one\r");
    terminal.press("two\"\r");
    terminal.wait_for("OK");
    terminal.press("get k\r");
    terminal.wait_for("\"one\\ntwo\"");
    terminal.press("get 'open\r\r");
    terminal.wait_for("Invalid argument(s)");
    terminal.press("\x1b[200~append p 1\nappend p 23\nstrlen p\x1b[201~");
    terminal.wait_for("strlen p");
    assert!(!terminal.text().contains("(integer)"), "a paste waits for Enter");
    terminal.press("\r");
    terminal.wait_for("(integer) 1\n(integer) 3\n(integer) 3");
}

#[test]
fn ctrl_c_leaves_a_command_that_blocks() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let mut terminal = at(home.path(), port).start();
    let prompt = format!("127.0.0.1:{port}>");
    terminal.wait_for_last(&prompt);
    terminal.press("blpop nothing 0\r");
    wait_until_blocked(&mut Client::connect(server.address()).unwrap());
    terminal.press(CTRL_C);
    terminal.wait_for_last(&prompt);
    terminal.press("echo again\r");
    terminal.wait_for("\"again\"");
}

#[test]
fn what_is_typed_ahead_is_not_lost() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let mut terminal = at(home.path(), server.address().port()).start();
    // Before there is a prompt.
    terminal.press("set n 1\rincr n\rin");
    terminal.press("cr n\rget n\r");
    terminal.wait_for("\"3\"");
    // While a command waits.
    terminal.press("blpop list 0\r");
    let mut other = Client::connect(server.address()).unwrap();
    wait_until_blocked(&mut other);
    terminal.press("echo typed\recho ahe");
    other.command(&["LPUSH", "list", "element"]).unwrap();
    terminal.wait_for("\"typed\"");
    terminal.press("ad\r");
    terminal.wait_for("\"ahead\"");
}

/// Waits until the only BLPOP of a server blocks.
fn wait_until_blocked(other: &mut Client) {
    loop {
        let list = other.command(&["CLIENT", "LIST"]).unwrap();
        let list = String::from_utf8_lossy(list.text().unwrap()).into_owned();
        if list.lines().any(|client| client.contains("cmd=blpop") && client.contains("flags=b")) {
            return;
        }
        std::thread::yield_now();
    }
}

/// Waits until connections are refused: the kernel may close the sockets of a killed server a little later.
fn wait_until_refused(address: SocketAddr) {
    while !TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_is_gone_and_comes_again() {
    let (directory, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = Path::new(env!("CARGO_BIN_EXE_martlet"));
    let mut server = Server::start_in(directory.path(), program, &["server"]).unwrap();
    let port = server.address().port();
    let mut terminal = at(home.path(), port).start();
    terminal.wait_for_last(&format!("127.0.0.1:{port}>"));
    server.kill();
    wait_until_refused(server.address());
    terminal.press("ping\r");
    terminal.wait_for(&format!("Could not connect to Redis at 127.0.0.1:{port}: Connection refused"));
    terminal.wait_for_last("not connected>");
    let mut server = server.restart_in(directory.path(), program, &["server"]).unwrap();
    terminal.press("ping\r");
    terminal.wait_for("PONG");
    terminal.wait_for_last(&format!("127.0.0.1:{port}>"));
    // A server that was restarted since goes unnoticed.
    server.kill();
    wait_until_refused(server.address());
    let _server = server.restart_in(directory.path(), program, &["server"]).unwrap();
    terminal.press("echo back\r");
    terminal.wait_for("\"back\"");
}

#[test]
fn narrow_without_colors_and_with_preferences() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let narrow = At { columns: 20, environment: &[("NO_COLOR", "1")], ..at(home.path(), port) };
    let mut terminal = ready(narrow);
    terminal.press("\x0c");
    terminal.wait_until("an empty screen", |screen| screen.contents().lines().count() == 1);
    terminal.press("set k");
    terminal.wait_for("set");
    terminal.press(" 123456789\r");
    terminal.wait_for("OK");
    assert_eq!(terminal.color_of("OK"), vt100::Color::Default);
    assert_eq!(terminal.color_of("set"), vt100::Color::Default);
    drop(terminal);

    std::fs::write(home.path().join(".redisclirc"), ":set nohints\n:set nonsense\n").unwrap();
    let mut terminal = at(home.path(), port).start();
    terminal.wait_for(".redisclirc: unknown redis-cli preference 'nonsense'");
    terminal.press("help ping\r");
    terminal.wait_for("group: connection");
    terminal.press("lpop ");
    terminal.wait_for_last(&format!("127.0.0.1:{port}> lpop"));

    let dumb = At { environment: &[("TERM", "dumb")], ..at(home.path(), port) };
    let mut terminal = dumb.start();
    terminal.wait_for("> ");
    terminal.press("ping\r");
    terminal.wait_for("PONG");
}

/// Fills a list with the numbers up to 30, which is more than a screen has rows.
fn fill(address: SocketAddr) {
    let mut client = Client::connect(address).unwrap();
    for number in 1..=30 {
        client.command(&["RPUSH", "l", &number.to_string()]).unwrap();
    }
}

#[test]
fn what_is_longer_than_the_screen_goes_to_a_pager() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let prompt = format!("127.0.0.1:{port}>");
    fill(server.address());
    let environment = &[("PAGER", "sed s/^/paged:/")];
    let mut terminal = At { environment, ..at(home.path(), port) }.start();
    terminal.wait_for_last(&prompt);
    terminal.press("lrange l 0 -1\r");
    terminal.wait_for(&format!("paged:30) \"30\"\n{prompt}"));
    terminal.press("\x0clrange l 0 2\r");
    terminal.wait_for(&format!("3) \"3\"\n{prompt}"));
    assert!(!terminal.text().contains("paged:"), "a short reply in a pager:\n{}", terminal.text());
    terminal.press("help @string\r");
    terminal.wait_for("paged:  since:");
    terminal.wait_for_last(&prompt);
    terminal.press(":set nopager\rlrange l 0 -1\r");
    terminal.wait_for(&format!("\n30) \"30\"\n{prompt}"));
}

/// A command's time is the server's: that of the pager's reader is no part of it.
#[test]
fn reading_in_a_pager_takes_no_time_of_the_command() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let prompt = format!("127.0.0.1:{port}>");
    fill(server.address());
    let mut terminal = At { environment: &[("PAGER", "sleep 0.7; cat")], ..at(home.path(), port) }.start();
    terminal.wait_for_last(&prompt);
    terminal.press("lrange l 0 -1\r");
    terminal.wait_for(&format!("30) \"30\"\n{prompt}"));
    terminal.press("blpop nothing 0.6\r");
    terminal.wait_for("(nil)\n(0.6");
}

#[test]
fn a_pager_that_ends_early_or_is_not_there() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let prompt = format!("127.0.0.1:{port}>");
    fill(server.address());
    let mut terminal = At { environment: &[("PAGER", "head -c 10")], ..at(home.path(), port) }.start();
    terminal.wait_for_last(&prompt);
    // More than a pipe holds.
    terminal.press("setrange long 300000 x\rget long\r");
    terminal.wait_for("(integer) 300001");
    terminal.wait_for_last(&prompt);
    terminal.press("echo done\r");
    terminal.wait_for("\"done\"");
    let mut terminal = At { environment: &[("PAGER", "no-such-pager")], ..at(home.path(), port) }.start();
    terminal.wait_for_last(&prompt);
    terminal.press("lrange l 0 -1\r");
    terminal.wait_for(&format!("30) \"30\"\n{prompt}"));
}

#[test]
fn tables_and_notes_are_for_people() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let port = server.address().port();
    let mut terminal = at(home.path(), port).start();
    terminal.press("xgroup create s readers $ mkstream\r");
    terminal.wait_for("OK");
    terminal.press("xinfo groups s\r");
    terminal.wait_for("1)  1) \"name\"");
    terminal.press("\x0c:set table\rxinfo groups s\r");
    terminal.wait_for("name    | consumers | pending | last-delivered-id | entries-read | lag");
    terminal.wait_for("readers |         0 |       0 | 0-0               | (nil)        |   0");
    terminal.wait_for("(1 row)");
    terminal.press("\x0c:set notable\rxinfo groups s\r");
    terminal.wait_for("1) 1# \"name\" => \"readers\"");
    terminal.press(":set human\rsetrange long 4095 x\rstrlen long\r");
    terminal.wait_for("(integer) 4096 (4.00K)");
    terminal.press("hset user age 79000\rhgetall user\r");
    terminal.wait_for("1# \"age\" => \"79000\"\n");
    terminal.press(":set nohuman\rstrlen long\r");
    terminal.wait_for("(integer) 4096\n");
}

#[test]
fn a_value_is_watched() {
    let (server, home) = (server(), tempfile::tempdir().unwrap());
    let mut other = Client::connect(server.address()).unwrap();
    other.command(&["SET", "visits", "7"]).unwrap();
    let arguments = &["--watch", "visits", "-i", "0.02"];
    let mut terminal = At { arguments, ..at(home.path(), server.address().port()) }.start();
    terminal.wait_for("visits: 7  min 7  max 7");
    other.command(&["INCRBY", "visits", "35"]).unwrap();
    terminal.wait_for("visits: 42  min 7  max 42");
    terminal.press(CTRL_C);
    assert!(terminal.wait().success());
    // The plot is gone, and the summary stays.
    terminal.wait_until("the summary", |screen| {
        let text = screen.contents();
        text.trim_end().lines().last().is_some_and(|last| last.starts_with("visits: 42  min 7  max 42"))
    });
}
