//! `./x dashboard`: the page about a server in headless Chromium: every tab, on a screen and on a phone,
//! light and dark, of a server with data, of an empty one, and of one that ends. A tab passes when it shows
//! the data of the server, is no wider than its window, and the console is empty.

use crate::browser::{self, Options, Page};
use martlet_client::blocking::Client;
use martlet_testkit::server::{ReservedPort, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use xtask::run::{Outcome, built};

/// What the address names behind `#/`, and what the page must show then of the data that [`fill`] makes.
const FULL: [(&str, &[&str]); 11] = [
    ("overview", &["requests/s", "hit rate", "p99.9 ≤ ", "replication 0 B", "Throughput"]),
    // A name is found among many others, and its value is open beside it.
    ("keys?match=profile:1&key=cHJvZmlsZTox", &["1 key<", ">field<", ">Ana<", "1 field "]),
    ("commands", &[">zadd<", ">get<", "failed"]),
    ("keys", &["keys so far", ">string<", "Nothing is collected"]),
    ("keys?match=board", &["1 key<", ">zset<"]),
    // Binary names and values are shown in redis-cli's quotes.
    ("keys?match=bin*&key=Ymlu_w", &["1 key<", r#""bin\xff""#, r#""v\xfe""#]),
    ("search", &["Indexes: 1<", ">profiles<", "name TEXT", ">2<", "100 %", "Invalid numeric value"]),
    ("search?index=cHJvZmlsZXM&query=an*", &["1 document, 1 shown", ">profile:1<", ">Ana<"]),
    ("slow", &[">ZADD board 1 first<"]),
    ("clients", &["Clients: ", ">visitor<", ">martlet-metrics<"]),
    ("server", &["rdb_last_save_time", "master_replid", "io_thread_0", "dataset.bytes"]),
];
/// The same of an empty server.
const EMPTY: [(&str, &[&str]); 5] = [
    ("overview", &["requests/s", "rest "]),
    ("keys", &["0 keys<", ">No keys<"]),
    ("keys?match=nothing", &["0 keys<", ">No keys<"]),
    ("search", &["Indexes: 0<", ">No indexes<"]),
    ("slow", &[">No command was slow<"]),
];
/// Looks at the server after which the page finds it ended, and what it must show then.
const LOOKS: usize = 2;
const ENDED: &[&str] = &["cannot be reached: the server has ended", "The figures are ", "class=\"stale\""];
/// Windows: a name, the browser's arguments, and how many of the views are opened in it.
const WINDOWS: [(&str, &[&str], usize); 4] = [
    ("screen", &["--window-size=1440,900"], usize::MAX),
    ("dark phone", &["--window-size=390,844", "--force-dark-mode"], usize::MAX),
    ("dark screen", &["--window-size=1440,900", "--force-dark-mode"], 2),
    ("phone", &["--window-size=390,844"], 2),
];
/// How long a request's head may take, and its bytes.
const RELAY_MAX: Duration = Duration::from_secs(10);
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Milliseconds of the page's clock: some looks at the server.
const BUDGET: &str = "--virtual-time-budget=4000";

/// Opens every tab in every window; passes over all of it where there is no browser.
pub fn run(options: &Options) -> Outcome {
    let Some(browser) = browser::find() else {
        println!("left out: no Chromium is installed to open the page with");
        return Ok(());
    };
    let program = built(&options.ours)?;
    let scratch = tempfile::tempdir()?;
    let folder = options.keep.clone().unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&folder)?;
    let logged = ["--slowlog-log-slower-than", "0", "--enable-debug-command", "yes"];
    let unlogged = ["--slowlog-log-slower-than", "-1"];
    for (content, arguments, tabs) in [("full", &logged[..], &FULL[..]), ("empty", &unlogged[..], &EMPTY[..])]
    {
        let port = ReservedPort::take()?;
        let number = port.number().to_string();
        let arguments = [&["server", "--metrics-port", &number], arguments].concat();
        let server = Server::start(&program, &arguments)?;
        let mut client = Client::connect(server.address())?;
        if content == "full" {
            fill(&mut client)?;
        }
        for (window, window_arguments, views) in WINDOWS {
            for (at, (view, expected)) in tabs.iter().take(views).enumerate() {
                let tab = view.split('?').next().unwrap_or_default();
                let screenshot = folder.join(format!("{content}-{at}-{tab}-{window}.png"));
                let dom = browser::open(&Page {
                    browser,
                    address: &format!("http://127.0.0.1:{number}/#/{view}"),
                    profile: &folder.join("profile"),
                    screenshot: options.keep.is_some().then_some(&screenshot),
                    arguments: &[window_arguments, &[BUDGET]].concat(),
                })?;
                check(&dom, tab, expected)
                    .map_err(|why| format!("{view} of a server that is {content}, on a {window}: {why}"))?;
                println!("ok      {view} of a server that is {content}, on a {window}");
            }
        }
        if content == "full" {
            let address = relay(([127, 0, 0, 1], port.number()).into())?;
            let page = Page {
                browser,
                address: &format!("http://{address}/"),
                profile: &folder.join("profile"),
                screenshot: None,
                arguments: &[BUDGET],
            };
            // The browser reports the failed requests on its console.
            check(&browser::open_with_console(&page)?.0, "overview", ENDED)
                .map_err(|why| format!("overview of a server that has ended: {why}"))?;
            println!("ok      overview of a server that has ended");
        }
    }
    Ok(())
}

/// Serves as the page at `target` does until the page has looked at the server some times; from then on every
/// connection is closed at once, as if the server had ended.
fn relay(target: SocketAddr) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        let mut looks = 0;
        for stream in listener.incoming() {
            // A connection that fails is the page's to notice.
            let _ = stream.and_then(|stream| pass_on(stream, target, &mut looks));
        }
    });
    Ok(address)
}

