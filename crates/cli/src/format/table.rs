//! A list of maps, or the results of a search, as a table: a column for each field, a line for each map.
//!
//! Invariant: any other reply, or one that is too long to hold, is printed as without tables. A cell has no
//! control characters, so that its value takes the columns that are counted for it.

use super::Printer;
use super::held::Held;
use super::human::Numbers;
use super::results::{ResultForm, Results};
use martlet_client::parts::{Aggregate, Part, ReplyBuilder};
use martlet_client::resp::Reply;
use martlet_protocol::quote::append_escaped;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Most columns; a list of maps with more fields is not printed as a table.
const COLUMNS_MAX: usize = 64;

/// Prints a reply, as a table if it is a list of maps or has results of a search.
pub struct Table<'a> {
    inner: Box<dyn Printer + 'a>,
    /// How wide a line can be; for ever without.
    width: Option<usize>,
    /// What has notes.
    numbers: Numbers,
    /// How the reply holds the rows of a search, if it does.
    results: Option<ResultForm>,
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
#[derive(Default)]
struct Rows {
    columns: Vec<Column>,
    cells: Vec<Vec<Option<Cell>>>,
    /// Lines below the table; the number of rows without.
    notes: Vec<String>,
}

/// A column. A document may have a field by the name of its key's column.
#[derive(PartialEq, Eq)]
struct Column {
    name: String,
    is_field: bool,
}

impl<'a> Table<'a> {
    /// Over the form that everything else is printed in.
    pub fn new(inner: Box<dyn Printer + 'a>, width: Option<usize>, numbers: Numbers) -> Table<'a> {
        Table { inner, width, numbers, results: None, held: Held::default(), depth: 0, is_decided: false }
    }

    /// The same for a command whose reply holds the rows of a search.
    pub fn with_results(self, results: Option<ResultForm>) -> Table<'a> {
        Table { results, ..self }
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
            (Part::Open(Aggregate::Array | Aggregate::Map | Aggregate::Attribute, _), 0) => {
                self.results.is_some()
            }
            (_, depth) => depth > 1 || (depth == 1 && self.results.is_some()),
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
            let rows = builder.finish().and_then(|reply| match self.results {
                Some(form) => Rows::of_results(&form.results_of(&reply)?),
                None => Rows::of(&reply, self.numbers),
            });
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
        let mut rows = Rows::default();
        for map in maps {
            let Reply::Map(fields) = map else { return None };
            rows.add(fields.iter().map(|(name, value)| {
                let name = inline(name);
                let cell = Cell::of(&name, value, numbers);
                (Column { name, is_field: true }, cell)
            }))?;
        }
        Some(rows)
    }

    fn of_results(results: &Results) -> Option<Rows> {
        let mut rows = Rows::default();
        for row in &results.rows {
            let about = row.about.iter().map(|(name, value)| ((*name).to_owned(), false, *value));
            let fields = row.fields.iter().map(|(name, value)| (inline(name), true, *value));
            rows.add(
                about
                    .chain(fields)
                    .map(|(name, is_field, value)| (Column { name, is_field }, Cell::of_document(value))),
            )?;
        }
        let shown = counted(rows.cells.len());
        let more = results.total.filter(|total| usize::try_from(*total) != Ok(rows.cells.len()));
        rows.notes.push(more.map_or_else(|| format!("({shown})"), |total| format!("({shown} of {total})")));
        rows.notes.extend(results.warnings.iter().map(|warning| format!("(warning) {}", inline(warning))));
        rows.notes.extend(results.cursor.map(|cursor| match cursor {
            0 => "(no further rows)".to_owned(),
            cursor => format!("(cursor {cursor})"),
        }));
        Some(rows)
    }

