//! The Markdown page. Plots are bars of characters, so that the page stands alone.

use crate::claims::number;
use crate::page::{Page, Plot, Section, Table};
use std::fmt::Write as _;

/// Width of the longest bar, characters.
const BAR_WIDTH: f64 = 40.0;
/// The longest line of prose, characters.
const LINE_WIDTH: usize = 120;

/// The page as text.
pub fn page(page: &Page) -> String {
    let mut out = format!("# {}\n", page.title);
    if let Some(reason) = &page.partial {
        let _ = write!(out, "\n**Not whole: {reason}**\n");
    }
    for paragraph in &page.about {
        let _ = write!(out, "\n{}\n", wrapped(paragraph, ""));
    }
    for section in &page.sections {
        self::section(&mut out, section);
    }
    if !page.failures.is_empty() {
        out.push_str("\n## Rows that could not be measured\n\n");
        for failure in &page.failures {
            let _ = writeln!(out, "{}", wrapped(&format!("- {}", cell(failure)), "  "));
        }
    }
    out
}

fn section(out: &mut String, section: &Section) {
    let source = wrapped(&format!("Source: {}", section.source), "");
    let _ = write!(out, "\n## {}. {}\n\n{source}\n", section.id, section.title);
    for paragraph in &section.method {
        let _ = write!(out, "\n{}\n", wrapped(paragraph, ""));
    }
    claims(out, section);
    section.tables.iter().for_each(|table| self::table(out, table));
    section.plots.iter().for_each(|plot| self::plot(out, plot));
    if !section.left_out.is_empty() {
        out.push_str("\nLeft out:\n\n");
        for (what, why) in &section.left_out {
            let _ = writeln!(out, "{}", wrapped(&format!("- {what}: {why}."), "  "));
        }
    }
}

fn claims(out: &mut String, section: &Section) {
    if section.claims.is_empty() {
        return;
    }
    let head = ["claim", "judged by", "verdict"].map(String::from).into();
    let mut table = Table { title: "Claims".into(), head, ..Table::default() };
    for claim in &section.claims {
        let verdicts = claim.judgements.iter().map(|j| format!("{}: {} ({})", j.server, j.words, j.found));
        let verdicts: Vec<String> = verdicts.collect();
        table.rows.push(vec![claim.text.clone(), claim.test.clone(), verdicts.join("; ")]);
    }
    self::table(out, &table);
}

/// Prose in lines of at most [`LINE_WIDTH`] characters, all but the first with this indent.
fn wrapped(text: &str, indent: &str) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let needed = word.chars().count() + 1;
        if width > 0 && width + needed > LINE_WIDTH {
            out.push('\n');
            out.push_str(indent);
            width = indent.len();
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += needed - 1;
    }
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn table(out: &mut String, table: &Table) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let _ = write!(out, "\n### {}\n\n{}", table.title, line(&table.head));
    out.push_str(&format!("|{}\n", "---|".repeat(table.head.len())));
    table.rows.iter().for_each(|row| out.push_str(&line(row)));
}

fn plot(out: &mut String, plot: &Plot) {
    let most = plot.series.iter().flat_map(|s| &s.points).map(|p| p.1).fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let over = if plot.x.is_empty() { String::new() } else { format!(" over {}", plot.x) };
    let _ = write!(out, "\n### {}: {}{over}\n\n```text\n", plot.title, plot.y);
    let mut xs: Vec<f64> = plot.series.iter().flat_map(|s| &s.points).map(|p| p.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let label = |x: f64| plot.labels.get(x as usize).cloned().unwrap_or_else(|| number(x));
    let names = plot.series.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
    let labels = xs.iter().map(|x| label(*x).chars().count()).max().unwrap_or(0);
    for x in xs {
        let mut shown = label(x);
        for series in &plot.series {
            let Some((_, y)) = series.points.iter().find(|point| point.0 == x) else { continue };
            let bar = "█".repeat(((y / most * BAR_WIDTH).round() as usize).max(1));
            let _ = writeln!(out, "{shown:>labels$}  {:<names$} {bar} {}", series.name, number(*y));
            shown.clear();
        }
    }
    out.push_str("```\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Bound, Kind, claim};
    use crate::page::Series;

    #[test]
    fn prose_is_wrapped_and_nothing_of_it_is_lost() {
        assert_eq!(wrapped("- a b", "  "), "- a b");
        let text = format!("- {}", "word ".repeat(60).trim_end());
        let lines = wrapped(&text, "  ");
        assert!(lines.lines().all(|line| (100..=LINE_WIDTH).contains(&line.len()) || line.ends_with("word")));
        assert!(lines.lines().count() == 3 && lines.lines().skip(1).all(|line| line.starts_with("  word")));
        assert_eq!(lines.replace("\n ", ""), text);
        let long = "x".repeat(LINE_WIDTH + 1);
        assert_eq!(wrapped(&format!("a {long} b"), ""), format!("a\n{long}\nb"));
    }

    #[test]
    fn everything_is_on_the_page() {
        let figure = |server: &str| (server == "ours").then_some(2.0);
        let test = ("with by without", Bound::AtLeast(1.5));
        let series =
            |name: &str, points: &[(f64, f64)]| Series { name: name.into(), points: points.to_vec() };
        let section = Section {
            id: "R9".into(),
            title: "Something".into(),
            source: "a report".into(),
            method: vec!["As it was done.".into()],
            claims: vec![claim(Kind::Law, "a|b", test, ["ours", "peer"], figure)],
            tables: vec![Table { title: "T".into(), head: vec!["x".into()], rows: vec![vec!["1".into()]] }],
            plots: vec![Plot {
                title: "P".into(),
                x: "depth".into(),
                y: "requests/s".into(),
                series: vec![series("source", &[(1.0, 10.0)]), series("ours", &[(1.0, 20.0), (8.0, 40.0)])],
                ..Plot::default()
            }],
            left_out: vec![("LAN".into(), "it needs two hosts".into())],
        };
        let text = page(&Page {
            title: "Title".into(),
            about: vec!["About.".into()],
            partial: Some("interrupted".into()),
            sections: vec![section],
            failures: vec!["R9 set: no".into()],
            servers: Vec::new(),
        });
        for expected in [
            "# Title\n",
            "**Not whole: interrupted**",
            "## R9. Something\n\nSource: a report\n\nAs it was done.\n",
            "| claim | judged by | verdict |\n|---|---|---|\n",
            "| a\\|b | with by without: at least 1.50 | ours: holds (2); peer: not measured (–) |\n",
            "### T\n\n| x |\n|---|\n| 1 |\n",
            "### P: requests/s over depth",
            "1  source ██████████ 10\n",
            "   ours   ████████████████████ 20\n",
            "8  ours   ████████████████████████████████████████ 40\n",
            "- LAN: it needs two hosts.\n",
            "- R9 set: no\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in {text}");
        }
    }
}
