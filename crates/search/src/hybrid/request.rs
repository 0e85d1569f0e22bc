//! The arguments of FT.HYBRID.
//!
//! A request is parsed without any index, as the other ones are. Errors are in the words of RediSearch 8.4.

use super::fusion::{Combine, Method};
use crate::Error;
use crate::aggregate::request::{MAX_STEPS, Step, expression, group, load};
use crate::arguments::{self, Numbers, Refused};
use crate::query::ast::{Near, Policy};
use crate::request::{Arrange, Cursor, Limits, Parser, Query, SortKey};

const DIALECT: &str = "DIALECT is not supported in FT.HYBRID or any of its subqueries. Please check the \
                       documentation on search-default-dialect configuration.";

/// FT.HYBRID.
#[derive(Clone, Debug, PartialEq)]
pub struct Hybrid {
    /// SEARCH with its SCORER, PARAMS, TIMEOUT and FORMAT. The dialect is at least 2.
    pub query: Query,
    /// YIELD_SCORE_AS of SEARCH: the property that has the score by text.
    pub search_score_name: Option<Box<[u8]>>,
    /// VSIM
    pub vector: VectorPart,
    /// COMBINE
    pub combine: Combine,
    /// The steps that the fused list goes through.
    pub tail: Tail,
}

/// VSIM
#[derive(Clone, Debug, PartialEq)]
pub struct VectorPart {
    /// The field's name.
    pub field: Box<[u8]>,
    /// The name of the parameter that has the vector.
    pub parameter: Box<[u8]>,
    /// KNN or RANGE.
    pub near: Near,
    /// EF_RUNTIME
    pub ef_runtime: Option<usize>,
    /// EPSILON
    pub epsilon: Option<f64>,
    /// FILTER: the query whose documents are candidates.
    pub filter: Option<Box<[u8]>>,
    /// POLICY
    pub policy: Option<Policy>,
    /// BATCH_SIZE
    pub batch_size: Option<usize>,
    /// YIELD_SCORE_AS: the property that has the similarity.
    pub score_name: Option<Box<[u8]>>,
}

/// The steps and options behind both parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tail {
    /// The steps in their order, LOAD among them.
    pub steps: Vec<Step>,
    /// NOSORT: rows are not sorted by the fused score.
    pub no_sort: bool,
    /// LIMIT with a length of 0: only the count is wanted.
    pub count_only: bool,
    /// WITHCURSOR
    pub cursor: Option<Cursor>,
}

impl Hybrid {
    /// The request of these arguments, from the one behind the index's name on.
    ///
    /// # Errors
    ///
    /// The first argument that RediSearch refuses.
    pub fn parse(arguments: &[&[u8]], limits: &Limits) -> Result<Hybrid, Error> {
        let mut cursor = arguments::Cursor::new(arguments, Numbers::C);
        begin(&mut cursor)?;
        let missing = || Error::new("No query string provided for SEARCH");
        if cursor.is_at_end() {
            return Err(missing());
        }
        let mut parser = Parser::new(cursor.rest(), limits, false)?;
        parser.query.dialect = limits.dialect.max(2);
        parser.query.with_count = true;
        let search_score_name = search(&mut parser)?;
        let vector = vector(&mut parser.cursor)?;
        let mut rest = Rest { tail: Tail::default(), combine: None, seen: Vec::new(), late: None };
        while !parser.cursor.is_at_end() {
            rest.argument(&mut parser, limits)?;
        }
        rest.tail.steps.extend(parser.arrange.take().map(Step::Arrange));
        if let Some(error) = rest.late {
            return Err(error);
        }
        Ok(Hybrid {
            query: parser.query,
            search_score_name,
            vector,
            combine: rest.combine.unwrap_or_default(),
            tail: Tail { count_only: parser.count_only, cursor: parser.cursor_options, ..rest.tail },
        })
    }

    /// The most vectors that are looked for.
    pub fn nearest_max(&self) -> usize {
        match self.vector.near {
            Near::Nearest(count) => usize::try_from(count).unwrap_or(usize::MAX).min(self.combine.window),
            Near::Within(_) => self.combine.window,
        }
    }
}

