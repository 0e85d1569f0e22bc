//! The replies of FT.SEARCH, FT.AGGREGATE, FT.CURSOR READ and FT.HYBRID as rows, in RESP2 and RESP3.
//!
//! Invariant: a reply of any other form has no rows, and is printed as without tables.

use martlet_client::resp::Reply;

/// How a command's reply holds rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultForm {
    /// FT.SEARCH: in RESP2 a document is several elements.
    Search(DocumentParts),
    /// FT.AGGREGATE, FT.CURSOR READ: rows, with a cursor behind them or not.
    Rows,
    /// FT.HYBRID: a map, which RESP2 has as names and values in turn.
    Hybrid,
}

/// The elements of a document in FT.SEARCH's reply, in order, besides its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentParts {
    has_score: bool,
    has_payload: bool,
    has_sort_key: bool,
    has_no_fields: bool,
}

/// Rows, and the figures beside them.
#[derive(Debug, Default, PartialEq)]
pub struct Results<'r> {
    /// How many documents match, where the reply says so reliably.
    pub total: Option<i64>,
    /// The cursor for further rows; 0 once there are none.
    pub cursor: Option<i64>,
    /// Warnings of the server.
    pub warnings: Vec<&'r Reply>,
    /// The rows.
    pub rows: Vec<ResultRow<'r>>,
}

/// A row.
#[derive(Debug, Default, PartialEq)]
pub struct ResultRow<'r> {
    /// What the reply says of the document: its key, score and others.
    pub about: Vec<(&'static str, &'r Reply)>,
    /// The names and values of its fields.
    pub fields: Vec<(&'r Reply, &'r Reply)>,
}

/// Options of FT.SEARCH with this number of arguments.
const WITH_ARGUMENTS: &[(&str, usize)] = &[
    ("LANGUAGE", 1),
    ("SCORER", 1),
    ("EXPANDER", 1),
    ("PAYLOAD", 1),
    ("SLOP", 1),
    ("TIMEOUT", 1),
    ("DIALECT", 1),
    ("FORMAT", 1),
    ("SORTBY", 1),
    ("FRAGS", 1),
    ("LEN", 1),
    ("SEPARATOR", 1),
    ("TAGS", 2),
    ("LIMIT", 2),
    ("FILTER", 3),
    ("GEOFILTER", 5),
];

/// Options of FT.SEARCH that count their arguments.
const COUNTED: &[&str] = &["RETURN", "INKEYS", "INFIELDS", "FIELDS", "PARAMS"];

