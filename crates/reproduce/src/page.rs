//! The report as data: sections with tables, plots and claims. Both pages are made of it. [`View`] is what an
//! experiment makes its section with: measured rows, and the source's own figures beside them.

use crate::claims::{Bound, Claim, Kind, claim, number, quotient};
use crate::rows::{Rows, Setup};
use crate::scale::Scale;
use crate::servers::NULL;
use serde::Serialize;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Page {
    pub title: String,
    /// Paragraphs on the machine, the servers and the scale.
    pub about: Vec<String>,
    /// Why it is not whole, if it is not.
    pub partial: Option<String>,
    pub sections: Vec<Section>,
    /// Rows that could not be measured.
    pub failures: Vec<String>,
    pub servers: Vec<String>,
}

/// One experiment.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    pub id: String,
    pub title: String,
    /// Where the source's figures are from.
    pub source: String,
    /// The method here.
    pub method: Vec<String>,
    pub claims: Vec<Claim>,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    /// Parts that are not measured, and why.
    pub left_out: Vec<(String, String)>,
}

/// A table; the first column names its rows.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A plot of lines over numbers, or with `labels` of bars.
#[derive(Debug, Default, Serialize)]
pub struct Plot {
    pub title: String,
    pub x: String,
    pub y: String,
    /// Both axes are logarithmic.
    pub log: bool,
    /// Labels of x = 0, 1, …, where x is not a number.
    pub labels: Vec<String>,
    pub series: Vec<Series>,
}

/// A named line.
#[derive(Debug, Default, Serialize)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A row of a table: its label, the trial behind it, and the source's cells.
pub struct Entry {
    label: String,
    trial: String,
    source: Vec<String>,
}

impl Entry {
    /// An entry with its own label.
    pub fn named(label: &str, trial: &str, source: &[&str]) -> Entry {
        let source = source.iter().map(|cell| (*cell).to_string()).collect();
        Entry { label: label.into(), trial: trial.into(), source }
    }
}

/// Points of a plot: x, the source's y, and the trial behind it.
pub type Points<'a> = &'a [(f64, Option<f64>, String)];

/// Which figure of a table's rows is compared: its name, and whether less is better.
pub type Ratio<'a> = Option<(&'a str, bool)>;

/// Measured rows of one experiment.
pub struct View<'a> {
    pub rows: &'a Rows,
    pub experiment: &'a str,
    /// Ours first; the null responder is not among them.
    pub servers: Vec<&'a str>,
    pub scale: Scale,
}