fn is_next(cursor: &arguments::Cursor<'_>, word: &str) -> bool {
    cursor.peek().is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()))
}

/// The number of parts, which may be missing, and `SEARCH`.
fn begin(cursor: &mut arguments::Cursor<'_>) -> Result<(), Error> {
    if cursor.is_at_end() {
        return Err(Error::new("Missing subqueries count for FT.HYBRID"));
    }
    let count = cursor.u32(1).ok();
    if count.is_some_and(|count| count != 2) {
        return Err(Error::new("FT.HYBRID currently supports only two subqueries"));
    }
    match (cursor.take("SEARCH"), count) {
        (true, _) => Ok(()),
        (false, Some(_)) => Err(Error::new("SEARCH keyword is required")),
        (false, None) => Err(Error::new("Invalid subqueries count: expected an unsigned integer")),
    }
}

/// The options of SEARCH; the name of its score.
fn search(parser: &mut Parser<'_>) -> Result<Option<Box<[u8]>>, Error> {
    let mut score_name = None;
    while let Some(word) = parser.cursor.peek() {
        if is_next(&parser.cursor, "VSIM") {
            break;
        }
        if is_next(&parser.cursor, "DIALECT") {
            return Err(Error::new(DIALECT));
        }
        if is_next(&parser.cursor, "SCORER") {
            parser.value()?;
        } else if parser.cursor.take("YIELD_SCORE_AS") {
            score_name = Some(parser.cursor.string().map_err(|refused| refused.of("YIELD_SCORE_AS"))?.into());
        } else {
            let word = String::from_utf8_lossy(word);
            return Err(Error::new(format!("Unknown argument `{word}` in SEARCH")));
        }
    }
    Ok(score_name)
}

fn vector(cursor: &mut arguments::Cursor<'_>) -> Result<VectorPart, Error> {
    if !cursor.take("VSIM") {
        return Err(Error::new("VSIM argument is required"));
    }
    let field = cursor.take_next().ok_or_else(|| Error::new("Missing vector field name"))?;
    let field =
        field.strip_prefix(b"@").ok_or_else(|| Error::new("Missing @ prefix for vector field name"))?;
    let parameter = cursor.take_next().ok_or_else(|| Error::new("Missing vector argument"))?;
    let parameter = parameter
        .strip_prefix(b"$")
        .ok_or_else(|| Error::new("Invalid vector argument, expected a parameter name starting with $"))?;
    let mut part = VectorPart {
        field: field.into(),
        parameter: parameter.into(),
        near: Near::Nearest(10),
        ef_runtime: None,
        epsilon: None,
        filter: None,
        policy: None,
        batch_size: None,
        score_name: None,
    };
    if cursor.take("KNN") {
        let mut count = None;
        pairs(cursor, &mut part, "KNN", |cursor, part| nearest_option(cursor, part, &mut count))?;
        part.near = Near::Nearest(count.ok_or_else(|| Error::new("Missing required argument K"))?);
    } else if cursor.take("RANGE") {
        let mut radius = None;
        pairs(cursor, &mut part, "RANGE", |cursor, part| range_option(cursor, part, &mut radius))?;
        part.near = Near::Within(radius.ok_or_else(|| Error::new("Missing required argument RADIUS"))?);
    }
    loop {
        if part.filter.is_none() && cursor.take("FILTER") {
            vector_filter(cursor, &mut part)?;
        } else if !yields(cursor, &mut part)? {
            break;
        }
    }
    if is_next(cursor, "DIALECT") {
        return Err(Error::new(DIALECT));
    }
    Ok(part)
}

