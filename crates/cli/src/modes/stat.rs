//! `--stat`: a line of figures each second.

use super::{ask_for_ever, connect, readable_bytes};
use crate::settings::Settings;
use martlet_client::resp::Reply;
use std::time::Duration;

/// Lines between two headings.
const LINES_PER_HEADING: u64 = 20;
const HEADING: &str = "------- data ------ --------------------- load -------------------- - child -\n\
     keys       mem      clients blocked requests            connections          ";

/// Prints lines until the user ends it.
pub fn run(settings: &Settings) -> Result<i32, String> {
    let mut session = connect(settings)?;
    let interval = if settings.interval.is_zero() { Duration::from_secs(1) } else { settings.interval };
    let mut requests = 0;
    for line in 0u64.. {
        let info = match ask_for_ever(&mut session, &["INFO"]) {
            Reply::Error(text) => return Err(format!("ERROR: {}", String::from_utf8_lossy(&text))),
            reply => String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned(),
        };
        if line.is_multiple_of(LINES_PER_HEADING) {
            println!("{HEADING}");
        }
        println!("{}", figures(&info, requests));
        requests = field(&info, "total_commands_processed");
        std::thread::sleep(interval);
    }
    Ok(0)
}

/// A field of INFO; 0 if it is not there.
fn field(info: &str, name: &str) -> u64 {
    let mut values = info.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values.find_map(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Keys of all databases.
fn keys(info: &str) -> u64 {
    let database = |line: &str| -> Option<u64> {
        let (number, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        number.parse::<u64>().ok()?;
        rest.split(',').next()?.trim().parse().ok()
    };
    info.lines().filter_map(database).sum()
}

/// The server's background work.
fn under_way(info: &str) -> String {
    let works = [("rdb_bgsave_in_progress", "SAVE"), ("aof_rewrite_in_progress", "AOF"), ("loading", "LOAD")];
    let names: Vec<&str> =
        works.iter().filter(|(name, _)| field(info, name) != 0).map(|(_, work)| *work).collect();
    names.join("+")
}

fn figures(info: &str, requests_before: u64) -> String {
    let requests = field(info, "total_commands_processed");
    let grown = if requests_before == 0 { 0 } else { requests.saturating_sub(requests_before) };
    format!(
        "{:<11}{:<8} {:<8}{:<8}{:<19} {:<12}{}",
        keys(info),
        readable_bytes(field(info, "used_memory")),
        field(info, "connected_clients"),
        field(info, "blocked_clients"),
        format!("{requests} (+{grown})"),
        field(info, "total_connections_received"),
        under_way(info),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_redis_clis_columns() {
        let info = "# Clients\r\nconnected_clients:2\r\nblocked_clients:1\r\nused_memory:1048576\r\n\
            total_connections_received:9\r\ntotal_commands_processed:120\r\nrdb_bgsave_in_progress:1\r\n\
            aof_rewrite_in_progress:1\r\nloading:0\r\ndb0:keys=7,expires=0\r\ndb12:keys=3,expires=1\r\n";
        let expected = "10         1.00M    2       1       120 (+20)           9           SAVE+AOF";
        assert_eq!(figures(info, 100), expected);
        let nothing = "0          0B       0       0       0 (+0)              0           ";
        assert_eq!(figures("", 0), nothing);
    }
}
