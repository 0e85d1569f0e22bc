//! The functions of expressions by name, and the mathematical ones.

use super::call::{Arguments, check_count};
use super::{Row, calendar, geo, text};
use crate::Error;
use crate::aggregate::value::Value;

/// A function.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of functions")]
pub enum Function {
    Log,
    Floor,
    Abs,
    Ceil,
    Sqrt,
    Log2,
    Exp,
    TimeFormat,
    ParseTime,
    Hour,
    Minute,
    Day,
    Month,
    MonthOfYear,
    Year,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    Lower,
    Upper,
    Substring,
    Format,
    Split,
    MatchedTerms,
    ToNumber,
    ToString,
    Exists,
    StartsWith,
    Contains,
    StringLength,
    GeoDistance,
    Case,
}

impl Function {
    /// Every function with its name.
    pub const ALL: &[(&'static str, Function)] = &[
        ("log", Function::Log),
        ("floor", Function::Floor),
        ("abs", Function::Abs),
        ("ceil", Function::Ceil),
        ("sqrt", Function::Sqrt),
        ("log2", Function::Log2),
        ("exp", Function::Exp),
        ("timefmt", Function::TimeFormat),
        ("parsetime", Function::ParseTime),
        ("hour", Function::Hour),
        ("minute", Function::Minute),
        ("day", Function::Day),
        ("month", Function::Month),
        ("monthofyear", Function::MonthOfYear),
        ("year", Function::Year),
        ("dayofmonth", Function::DayOfMonth),
        ("dayofweek", Function::DayOfWeek),
        ("dayofyear", Function::DayOfYear),
        ("lower", Function::Lower),
        ("upper", Function::Upper),
        ("substr", Function::Substring),
        ("format", Function::Format),
        ("split", Function::Split),
        ("matched_terms", Function::MatchedTerms),
        ("to_number", Function::ToNumber),
        ("to_str", Function::ToString),
        ("exists", Function::Exists),
        ("startswith", Function::StartsWith),
        ("contains", Function::Contains),
        ("strlen", Function::StringLength),
        ("geodistance", Function::GeoDistance),
        ("case", Function::Case),
    ];

    /// The function of this name, in any case.
    pub fn of(name: &[u8]) -> Option<Function> {
        Self::ALL
            .iter()
            .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
            .map(|&(_, function)| function)
    }

    pub(super) fn call<R: Row + ?Sized>(
        self,
        arguments: &Arguments<'_, '_>,
        row: &R,
    ) -> Result<Value, Error> {
        match self {
            Function::Log => numeric("log", f64::ln, arguments),
            Function::Floor => numeric("floor", f64::floor, arguments),
            Function::Abs => numeric("fabs", f64::abs, arguments),
            Function::Ceil => numeric("ceil", f64::ceil, arguments),
            Function::Sqrt => numeric("sqrt", f64::sqrt, arguments),
            Function::Log2 => numeric("log2", f64::log2, arguments),
            Function::Exp => numeric("exp", f64::exp, arguments),
            Function::TimeFormat => calendar::format(arguments),
            Function::ParseTime => calendar::parse(arguments),
            Function::Hour => calendar::part("hour", arguments, |time| time.hour_start()),
            Function::Minute => calendar::minute(arguments),
            Function::Day => calendar::part("day", arguments, |time| time.day_start()),
            Function::Month => calendar::part("month", arguments, |time| time.month_start()),
            Function::MonthOfYear => calendar::part("monthofyear", arguments, |time| time.month()),
            Function::Year => calendar::part("year", arguments, |time| time.year()),
            Function::DayOfMonth => calendar::part("dayofmonth", arguments, |time| time.day_of_month()),
            Function::DayOfWeek => calendar::part("dayofweek", arguments, |time| time.day_of_week()),
            Function::DayOfYear => calendar::part("dayofyear", arguments, |time| time.day_of_year()),
            Function::Lower => text::change_case("lower", arguments, u8::to_ascii_lowercase),
            Function::Upper => text::change_case("upper", arguments, u8::to_ascii_uppercase),
            Function::Substring => text::substring(arguments),
            Function::Format => text::format(arguments),
            Function::Split => text::split(arguments),
            Function::MatchedTerms => Ok(text::matched_terms(arguments, row)),
            Function::ToNumber => text::to_number(arguments),
            Function::ToString => text::to_string(arguments),
            Function::Exists => {
                check_count("exists", arguments, 1, 1)?;
                Ok(Value::Number(if arguments.is_missing(0) { 0.0 } else { 1.0 }))
            }
            Function::StartsWith => text::starts_with(arguments),
            Function::Contains => text::contains(arguments),
            Function::StringLength => text::length(arguments),
            Function::GeoDistance => geo::distance(arguments),
            // The parser makes jumps of it.
            Function::Case => Ok(Value::Null),
        }
    }
}

fn numeric(name: &str, function: fn(f64) -> f64, arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    if arguments.len() != 1 {
        return Err(Error::new(format!("Invalid number of arguments for {name}")));
    }
    Ok(Value::Number(arguments.get(0).to_number().map_or(f64::NAN, function)))
}
