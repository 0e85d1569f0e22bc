//! The table that people read, from the readings: the newest run of each row, medians, and the spread;
//! of the slow log the least.

use super::measure::Reading;
use super::rows::{Kind, ROWS, Row};
use std::error::Error;
use std::path::Path;
use xtask::run::text_of;

/// A page with a generated table, between two marker lines.
pub struct Page {
    /// The file, below the root.
    pub file: &'static str,
    begin: &'static str,
    end: &'static str,
    /// The rows that it shows; all if empty.
    rows: &'static [&'static str],
}

/// Every page with a table.
pub const PAGES: &[Page] = &[
    Page {
        file: "docs/performance.md",
        begin: "<!-- cost table: ./x bench-cost --table -->",
        end: "<!-- end of cost table -->",
        rows: &[],
    },
    Page {
        file: "README.md",
        begin: "<!-- headline table: ./x bench-cost --table -->",
        end: "<!-- end of headline table -->",
        rows: &["get-p1", "set-p16", "get-p64", "wp-zadd", "memory-20-1"],
    },
];

/// A markdown table of every row that has been measured, or of those of `names` if there are any.
pub fn from_readings(text: &str, names: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut readings: Vec<Reading> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        readings.push(serde_json::from_str(line)?);
    }
    let mut out = String::from("| row | request | peer | ours | peer ÷ ours (least – most) | target |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    for row in ROWS.iter().filter(|row| names.is_empty() || names.contains(&row.name)) {
        if let Some(line) = line(row, &readings) {
            out.push_str(&line);
        }
    }
    if let Some(last) = readings.last() {
        let peer = readings.iter().rev().find(|reading| reading.server == "peer");
        let peer = peer.map(|reading| reading.version.clone()).unwrap_or_default();
        out.push_str(&format!("\nPeer: {peer}. Machine: {}.\n", last.machine));
    }
    Ok(out)
}

fn line(row: &Row, readings: &[Reading]) -> Option<String> {
    let newest =
        readings.iter().filter(|reading| reading.row == row.name).map(|reading| reading.run).max()?;
    let of = |server: &str| -> Vec<f64> {
        let chosen = readings
            .iter()
            .filter(|r| r.row == row.name && r.run == newest && r.server == server)
            .map(|r| r.value);
        chosen.collect()
    };
    let (peer, ours) = (of("peer"), of("ours"));
    let typical = if row.kind.is_slow_log() { least_of } else { median };
    let (peer_typical, ours_typical) = (typical(&peer)?, typical(&ours)?);
    let ratios: Vec<f64> = peer.iter().zip(&ours).map(|(peer, ours)| peer / ours).collect();
    let least = least_of(&ratios)?;
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let request = match row.pipeline {
        1 => format!("`{}`", row.template),
        depth => format!("`{}` P={depth}", row.template),
    };
    let (unit, divisor, ratio, target) = match row.kind {
        Kind::Cpu => {
            let ratio = format!("**{:.2}** ({least:.2} – {most:.2})", peer_typical / ours_typical);
            (" µs", 1000.0, ratio, format!("≥ {}", row.target))
        }
        Kind::Memory(_) => {
            (" B", 1.0, format!("**{:.2}**", peer_typical / ours_typical), format!("≥ {:.2}", row.target))
        }
        Kind::BytesPerKey(_) => {
            (" B", 1.0, format!("{:.2}", peer_typical / ours_typical), format!("≤ {} B", row.target))
        }
        Kind::EmptyServer | Kind::IdleConnections(_) => {
            (" B", 1.0, String::new(), format!("≤ {} B", row.target))
        }
        Kind::ManyConnections(_) => ("", 1.0, String::new(), format!("≥ {}", row.target)),
        Kind::SlowFill | Kind::SlowRequest => (" slow", 1.0, String::new(), format!("≤ {}", row.target)),
        Kind::ExpiryLag => (" ms", 1.0, String::new(), format!("≤ {} ms", row.target)),
    };
    let request = if row.template == "PING" { String::new() } else { request };
    let shown = |value: f64| format!("{}{unit}", significant(value / divisor));
    Some(format!(
        "| {} | {request} | {} | {} | {ratio} | {target} |\n",
        row.name,
        shown(peer_typical),
        shown(ours_typical)
    ))
}

fn significant(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn least_of(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// Replaces the tables in the pages that show them.
pub fn put_into_pages(root: &Path, readings: &str) -> Result<(), Box<dyn Error>> {
    for page in PAGES {
        let path = root.join(page.file);
        let text = text_of(&path)?;
        let (Some(begin), Some(end)) = (text.find(page.begin), text.find(page.end)) else {
            return Err(format!("{}: no line says where its table goes", page.file).into());
        };
        let table = from_readings(readings, page.rows)?;
        let text = format!("{}{}\n\n{table}\n{}", &text[..begin], page.begin, &text[end..]);
        std::fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
/// The pages whose table is not the one of these readings.
pub fn outdated_pages(root: &Path, readings: &str) -> Result<Vec<&'static str>, Box<dyn Error>> {
    let mut outdated = Vec::new();
    for page in PAGES {
        if !text_of(&root.join(page.file))?.contains(&from_readings(readings, page.rows)?) {
            outdated.push(page.file);
        }
    }
    Ok(outdated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(row: &str, run: u64, server: &str, round: usize, value: f64) -> String {
        format!(
            r#"{{"run":{run},"row":"{row}","server":"{server}","round":{round},"value":{value},"requests":1,"elapsed_s":1,"stat_cpu_ns":1,"version":"v","machine":"m","quick":false}}"#
        )
    }

    #[test]
    fn the_newest_run_counts_by_its_median() {
        let lines = [
            reading("get-p1", 1, "peer", 0, 1.0),
            reading("get-p1", 1, "ours", 0, 1.0),
            reading("get-p1", 2, "peer", 0, 8000.0),
            reading("get-p1", 2, "ours", 0, 4000.0),
            reading("get-p1", 2, "peer", 1, 9000.0),
            reading("get-p1", 2, "ours", 1, 3000.0),
            reading("get-p1", 2, "peer", 2, 8000.0),
            reading("get-p1", 2, "ours", 2, 4000.0),
        ];
        let table = from_readings(&lines.join("\n"), &[]).unwrap();
        assert!(table.contains("| 8.00 µs | 4.00 µs | **2.00** (2.00 – 3.00) | ≥ 1.4 |"), "{table}");
    }

    #[test]
    fn a_page_may_show_some_rows() {
        let lines = ["get-p1", "get-p16"].map(|row| {
            format!("{}\n{}", reading(row, 1, "peer", 0, 2000.0), reading(row, 1, "ours", 0, 1000.0))
        });
        let table = from_readings(&lines.join("\n"), &["get-p16"]).unwrap();
        assert!(table.contains("| get-p16 |") && !table.contains("| get-p1 |"), "{table}");
    }

    #[test]
    fn slow_requests_count_if_every_round_has_them() {
        let lines = [
            reading("growth", 1, "peer", 0, 4.0),
            reading("growth", 1, "ours", 0, 2.0),
            reading("growth", 1, "peer", 1, 3.0),
            reading("growth", 1, "ours", 1, 0.0),
        ];
        let table = from_readings(&lines.join("\n"), &[]).unwrap();
        assert!(table.contains("| 3.00 slow | 0.00 slow |  | ≤ 0 |"), "{table}");
    }
}