    /// Adds a row; `None` if there are too many columns.
    fn add(&mut self, row: impl Iterator<Item = (Column, Cell)>) -> Option<()> {
        let mut cells = vec![None; self.columns.len()];
        for (column, cell) in row {
            let index = self.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
                self.columns.push(column);
                cells.push(None);
                self.columns.len() - 1
            });
            if self.columns.len() > COLUMNS_MAX {
                return None;
            }
            *cells.get_mut(index)? = Some(cell);
        }
        self.cells.push(cells);
        Some(())
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
                cells.map(|cell| columns_of(&cell.text)).max().unwrap_or(0).max(columns_of(&name.name))
            })
            .collect();
        let total = widths.iter().sum::<usize>() + 3 * widths.len().saturating_sub(1);
        let mut out = match width {
            _ if self.columns.is_empty() => String::new(),
            Some(width) if total > width => self.records(),
            _ => self.table(&widths) + &if self.notes.is_empty() { self.count() } else { String::new() },
        };
        self.notes.iter().for_each(|note| out.extend([note, "\n"]));
        out
    }

    fn count(&self) -> String {
        format!("({})\n", counted(self.cells.len()))
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
        let mut out = line(&mut self.columns.iter().map(|column| column.name.as_str()));
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        out.push_str(&format!("{}\n", rules.join("-+-")));
        for row in &self.cells {
            let texts = (0..self.columns.len()).map(|column| Rows::cell(row, column));
            out.push_str(&line(&mut texts.map(|cell| cell.map_or("", |cell| cell.text.as_str()))));
        }
        out
    }

    fn records(&self) -> String {
        let width = self.columns.iter().map(|column| columns_of(&column.name)).max().unwrap_or(0);
        let mut out = String::new();
        for (index, row) in self.cells.iter().enumerate() {
            out.push_str(&format!("-[ {} ]{}\n", index + 1, "-".repeat(width)));
            for (column, Column { name, .. }) in self.columns.iter().enumerate() {
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
    text.width()
}

fn counted(rows: usize) -> String {
    format!("{rows} {}", if rows == 1 { "row" } else { "rows" })
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

    /// A value of a document, whose numbers are texts as the others are.
    fn of_document(value: &Reply) -> Cell {
        let text = inline(value);
        let is_number = text.parse().is_ok_and(|number: f64| number.is_finite());
        Cell { text, is_number }
    }
}

/// A text on one line: as it is, but for backslashes, bytes that are no text, and characters that move the
/// cursor, take no column by themselves or turn the direction of writing.
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    let escape = |bytes: &[u8], out: &mut String| {
        let mut quoted = Vec::new();
        append_escaped(&mut quoted, bytes);
        out.push_str(&String::from_utf8_lossy(&quoted));
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            let is_plain = character != '\\' && !turns && character.width().is_some();
            if is_plain && !matches!(character, '\u{2028}' | '\u{2029}') {
                out.push(character);
            } else {
                escape(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut out);
            }
        }
        escape(chunk.invalid(), &mut out);
    }
    out
}