/// The counted options of KNN or RANGE.
fn pairs<'a>(
    cursor: &mut arguments::Cursor<'a>,
    part: &mut VectorPart,
    clause: &str,
    mut option: impl FnMut(&mut arguments::Cursor<'a>, &mut VectorPart) -> Result<bool, Error>,
) -> Result<(), Error> {
    if cursor.is_at_end() {
        return Err(Error::new("Missing argument count"));
    }
    let invalid = |_| Error::new("Invalid argument count: expected an unsigned integer");
    let count = cursor.u32(0).map_err(invalid)?;
    if count == 0 || count % 2 != 0 {
        return Err(Error::new(format!(
            "Invalid argument count: {count} (must be a positive even number for key/value pairs)"
        )));
    }
    for at in (0..count).step_by(2) {
        let Some(word) = cursor.peek() else {
            return Err(Error::new(format!("Expected arguments {count}, but {at} were provided")));
        };
        if !option(cursor, part)? && !yields(cursor, part)? {
            let word = String::from_utf8_lossy(word);
            return Err(Error::new(format!("Unknown argument `{word}` in {clause}")));
        }
    }
    Ok(())
}

/// Takes the name of an option that may stand once, and has a value.
fn takes(cursor: &mut arguments::Cursor<'_>, name: &str, is_given: bool) -> Result<bool, Error> {
    if !cursor.take(name) {
        return Ok(false);
    }
    if is_given {
        return Err(Error::new(format!("Duplicate {name} argument")));
    }
    if cursor.is_at_end() {
        return Err(Error::new(format!("Missing argument value for {name}")));
    }
    Ok(true)
}

fn invalid<T>(name: &'static str) -> impl FnOnce(T) -> Error {
    move |_| Error::new(format!("Invalid {name} value"))
}

