//! The page made from readings: a row for each hog, a column for each server.

use super::Reading;
use super::hogs::HOGS;

/// The peer's name among the servers.
pub const PEER: &str = "redis";

/// A figure counts as behind the peer's above this share of it, and by more than `SLACK_US`: what lies
/// between is the machine's noise.
const SLACK: f64 = 1.25;
const SLACK_US: u32 = 200;

impl Reading {
    /// The median of the rounds' longest waits.
    fn longest_us(&self) -> u32 {
        let mut all = self.longest_us.clone();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(u32::MAX)
    }
}

fn is_behind(ours_us: u32, peer_us: u32) -> bool {
    ours_us > peer_us.saturating_add(SLACK_US) && f64::from(ours_us) > f64::from(peer_us) * SLACK
}

/// Milliseconds, with as many digits as tell something.
fn milliseconds(us: u32) -> String {
    match us {
        0..1_000 => format!("{:.2}", f64::from(us) / 1e3),
        1_000..100_000 => format!("{:.1}", f64::from(us) / 1e3),
        _ => format!("{}", us / 1_000),
    }
}

fn cell(reading: &Reading, peer: &Reading) -> String {
    let figures = [(reading.p99_us, peer.p99_us), (reading.longest_us(), peer.longest_us())];
    let shown = figures.map(|(ours_us, peer_us)| {
        let text = milliseconds(ours_us);
        if is_behind(ours_us, peer_us) { format!("**{text}**") } else { text }
    });
    let mark = if reading.sent_again > 0 { " °" } else { "" };
    shown.join(" / ") + mark
}

/// The whole page.
pub fn page(readings: &[Reading], rounds: usize, seconds: f64) -> String {
    let mut servers: Vec<&str> = Vec::new();
    for reading in readings {
        if !servers.contains(&reading.server.as_str()) {
            servers.push(&reading.server);
        }
    }
    let mut page = format!(
        "# Fairness: what polite clients wait while others take all they can get\n\n\
         Made by `./x fairness`. Four clients send one GET at a time beside one kind of hog; all share the\n\
         machine's cores. A cell has the 99th percentile and the longest wait (the median of {rounds} rounds of\n\
         {seconds} s) in milliseconds. Columns are redis-server and ours, by backend and I/O threads. Bold: by\n\
         more than a quarter, and 0.2 ms, behind redis-server. °: the loopback dropped packets meanwhile, which TCP\n\
         sends again after 40 to 200 ms and more, whoever's they are.\n\n"
    );
    page += &format!("| hog | {} |\n|---|{}\n", servers.join(" | "), "---|".repeat(servers.len()));
    for hog in HOGS {
        let row: Vec<&Reading> = readings.iter().filter(|reading| reading.row == hog.name).collect();
        let Some(peer) = row.iter().find(|reading| reading.server == PEER) else { continue };
        let cells: Vec<String> = row.iter().map(|reading| cell(reading, peer)).collect();
        page += &format!("| {} | {} |\n", hog.name, cells.join(" | "));
    }
    page += "\n| hog | does |\n|---|---|\n";
    for hog in HOGS {
        page += &format!("| {} | {} |\n", hog.name, hog.what);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_the_peer_is_bold() {
        let of = |server: &str, p99_us, longest_us: [u32; 3]| Reading {
            row: "cheap".into(),
            server: server.into(),
            p99_us,
            longest_us: longest_us.into(),
            ..Reading::default()
        };
        let readings = [of(PEER, 1_000, [9_000, 2_000, 90_000]), of("epoll 1", 1_190, [120_000, 12_500, 1])];
        let page = page(&readings, 3, 1.0);
        assert!(page.contains("| cheap | 1.0 / 9.0 | 1.2 / **12.5** |"), "{page}");
        assert!(page.contains("| hog | redis | epoll 1 |"), "{page}");
    }
}
