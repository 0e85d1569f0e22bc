//! The arguments of FT.AGGREGATE.
//!
//! A request is parsed without any index; properties and expressions are resolved when the pipeline is built.

use crate::Error;
use crate::arguments::Refused;
use crate::request::{Arrange, Cursor, Limits, Parser, Query};

/// The most steps of a request: each may wrap the values of the one before it into an array.
pub(crate) const MAX_STEPS: usize = 1000;

/// FT.AGGREGATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The query and how it is evaluated.
    pub query: Query,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// ADDSCORES: rows have the property `__score`.
    pub add_scores: bool,
    /// WITHSCORES
    pub with_scores: bool,
    /// WITHPAYLOADS: rows have a place for a payload, which stays empty.
    pub with_payloads: bool,
    /// WITHSORTKEYS: rows have a place for a sort key, which stays empty.
    pub with_sort_keys: bool,
    /// NOCONTENT: rows have no properties.
    pub no_content: bool,
    /// LIMIT with a length of 0: only the count is wanted.
    pub count_only: bool,
    /// WITHCURSOR
    pub cursor: Option<Cursor>,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// LOAD
    Load(Load),
    /// GROUPBY
    Group(Group),
    /// APPLY
    Apply {
        /// The expression's text.
        expression: Box<[u8]>,
        /// AS: the name of its value; the expression itself without.
        name: Box<[u8]>,
    },
    /// FILTER
    Filter(Box<[u8]>),
    /// SORTBY and LIMIT that stand beside each other.
    Arrange(Arrange),
}

/// LOAD
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// `*`: all fields of a document.
    All,
    /// These.
    Fields(Vec<LoadField>),
}

/// A field to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadField {
    /// The field or path in the document.
    pub path: Box<[u8]>,
    /// The property's name.
    pub name: Box<[u8]>,
}

/// GROUPBY
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The properties' names.
    pub properties: Vec<Box<[u8]>>,
    /// REDUCE
    pub reducers: Vec<Reduce>,
}

/// REDUCE
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The reducer's name.
    pub function: Box<[u8]>,
    /// Its arguments.
    pub arguments: Vec<Box<[u8]>>,
    /// AS: the name of its value.
    pub name: Box<[u8]>,
}

impl Aggregate {
    /// The request of these arguments, from the query on.
    ///
    /// # Errors
    ///
    /// The first argument that RediSearch refuses.
    pub fn parse(arguments: &[&[u8]], limits: &Limits) -> Result<Aggregate, Error> {
        let mut parser = Parser::new(arguments, limits, false)?;
        parser.options()?;
        let mut steps: Vec<Step> = Vec::new();
        let (mut late, mut place) = (None, 0);
        while !parser.cursor.is_at_end() {
            let is_first = parser.arrange.is_none();
            if parser.common()? {
                if is_first {
                    place = steps.len();
                }
                continue;
            }
            let step = step(&mut parser, &mut late)?;
            if let Step::Group(_) = step {
                // A SORTBY or LIMIT behind it is another step. All others are where the first one stands.
                settle(&mut parser, &mut steps, place);
            }
            steps.push(step);
            if steps.len() > MAX_STEPS {
                return Err(Error::new(format!("FT.AGGREGATE is limited to {MAX_STEPS} steps")));
            }
        }
        settle(&mut parser, &mut steps, place);
        if let Some(error) = late {
            return Err(error);
        }
        Ok(Aggregate {
            query: parser.query,
            steps,
            add_scores: parser.output.add_scores,
            with_scores: parser.output.with_scores,
            with_payloads: parser.output.with_payloads,
            with_sort_keys: parser.output.with_sort_keys,
            no_content: parser.output.no_content,
            count_only: parser.count_only,
            cursor: parser.cursor_options,
        })
    }
}

/// Puts SORTBY and LIMIT among the steps.
fn settle(parser: &mut Parser<'_>, steps: &mut Vec<Step>, place: usize) {
    if let Some(arrange) = parser.arrange.take() {
        steps.insert(place.min(steps.len()), Step::Arrange(arrange));
    }
}