impl<'a> View<'a> {
    /// The rows of an experiment.
    pub fn of(rows: &'a Rows, setup: &'a Setup, experiment: &'a str, scale: Scale) -> View<'a> {
        let servers = setup.servers.iter().map(|server| server.name.as_str());
        View { rows, experiment, servers: servers.filter(|name| *name != NULL).collect(), scale }
    }

    /// One figure.
    pub fn value(&self, trial: &str, server: &str, name: &str) -> Option<f64> {
        self.rows.value(self.experiment, trial, server, name)
    }

    /// A figure of a trial by the same of another.
    pub fn ratio(&self, server: &str, (above, below): (&str, &str), name: &str) -> Option<f64> {
        quotient(self.value(above, server, name), self.value(below, server, name))
    }

    /// A table: the source's columns, then each server's figures, and ours compared with each peer's.
    pub fn table(
        &self,
        title: &str,
        source: (&str, &[&str]),
        entries: &[Entry],
        figures: &[(&str, &str)],
        ratio: Ratio<'_>,
    ) -> Table {
        let (key, source_head) = source;
        let mut head = vec![key.to_string()];
        head.extend(source_head.iter().map(|name| format!("source: {name}")));
        for server in &self.servers {
            head.extend(figures.iter().map(|(name, _)| format!("{server}: {name}")));
        }
        if let (Some((_, less)), [ours, peers @ ..]) = (ratio, self.servers.as_slice()) {
            head.extend(peers.iter().map(|peer| match less {
                true => format!("{peer} ÷ {ours}"),
                false => format!("{ours} ÷ {peer}"),
            }));
        }
        let rows = entries.iter().map(|entry| self.row(entry, figures, ratio)).collect();
        Table { title: title.into(), head, rows }
    }

    fn row(&self, entry: &Entry, figures: &[(&str, &str)], ratio: Ratio<'_>) -> Vec<String> {
        let shown = |value: Option<f64>| value.map_or("–".into(), number);
        let mut cells = vec![entry.label.clone()];
        cells.extend(entry.source.iter().cloned());
        for server in &self.servers {
            cells.extend(figures.iter().map(|(_, name)| shown(self.value(&entry.trial, server, name))));
        }
        if let (Some((name, less)), [ours, peers @ ..]) = (ratio, self.servers.as_slice()) {
            for peer in peers {
                let (ours, peers) =
                    (self.value(&entry.trial, ours, name), self.value(&entry.trial, peer, name));
                cells.push(shown(if less { quotient(peers, ours) } else { quotient(ours, peers) }));
            }
        }
        cells
    }

    /// Lines of a figure over numbers, the source's first.
    pub fn plot(&self, title: &str, (x, y): (&str, &str), points: Points<'_>, name: &str) -> Plot {
        let mut series = vec![Series {
            name: "source".into(),
            points: points.iter().filter_map(|(x, source, _)| Some((*x, (*source)?))).collect(),
        }];
        series.extend(self.servers.iter().map(|server| {
            Series {
                name: (*server).to_string(),
                points: points
                    .iter()
                    .filter_map(|(x, _, trial)| Some((*x, self.value(trial, server, name)?)))
                    .collect(),
            }
        }));
        series.retain(|line| !line.points.is_empty());
        Plot { title: title.into(), x: x.into(), y: y.into(), log: true, labels: Vec::new(), series }
    }

    /// Bars of a figure, the source's first: label, source's figure, trial.
    pub fn bars(&self, title: &str, y: &str, bars: &[(&str, Option<f64>, String)], name: &str) -> Plot {
        let points: Vec<(f64, Option<f64>, String)> = bars
            .iter()
            .enumerate()
            .map(|(index, (_, source, trial))| (index as f64, *source, trial.clone()))
            .collect();
        let labels = bars.iter().map(|(label, ..)| (*label).to_string()).collect();
        Plot { log: false, labels, ..self.plot(title, ("", y), &points, name) }
    }

    /// A claim, judged for each server.
    pub fn claim(
        &self,
        kind: Kind,
        text: &str,
        test: (&str, Bound),
        figure: impl Fn(&str) -> Option<f64>,
    ) -> Claim {
        claim(kind, text, test, self.servers.iter().copied(), figure)
    }

    /// A claim on the quotient of two trials' figures.
    pub fn claim_ratio(
        &self,
        kind: Kind,
        text: &str,
        test: (&str, Bound),
        trials: (&str, &str),
        name: &str,
    ) -> Claim {
        self.claim(kind, text, test, |server| self.ratio(server, trials, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, ServerSetup, Values};

    fn row(trial: &str, server: &str, rate: f64) -> Row {
        Row {
            experiment: "R1".into(),
            trial: trial.into(),
            server: server.into(),
            values: Values::from([("rate".to_string(), rate)]),
            ..Row::default()
        }
    }

    #[test]
    fn a_table_has_the_source_both_servers_and_their_ratio() {
        let mut rows = Rows::default();
        for (trial, server, rate) in [("set", "ours", 200.0), ("set", "peer", 100.0), ("get", "ours", 300.0)]
        {
            rows.add(row(trial, server, rate));
        }
        let named = |name: &str| ServerSetup { name: name.into(), ..ServerSetup::default() };
        let setup = Setup { servers: vec![named("ours"), named("peer"), named(NULL)], ..Setup::default() };
        let scale = Scale::of(std::time::Duration::from_secs(60), 1 << 40, 1000);
        let view = View::of(&rows, &setup, "R1", scale);
        let entries = [Entry::named("set", "set", &["142"]), Entry::named("reads", "get", &["204"])];
        let figures = [("requests/s", "rate")];
        let table = view.table("t", ("test", &["requests/s"]), &entries, &figures, Some(("rate", false)));
        let head = ["test", "source: requests/s", "ours: requests/s", "peer: requests/s", "ours ÷ peer"];
        assert_eq!(table.head, head);
        assert_eq!(table.rows, [["set", "142", "200", "100", "2"], ["reads", "204", "300", "–", "–"]]);
        let test = ("SET by GET", Bound::AtMost(0.7));
        let claim = view.claim_ratio(Kind::Law, "reads are faster", test, ("set", "get"), "rate");
        let words: Vec<_> = claim.judgements.iter().map(|j| j.words).collect();
        assert_eq!(words, ["holds", "not measured"]);
        let plot =
            view.plot("p", ("x", "y"), &[(1.0, Some(5.0), "set".into()), (2.0, None, "get".into())], "rate");
        let lines: Vec<_> = plot.series.iter().map(|s| (s.name.as_str(), s.points.len())).collect();
        assert_eq!(lines, [("source", 1), ("ours", 2), ("peer", 1)]);
    }
}
