//! Several reports as one, as of one run from several machines.

use super::{CommandReport, Report};
use crate::engine::SecondRow;

impl Report {
    /// The first part that belongs to one run alone and has no sum over several.
    fn of_one_run(&self) -> Option<&'static str> {
        let found = [
            (self.comparison.is_some(), "a comparison"),
            (!self.sweep.is_empty(), "a sweep"),
            (self.check.is_some(), "a check"),
        ];
        found.into_iter().find_map(|(holds, what)| holds.then_some(what))
    }

    /// One result of several that ran at the same time, as from several load machines.
    pub fn merge(reports: &[Report]) -> Result<Report, String> {
        let Some((first, rest)) = reports.split_first() else { return Err("no report to merge".into()) };
        if !rest.is_empty()
            && let Some((report, what)) =
                reports.iter().find_map(|report| Some((report, report.of_one_run()?)))
        {
            return Err(format!(
                "{what} is of one run alone, it cannot be merged: {}",
                report.command_line.join(" ")
            ));
        }
        let kind = |report: &Report| (report.asked_rate.is_some(), report.replay);
        if let Some(other) = rest.iter().find(|other| kind(other) != kind(first)) {
            return Err(format!(
                "latencies of {} and of {} are not the same thing, they cannot be merged: {}",
                first.pacing(),
                other.pacing(),
                other.command_line.join(" ")
            ));
        }
        let mut merged = first.clone();
        for other in rest {
            merged.command_line.push("+".into());
            merged.command_line.extend(other.command_line.iter().cloned());
            merged.connections += other.connections;
            merged.threads += other.threads;
            merged.elapsed_s = merged.elapsed_s.max(other.elapsed_s);
            merged.requests += other.requests;
            merged.errors += other.errors;
            merged.late += other.late;
            merged.lost += other.lost;
            merged.disconnects += other.disconnects;
            merged.redirects += other.redirects;
            merged.asked_rate = merged.asked_rate.zip(other.asked_rate).map(|(a, b)| a + b);
            merged.partial = merged.partial.take().or_else(|| other.partial.clone());
            merged.warning = merged.warning.take().or_else(|| other.warning.clone());
            for (text, count) in &other.error_texts {
                match merged.error_texts.iter_mut().find(|(known, _)| known == text) {
                    Some((_, known)) => *known += count,
                    None => merged.error_texts.push((text.clone(), *count)),
                }
            }
            // CPU of one server would be counted twice: with several clients the share of each is unknown.
            merged.cost = None;
            for command in &other.commands {
                merged.add_command(command);
            }
            merged.add_seconds(other);
        }
        merged.rate = merged.requests.saturating_sub(merged.late) as f64 / merged.elapsed_s.max(1e-9);
        merged.seconds.sort_by_key(|row| (row.second, row.command));
        Ok(merged)
    }

    fn add_command(&mut self, other: &CommandReport) {
        match self.commands.iter_mut().find(|c| c.name == other.name) {
            None => self.commands.push(other.clone()),
            Some(own) => {
                let mut latencies = own.latencies();
                latencies.add(&other.latencies());
                own.histogram = latencies.pairs();
                own.requests += other.requests;
                own.errors += other.errors;
                own.nulls += other.nulls;
                own.late += other.late;
            }
        }
    }

    /// Adds another's seconds: numbers add up; percentiles, whose histograms are gone, take the larger one.
    fn add_seconds(&mut self, other: &Report) {
        for row in &other.seconds {
            let Some(name) = other.commands.get(row.command as usize).map(|c| &c.name) else { continue };
            let Some(command) = self.commands.iter().position(|c| c.name == *name).map(|c| c as u32) else {
                continue;
            };
            match self.seconds.iter_mut().find(|r| r.second == row.second && r.command == command) {
                None => self.seconds.push(SecondRow { command, ..row.clone() }),
                Some(own) => {
                    let total = (own.requests + row.requests).max(1) as f64;
                    own.mean_ms =
                        (own.mean_ms * own.requests as f64 + row.mean_ms * row.requests as f64) / total;
                    own.requests += row.requests;
                    own.errors += row.errors;
                    for (own, other) in own.percentiles_ms.iter_mut().zip(row.percentiles_ms) {
                        *own = own.max(other);
                    }
                }
            }
        }
    }
}