impl ResultForm {
    /// The form of a command's reply; `None` for commands without rows.
    pub fn of_command(words: &[&[u8]]) -> Option<ResultForm> {
        let is = |index: usize, name: &str| {
            words.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        if is(0, "FT.SEARCH") {
            Some(ResultForm::Search(DocumentParts::of_options(words.get(3..).unwrap_or_default())))
        } else if is(0, "FT.AGGREGATE") || (is(0, "FT.CURSOR") && is(1, "READ")) {
            Some(ResultForm::Rows)
        } else if is(0, "FT.HYBRID") {
            Some(ResultForm::Hybrid)
        } else {
            None
        }
    }

    /// The rows of a reply; `None` if it is of another form.
    pub fn results_of(self, reply: &Reply) -> Option<Results<'_>> {
        match (self, reply) {
            (_, Reply::Attributed(_, reply)) => self.results_of(reply),
            (ResultForm::Hybrid, reply) => Results::of_map(&pairs(reply)?),
            (_, Reply::Map(map)) => {
                let pairs: Vec<_> = map.iter().map(|(name, value)| (name, value)).collect();
                let results = Results::of_map(&pairs)?;
                // FT.AGGREGATE's total is a count of rows so far.
                let total = results.total.filter(|_| self != ResultForm::Rows);
                Some(Results { total, ..results })
            }
            (ResultForm::Search(parts), Reply::Array(items)) => parts.documents(items),
            (ResultForm::Rows, Reply::Array(items)) => match items.as_slice() {
                [rows @ (Reply::Array(_) | Reply::Map(_)), Reply::Int(cursor)] => {
                    Some(Results { cursor: Some(*cursor), ..self.results_of(rows)? })
                }
                [Reply::Int(_), rows @ ..] => {
                    let row = |row| Some(ResultRow { about: Vec::new(), fields: pairs(row)? });
                    Some(Results { rows: rows.iter().map(row).collect::<Option<_>>()?, ..Results::default() })
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl DocumentParts {
    /// Reads the options behind FT.SEARCH's query.
    fn of_options(options: &[&[u8]]) -> DocumentParts {
        let mut parts = DocumentParts::default();
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            parts.has_score |= is("WITHSCORES");
            parts.has_payload |= is("WITHPAYLOADS");
            parts.has_sort_key |= is("WITHSORTKEYS");
            parts.has_no_fields |= is("NOCONTENT");
            let mut skipped = WITH_ARGUMENTS.iter().find(|(name, _)| is(name)).map_or(0, |(_, count)| *count);
            if COUNTED.iter().any(|name| is(name)) {
                let count = rest.next().and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
                skipped = count.unwrap_or(0);
                parts.has_no_fields |= is("RETURN") && count == Some(0);
            }
            if let Some(last) = skipped.checked_sub(1) {
                rest.nth(last);
            }
        }
        parts
    }

    /// The rows of FT.SEARCH's reply in RESP2.
    fn documents(self, items: &[Reply]) -> Option<Results<'_>> {
        let [Reply::Int(total), items @ ..] = items else { return None };
        let about: Vec<&'static str> = [
            (true, "id"),
            (self.has_score, "score"),
            (self.has_payload, "payload"),
            (self.has_sort_key, "sortkey"),
        ]
        .into_iter()
        .filter_map(|(is_there, name)| is_there.then_some(name))
        .collect();
        let length = about.len() + usize::from(!self.has_no_fields);
        let documents = items.chunks_exact(length);
        if !documents.remainder().is_empty() {
            return None;
        }
        let rows = documents.map(|document| self.row(&about, document)).collect::<Option<_>>()?;
        Some(Results { total: Some(*total), rows, ..Results::default() })
    }

    fn row<'r>(self, about: &[&'static str], document: &'r [Reply]) -> Option<ResultRow<'r>> {
        let fields = if self.has_no_fields { Vec::new() } else { pairs(document.last()?)? };
        Some(ResultRow { about: about.iter().copied().zip(document).collect(), fields })
    }
}

impl<'r> Results<'r> {
    /// The rows of a map of results.
    fn of_map(map: &[(&'r Reply, &'r Reply)]) -> Option<Results<'r>> {
        let mut results = Results::default();
        let mut has_rows = false;
        for (name, value) in map {
            match (name.text()?, value) {
                (b"total_results", Reply::Int(total)) => results.total = Some(*total),
                (b"results", Reply::Array(rows)) => {
                    has_rows = true;
                    results.rows = rows.iter().map(ResultRow::of_map).collect::<Option<_>>()?;
                }
                (b"warning" | b"warnings", Reply::Array(warnings)) => results.warnings.extend(warnings),
                _ => {}
            }
        }
        has_rows.then_some(results)
    }
}

impl<'r> ResultRow<'r> {
    /// A row that is a map: FT.HYBRID's holds the fields, the others' have them below `extra_attributes`.
    fn of_map(row: &'r Reply) -> Option<ResultRow<'r>> {
        let map = pairs(row)?;
        let value = |wanted: &str| {
            let found = map.iter().find(|(name, _)| name.text() == Some(wanted.as_bytes()));
            found.map(|(_, value)| *value)
        };
        let is_nested = matches!(row, Reply::Map(_))
            && (value("extra_attributes").is_some() || (value("id").is_some() && value("values").is_some()));
        if !is_nested {
            return Some(ResultRow { about: Vec::new(), fields: map });
        }
        let about = ["id", "score", "payload", "sortkey"];
        let about = about.into_iter().filter_map(|name| Some((name, value(name)?))).collect();
        Some(ResultRow { about, fields: value("extra_attributes").map_or(Some(Vec::new()), pairs)? })
    }
}

/// A map, or the names and values of an array in turn; none where there is nothing.
fn pairs(reply: &Reply) -> Option<Vec<(&Reply, &Reply)>> {
    match reply {
        Reply::Map(map) => Some(map.iter().map(|(name, value)| (name, value)).collect()),
        Reply::Array(items) => {
            let (pairs, rest) = items.as_chunks::<2>();
            rest.is_empty().then(|| pairs.iter().map(|[name, value]| (name, value)).collect())
        }
        Reply::Null | Reply::NullBulk | Reply::NullArray => Some(Vec::new()),
        _ => None,
    }
}
