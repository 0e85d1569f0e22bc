//! FT.CREATE and FT.ALTER: from arguments to a definition, and back.
//!
//! Each error is RediSearch's, and the first that RediSearch finds. An alteration that is refused has changed
//! nothing.

mod describe;
mod field;
#[cfg(test)]
mod tests;
mod vector;

pub use describe::{Attribute, Shown, arguments, attribute, options, rule};

use crate::Error;
use crate::aggregate::expression::Expression;
use crate::arguments::{Cursor, Numbers, Refused};
use crate::schema::{Definition, Language, Options, Source};

/// The most stop words of an index.
const MAX_STOPWORDS: usize = 1024;

/// The server's part in a definition.
#[derive(Copy, Clone)]
pub struct Context {
    /// `maxmemory`, or the machine's memory: blocks of vectors are limited to a tenth of it.
    pub memory_bytes: u64,
    /// Whether a text is a JSONPath.
    pub is_path: fn(&[u8]) -> bool,
}

/// The definition that the arguments of FT.CREATE give, from the index's name on.
///
/// # Errors
///
/// The first argument that RediSearch refuses.
pub fn create(arguments: &[&[u8]], context: Context) -> Result<Definition, Error> {
    let mut cursor = Cursor::new(arguments, Numbers::C);
    let mut definition = Definition {
        name: cursor.take_next().unwrap_or_default().into(),
        source: Source::Hash,
        prefixes: Vec::new(),
        filter: None,
        language: None,
        language_field: None,
        score: 1.0,
        score_field: None,
        payload_field: None,
        options: Options::default(),
        stopwords: None,
        fields: Vec::new(),
    };
    let mut rule = Rule::default();
    while let Some(name) = cursor.peek().and_then(option_name) {
        cursor.take_next();
        rule.read(name, &mut definition, &mut cursor).map_err(|refused| refused.of(name))?;
    }
    rule.check(&mut definition)?;
    if !cursor.take("SCHEMA") {
        return Err(match cursor.take_next() {
            Some(argument) => Error::new(format!("Unknown argument `{}`", String::from_utf8_lossy(argument))),
            None => Error::new("No schema found"),
        });
    }
    field::add(&mut definition, &mut cursor, context, true)?;
    Ok(definition)
}

/// What FT.ALTER makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Altered {
    /// The definition with the new fields at its end.
    pub definition: Definition,
    /// SKIPINITIALSCAN: keys that are there already are not indexed by the new fields.
    pub skip_initial_scan: bool,
}

/// The definition that the arguments of FT.ALTER give, from behind the index's name on.
///
/// # Errors
///
/// The first argument that RediSearch refuses.
pub fn alter(definition: &Definition, arguments: &[&[u8]], context: Context) -> Result<Altered, Error> {
    let mut cursor = Cursor::new(arguments, Numbers::Redis);
    let skip_initial_scan = cursor.take("SKIPINITIALSCAN");
    if !cursor.take("SCHEMA") {
        return Err(Error::new("ALTER must be followed by SCHEMA"));
    }
    if !cursor.take("ADD") {
        return Err(Error::new("Unknown action passed to ALTER SCHEMA"));
    }
    if cursor.is_at_end() {
        return Err(Error::new("No fields provided"));
    }
    let mut definition = definition.clone();
    field::add(&mut definition, &mut cursor, context, false)?;
    Ok(Altered { definition, skip_initial_scan })
}

/// The options that may precede SCHEMA.
const OPTIONS: &[&str] = &[
    "NOOFFSETS",
    "NOHL",
    "NOFIELDS",
    "NOFREQS",
    "MAXTEXTFIELDS",
    "ASYNC",
    "SKIPINITIALSCAN",
    "NOSCOREIDX",
    "ON",
    "PREFIX",
    "FILTER",
    "SCORE",
    "SCORE_FIELD",
    "LANGUAGE",
    "LANGUAGE_FIELD",
    "PAYLOAD_FIELD",
    "INDEXALL",
    "TEMPORARY",
    "STOPWORDS",
];

