//! The options that FT.SEARCH and FT.AGGREGATE share, and the parser of both.

use super::filter::{GeoFilter, NumericFilter, filter, geo_filter};
use super::returned::{Returned, highlight, returned, summarize};
use crate::Error;
use crate::arguments::{self, Numbers};
use crate::schema::{Language, MAX_FIELDS};
use std::collections::HashSet;

/// The greatest dialect.
const MAX_DIALECT: u32 = 4;
/// The most fields to sort by.
pub(crate) const SORT_KEYS_MAX: usize = 8;

/// What `FT.CONFIG` and the `search-*` parameters give.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Limits {
    /// MAXSEARCHRESULTS
    pub search_results: u64,
    /// MAXAGGREGATERESULTS
    pub aggregate_results: u64,
    /// CURSOR_MAX_IDLE, and what MAXIDLE may be at the most, milliseconds.
    pub cursor_idle_ms: u32,
    /// CURSOR_READ_SIZE
    pub cursor_count: u32,
    /// DEFAULT_DIALECT
    pub dialect: u32,
    /// TIMEOUT, milliseconds; 0 is unlimited.
    pub timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            search_results: 1_000_000,
            aggregate_results: u64::MAX,
            cursor_idle_ms: 300_000,
            cursor_count: 1000,
            dialect: 1,
            timeout_ms: 500,
        }
    }
}

/// The query and how it is evaluated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The query's text.
    pub text: Box<[u8]>,
    /// VERBATIM: terms are not stemmed, nor expanded by synonyms.
    pub verbatim: bool,
    /// NOSTOPWORDS: stop words are looked for.
    pub no_stopwords: bool,
    /// INORDER
    pub in_order: bool,
    /// SLOP; a negative one is unlimited.
    pub slop: Option<i32>,
    language: Option<Box<[u8]>>,
    /// EXPANDER
    pub expander: Option<Box<[u8]>>,
    scorer: Option<Box<[u8]>>,
    /// PAYLOAD
    pub payload: Option<Box<[u8]>>,
    /// INKEYS
    pub keys: Option<Vec<Box<[u8]>>>,
    /// INFIELDS; none or empty: all.
    pub fields: Vec<Box<[u8]>>,
    /// PARAMS, each name once.
    pub parameters: Vec<Parameter>,
    /// DIALECT
    pub dialect: u32,
    /// TIMEOUT, milliseconds; 0 is unlimited.
    pub timeout_ms: u64,
    /// Whether the number of all results is wanted: WITHCOUNT, WITHOUTCOUNT, or the dialect's default.
    pub with_count: bool,
    /// FORMAT
    pub format: Format,
}

/// One of PARAMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name, without `$`.
    pub name: Box<[u8]>,
    /// The parameter's value.
    pub value: Box<[u8]>,
}

/// How values are shown.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As text.
    #[default]
    Text,
    /// As typed values; of JSON in RESP3 only.
    Expand,
}

impl Query {
    /// LANGUAGE.
    ///
    /// # Errors
    ///
    /// A language that there is not.
    pub fn language(&self) -> Result<Option<Language>, Error> {
        let Some(name) = &self.language else { return Ok(None) };
        Language::parse(name).map(Some).ok_or_else(|| Error::new("No such language"))
    }

    /// SCORER, of those that there are.
    ///
    /// # Errors
    ///
    /// `scorer_of` does not know the name.
    pub fn scorer<S>(&self, scorer_of: impl FnOnce(&[u8]) -> Option<S>) -> Result<Option<S>, Error> {
        let Some(name) = &self.scorer else { return Ok(None) };
        let unknown = || Error::new(format!("No such scorer {}", String::from_utf8_lossy(name)));
        scorer_of(name).map(Some).ok_or_else(unknown)
    }

