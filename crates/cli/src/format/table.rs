//! A list of maps as a table: a column for each field, a line for each map.
//!
//! Invariant: any other reply, or one that is too long to hold, is printed as without tables.

use super::Printer;
use super::held::Held;
use super::human::Numbers;
use martlet_client::parts::{Aggregate, Part, ReplyBuilder};
use martlet_client::resp::Reply;
use martlet_protocol::quote::append_escaped;

/// Most columns; a list of maps with more fields is not printed as a table.
const COLUMNS_MAX: usize = 64;

/// Prints a reply, as a table if it is a list of maps.
pub struct Table<'a> {
    inner: Box<dyn Printer + 'a>,
    /// How wide a line can be; for ever without.
    width: Option<usize>,
    /// What has notes.
    numbers: Numbers,
    held: Held,
    depth: usize,
    is_decided: bool,
}

/// The content of a field.
#[derive(Clone, Default)]
struct Cell {
    text: String,
    is_number: bool,
}

/// The fields of all maps, in the order in which they come, and each map's cells; `None` for one that a map
/// lacks.
struct Rows {
    columns: Vec<String>,
    cells: Vec<Vec<Option<Cell>>>,
}

impl<'a> Table<'a> {
    /// Over the form that everything else is printed in.
    pub fn new(inner: Box<dyn Printer + 'a>, width: Option<usize>, numbers: Numbers) -> Table<'a> {
        Table { inner, width, numbers, held: Held::default(), depth: 0, is_decided: false }
    }

    fn release(&mut self, out: &mut Vec<u8>) {
        self.is_decided = true;
        let held = std::mem::take(&mut self.held);
        held.replay(|part| self.inner.part(part, out));
    }
}

impl Printer for Table<'_> {
    fn part(&mut self, part: Part, out: &mut Vec<u8>) {
        if self.is_decided {
            return self.inner.part(part, out);
        }
        self.held.push(part);
        let fits = match (part, self.depth) {
            (Part::Open(Aggregate::Array | Aggregate::Set, 1..), 0) => true,
            (Part::Open(Aggregate::Map, 1..), 1) => true,
            (Part::Close(_), _) => true,
            (_, depth) => depth > 1,
        };
        match part {
            Part::Open(..) => self.depth += 1,
            Part::Close(_) => self.depth -= 1,
            _ => {}
        }
        if !fits || self.held.is_full() {
            self.release(out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.is_decided {
            let mut builder = ReplyBuilder::default();
            self.held.replay(|part| builder.add(part));
            let rows = builder.finish().and_then(|reply| Rows::of(&reply, self.numbers));
            if let Some(rows) = rows {
                out.extend_from_slice(rows.text(self.width).as_bytes());
                return;
            }
            self.release(out);
        }
        self.inner.end(out);
    }
}

impl Rows {
    fn of(reply: &Reply, numbers: Numbers) -> Option<Rows> {
        let (Reply::Array(maps) | Reply::Set(maps)) = reply else { return None };
        let mut rows = Rows { columns: Vec::new(), cells: Vec::new() };
        for map in maps {
            let Reply::Map(fields) = map else { return None };
            let mut cells = vec![None; rows.columns.len()];
            for (name, value) in fields {
                let name = inline(name);
                let index = rows.columns.iter().position(|known| *known == name).unwrap_or_else(|| {
                    rows.columns.push(name.clone());
                    cells.push(None);
                    rows.columns.len() - 1
                });
                if rows.columns.len() > COLUMNS_MAX {
                    return None;
                }
                cells[index] = Some(Cell::of(&name, value, numbers));
            }
            rows.cells.push(cells);
        }
        Some(rows)
    }

    fn cell(row: &[Option<Cell>], column: usize) -> Option<&Cell> {
        row.get(column).and_then(Option::as_ref)
    }

    /// The table; where it is too wide, each map for itself.
    fn text(&self, width: Option<usize>) -> String {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(column, name)| {
                let cells = self.cells.iter().filter_map(|row| Rows::cell(row, column));
                cells.map(|cell| columns_of(&cell.text)).max().unwrap_or(0).max(columns_of(name))
            })
            .collect();
        let total = widths.iter().sum::<usize>() + 3 * widths.len().saturating_sub(1);
        if width.is_some_and(|width| total > width) { self.records() } else { self.table(&widths) }
    }

    fn table(&self, widths: &[usize]) -> String {
        let is_number: Vec<bool> = (0..self.columns.len())
            .map(|column| {
                self.cells.iter().filter_map(|row| Rows::cell(row, column)).all(|cell| cell.is_number)
            })
            .collect();
        let line = |texts: &mut dyn Iterator<Item = &str>| {
            let cells: Vec<String> = texts
                .zip(widths)
                .zip(&is_number)
                .map(|((text, width), is_number)| {
                    let space = " ".repeat(width.saturating_sub(columns_of(text)));
                    if *is_number { format!("{space}{text}") } else { format!("{text}{space}") }
                })
                .collect();
            format!("{}\n", cells.join(" | ").trim_end())
        };
        let mut out = line(&mut self.columns.iter().map(String::as_str));
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        out.push_str(&format!("{}\n", rules.join("-+-")));
        for row in &self.cells {
            let texts = (0..self.columns.len()).map(|column| Rows::cell(row, column));
            out.push_str(&line(&mut texts.map(|cell| cell.map_or("", |cell| cell.text.as_str()))));
        }
        let count = self.cells.len();
        out + &format!("({count} {})\n", if count == 1 { "row" } else { "rows" })
    }

    fn records(&self) -> String {
        let width = self.columns.iter().map(|name| columns_of(name)).max().unwrap_or(0);
        let mut out = String::new();
        for (index, row) in self.cells.iter().enumerate() {
            out.push_str(&format!("-[ {} ]{}\n", index + 1, "-".repeat(width)));
            for (column, name) in self.columns.iter().enumerate() {
                if let Some(cell) = Rows::cell(row, column) {
                    let space = " ".repeat(width - columns_of(name));
                    out.push_str(&format!("{name}{space} | {}\n", cell.text));
                }
            }
        }
        out
    }
}

/// How many columns of a terminal a text takes.
fn columns_of(text: &str) -> usize {
    text.chars().count()
}

impl Cell {
    fn of(name: &str, value: &Reply, numbers: Numbers) -> Cell {
        let mut text = inline(value);
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        let is_number = matches!(value, Reply::Int(_) | Reply::Double(_) | Reply::BigNumber(_));
        if let Some(note) = number.and_then(|number| numbers.noted(name.as_bytes(), number)) {
            text.push_str(&format!(" ({note})"));
        }
        Cell { text, is_number }
    }
}

/// A value on one line.
fn inline(reply: &Reply) -> String {
    let escaped = |bytes: &[u8]| {
        let mut out = Vec::new();
        append_escaped(&mut out, bytes);
        String::from_utf8_lossy(&out).into_owned()
    };
    let list = |items: &[Reply]| items.iter().map(inline).collect::<Vec<_>>().join(", ");
    match reply {
        Reply::Simple(text) | Reply::Bulk(text) | Reply::Verbatim(_, text) => escaped(text),
        Reply::Error(text) => format!("(error) {}", escaped(text)),
        Reply::Int(number) => number.to_string(),
        Reply::Double(text) | Reply::BigNumber(text) => escaped(text),
        Reply::Bool(value) => value.to_string(),
        Reply::Null | Reply::NullBulk | Reply::NullArray => "(nil)".into(),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => format!("[{}]", list(items)),
        Reply::Map(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{}: {}", inline(name), inline(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Reply::Attributed(_, reply) => inline(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Expected, Output, Style, parts_of};

    fn text(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    fn printed(reply: &Reply, width: Option<usize>, is_human: bool) -> String {
        let style = Style { has_tables: true, width, is_human, ..Style::new(Output::Standard) };
        let expected = Expected { is_verbatim: false, numbers: Numbers::Named(&[]) };
        let (mut printer, mut out) = (style.printer(expected), Vec::new());
        parts_of(reply, &mut |part| printer.part(part, &mut out));
        printer.end(&mut out);
        String::from_utf8(out).expect("text")
    }

    fn groups() -> Reply {
        Reply::Array(vec![
            Reply::Map(vec![
                (text("name"), text("first")),
                (text("idle"), Reply::Int(7_200)),
                (text("flags"), Reply::Array(vec![text("a"), text("b")])),
            ]),
            Reply::Map(vec![
                (text("name"), text("é\n")),
                (text("idle"), Reply::Int(5)),
                (text("lag"), Reply::Null),
            ]),
        ])
    }

    #[test]
    fn a_list_of_maps_is_a_table() {
        let expected = "\
name       | idle | flags  | lag
-----------+------+--------+------
first      | 7200 | [a, b] |
\\xc3\\xa9\\n |    5 |        | (nil)
(2 rows)
";
        assert_eq!(printed(&groups(), None, false), expected);
    }

    #[test]
    fn a_wide_table_is_a_list_of_records() {
        let expected = "\
-[ 1 ]-----
name  | first
idle  | 7200 (2h)
flags | [a, b]
-[ 2 ]-----
name  | \\xc3\\xa9\\n
idle  | 5
lag   | (nil)
";
        assert_eq!(printed(&groups(), Some(20), true), expected);
    }

    #[test]
    fn everything_else_is_printed_as_ever() {
        let mixed = Reply::Array(vec![Reply::Map(vec![(text("a"), Reply::Int(1))]), Reply::Int(2)]);
        let many = Reply::Array(vec![Reply::Map(
            (0..=COLUMNS_MAX as i64).map(|number| (Reply::Int(number), Reply::Int(number))).collect(),
        )]);
        let long = Reply::Array(vec![Reply::Map(vec![(text("a"), text(&"x".repeat(2 << 20)))])]);
        for reply in [mixed, many, long, Reply::Array(vec![]), Reply::Int(1), Reply::Map(vec![]), text("x")] {
            let plain = Style::new(Output::Standard).text(&reply);
            assert_eq!(printed(&reply, None, false).into_bytes(), plain);
        }
    }
}
