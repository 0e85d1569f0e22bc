//! FILTER's expressions: which series, by their labels.
//!
//! RedisTimeSeries cuts an expression at any of the characters of its operator, and reads it as text that
//! ends at a NUL; so `l=a=b` asks for the value `a`, and `=v` for series without a label `v`.

use crate::error::Error;

/// Whether series with the label, or with one of the values, are wanted or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `l=v` and `l=(v1,v2)`: one of the values.
    In(Vec<Box<[u8]>>),
    /// `l!=v` and `l!=(v1,v2)`: none of the values; also without the label.
    NotIn(Vec<Box<[u8]>>),
    /// `l!=`: any value.
    Exists,
    /// `l=`: no such label.
    Missing,
}

/// One expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicate {
    /// The label's name.
    pub label: Box<[u8]>,
    /// The condition on its value.
    pub condition: Condition,
}

/// Expressions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    predicates: Vec<Predicate>,
}

impl Filter {
    /// Reads expressions; at least one must ask for a value.
    pub fn parse<'a>(expressions: impl IntoIterator<Item = &'a [u8]>) -> Result<Filter, Error> {
        let predicates: Vec<Predicate> =
            expressions.into_iter().map(Predicate::parse).collect::<Result<_, _>>()?;
        let is_matcher = |predicate: &Predicate| matches!(predicate.condition, Condition::In(_));
        if predicates.iter().any(is_matcher) { Ok(Filter { predicates }) } else { Err(Error::NoMatcher) }
    }

    /// The expressions.
    pub fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    /// Whether labels satisfy all expressions. A label that is there twice has both values.
    pub fn admits<'a>(&self, labels: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> bool {
        self.predicates.iter().all(|predicate| predicate.admits(labels.clone()))
    }
}

impl Predicate {
    /// Reads one expression.
    pub fn parse(expression: &[u8]) -> Result<Predicate, Error> {
        let end = expression.iter().position(|byte| *byte == 0).unwrap_or(expression.len());
        let text = &expression[..end];
        let has = |operator: &[u8]| text.windows(operator.len()).any(|window| window == operator);
        // Longer operators first: each contains the ones after it.
        let operators: [(&[u8], bool, bool); 4] =
            [(b"!=(", true, true), (b"!=", true, false), (b"=(", false, true), (b"=", false, false)];
        let found = operators.into_iter().find(|(operator, ..)| has(operator));
        let (operator, is_negative, is_list) = found.ok_or(Error::Filter)?;
        let mut tokens = text.split(|byte| operator.contains(byte)).filter(|token| !token.is_empty());
        let label: Box<[u8]> = tokens.next().ok_or(Error::Filter)?.into();
        let condition = match (tokens.next(), is_list) {
            (value, true) => {
                let values = value_list(value.ok_or(Error::Filter)?)?;
                if is_negative { Condition::NotIn(values) } else { Condition::In(values) }
            }
            (Some(value), false) if is_negative => Condition::NotIn(vec![value.into()]),
            (Some(value), false) => Condition::In(vec![value.into()]),
            (None, false) if is_negative => Condition::Exists,
            (None, false) => Condition::Missing,
        };
        Ok(Predicate { label, condition })
    }

    fn admits<'a>(&self, mut labels: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> bool {
        let is_label = |name: &[u8]| name == &*self.label;
        let is_in = |values: &[Box<[u8]>], value: &[u8]| values.iter().any(|other| **other == *value);
        match &self.condition {
            Condition::In(values) => labels.any(|(name, value)| is_label(name) && is_in(values, value)),
            Condition::NotIn(values) => !labels.any(|(name, value)| is_label(name) && is_in(values, value)),
            Condition::Exists => labels.any(|(name, _)| is_label(name)),
            Condition::Missing => !labels.any(|(name, _)| is_label(name)),
        }
    }
}

/// Values between commas, up to the closing parenthesis, which must be the last character; no value is empty.
fn value_list(text: &[u8]) -> Result<Vec<Box<[u8]>>, Error> {
    let Some((b')', values)) = text.split_last() else { return Err(Error::Filter) };
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let values = values.split(|byte| *byte == b',');
    values.map(|value| if value.is_empty() { Err(Error::Filter) } else { Ok(value.into()) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, Condition)> {
        let predicate = Predicate::parse(text.as_bytes()).ok()?;
        Some((String::from_utf8_lossy(&predicate.label).into_owned(), predicate.condition))
    }

    fn values(values: &[&str]) -> Vec<Box<[u8]>> {
        values.iter().map(|value| value.as_bytes().into()).collect()
    }

    #[test]
    fn expressions_are_read_as_redis_reads_them() {
        for (text, label, condition) in [
            ("l=v", "l", Condition::In(values(&["v"]))),
            ("l!=v", "l", Condition::NotIn(values(&["v"]))),
            ("l=", "l", Condition::Missing),
            ("l!=", "l", Condition::Exists),
            ("l=(a)", "l", Condition::In(values(&["a"]))),
            ("l=(a,b c)", "l", Condition::In(values(&["a", "b c"]))),
            ("l!=(a,b)", "l", Condition::NotIn(values(&["a", "b"]))),
            ("l=()", "l", Condition::In(vec![])),
            ("l=a=b", "l", Condition::In(values(&["a"]))),
            ("=v", "v", Condition::Missing),
            ("l==v", "l", Condition::In(values(&["v"]))),
            ("l=a!=b", "l", Condition::NotIn(values(&["a"]))),
            ("l=v\0x", "l", Condition::In(values(&["v"]))),
        ] {
            assert_eq!(parsed(text), Some((label.to_owned(), condition)), "{text}");
        }
        for text in
            ["", "l", "=", "!=", "l=(", "l=(a", "l=(a,)", "l=(,a)", "l=(a,,b)", "l=(a)b", "l=(a=b)", "\0l=v"]
        {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn one_expression_must_ask_for_a_value() {
        let parse = |texts: &[&str]| Filter::parse(texts.iter().map(|text| text.as_bytes()));
        assert_eq!(parse(&["a!=1", "b="]), Err(Error::NoMatcher));
        assert_eq!(parse(&["a!=1", "b=x"]).map(|filter| filter.predicates().len()), Ok(2));
        assert_eq!(parse(&["a=1", "b"]), Err(Error::Filter));
        assert_eq!(parse(&[]), Err(Error::NoMatcher));
    }
}