/// A step. `late` is an error that RediSearch finds only after all arguments.
fn step(parser: &mut Parser<'_>, late: &mut Option<Error>) -> Result<Step, Error> {
    if parser.cursor.take("GROUPBY") {
        return group(parser).map(Step::Group);
    }
    let is_apply = parser.cursor.take("APPLY");
    if is_apply || parser.cursor.take("FILTER") {
        return expression(parser, is_apply);
    }
    if parser.cursor.take("LOAD") {
        return load(parser, late).map(Step::Load);
    }
    Err(parser.unknown_argument())
}

/// GROUPBY, behind its name.
pub(crate) fn group(parser: &mut Parser<'_>) -> Result<Group, Error> {
    let words = parser.cursor.counted().map_err(|refused| refused.of("GROUPBY"))?;
    let mut group = Group { properties: Vec::with_capacity(words.len()), reducers: Vec::new() };
    for word in words.rest() {
        let name = word.strip_prefix(b"@").ok_or_else(|| {
            let name = String::from_utf8_lossy(word);
            Error::new(format!(
                "Bad arguments for GROUPBY: Unknown property `{name}`. Did you mean `@{name}`?"
            ))
        })?;
        group.properties.push(name.into());
    }
    while parser.cursor.take("REDUCE") {
        // RediSearch shows the code of the property list, which was right.
        let missing = || Error::new("Bad arguments for REDUCE: SUCCESS");
        let function = parser.cursor.take_next().ok_or_else(missing)?;
        let arguments =
            parser.cursor.counted().map_err(|refused| refused.of(String::from_utf8_lossy(function)))?.rest();
        let name = match parser.cursor.take("AS") {
            true => parser.cursor.string().map_err(|refused| refused.of("AS"))?.into(),
            false => generated_name(function, arguments),
        };
        group.reducers.push(Reduce {
            function: function.into(),
            arguments: arguments.iter().map(|argument| (*argument).into()).collect(),
            name,
        });
    }
    Ok(group)
}

/// The name of a reducer's value without AS.
fn generated_name(function: &[u8], arguments: &[&[u8]]) -> Box<[u8]> {
    let mut name = b"__generated_alias".to_vec();
    name.extend_from_slice(function);
    for (index, argument) in arguments.iter().enumerate() {
        if index > 0 {
            name.push(b',');
        }
        let from = argument.iter().position(|byte| *byte != b'@').unwrap_or(argument.len());
        name.extend_from_slice(argument.get(from..).unwrap_or_default());
    }
    name.make_ascii_lowercase();
    name.into()
}

/// APPLY or FILTER, behind its name.
pub(crate) fn expression(parser: &mut Parser<'_>, is_apply: bool) -> Result<Step, Error> {
    let expression = parser.cursor.string().map_err(|refused| refused.of("APPLY/FILTER"))?;
    if !is_apply {
        return Ok(Step::Filter(expression.into()));
    }
    let name = match parser.cursor.take("AS") {
        true => parser.cursor.take_next().ok_or_else(|| Error::new("AS needs argument"))?,
        false => expression,
    };
    Ok(Step::Apply { expression: expression.into(), name: name.into() })
}