fn option_name(argument: &[u8]) -> Option<&'static str> {
    OPTIONS.iter().copied().find(|name| name.as_bytes().eq_ignore_ascii_case(argument))
}

/// Options whose values are checked once all have been read, of which the last one counts.
#[derive(Default)]
struct Rule<'a> {
    source: Option<&'a [u8]>,
    score: Option<&'a [u8]>,
    language: Option<&'a [u8]>,
    index_all: Option<&'a [u8]>,
    prefixes: &'a [&'a [u8]],
}

impl<'a> Rule<'a> {
    fn read(
        &mut self,
        name: &str,
        definition: &mut Definition,
        cursor: &mut Cursor<'a>,
    ) -> Result<(), Refused> {
        let options = &mut definition.options;
        match name {
            "NOOFFSETS" => options.no_offsets = true,
            "NOHL" => options.no_highlight = true,
            "NOFIELDS" => options.no_fields = true,
            "NOFREQS" => options.no_freqs = true,
            "MAXTEXTFIELDS" => options.max_text_fields = true,
            "SKIPINITIALSCAN" => options.skip_initial_scan = true,
            "ON" => self.source = Some(cursor.string()?),
            "PREFIX" => self.prefixes = cursor.counted()?.rest(),
            "FILTER" => definition.filter = Some(cursor.string()?.into()),
            "SCORE" => self.score = Some(cursor.string()?),
            "SCORE_FIELD" => definition.score_field = Some(cursor.string()?.into()),
            "LANGUAGE" => self.language = Some(cursor.string()?),
            "LANGUAGE_FIELD" => definition.language_field = Some(cursor.string()?.into()),
            "PAYLOAD_FIELD" => definition.payload_field = Some(cursor.string()?.into()),
            "INDEXALL" => self.index_all = Some(cursor.string()?),
            "TEMPORARY" => {
                let seconds = cursor.i64(i64::MIN)?;
                options.temporary = (seconds != -1).then_some(seconds as f64);
            }
            "STOPWORDS" => {
                let words = cursor.counted()?.rest();
                let lower = words.iter().map(|word| word.to_ascii_lowercase().into());
                definition.stopwords = Some(lower.take(MAX_STOPWORDS).collect());
            }
            // ASYNC and NOSCOREIDX say nothing any more.
            _ => {}
        }
        Ok(())
    }

    fn check(&self, definition: &mut Definition) -> Result<(), Error> {
        definition.source = match self.source {
            None => Source::Hash,
            Some(name) if name.eq_ignore_ascii_case(b"HASH") => Source::Hash,
            Some(name) if name.eq_ignore_ascii_case(b"JSON") => Source::Json,
            Some(name) => {
                return Err(Error::new(format!("Invalid rule type: {}", String::from_utf8_lossy(name))));
            }
        };
        if let Some(text) = self.score {
            let score = crate::number::parse_c(text).filter(|score| (0.0..=1.0).contains(score));
            definition.score = score.ok_or_else(|| Error::new("Invalid score"))?;
        }
        if let Some(name) = self.language {
            let language = Language::parse(name).ok_or_else(|| Error::new("Invalid language"))?;
            definition.language = Some(language);
        }
        definition.options.index_all = match self.index_all {
            None => false,
            Some(word) if word.eq_ignore_ascii_case(b"ENABLE") => true,
            Some(word) if word.eq_ignore_ascii_case(b"DISABLE") => false,
            Some(_) => return Err(Error::new("Invalid argument for `INDEXALL`, use ENABLE/DISABLE")),
        };
        definition.prefixes = match self.prefixes {
            [] => vec![Box::default()],
            prefixes => prefixes.iter().map(|prefix| (*prefix).into()).collect(),
        };
        if let Some(filter) = &definition.filter {
            Expression::parse(filter)?;
        }
        Ok(())
    }
}