/// A value on one line.
fn inline(reply: &Reply) -> String {
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
    use crate::format::{Expected, Output, Style, Tables, parts_of};

    fn text(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    fn printed(reply: &Reply, width: Option<usize>, is_human: bool) -> String {
        let expected = Expected { numbers: Numbers::Named(&[]), ..Expected::default() };
        printed_as(expected, reply, width, is_human)
    }

    fn printed_as(expected: Expected, reply: &Reply, width: Option<usize>, is_human: bool) -> String {
        let style = Style { tables: Tables::All, width, is_human, ..Style::new(Output::Standard) };
        let (mut printer, mut out) = (style.printer(expected), Vec::new());
        parts_of(reply, &mut |part| printer.part(part, &mut out));
        printer.end(&mut out);
        String::from_utf8(out).expect("text")
    }

    /// The table of a search's reply.
    fn results(command: &str, reply: &Reply, width: Option<usize>) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let expected = Expected { results: ResultForm::of_command(&words), ..Expected::default() };
        printed_as(expected, reply, width, false)
    }

    fn array(items: &[Reply]) -> Reply {
        Reply::Array(items.to_vec())
    }

    fn map(pairs: &[(&str, Reply)]) -> Reply {
        Reply::Map(pairs.iter().map(|(name, value)| (Reply::Simple((*name).into()), value.clone())).collect())
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
name  | idle | flags  | lag
------+------+--------+------
first | 7200 | [a, b] |
é\\n   |    5 |        | (nil)
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
name  | é\\n
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

    #[test]
    fn documents_are_rows_in_both_protocols() {
        let command = "FT.SEARCH i * WITHSCORES RETURN 1 NOCONTENT LIMIT 0 2";
        let fields = |pairs: &[(&str, Reply)]| {
            array(&pairs.iter().flat_map(|(name, value)| [text(name), value.clone()]).collect::<Vec<_>>())
        };
        let first = [("n", text("1")), ("id", text("own"))];
        let second = [("n", text("250")), ("t", text("日本\n\u{202e}"))];
        let flat = array(&[
            Reply::Int(57),
            text("a"),
            text("1.5"),
            fields(&first),
            text("b"),
            text("0.25"),
            fields(&second),
            text("gone"),
            text("0"),
            Reply::NullArray,
        ]);
        let row = |id: &str, score: &str, fields: Reply| {
            map(&[
                ("id", text(id)),
                ("score", Reply::Double(score.into())),
                ("extra_attributes", fields),
                ("values", array(&[])),
            ])
        };
        let nested = map(&[
            ("attributes", array(&[])),
            ("total_results", Reply::Int(57)),
            ("format", Reply::Simple("STRING".into())),
            (
                "results",
                array(&[
                    row("a", "1.5", map(&first)),
                    row("b", "0.25", map(&second)),
                    row("gone", "0", map(&[])),
                ]),
            ),
            ("warning", array(&[])),
        ]);
        let table = "\
id   | score |   n | id  | t
-----+-------+-----+-----+-------------------
a    |   1.5 |   1 | own |
b    |  0.25 | 250 |     | 日本\\n\\xe2\\x80\\xae
gone |     0 |     |     |
(3 rows of 57)
";
        for reply in [&flat, &nested] {
            assert_eq!(results(command, reply, Some(60)), table);
            let records = results(command, reply, Some(20));
            assert!(
                records.starts_with("-[ 1 ]-----\nid    | a\nscore | 1.5\nn     | 1\nid    | own\n"),
                "{records}"
            );
            assert!(records.ends_with("score | 0\n(3 rows of 57)\n"), "{records}");
        }
    }

    #[test]
    fn rows_have_what_the_options_ask_for() {
        let keys = array(&[Reply::Int(2), text("a\u{0}"), Reply::Bulk(b"b\xff".to_vec())]);
        for options in ["NOCONTENT", "RETURN 0", "PARAMS 2 WITHSCORES 1 nocontent"] {
            let shown = results(&format!("ft.search i * {options}"), &keys, None);
            assert_eq!(shown, "id\n-----\na\\x00\nb\\xff\n(2 rows)\n", "{options}");
        }
        let all = array(&[
            Reply::Int(1),
            text("a"),
            array(&[text("1"), array(&[text("why"), array(&[text("a"), text("b")])])]),
            Reply::NullBulk,
            text("#1"),
            array(&[]),
        ]);
        let command = "FT.SEARCH i * WITHSCORES EXPLAINSCORE WITHPAYLOADS SORTBY n WITHSORTKEYS";
        let table = "id | score              | payload | sortkey\n\
                     ---+--------------------+---------+--------\n\
                     a  | [1, [why, [a, b]]] | (nil)   | #1\n(1 row)\n";
        assert_eq!(results(command, &all, None), table);
        let none = array(&[Reply::Int(2)]);
        assert_eq!(results("FT.SEARCH i * LIMIT 0 0", &none, None), "(0 rows of 2)\n");
        assert_eq!(results("FT.SEARCH i none", &array(&[Reply::Int(0)]), None), "(0 rows)\n");
    }

    #[test]
    fn pipelines_cursors_and_hybrid_results_are_rows() {
        let rows = array(&[
            Reply::Int(1),
            array(&[text("g"), text("x"), text("l"), array(&[text("a"), text("b")])]),
        ]);
        let table = "g | l\n--+-------\nx | [a, b]\n(1 row)\n";
        assert_eq!(results("FT.AGGREGATE i *", &rows, None), table);
        let cursor = array(&[rows, Reply::Int(7)]);
        assert_eq!(results("FT.AGGREGATE i * WITHCURSOR", &cursor, None), format!("{table}(cursor 7)\n"));
        let last = array(&[
            map(&[
                ("total_results", Reply::Int(9)),
                (
                    "results",
                    array(&[map(&[("extra_attributes", map(&[("g", text("y"))])), ("values", array(&[]))])]),
                ),
                ("warning", array(&[Reply::Simple("Timeout limit was reached".into())])),
            ]),
            Reply::Int(0),
        ]);
        let table = "g\n-\ny\n(1 row)\n(warning) Timeout limit was reached\n(no further rows)\n";
        assert_eq!(results("FT.CURSOR READ i 7", &last, None), table);
        let hit = [("__key", text("a")), ("__score", text("0.5"))];
        let flat = |pairs: &[(&str, Reply)]| {
            array(&pairs.iter().flat_map(|(name, value)| [text(name), value.clone()]).collect::<Vec<_>>())
        };
        let reply = |hit: Reply| {
            [("total_results", Reply::Int(3)), ("results", array(&[hit])), ("warnings", array(&[]))]
        };
        let table = "__key | __score\n------+--------\na     |     0.5\n(1 row of 3)\n";
        assert_eq!(results("FT.HYBRID i SEARCH x", &flat(&reply(flat(&hit))), None), table);
        assert_eq!(results("FT.HYBRID i SEARCH x", &map(&reply(map(&hit))), None), table);
    }

    #[test]
    fn replies_without_rows_are_printed_as_ever() {
        let long = array(&[Reply::Int(1), text("a"), array(&[text("t"), text(&"x".repeat(2 << 20))])]);
        for reply in [
            Reply::Error("Unknown index name".into()),
            Reply::Simple("QUEUED".into()),
            array(&[]),
            array(&[Reply::Int(1), text("a")]),
            array(&[Reply::Int(1), text("a"), array(&[text("odd")])]),
            map(&[("results", Reply::Int(1))]),
            Reply::Null,
            long,
        ] {
            let plain = Style::new(Output::Standard).text(&reply);
            assert_eq!(results("FT.SEARCH i *", &reply, None).into_bytes(), plain);
        }
        let list = array(&[map(&[("a", Reply::Int(1))])]);
        assert_eq!(results("XINFO GROUPS s", &list, None), "a\n-\n1\n(1 row)\n");
    }
}
