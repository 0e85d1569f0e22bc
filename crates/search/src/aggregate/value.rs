//! The value of a property: its coercions and its order, as RediSearch has them.
//!
//! A clone copies no bytes. Comparing never fails without a place for the error: with none, a text that is no
//! number is compared as text.

use crate::Error;
use crate::number;
use martlet_base::number::NumberBuffer;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// A value.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing; the result of a function whose argument cannot be converted.
    #[default]
    Null,
    /// A number.
    Number(f64),
    /// Bytes.
    Text(Arc<[u8]>),
    /// Several values: the values of a path, or what `split` and TOLIST make.
    Array(Arc<[Value]>),
    /// What a path of a JSON document leads to, from dialect 3 on.
    Path(Arc<PathValue>),
}

/// All values of a path. Expressions and orders see the first one, results all of them.
#[derive(Debug)]
pub struct PathValue {
    /// The first one, which is no [`Value::Path`].
    pub first: Value,
    /// All of them as a JSON array.
    pub text: Box<[u8]>,
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl From<&[u8]> for Value {
    fn from(text: &[u8]) -> Self {
        Value::Text(text.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<Vec<Value>> for Value {
    fn from(values: Vec<Value>) -> Self {
        Value::Array(values.into())
    }
}

impl Value {
    /// The value that expressions see: of a path its first one.
    pub fn single(&self) -> &Value {
        match self {
            Value::Path(path) => &path.first,
            value => value,
        }
    }

    /// The number that RediSearch has for the type, and shows in errors.
    pub fn type_number(&self) -> u8 {
        match self {
            Value::Number(_) => 1,
            Value::Text(_) => 3,
            Value::Null => 4,
            Value::Array(_) => 6,
            Value::Path(path) => path.first.type_number(),
        }
    }

    /// The number that it is or that its text reads as.
    pub fn to_number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(text) => number::parse_c(text),
            Value::Null | Value::Array(_) => None,
            Value::Path(path) => path.first.to_number(),
        }
    }

    /// Its bytes, if it is text.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self {
            Value::Text(text) => Some(text),
            Value::Path(path) => path.first.as_text(),
            _ => None,
        }
    }

    /// Its text: a number as a reply shows it, nothing for null and arrays.
    pub fn to_text<'a>(&'a self, buffer: &'a mut NumberBuffer) -> &'a [u8] {
        match self {
            Value::Number(number) => number::format(*number, buffer),
            Value::Text(text) => text,
            Value::Path(path) => &path.text,
            Value::Null | Value::Array(_) => b"",
        }
    }

    /// Whether a filter lets it pass.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::Array(values) => !values.is_empty(),
            Value::Path(path) => path.first.is_true(),
        }
    }

    /// Bytes that the value has on the heap, shared ones included.
    pub fn heap_bytes(&self) -> usize {
        const COUNTS: usize = 2 * size_of::<usize>();
        match self {
            Value::Null | Value::Number(_) => 0,
            Value::Text(text) => COUNTS + text.len(),
            Value::Path(path) => COUNTS + size_of::<PathValue>() + path.text.len() + path.first.heap_bytes(),
            Value::Array(values) => {
                COUNTS + values.iter().map(|value| size_of::<Value>() + value.heap_bytes()).sum::<usize>()
            }
        }
    }

    /// The order of sorting: text that is no number is compared with a number as text, written `%f`.
    pub fn compare(&self, other: &Value) -> Ordering {
        match self.compare_as_number(other) {
            Some(Ok(order)) => order,
            Some(Err(_)) | None => compare_as_text(self, other),
        }
    }

    /// The order of an expression.
    ///
    /// # Errors
    ///
    /// A number was compared with a value that has none.
    pub fn try_compare(&self, other: &Value) -> Result<Ordering, Error> {
        match self.compare_as_number(other) {
            Some(Ok(order)) => Ok(order),
            Some(Err(value)) => {
                let text = value.as_text().unwrap_or(b"(null)");
                let text = String::from_utf8_lossy(text);
                Err(Error::new(format!("Error converting string '{text}' to number")))
            }
            None => Ok(compare_as_text(self, other)),
        }
    }

    /// Values of one type, null, and numbers; an error is the one that should be a number. None: as text.
    fn compare_as_number<'a>(&'a self, other: &'a Value) -> Option<Result<Ordering, &'a Value>> {
        Some(Ok(match (self.single(), other.single()) {
            (Value::Number(one), Value::Number(two)) => compare_numbers(*one, *two),
            (Value::Text(one), Value::Text(two)) => one.cmp(two),
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Less,
            (_, Value::Null) => Ordering::Greater,
            // Only the first elements count.
            (Value::Array(one), Value::Array(two)) => match (one.first(), two.first()) {
                (Some(one), Some(two)) => return Self::compare_first(one, two),
                _ => one.len().cmp(&two.len()),
            },
            (Value::Number(one), _) => match other.to_number() {
                Some(two) => compare_numbers(*one, two),
                None => return Some(Err(other.single())),
            },
            (_, Value::Number(two)) => match self.to_number() {
                Some(one) => compare_numbers(one, *two),
                None => return Some(Err(self.single())),
            },
            _ => return None,
        }))
    }

    /// Elements of arrays; arrays in arrays are equal, so that nothing recurses.
    fn compare_first<'a>(one: &'a Value, two: &'a Value) -> Option<Result<Ordering, &'a Value>> {
        match (one, two) {
            (Value::Array(_), Value::Array(_)) => Some(Ok(Ordering::Equal)),
            _ => one.compare_as_number(two),
        }
    }

    /// Equality in an expression: never an error.
    pub fn is_equal(&self, other: &Value) -> bool {
        match (self.single(), other.single()) {
            (Value::Null, Value::Null) => true,
            (Value::Null, _) | (_, Value::Null) => false,
            _ => match self.compare_as_number(other) {
                Some(Ok(order)) => order == Ordering::Equal,
                Some(Err(_)) => false,
                None => compare_as_text(self, other) == Ordering::Equal,
            },
        }
    }
}

