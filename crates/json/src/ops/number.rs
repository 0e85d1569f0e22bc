//! JSON.NUMINCRBY, NUMMULTBY, NUMPOWBY.

use super::{Answer, Order, update};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::path::{Path, PlaceStep};
use crate::text::parse_number;
use crate::value::{Node, Number, Value, View};

/// An arithmetic operation on stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberOperation {
    /// Adds.
    Increment,
    /// Multiplies.
    Multiply,
    /// Raises to a power.
    Power,
}

impl NumberOperation {
    /// Two integers of `i64` make an integer, everything else a double.
    fn apply(self, number: Number, operand: Number) -> Result<Number> {
        if let (Number::Int(a), Number::Int(b)) = (number, operand) {
            let exact = match self {
                NumberOperation::Increment => a.checked_add(b),
                NumberOperation::Multiply => a.checked_mul(b),
                NumberOperation::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            };
            return exact.map(Number::Int).ok_or(Error::NumericOverflow);
        }
        let (a, b) = (number.as_f64(), operand.as_f64());
        let result = match self {
            NumberOperation::Increment => a + b,
            NumberOperation::Multiply => a * b,
            NumberOperation::Power => a.powf(b),
        };
        Number::from_f64(result).ok_or(Error::ResultNotANumber)
    }
}

/// Changes each number at the path and returns the results. `operand` is JSON text; as in ReJSON, it is
/// parsed only if the path leads to a number.
///
/// # Errors
/// A legacy path leads to no number, `operand` is not a number, a result is not finite or beyond 64 bits, or
/// a limit of paths.
pub fn number_operation(
    document: &mut Document,
    path: &Path,
    operation: NumberOperation,
    operand: &[u8],
) -> Result<Answer<Number>> {
    let mut parsed = None;
    update(
        document,
        path,
        |node| matches!(node.view(), View::Number(_)),
        Order::AsFound,
        || Error::NoPathOr(path.text().to_owned(), "does not contains a number"),
        |document, place| {
            let operand = match parsed {
                Some(operand) => operand,
                None => *parsed.insert(parse_number(operand)?),
            };
            let missing = || Error::NoPath(path.text().to_owned());
            let number = document.get(place).and_then(number).ok_or_else(missing)?;
            let result = operation.apply(number, operand)?;
            document.set(place, Value::number(result));
            // A typed array of floats rounds its new element.
            match place.last() {
                Some(PlaceStep::Index(_)) => document.get(place).and_then(self::number).ok_or_else(missing),
                _ => Ok(result),
            }
        },
    )
}

fn number(node: Node<'_>) -> Option<Number> {
    match node.view() {
        View::Number(number) => Some(number),
        _ => None,
    }
}
