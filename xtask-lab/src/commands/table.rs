//! The table: a line for each row, the dearest beside the peer first, and the commands without a row.

use super::rows::Row;
use std::fmt;

/// Columns of a line of text.
const WIDTH: usize = 150;

/// The figures of a row.
pub struct Line {
    name: &'static str,
    note: &'static str,
    /// Minimum and median of each server's readings, in microseconds, the peer first and ours last.
    figures: Vec<(f64, f64)>,
}

impl Line {
    /// From each server's readings.
    pub fn of(row: &Row, readings: Vec<Vec<f64>>) -> Line {
        let figures = readings.into_iter().map(|mut of_server| {
            of_server.sort_by(f64::total_cmp);
            let at = |at: usize| of_server.get(at).copied().unwrap_or(f64::NAN);
            (at(0), at(of_server.len() / 2))
        });
        Line { name: row.name, note: row.note, figures: figures.collect() }
    }

    /// Peer by ours: of the minima, and of the medians.
    fn ratios(&self) -> (f64, f64) {
        match (self.figures.first(), self.figures.last()) {
            (Some(peer), Some(ours)) => (peer.0 / ours.0, peer.1 / ours.1),
            _ => (f64::NAN, f64::NAN),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of_minima, of_medians) = self.ratios();
        write!(f, "{of_minima:6.2} {of_medians:6.2}  {:<38}", self.name)?;
        for (minimum, _) in &self.figures {
            write!(f, " {minimum:12.2}")?;
        }
        if of_minima < 1.0 && !self.note.is_empty() {
            write!(f, "   {}", self.note)?;
        }
        Ok(())
    }
}

/// The whole file.
pub fn text(
    versions: &[String],
    rounds: usize,
    mut lines: Vec<Line>,
    unmeasured: &[(String, Vec<String>)],
) -> String {
    lines.sort_by(|a, b| a.ratios().0.total_cmp(&b.ratios().0));
    let mut out = format!(
        "Commands one by one: {}. {}.\n\
         ./x commands-beside-redis. Each server with one I/O thread on one core, the client on another. A row's \
         requests, pipelined,\n\
         and an ECHO are sent, and the replies are read up to its own; the figure is the server process' CPU \
         time around that by request.\n\
         Servers take turns. Where work may follow the reply (freeing, messages, time outs), the clock is read \
         20 ms to 1 s later. Payloads of\n\
         RESTORE are the peer's. `--groups list` has the requests and the data. {rounds} rounds. Other programs \
         ran meanwhile: only CPU time counts.\n\
         Peer / ours of the minima and of the medians (above 1, ours needs less), command, minima in us \
         (peer, ours).\n\n",
        versions.join(" and "),
        crate::cost::measure::machine(),
    );
    for line in &lines {
        out.push_str(&format!("{line}\n"));
    }
    out.push_str("\nCommands without a row:\n");
    for (reason, names) in unmeasured.iter().filter(|(_, names)| !names.is_empty()) {
        out.push_str(&format!("\n{reason}:\n"));
        wrap(&mut out, names);
    }
    out
}

/// Words in lines.
fn wrap(out: &mut String, words: &[String]) {
    let mut column = 0;
    for word in words {
        if column > 0 && column + word.len() >= WIDTH {
            out.push('\n');
            column = 0;
        }
        out.push(if column == 0 { '\t' } else { ' ' });
        out.push_str(word);
        column += word.len() + 1;
    }
    out.push('\n');
}

/// The commands that a template sends, with and without their first argument, as COMMAND writes them.
pub fn commands_of(template: &str) -> Vec<String> {
    let requests = template.split(" ; ").map(|request| request.split_whitespace());
    let names = requests.flat_map(|mut words| {
        let name = words.next().unwrap_or_default().to_lowercase();
        let subcommand = words.next().map(|word| format!("{name}|{}", word.to_lowercase()));
        [Some(name), subcommand].into_iter().flatten().collect::<Vec<_>>()
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::super::rows::GROUPS;
    use super::*;

    #[test]
    fn dear_rows_come_first_with_their_note() {
        let row = GROUPS.iter().flat_map(|group| group.rows).find(|row| !row.note.is_empty()).unwrap();
        let cheap = Line::of(row, vec![vec![4.0, 2.0, 3.0], vec![1.0, 1.5, 2.0]]);
        let dear = Line::of(row, vec![vec![1.0], vec![4.0]]);
        let text =
            text(&["a 1".into(), "b 2".into()], 3, vec![cheap, dear], &[("why".into(), vec!["x".into()])]);
        let of_rows: Vec<&str> = text.lines().filter(|line| line.contains(row.name)).collect();
        assert!(of_rows[0].starts_with("  0.25   0.25") && of_rows[0].ends_with(row.note), "{text}");
        assert!(of_rows[1].starts_with("  2.00   2.00") && !of_rows[1].contains(row.note), "{text}");
        assert!(text.ends_with("why:\n\tx\n"));
    }

    #[test]
    fn requests_name_their_commands() {
        assert_eq!(commands_of("CLIENT ID ; GET k"), ["client", "client|id", "get", "get|k"]);
    }
}