/// NaN is equal to everything.
fn compare_numbers(one: f64, two: f64) -> Ordering {
    one.partial_cmp(&two).unwrap_or(Ordering::Equal)
}

fn compare_as_text(one: &Value, two: &Value) -> Ordering {
    fn text(value: &Value) -> Cow<'_, [u8]> {
        match value.single() {
            Value::Text(text) => Cow::Borrowed(text),
            Value::Number(number) => Cow::Owned(format!("{number:.6}").into_bytes()),
            Value::Null | Value::Array(_) | Value::Path(_) => Cow::Borrowed(b""),
        }
    }
    text(one).cmp(&text(two))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<Value> {
        let array = |texts: &[&str]| Value::from(texts.iter().map(|text| (*text).into()).collect::<Vec<_>>());
        vec![
            Value::Null,
            2.0.into(),
            10.0.into(),
            "10".into(),
            "a".into(),
            "".into(),
            array(&[]),
            array(&["a"]),
            array(&["a", "b"]),
        ]
    }

    #[test]
    fn values_are_coerced() {
        let numbers: Vec<_> = values().iter().map(Value::to_number).collect();
        let expected = [None, Some(2.0), Some(10.0), Some(10.0), None, Some(0.0), None, None, None];
        assert_eq!(numbers, expected);
        let truths: Vec<_> = values().iter().map(Value::is_true).collect();
        assert_eq!(truths, [false, true, true, true, true, false, false, true, true]);
        let mut buffer = NumberBuffer::new();
        assert_eq!(Value::from(2.5).to_text(&mut buffer), b"2.5");
        assert_eq!(values()[8].to_text(&mut buffer), b"");
    }

    #[test]
    fn null_is_least_and_numbers_are_compared_as_such() {
        let [null, two, ten, ten_text, a, empty, none, one_a, a_b] =
            <[Value; 9]>::try_from(values()).expect("nine values");
        assert_eq!(null.compare(&two), Ordering::Less);
        assert_eq!(two.compare(&null), Ordering::Greater);
        assert_eq!(two.compare(&ten_text), Ordering::Less);
        assert_eq!(ten.compare(&ten_text), Ordering::Equal);
        assert_eq!(two.compare(&a), Ordering::Less);
        assert_eq!(empty.compare(&a), Ordering::Less);
        assert_eq!(one_a.compare(&a_b), Ordering::Equal);
        assert_eq!(none.compare(&a_b), Ordering::Less);
        assert!(!null.is_equal(&empty) && null.is_equal(&Value::Null));
        assert!(one_a.is_equal(&empty) && !one_a.is_equal(&a));
        let error = a.try_compare(&two).expect_err("no number");
        assert_eq!(error.text(), "Error converting string 'a' to number");
        assert_eq!(Value::from(f64::NAN).compare(&two), Ordering::Equal);
    }

    #[test]
    fn arrays_within_arrays_end_the_comparison() {
        let mut deep = Value::from(1.0);
        for _ in 0..1000 {
            deep = Value::from(vec![deep]);
        }
        assert_eq!(deep.compare(&deep.clone()), Ordering::Equal);
        // Dropping values of such depth recurses; only a thousand are made.
        assert!(deep.heap_bytes() > 1000);
    }
}