/// LOAD, behind its name. `late` is an error that RediSearch finds only after all arguments.
pub(crate) fn load(parser: &mut Parser<'_>, late: &mut Option<Error>) -> Result<Load, Error> {
    let mut words = match parser.cursor.counted() {
        Ok(words) => words,
        Err(_) => {
            // Without a count, or with too few fields behind it, the argument must be `*`.
            let word = parser.cursor.take_next().ok_or_else(|| Refused::Missing.of("LOAD"))?;
            return match word {
                b"*" => Ok(Load::All),
                _ => Err(Error::new("Bad arguments for LOAD: SUCCESS")),
            };
        }
    };
    let mut fields = Vec::with_capacity(words.len());
    while let Some(word) = words.take_next() {
        let path = word.strip_prefix(b"@").unwrap_or(word);
        let mut name = path;
        if words.take("AS") {
            let Some(alias) = words.take_next() else {
                late.get_or_insert(Error::new("LOAD path AS name - must be accompanied with NAME"));
                break;
            };
            if alias.eq_ignore_ascii_case(b"AS") {
                late.get_or_insert(Error::new("Alias for LOAD cannot be `AS`"));
            }
            name = alias;
        }
        fields.push(LoadField { path: path.into(), name: name.into() });
    }
    Ok(Load::Fields(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Aggregate, Error> {
        let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
        Aggregate::parse(&words, &Limits::default())
    }

    #[test]
    fn arguments_are_refused_in_redisearchs_words() {
        const MISSING: &str = "Expected an argument, but none provided";
        for (input, expected) in [
            ("* LOAD", format!("Bad arguments for LOAD: {MISSING}")),
            ("* LOAD 1", format!("Bad arguments for LOAD: {MISSING}")),
            ("* LOAD 2 a", "Bad arguments for LOAD: SUCCESS".into()),
            ("* LOAD x", "Bad arguments for LOAD: SUCCESS".into()),
            ("* LOAD 2 t AS", "LOAD path AS name - must be accompanied with NAME".into()),
            ("* LOAD 3 t AS AS", "Alias for LOAD cannot be `AS`".into()),
            ("* GROUPBY 1 n", "Bad arguments for GROUPBY: Unknown property `n`. Did you mean `@n`?".into()),
            ("* GROUPBY 0 REDUCE", "Bad arguments for REDUCE: SUCCESS".into()),
            ("* GROUPBY 0 REDUCE COUNT", format!("Bad arguments for COUNT: {MISSING}")),
            ("* GROUPBY 0 REDUCE COUNT 0 AS", format!("Bad arguments for AS: {MISSING}")),
            ("* APPLY", format!("Bad arguments for APPLY/FILTER: {MISSING}")),
            ("* FILTER", format!("Bad arguments for APPLY/FILTER: {MISSING}")),
            ("* APPLY 1 AS", "AS needs argument".into()),
            ("* LOAD 1 t VERBATIM", "Unknown argument `VERBATIM` at position 4 for <main>".into()),
            ("* RETURN 1 t", "RETURN is not supported on FT.AGGREGATE".into()),
            ("* SUMMARIZE", "SUMMARIZE is not supported on FT.AGGREGATE".into()),
            ("* SORTBY", format!("Bad arguments for SORTBY: {MISSING}")),
            ("* SORTBY 1 t", "MISSING ASC or DESC after sort field (t)".into()),
            ("* SORTBY 9 @a @b @c @d @e @f @g @h @i", "Cannot sort by more than 8 fields".into()),
            (
                "* SORTBY 1 @n MAX -1",
                "Bad arguments for MAX: Could not convert argument to expected type".into(),
            ),
            (
                "* SORTBY 1 @n APPLY 1 LIMIT 0 1 SORTBY 1 @t",
                "Multiple SORTBY steps are not allowed. Sort multiple fields in a single step".into(),
            ),
            (
                "* WITHCURSOR MAXIDLE 0",
                "Bad arguments for MAXIDLE: Value is outside acceptable bounds".into(),
            ),
        ] {
            assert_eq!(parsed(input).expect_err(input).text(), expected, "{input}");
        }
        let many = format!("* {}", "APPLY 1 ".repeat(2000));
        assert_eq!(parsed(&many).expect_err("many").text(), "FT.AGGREGATE is limited to 1000 steps");
    }

    #[test]
    fn steps_are_in_their_order_with_sorts_and_limits_joined() {
        let request = parsed(
            "* VERBATIM LOAD 3 @t AS u LIMIT 0 9 GROUPBY 1 @u REDUCE sum 2 @n T REDUCE COUNT 0 AS c \
             SORTBY 2 @c DESC MAX 3 APPLY @c+1 FILTER @c>1 LIMIT 1 2 WITHCURSOR COUNT 7",
        )
        .expect("a request");
        let [
            Step::Load(_),
            Step::Arrange(before),
            Step::Group(group),
            Step::Arrange(behind),
            apply,
            Step::Filter(_),
        ] = &request.steps[..]
        else {
            panic!("{:?}", request.steps)
        };
        let names: Vec<_> =
            group.reducers.iter().map(|reduce| String::from_utf8_lossy(&reduce.name).into_owned()).collect();
        assert_eq!(names, ["__generated_aliassumn,t", "c"]);
        assert_eq!((before.count, behind.offset, behind.count), (9, 1, 2));
        assert!(behind.sort.as_ref().is_some_and(|keys| keys[0].descending));
        assert!(matches!(apply, Step::Apply { name, .. } if **name == *b"@c+1"));
        assert_eq!(request.cursor.map(|cursor| (cursor.count, cursor.idle_ms)), Some((7, 300_000)));
        assert_eq!(parsed("* LOAD *").expect("a request").steps, [Step::Load(Load::All)]);
    }
}