    /// Refuses FORMAT EXPAND where it cannot be had.
    ///
    /// # Errors
    ///
    /// The reply is RESP2, or the index is one of hashes.
    pub fn check_format(&self, is_resp3: bool, is_json: bool) -> Result<(), Error> {
        match (self.format, is_resp3, is_json) {
            (Format::Expand, false, _) => Err(Error::new("EXPAND format is only supported with RESP3")),
            (Format::Expand, true, false) => Err(Error::new("EXPAND format is only supported with JSON")),
            _ => Ok(()),
        }
    }
}

/// WITHCURSOR
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// COUNT: rows of a reply.
    pub count: u32,
    /// MAXIDLE, milliseconds.
    pub idle_ms: u32,
}

/// A property to sort by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The property's name.
    pub name: Box<[u8]>,
    /// DESC
    pub descending: bool,
}

/// SORTBY and LIMIT that stand beside each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrange {
    /// SORTBY; none: by score in FT.SEARCH, in any order in FT.AGGREGATE.
    pub sort: Option<Vec<SortKey>>,
    /// Rows that are left out.
    pub offset: u64,
    /// Rows at the most, of LIMIT or MAX; 0 is not given.
    pub count: u64,
}

impl Arrange {
    /// Rows of a sort or a search without LIMIT.
    pub const DEFAULT_COUNT: u64 = 10;

    /// How many rows a sort keeps: the ones that are left out, too.
    pub fn kept(&self, most: u64) -> u64 {
        let kept = match self.offset.saturating_add(self.count) {
            0 => Self::DEFAULT_COUNT,
            kept => kept,
        };
        kept.min(most)
    }
}

/// What only FT.SEARCH sends; FT.AGGREGATE parses some of it.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) no_content: bool,
    pub(crate) with_scores: bool,
    pub(crate) add_scores: bool,
    pub(crate) explain_score: bool,
    pub(crate) with_payloads: bool,
    pub(crate) with_sort_keys: bool,
    pub(crate) filters: Vec<NumericFilter>,
    pub(crate) geo_filter: Option<GeoFilter>,
    pub(crate) returned: Returned,
}

/// The state of parsing.
pub(crate) struct Parser<'a> {
    arguments: usize,
    limits: &'a Limits,
    is_search: bool,
    pub(crate) cursor: arguments::Cursor<'a>,
    pub(crate) query: Query,
    pub(crate) output: Output,
    /// The SORTBY and LIMIT that further ones are added to.
    pub(crate) arrange: Option<Arrange>,
    pub(crate) count_only: bool,
    pub(crate) cursor_options: Option<Cursor>,
    with_count: Option<bool>,
    return_arguments: Option<arguments::Cursor<'a>>,
}

