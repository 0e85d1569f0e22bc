//! The operands on the machine's stack, and the arguments of a function among them.

use crate::Error;
use crate::aggregate::value::Value;

/// A value on the stack.
#[derive(Debug)]
pub(super) enum Operand<'a> {
    Borrowed(&'a Value),
    Owned(Value),
    /// A property that the row does not have; only `exists` takes one.
    Missing,
}

impl Operand<'_> {
    pub(super) fn value(&self) -> &Value {
        match self {
            Operand::Borrowed(value) => value,
            Operand::Owned(value) => value,
            Operand::Missing => &Value::Null,
        }
    }
}

/// The arguments of a call.
pub(super) struct Arguments<'s, 'a> {
    pub(super) operands: &'s [Operand<'a>],
}

impl Arguments<'_, '_> {
    pub(super) fn len(&self) -> usize {
        self.operands.len()
    }

    pub(super) fn get(&self, index: usize) -> &Value {
        self.operands.get(index).map_or(&Value::Null, Operand::value)
    }

    pub(super) fn is_missing(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Operand::Missing))
    }
}

/// Refuses a call of too few or too many arguments.
pub(super) fn check_count(
    name: &str,
    arguments: &Arguments<'_, '_>,
    least: usize,
    most: usize,
) -> Result<(), Error> {
    if (least..=most).contains(&arguments.len()) {
        return Ok(());
    }
    Err(Error::new(format!("Invalid arguments for function '{name}'")))
}

fn wrong_type(name: &str, arguments: &Arguments<'_, '_>, index: usize, check: &str) -> Error {
    let type_number = arguments.get(index).type_number();
    Error::new(format!(
        "Invalid type ({type_number}) for argument {index} in function '{name}'. {check} was false."
    ))
}

/// The text of an argument, which must be text.
pub(super) fn text_argument<'a>(
    name: &str,
    arguments: &'a Arguments<'_, '_>,
    index: usize,
) -> Result<&'a [u8], Error> {
    let text = arguments.get(index).as_text();
    text.ok_or_else(|| wrong_type(name, arguments, index, "VALIDATE_ARG__STRING(v, 0)"))
}

/// The number of an argument, which must be one and not text.
pub(super) fn number_argument(name: &str, arguments: &Arguments<'_, '_>, index: usize) -> Result<f64, Error> {
    match arguments.get(index) {
        Value::Number(number) => Ok(*number),
        _ => Err(wrong_type(name, arguments, index, "VALIDATE_ARG__TYPE(v, RSValue_Number)")),
    }
}