fn pass_on(mut stream: TcpStream, target: SocketAddr, looks: &mut usize) -> std::io::Result<()> {
    stream.set_read_timeout(Some(RELAY_MAX))?;
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_MAX_BYTES {
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            read => head.extend_from_slice(chunk.get(..read).unwrap_or_default()),
        }
    }
    *looks += usize::from(head.starts_with(b"GET /api/live "));
    if *looks > LOOKS {
        return Ok(());
    }
    let mut server = TcpStream::connect(target)?;
    server.write_all(&head)?;
    std::io::copy(&mut server, &mut stream).map(drop)
}

fn fill(client: &mut Client) -> Outcome {
    let commands: [&[&[u8]]; 10] = [
        &[b"DEBUG", b"POPULATE", b"20000"],
        &[b"CLIENT", b"SETNAME", b"visitor"],
        &[b"GET", b"key:1"],
        &[
            b"FT.CREATE",
            b"profiles",
            b"PREFIX",
            b"1",
            b"profile:",
            b"SCHEMA",
            b"name",
            b"TEXT",
            b"n",
            b"NUMERIC",
        ],
        &[b"HSET", b"profile:1", b"name", b"Ana"],
        &[b"HSET", b"profile:2", b"name", b"<b>Bo</b>"],
        &[b"HSET", b"profile:3", b"n", b"none"],
        &[b"SET", b"bin\xff", b"v\xfe"],
        &[b"ZADD", b"board", b"1", b"first"],
        // The page's own commands shall not push these out of the log.
        &[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"-1"],
    ];
    for command in commands {
        let reply = client.command(command)?;
        if reply.is_error() {
            return Err(format!("{command:?}: {reply:?}").into());
        }
    }
    Ok(())
}

fn check(dom: &str, tab: &str, expected: &[&str]) -> Result<(), String> {
    if !dom.contains(&format!("data-shown=\"{tab}\"")) {
        return Err("the page's script did not come to its end".into());
    }
    if !dom.contains("data-overflows=\"false\"") {
        return Err("it is wider than the window".into());
    }
    // The script's own text is not shown.
    let shown = dom.split("<script>").next().unwrap_or_default();
    match expected.iter().find(|text| !shown.contains(**text)) {
        Some(text) => Err(format!("'{text}' is not shown")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named() {
        let page = "<body data-shown=\"keys\" data-overflows=\"false\">Search<script>hidden";
        assert_eq!(check(page, "keys", &["Search"]), Ok(()));
        assert!(check(page, "slow", &[]).is_err_and(|why| why.contains("to its end")));
        assert!(check(page, "keys", &["hidden"]).is_err_and(|why| why.contains("not shown")));
        let wide = page.replace("false", "true");
        assert!(check(&wide, "keys", &[]).is_err_and(|why| why.contains("wider")));
    }
}