fn nearest_option(
    cursor: &mut arguments::Cursor<'_>,
    part: &mut VectorPart,
    count: &mut Option<u64>,
) -> Result<bool, Error> {
    if takes(cursor, "K", count.is_some())? {
        *count = Some(cursor.u64(1).map_err(invalid("K"))?);
    } else if takes(cursor, "EF_RUNTIME", part.ef_runtime.is_some())? {
        part.ef_runtime = usize::try_from(cursor.u64(1).map_err(invalid("EF_RUNTIME"))?).ok();
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn range_option(
    cursor: &mut arguments::Cursor<'_>,
    part: &mut VectorPart,
    radius: &mut Option<f64>,
) -> Result<bool, Error> {
    if takes(cursor, "RADIUS", radius.is_some())? {
        let number = cursor.f64().map_err(invalid("RADIUS"))?;
        *radius = Some(Some(number).filter(|number| *number >= 0.0).ok_or(()).map_err(invalid("RADIUS"))?);
    } else if takes(cursor, "EPSILON", part.epsilon.is_some())? {
        let number = cursor.f64().map_err(invalid("EPSILON"))?;
        part.epsilon =
            Some(Some(number).filter(|number| *number > 0.0).ok_or(()).map_err(invalid("EPSILON"))?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// YIELD_SCORE_AS, which may also stand in the options that are counted, as in 8.4.0.
fn yields(cursor: &mut arguments::Cursor<'_>, part: &mut VectorPart) -> Result<bool, Error> {
    let is_next = takes(cursor, "YIELD_SCORE_AS", part.score_name.is_some())?;
    if is_next {
        part.score_name = cursor.take_next().map(Into::into);
    }
    Ok(is_next)
}

/// `FILTER query`, or `FILTER count query [POLICY ADHOC|BATCHES] [BATCH_SIZE size]`.
fn vector_filter(cursor: &mut arguments::Cursor<'_>, part: &mut VectorPart) -> Result<(), Error> {
    if cursor.is_at_end() {
        return Err(Error::new("Missing argument count for FILTER"));
    }
    let Ok(count) = cursor.u64(0) else {
        part.filter = cursor.take_next().map(Into::into);
        return Ok(());
    };
    let left = cursor.len();
    let mut words = cursor.slice(usize::try_from(count).unwrap_or(usize::MAX)).map_err(|_| {
        Error::new(format!("Not enough arguments in FILTER, specified {count} but provided only {left}"))
    })?;
    let missing = || Error::new("Missing filter-expression for FILTER");
    part.filter = Some(words.take_next().ok_or_else(missing)?.into());
    while let Some(word) = words.peek() {
        if words.take("POLICY") {
            part.policy = match words.string().map_err(of("POLICY"))? {
                name if name.eq_ignore_ascii_case(b"ADHOC") => Some(Policy::AdHoc),
                name if name.eq_ignore_ascii_case(b"BATCHES") => Some(Policy::Batches),
                _ => return Err(Error::new("POLICY: Invalid value for argument")),
            };
        } else if words.take("BATCH_SIZE") {
            part.batch_size = usize::try_from(words.u64(1).map_err(of("BATCH_SIZE"))?).ok();
        } else {
            return Err(Error::new(format!("{}: Unknown argument", String::from_utf8_lossy(word))));
        }
    }
    Ok(())
}

/// `NAME: …`
fn of(name: &'static str) -> impl FnOnce(Refused) -> Error {
    move |refused| Error::new(format!("{name}: {}", refused.text()))
}

/// The state of parsing behind both parts.
struct Rest {
    tail: Tail,
    combine: Option<Combine>,
    /// Arguments that may stand once, and have been there.
    seen: Vec<&'static str>,
    /// An error that comes after all arguments.
    late: Option<Error>,
}

impl Rest {
    /// One argument with its values.
    fn argument(&mut self, parser: &mut Parser<'_>, limits: &Limits) -> Result<(), Error> {
        const ONCE: [&str; 9] =
            ["COMBINE", "LIMIT", "SORTBY", "PARAMS", "TIMEOUT", "FORMAT", "WITHCURSOR", "GROUPBY", "FILTER"];
        if let Some(name) = ONCE.into_iter().find(|name| is_next(&parser.cursor, name)) {
            if self.seen.contains(&name) {
                return Err(Error::new(format!("{name}: Argument specified multiple times")));
            }
            self.seen.push(name);
        }
        let cursor = &mut parser.cursor;
        if cursor.take("COMBINE") {
            self.combine = Some(combine(cursor)?);
        } else if cursor.take("LIMIT") {
            self.limit(parser, limits)?;
        } else if cursor.take("SORTBY") {
            self.sort_by(parser)?;
        } else if cursor.take("NOSORT") {
            self.tail.no_sort = true;
            self.check_sort(parser)?;
        } else if cursor.take("PARAMS") {
            check_counted(cursor, "PARAMS")?;
            parser.parameters()?;
        } else if is_next(cursor, "DIALECT") {
            return Err(Error::new(DIALECT));
        } else if cursor.take("EXPLAINSCORE") {
            self.late.get_or_insert(Error::new("EXPLAINSCORE is not yet supported by FT.HYBRID"));
        } else if is_next(cursor, "TIMEOUT") || is_next(cursor, "FORMAT") || is_next(cursor, "WITHCURSOR") {
            parser.common()?;
        } else {
            let step = step(parser, &mut self.late)?;
            // A SORTBY or LIMIT behind it is another step.
            self.tail.steps.extend(parser.arrange.take().map(Step::Arrange));
            self.tail.steps.push(step);
            if self.tail.steps.len() > MAX_STEPS {
                return Err(Error::new(format!("FT.HYBRID is limited to {MAX_STEPS} steps")));
            }
        }
        Ok(())
    }

    fn limit(&mut self, parser: &mut Parser<'_>, limits: &Limits) -> Result<(), Error> {
        let cursor = &mut parser.cursor;
        if cursor.len() < 2 {
            return Err(Error::new("LIMIT: Not enough arguments were provided"));
        }
        let refused =
            |what: &'static str| move |_| Error::new(format!("LIMIT {what} must be a non-negative integer"));
        let offset = cursor.u64(0).map_err(refused("offset"))?;
        let count = cursor.u64(0).map_err(refused("count"))?;
        if count == 0 && offset != 0 {
            return Err(Error::new("The `offset` of the LIMIT must be 0 when `num` is 0"));
        }
        if count > limits.search_results {
            return Err(Error::new(format!("LIMIT exceeds maximum of {}", limits.search_results)));
        }
        parser.count_only = count == 0;
        let arrange = parser.arrange.get_or_insert_default();
        (arrange.offset, arrange.count) = (offset, count);
        Ok(())
    }

    fn sort_by(&mut self, parser: &mut Parser<'_>) -> Result<(), Error> {
        check_counted(&mut parser.cursor, "SORTBY")?;
        let mut words = parser.cursor.counted().map_err(of("SORTBY"))?;
        let mut keys: Vec<SortKey> = Vec::new();
        while let Some(word) = words.take_next() {
            check_prefix(word, "SORTBY")?;
            let name = word.strip_prefix(b"@").unwrap_or(word);
            let descending = words.take("DESC");
            if !descending {
                words.take("ASC");
            }
            keys.push(SortKey { name: name.into(), descending });
        }
        if keys.len() > crate::request::SORT_KEYS_MAX {
            let most = crate::request::SORT_KEYS_MAX;
            return Err(Error::new(format!("Cannot sort by more than {most} fields")));
        }
        parser.arrange.get_or_insert_default().sort = Some(keys);
        self.check_sort(parser)
    }

    fn check_sort(&self, parser: &Parser<'_>) -> Result<(), Error> {
        let is_sorted = |arrange: &Arrange| arrange.sort.is_some();
        let mut arranges = self.tail.steps.iter().filter_map(|step| match step {
            Step::Arrange(arrange) => Some(arrange),
            _ => None,
        });
        if self.tail.no_sort && (arranges.any(is_sorted) || parser.arrange.as_ref().is_some_and(is_sorted)) {
            return Err(Error::new("NOSORT is not allowed with SORTBY"));
        }
        Ok(())
    }
}

/// Refuses a count that is no number, is 0, or is greater than the number of arguments behind it.
fn check_counted(cursor: &mut arguments::Cursor<'_>, name: &str) -> Result<(), Error> {
    let mut ahead = cursor.clone();
    let refused = |reason: &str| Error::new(format!("{name}: {reason}"));
    match ahead.u32(0) {
        Err(_) => Err(refused("Failed to parse the argument count")),
        Ok(0) => Err(refused("Invalid argument count")),
        Ok(count) if ahead.len() < count as usize => {
            Err(refused("Not enough arguments were provided based on argument count"))
        }
        Ok(_) => Ok(()),
    }
}

/// Refuses a name that is neither a property nor a path.
fn check_prefix(name: &[u8], clause: &str) -> Result<(), Error> {
    if matches!(name.first(), Some(b'@' | b'$')) {
        return Ok(());
    }
    let name = String::from_utf8_lossy(name);
    Err(Error::new(format!(
        "Missing prefix: name requires '@' prefix, JSON path require '$' prefix, got: {name} in {clause}"
    )))
}

/// A step that FT.AGGREGATE has, too.
fn step(parser: &mut Parser<'_>, late: &mut Option<Error>) -> Result<Step, Error> {
    if parser.cursor.take("GROUPBY") {
        check_counted(&mut parser.cursor, "GROUPBY")?;
        return group(parser).map(Step::Group);
    }
    let is_apply = parser.cursor.take("APPLY");
    if is_apply || parser.cursor.take("FILTER") {
        if parser.cursor.is_at_end() {
            return Err(of(if is_apply { "APPLY" } else { "FILTER" })(Refused::Missing));
        }
        return expression(parser, is_apply);
    }
    if parser.cursor.take("LOAD") {
        let mut ahead = parser.cursor.clone();
        if ahead.is_at_end() {
            return Err(of("LOAD")(Refused::Missing));
        }
        if !ahead.take("*") {
            let wrong = || Error::new("Bad arguments for LOAD: Expected number of fields or `*`");
            let count = ahead.u32(1).map_err(|_| wrong())?;
            if ahead.len() < count as usize {
                return Err(Error::new("Not enough arguments for LOAD"));
            }
        }
        if let Ok(counted) = parser.cursor.clone().counted() {
            let mut fields = counted.rest().iter();
            while let Some(field) = fields.next() {
                if !field.eq_ignore_ascii_case(b"AS") {
                    check_prefix(field, "LOAD")?;
                } else {
                    fields.next();
                }
            }
        }
        return load(parser, late).map(Step::Load);
    }
    let word = String::from_utf8_lossy(parser.cursor.peek().unwrap_or_default());
    Err(Error::new(format!("{word}: Unknown argument")))
}

fn combine(cursor: &mut arguments::Cursor<'_>) -> Result<Combine, Error> {
    let name = cursor.take_next().ok_or(Refused::Missing).map_err(of("COMBINE"))?;
    let mut combine = if name.eq_ignore_ascii_case(b"RRF") {
        reciprocal_ranks(cursor)?
    } else if name.eq_ignore_ascii_case(b"LINEAR") {
        linear(cursor)?
    } else {
        return Err(Error::new("COMBINE: Invalid value for argument"));
    };
    if cursor.take("YIELD_SCORE_AS") {
        if combine.score_name.is_some() {
            return Err(Error::new("YIELD_SCORE_AS specified more than once"));
        }
        let missing = || Error::new("Missing argument value for YIELD_SCORE_AS");
        combine.score_name = Some(cursor.take_next().ok_or_else(missing)?.into());
    }
    Ok(combine)
}

/// The counted options of a formula.
fn options_of<'a>(cursor: &mut arguments::Cursor<'a>, name: &str) -> Result<arguments::Cursor<'a>, Error> {
    let count = cursor.u32(0).map_err(|refused| match refused {
        Refused::Missing => Error::new(format!("Missing {name} argument count")),
        _ => Error::new(format!("Invalid {name} argument count, error: {}", refused.text())),
    })?;
    if count % 2 != 0 {
        return Err(Error::new(format!(
            "{name} expects pairs of key value arguments, argument count must be an even number"
        )));
    }
    let left = cursor.len();
    cursor.slice(count as usize).map_err(|_| {
        Error::new(format!("Not enough arguments in {name}, specified {count} but provided only {left}"))
    })
}

/// WINDOW or YIELD_SCORE_AS.
///
/// # Errors
/// The argument is another one.
fn shared_option(cursor: &mut arguments::Cursor<'_>, combine: &mut Combine) -> Result<(), Error> {
    if cursor.take("WINDOW") {
        let window = cursor.i64(i64::MIN).map_err(of("WINDOW"))?;
        let window = usize::try_from(window).ok().filter(|window| *window > 0);
        combine.window = window.ok_or_else(|| Error::new("WINDOW: Value below minimum"))?;
    } else if cursor.take("YIELD_SCORE_AS") {
        combine.score_name = Some(cursor.string().map_err(of("YIELD_SCORE_AS"))?.into());
    } else {
        let word = String::from_utf8_lossy(cursor.peek().unwrap_or_default());
        return Err(Error::new(format!("{word}: Unknown argument")));
    }
    Ok(())
}

fn reciprocal_ranks(cursor: &mut arguments::Cursor<'_>) -> Result<Combine, Error> {
    let mut combine = Combine::default();
    let mut options = options_of(cursor, "RRF")?;
    while !options.is_at_end() {
        if options.take("CONSTANT") {
            combine.method = Method::Rrf { constant: options.f64().map_err(of("CONSTANT"))? };
        } else {
            shared_option(&mut options, &mut combine)?;
        }
    }
    Ok(combine)
}

fn linear(cursor: &mut arguments::Cursor<'_>) -> Result<Combine, Error> {
    let mut combine = Combine::default();
    let mut options = options_of(cursor, "LINEAR")?;
    let (mut alpha, mut beta) = (None, None);
    while !options.is_at_end() {
        if options.take("ALPHA") {
            alpha = Some(options.f64().map_err(of("ALPHA"))?);
        } else if options.take("BETA") {
            beta = Some(options.f64().map_err(of("BETA"))?);
        } else {
            shared_option(&mut options, &mut combine)?;
        }
    }
    combine.method = match (alpha, beta) {
        (Some(alpha), Some(beta)) => Method::Linear { alpha, beta },
        (None, None) => Method::Linear { alpha: 0.3, beta: 0.7 },
        (Some(_), None) => return Err(Error::new("Missing value for BETA")),
        (None, Some(_)) => return Err(Error::new("Missing value for ALPHA")),
    };
    Ok(combine)
}

#[cfg(test)]
mod tests;
