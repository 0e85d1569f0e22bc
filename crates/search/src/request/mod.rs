//! The arguments of FT.SEARCH, and what FT.AGGREGATE has in common with it.
//!
//! A request is parsed without any index. The language, the scorer and properties keep their names; they are
//! checked later, as RediSearch does.

mod filter;
mod options;
mod returned;
#[cfg(test)]
mod tests;

pub use filter::{Bound, GeoFilter, NumericFilter, Unit};
pub use options::{Arrange, Cursor, Format, Limits, Parameter, Query, SortKey};
pub use returned::{Highlight, Returned, ReturnedField, Summarize};

pub(crate) use options::{Parser, SORT_KEYS_MAX, read_dialect};

use crate::Error;

/// FT.SEARCH.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The query and how it is evaluated.
    pub query: Query,
    /// NOCONTENT, or RETURN 0.
    pub no_content: bool,
    /// WITHSCORES
    pub with_scores: bool,
    /// EXPLAINSCORE
    pub explain_score: bool,
    /// WITHPAYLOADS
    pub with_payloads: bool,
    /// WITHSORTKEYS
    pub with_sort_keys: bool,
    /// Every FILTER.
    pub filters: Vec<NumericFilter>,
    /// The last GEOFILTER.
    pub geo_filter: Option<GeoFilter>,
    /// RETURN, SUMMARIZE and HIGHLIGHT.
    pub returned: Returned,
    /// SORTBY and LIMIT; the first ten without.
    pub arrange: Arrange,
    /// LIMIT with a length of 0: only the count is wanted.
    pub count_only: bool,
    /// WITHCURSOR
    pub cursor: Option<Cursor>,
}

impl Search {
    /// The request of these arguments, from the query on.
    ///
    /// # Errors
    ///
    /// The first argument that RediSearch refuses.
    pub fn parse(arguments: &[&[u8]], limits: &Limits) -> Result<Search, Error> {
        let mut parser = Parser::new(arguments, limits, true)?;
        parser.options()?;
        if !parser.cursor.is_at_end() {
            return Err(match parser.cursor.take("GROUPBY") {
                true => {
                    Error::new("option `GROUPBY` is mutually exclusive with simple (i.e. search) options")
                }
                false => parser.unknown_argument(),
            });
        }
        let (output, query) = (parser.output, parser.query);
        Ok(Search {
            query,
            no_content: output.no_content
                || (output.returned.is_explicit && output.returned.fields.is_empty()),
            with_scores: output.with_scores,
            explain_score: output.explain_score,
            with_payloads: output.with_payloads,
            with_sort_keys: output.with_sort_keys,
            filters: output.filters,
            geo_filter: output.geo_filter,
            returned: output.returned,
            arrange: parser.arrange.unwrap_or_default(),
            count_only: parser.count_only,
            cursor: parser.cursor_options,
        })
    }
}