impl<'a> Parser<'a> {
    /// Parses the query's text.
    pub(crate) fn new(arguments: &'a [&'a [u8]], limits: &'a Limits, is_search: bool) -> Result<Self, Error> {
        let mut cursor = arguments::Cursor::new(arguments, Numbers::C);
        let text = cursor.take_next().ok_or_else(|| Error::new("No query string provided"))?;
        let query = Query {
            text: text.into(),
            dialect: limits.dialect,
            timeout_ms: limits.timeout_ms,
            ..Query::default()
        };
        Ok(Parser {
            arguments: arguments.len(),
            limits,
            is_search,
            cursor,
            query,
            output: Output::default(),
            arrange: None,
            count_only: false,
            cursor_options: None,
            with_count: None,
            return_arguments: None,
        })
    }

    /// The error of the next argument.
    pub(crate) fn unknown_argument(&self) -> Error {
        let argument = String::from_utf8_lossy(self.cursor.peek().unwrap_or_default());
        let position = self.arguments - self.cursor.len();
        Error::new(format!("Unknown argument `{argument}` at position {position} for <main>"))
    }

    /// Everything up to the first argument that begins a step of FT.AGGREGATE or is unknown.
    pub(crate) fn options(&mut self) -> Result<(), Error> {
        while !self.cursor.is_at_end() {
            if !(self.flag() || self.value()? || self.search_option()? || self.common()?) {
                break;
            }
        }
        self.query.with_count = self.with_count.unwrap_or(self.query.dialect < MAX_DIALECT);
        if self.output.explain_score && !self.output.with_scores {
            return Err(Error::new("EXPLAINSCORE must be accompanied with WITHSCORES"));
        }
        if self.is_search && self.output.add_scores {
            return Err(Error::new("ADDSCORES is not supported on FT.SEARCH"));
        }
        if let Some(arguments) = self.return_arguments.take() {
            if !self.is_search {
                return Err(Error::new("RETURN is not supported on FT.AGGREGATE"));
            }
            returned(arguments, &mut self.output.returned)?;
        }
        if self.output.returned.fields.len() > MAX_FIELDS {
            return Err(Error::new(format!("RETURN is limited to {MAX_FIELDS} fields")));
        }
        Ok(())
    }

    /// An option that has no value.
    fn flag(&mut self) -> bool {
        let (query, output) = (&mut self.query, &mut self.output);
        let flags = [
            ("INORDER", &mut query.in_order),
            ("VERBATIM", &mut query.verbatim),
            ("WITHSCORES", &mut output.with_scores),
            ("ADDSCORES", &mut output.add_scores),
            ("WITHSORTKEYS", &mut output.with_sort_keys),
            ("WITHPAYLOADS", &mut output.with_payloads),
            ("NOCONTENT", &mut output.no_content),
            ("NOSTOPWORDS", &mut query.no_stopwords),
            ("EXPLAINSCORE", &mut output.explain_score),
        ];
        for (name, flag) in flags {
            if self.cursor.take(name) {
                *flag = true;
                return true;
            }
        }
        let with_count = self.cursor.take("WITHCOUNT");
        if with_count || self.cursor.take("WITHOUTCOUNT") {
            self.with_count = Some(with_count);
            return true;
        }
        false
    }

    /// An option with a value, or with a counted list.
    pub(crate) fn value(&mut self) -> Result<bool, Error> {
        let (cursor, query) = (&mut self.cursor, &mut self.query);
        let texts = [
            ("LANGUAGE", &mut query.language),
            ("EXPANDER", &mut query.expander),
            ("SCORER", &mut query.scorer),
            ("PAYLOAD", &mut query.payload),
        ];
        for (name, text) in texts {
            if cursor.take(name) {
                *text = Some(cursor.string().map_err(|refused| refused.of(name))?.into());
                return Ok(true);
            }
        }
        let owned = |list: arguments::Cursor<'_>| list.rest().iter().map(|text| Box::from(*text)).collect();
        if cursor.take("SLOP") {
            query.slop = Some(cursor.i32_coalesced().map_err(|refused| refused.of("SLOP"))?);
        } else if cursor.take("INKEYS") {
            query.keys = Some(owned(cursor.counted().map_err(|refused| refused.of("INKEYS"))?));
        } else if cursor.take("INFIELDS") {
            query.fields = owned(cursor.counted().map_err(|refused| refused.of("INFIELDS"))?);
        } else if cursor.take("RETURN") {
            self.return_arguments = Some(cursor.counted().map_err(|refused| refused.of("RETURN"))?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// An option of FT.SEARCH alone.
    fn search_option(&mut self) -> Result<bool, Error> {
        let (cursor, output) = (&mut self.cursor, &mut self.output);
        for (name, parse) in [
            ("SUMMARIZE", summarize as fn(&mut arguments::Cursor<'_>, &mut Returned) -> Option<()>),
            ("HIGHLIGHT", highlight),
        ] {
            if !cursor.take(name) {
                continue;
            }
            if !self.is_search {
                return Err(Error::new(format!("{name} is not supported on FT.AGGREGATE")));
            }
            parse(cursor, &mut output.returned)
                .ok_or_else(|| Error::new(format!("Bad arguments for {name}")))?;
            return Ok(true);
        }
        if !self.is_search {
            return Ok(false);
        }
        if cursor.take("FILTER") {
            output.filters.push(filter(cursor)?);
        } else if cursor.take("GEOFILTER") {
            output.geo_filter = Some(geo_filter(cursor)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// An option that may also stand between steps.
    pub(crate) fn common(&mut self) -> Result<bool, Error> {
        if self.cursor.take("LIMIT") {
            self.limit()?;
        } else if self.cursor.take("SORTBY") {
            self.sort_by()?;
        } else if self.cursor.take("TIMEOUT") {
            if self.cursor.is_at_end() {
                return Err(Error::new("Need argument for TIMEOUT"));
            }
            let refused = |_| Error::new("TIMEOUT requires a non negative integer");
            self.query.timeout_ms = self.cursor.u64(0).map_err(refused)?;
        } else if self.cursor.take("WITHCURSOR") {
            self.with_cursor()?;
        } else if self.cursor.take("PARAMS") {
            self.parameters()?;
        } else if self.cursor.take("DIALECT") {
            self.dialect()?;
        } else if self.cursor.take("FORMAT") {
            self.format()?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn limit(&mut self) -> Result<(), Error> {
        if self.cursor.len() < 2 {
            return Err(Error::new("LIMIT requires two arguments"));
        }
        let refused = |_| Error::new("LIMIT needs two numeric arguments");
        let offset = self.cursor.u64(0).map_err(refused)?;
        let count = self.cursor.u64(0).map_err(refused)?;
        let most = match self.is_search {
            true => self.limits.search_results,
            false => self.limits.aggregate_results,
        };
        if count == 0 {
            self.count_only = true;
        } else if count > most {
            return Err(Error::new(format!("LIMIT exceeds maximum of {most}")));
        } else if offset > self.limits.search_results {
            return Err(Error::new(format!("OFFSET exceeds maximum of {}", self.limits.search_results)));
        }
        let arrange = self.arrange.get_or_insert_default();
        (arrange.offset, arrange.count) = (offset, count);
        Ok(())
    }

    fn sort_by(&mut self) -> Result<(), Error> {
        let is_search = self.is_search;
        if self.arrange.as_ref().is_some_and(|arrange| arrange.sort.is_some()) {
            return Err(Error::new(match is_search {
                true => "Multiple SORTBY steps are not allowed",
                false => "Multiple SORTBY steps are not allowed. Sort multiple fields in a single step",
            }));
        }
        let keys = match is_search {
            true => self.legacy_sort_key()?,
            false => self.sort_keys()?,
        };
        let mut most = None;
        if self.cursor.take("MAX") {
            if is_search {
                return Err(Error::new("SORTBY MAX is not supported by FT.SEARCH"));
            }
            // RediSearch has one error for all that may be wrong.
            let refused = |_| arguments::Refused::Parse.of("MAX");
            most = Some(self.cursor.u32(0).map_err(refused)?);
        }
        let arrange = self.arrange.get_or_insert_default();
        arrange.sort = Some(keys);
        if let Some(most) = most {
            arrange.count = u64::from(most);
        }
        Ok(())
    }

    /// FT.SEARCH sorts by one field.
    fn legacy_sort_key(&mut self) -> Result<Vec<SortKey>, Error> {
        let name = self.cursor.take_next().ok_or_else(|| Error::new("Bad SORTBY arguments"))?;
        let descending = self.cursor.take("DESC");
        if !descending {
            self.cursor.take("ASC");
        }
        Ok(vec![SortKey { name: name.into(), descending }])
    }

    fn sort_keys(&mut self) -> Result<Vec<SortKey>, Error> {
        let mut words = self.cursor.counted().map_err(|refused| refused.of("SORTBY"))?;
        let mut keys: Vec<SortKey> = Vec::new();
        while let Some(word) = words.take_next() {
            if let Some(name) = word.strip_prefix(b"@") {
                if keys.len() >= SORT_KEYS_MAX {
                    return Err(Error::new(format!("Cannot sort by more than {SORT_KEYS_MAX} fields")));
                }
                keys.push(SortKey { name: name.into(), descending: false });
                continue;
            }
            let descending = word.eq_ignore_ascii_case(b"DESC");
            if !descending && !word.eq_ignore_ascii_case(b"ASC") {
                let word = String::from_utf8_lossy(word);
                return Err(Error::new(format!("MISSING ASC or DESC after sort field ({word})")));
            }
            if let Some(key) = keys.last_mut() {
                key.descending = descending;
            }
        }
        Ok(keys)
    }

    fn with_cursor(&mut self) -> Result<(), Error> {
        let most = self.limits.cursor_idle_ms;
        let mut options =
            self.cursor_options.unwrap_or(Cursor { count: self.limits.cursor_count, idle_ms: most });
        loop {
            if self.cursor.take("MAXIDLE") {
                let idle_ms = self.cursor.u32(1).map_err(|refused| refused.of("MAXIDLE"))?;
                options.idle_ms = idle_ms.min(most);
            } else if self.cursor.take("COUNT") {
                options.count = self.cursor.u32(1).map_err(|refused| refused.of("COUNT"))?;
            } else {
                break;
            }
        }
        self.cursor_options = Some(options);
        Ok(())
    }

    /// PARAMS, behind its name.
    pub(crate) fn parameters(&mut self) -> Result<(), Error> {
        let words = self.cursor.counted().map_err(|refused| refused.of("PARAMS"))?;
        if !self.query.parameters.is_empty() {
            return Err(Error::new("Multiple PARAMS are not allowed. Parameters can be defined only once"));
        }
        let (pairs, rest) = words.rest().as_chunks::<2>();
        if pairs.is_empty() || !rest.is_empty() {
            return Err(Error::new("Parameters must be specified in PARAM VALUE pairs"));
        }
        let mut names = HashSet::with_capacity(pairs.len());
        for [name, value] in pairs {
            if !names.insert(*name) {
                let name = String::from_utf8_lossy(name);
                return Err(Error::new(format!("Duplicate parameter `{name}`")));
            }
            self.query.parameters.push(Parameter { name: (*name).into(), value: (*value).into() });
        }
        Ok(())
    }

    fn dialect(&mut self) -> Result<(), Error> {
        self.query.dialect = read_dialect(&mut self.cursor)?;
        self.check_dialect()
    }

    fn format(&mut self) -> Result<(), Error> {
        let name = self.cursor.take_next().ok_or_else(|| Error::new("Need an argument for FORMAT"))?;
        self.query.format = match name {
            _ if name.eq_ignore_ascii_case(b"EXPAND") => Format::Expand,
            _ if name.eq_ignore_ascii_case(b"STRING") => Format::Text,
            _ => {
                let name = String::from_utf8_lossy(name);
                return Err(Error::new(format!("FORMAT {name} is not supported")));
            }
        };
        Ok(())
    }

    fn check_dialect(&self) -> Result<(), Error> {
        if self.query.format == Format::Expand && self.query.dialect < 3 {
            return Err(Error::new("EXPAND format requires dialect 3 or greater"));
        }
        Ok(())
    }
}

/// The value of DIALECT, which is next.
pub(crate) fn read_dialect(cursor: &mut arguments::Cursor<'_>) -> Result<u32, Error> {
    if cursor.is_at_end() {
        return Err(Error::new("Need an argument for DIALECT"));
    }
    let dialect = cursor.u32(1).ok().filter(|dialect| *dialect <= MAX_DIALECT);
    dialect.ok_or_else(|| {
        Error::new(format!("DIALECT requires a non negative integer >=1 and <= {MAX_DIALECT}"))
    })
}
