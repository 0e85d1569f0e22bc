//! `./x dashboard`: the page about a server in headless Chromium: every tab, on a screen and on a phone,
//! light and dark. A tab passes when it shows the server's data, is no wider than its window, and the console
//! is empty.

use crate::browser::{self, Options, Page};
use martlet_client::blocking::Client;
use martlet_testkit::server::{ReservedPort, Server};
use xtask::run::{Outcome, built};

/// Tabs, and what each must show of the data that [`fill`] makes.
const TABS: [(&str, &[&str]); 6] = [
    ("overview", &["requests/s", "hit rate", "p99.9", "replication 0 B"]),
    ("commands", &[">zadd<", ">get<", "failed"]),
    ("keys", &["keys so far", ">string<", "Nothing is collected"]),
    ("slow", &[">ZADD board 1 first<"]),
    ("clients", &["Clients: ", ">visitor<", ">martlet-metrics<"]),
    ("server", &["rdb_last_save_time", "master_replid", "io_thread_0", "dataset.bytes"]),
];
/// Windows: a name, and the browser's arguments.
const WINDOWS: [(&str, &[&str]); 2] =
    [("screen", &["--window-size=1280,900"]), ("phone", &["--window-size=390,844", "--force-dark-mode"])];
/// Milliseconds of the page's clock: some looks at the server.
const BUDGET: &str = "--virtual-time-budget=4000";

/// Opens every tab in every window; passes over all of it where there is no browser.
pub fn run(options: &Options) -> Outcome {
    let Some(browser) = browser::find() else {
        println!("left out: no Chromium is installed to open the page with");
        return Ok(());
    };
    let program = built(&options.ours)?;
    let port = ReservedPort::take()?;
    let number = port.number().to_string();
    let arguments = ["server", "--metrics-port", &number, "--slowlog-log-slower-than", "0"];
    let arguments = [&arguments[..], &["--enable-debug-command", "yes"]].concat();
    let server = Server::start(&program, &arguments)?;
    let mut client = Client::connect(server.address())?;
    fill(&mut client)?;
    let scratch = tempfile::tempdir()?;
    let folder = options.keep.clone().unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&folder)?;
    for (window, window_arguments) in WINDOWS {
        for (tab, expected) in TABS {
            let screenshot = folder.join(format!("{tab}-{window}.png"));
            let dom = browser::open(&Page {
                browser,
                address: &format!("http://127.0.0.1:{number}/#/{tab}"),
                profile: &folder.join("profile"),
                screenshot: options.keep.is_some().then_some(&screenshot),
                arguments: &[window_arguments, &[BUDGET]].concat(),
            })?;
            check(&dom, tab, expected).map_err(|why| format!("{tab} on a {window}: {why}"))?;
            println!("ok      {tab} on a {window}");
        }
    }
    Ok(())
}

fn fill(client: &mut Client) -> Outcome {
    let commands: [&[&str]; 5] = [
        &["DEBUG", "POPULATE", "2000"],
        &["CLIENT", "SETNAME", "visitor"],
        &["GET", "key:1"],
        &["ZADD", "board", "1", "first"],
        // The page's own commands shall not push these out of the log.
        &["CONFIG", "SET", "slowlog-log-slower-than", "-1"],
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
