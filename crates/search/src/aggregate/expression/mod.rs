//! The expressions of APPLY and FILTER, and of an index's FILTER.
//!
//! An expression is parsed into a program for a machine with a stack, and bound to the slots of a row; its
//! evaluation looks up no name and does not recurse.

mod calendar;
mod call;
mod functions;
mod geo;
mod parse;
mod text;
mod title;
mod token;

pub use functions::Function;
pub use token::Operator;

use super::value::Value;
use crate::Error;
use crate::number::to_integer;
use call::{Arguments, Operand};
use std::cmp::Ordering;
use token::is_escapable;

/// Where a row has a property.
pub type Slot = usize;

/// What an expression reads.
pub trait Row {
    /// The value at a slot; none: this row has no such property.
    fn get(&self, slot: Slot) -> Option<&Value>;

    /// The terms of the query that this row's document matched, `most` at the most.
    fn matched_terms(&self, most: usize) -> Vec<Value> {
        let _ = most;
        Vec::new()
    }
}

impl Row for [Option<Value>] {
    fn get(&self, slot: Slot) -> Option<&Value> {
        <[Option<Value>]>::get(self, slot)?.as_ref()
    }
}

/// A step of a program.
#[derive(Clone, Debug)]
enum Op {
    Value(Value),
    /// The property of this index among those of the expression.
    Property(usize),
    Operator(Operator),
    Not,
    /// Replaces the top by 1 if it is true, else by 0.
    Truth,
    /// Jumps to the step with a 0 in the place of a false top; removes a true one.
    AndThen(usize),
    /// Jumps to the step with a 1 in the place of a true top; removes a false one.
    OrElse(usize),
    /// Removes the top, and jumps to the step if it was false.
    Unless(usize),
    /// Jumps to the step.
    Jump(usize),
    /// A function and how many arguments it has on the stack.
    Call(Function, usize),
}

/// A program whose properties are names.
#[derive(Clone, Debug)]
struct Parsed {
    ops: Vec<Op>,
    properties: Vec<Box<[u8]>>,
    invalid: Option<&'static str>,
    stack_depth: usize,
}

/// A parsed expression, not yet bound to rows.
#[derive(Clone, Debug)]
pub struct Expression {
    parsed: Parsed,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// RediSearch's, or a limit of length or depth.
    pub fn parse(text: &[u8]) -> Result<Expression, Error> {
        Ok(Expression { parsed: parse::parse(text)? })
    }

    /// The names of the properties that it reads, each once, in the order in which they appear.
    pub fn properties(&self) -> impl Iterator<Item = &[u8]> {
        self.parsed.properties.iter().map(|name| &**name)
    }

    /// Whether it asks for the terms that a document matched.
    pub fn has_matched_terms(&self) -> bool {
        self.parsed.ops.iter().any(|op| matches!(op, Op::Call(Function::MatchedTerms, _)))
    }

    /// Binds it to rows whose properties have the slots that `slot_of` returns. A name with escapes is looked
    /// for as it stands, then without the escapes.
    ///
    /// # Errors
    ///
    /// A property that has no slot, or an operand that the parser could not make out.
    pub fn bind(self, slot_of: &mut dyn FnMut(&[u8]) -> Option<Slot>) -> Result<Program, Error> {
        let mut properties = Vec::with_capacity(self.parsed.properties.len());
        for name in &self.parsed.properties {
            let slot = slot_of(name).or_else(|| slot_of(&without_escapes(name))).ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                Error::new(format!("Property `{name}` not loaded nor in pipeline"))
            })?;
            properties.push(Property { slot, name: name.clone() });
        }
        if let Some(operand) = self.parsed.invalid {
            return Err(Error::new(format!("Missing (or badly formatted) value for {operand}")));
        }
        Ok(Program { ops: self.parsed.ops, properties, stack_depth: self.parsed.stack_depth })
    }
}

fn without_escapes(name: &[u8]) -> Vec<u8> {
    let is_escape = |at: usize| name[at] == b'\\' && name.get(at + 1).is_some_and(|next| is_escapable(*next));
    (0..name.len()).filter(|at| !is_escape(*at)).map(|at| name[at]).collect()
}

#[derive(Clone, Debug)]
struct Property {
    slot: Slot,
    name: Box<[u8]>,
}

/// An expression bound to rows.
#[derive(Clone, Debug)]
pub struct Program {
    ops: Vec<Op>,
    properties: Vec<Property>,
    stack_depth: usize,
}

/// The stack's memory, for one evaluation after another.
#[derive(Debug, Default)]
pub struct Scratch {
    stack: Vec<Operand<'static>>,
}

/// The memory of an empty stack, for values of another lifetime.
fn recycle<'a>(mut stack: Vec<Operand<'_>>) -> Vec<Operand<'a>> {
    stack.clear();
    stack.into_iter().map(|_| Operand::Owned(Value::Null)).collect()
}

impl Program {
    /// The slot of the property, if the expression is one and nothing else.
    pub fn as_property(&self) -> Option<Slot> {
        match &self.ops[..] {
            [Op::Property(index)] => self.properties.get(*index).map(|property| property.slot),
            _ => None,
        }
    }

    /// The expression's value for a row.
    ///
    /// # Errors
    ///
    /// A property without a value, a value of the wrong type, or a result that is too long.
    pub fn evaluate<R: Row + ?Sized>(&self, row: &R, scratch: &mut Scratch) -> Result<Value, Error> {
        let mut stack = recycle(std::mem::take(&mut scratch.stack));
        stack.reserve(self.stack_depth);
        let result = self.run(row, &mut stack);
        scratch.stack = recycle(stack);
        result
    }

    fn run<'a, R: Row + ?Sized>(&'a self, row: &'a R, stack: &mut Vec<Operand<'a>>) -> Result<Value, Error> {
        let mut at = 0;
        while let Some(op) = self.ops.get(at) {
            at += 1;
            match op {
                Op::Value(value) => stack.push(Operand::Borrowed(value)),
                Op::Property(index) => stack.push(match self.property(*index, row) {
                    Some(value) => Operand::Borrowed(value),
                    None if matches!(self.ops.get(at), Some(Op::Call(Function::Exists, 1))) => {
                        Operand::Missing
                    }
                    None => return Err(self.no_value(*index)),
                }),
                Op::Operator(operator) => {
                    let (right, left) = (pop(stack), pop(stack));
                    stack.push(Operand::Owned(operate(*operator, left.value(), right.value())?));
                }
                Op::Not => {
                    let is_true = pop(stack).value().is_true();
                    stack.push(Operand::Owned(truth(!is_true)));
                }
                Op::Truth => {
                    let is_true = pop(stack).value().is_true();
                    stack.push(Operand::Owned(truth(is_true)));
                }
                Op::AndThen(end) => {
                    if !pop(stack).value().is_true() {
                        stack.push(Operand::Owned(truth(false)));
                        at = *end;
                    }
                }
                Op::OrElse(end) => {
                    if pop(stack).value().is_true() {
                        stack.push(Operand::Owned(truth(true)));
                        at = *end;
                    }
                }
                Op::Unless(end) => {
                    if !pop(stack).value().is_true() {
                        at = *end;
                    }
                }
                Op::Jump(end) => at = *end,
                Op::Call(function, count) => {
                    let from = stack.len().saturating_sub(*count);
                    let arguments = Arguments { operands: stack.get(from..).unwrap_or_default() };
                    let result = function.call(&arguments, row)?;
                    stack.truncate(from);
                    stack.push(Operand::Owned(result));
                }
            }
        }
        Ok(match pop(stack) {
            Operand::Owned(value) => value,
            other => other.value().clone(),
        })
    }

    fn property<'a, R: Row + ?Sized>(&self, index: usize, row: &'a R) -> Option<&'a Value> {
        row.get(self.properties.get(index)?.slot)
    }

    fn no_value(&self, index: usize) -> Error {
        let name = self.properties.get(index).map_or(&b""[..], |property| &property.name);
        let name = String::from_utf8_lossy(name);
        Error::new(format!("{name}: has no value, consider using EXISTS if applicable"))
    }
}

/// The top of the stack; the parser sees to it that there is one.
fn pop<'a>(stack: &mut Vec<Operand<'a>>) -> Operand<'a> {
    stack.pop().unwrap_or(Operand::Owned(Value::Null))
}

fn truth(is_true: bool) -> Value {
    Value::Number(f64::from(u8::from(is_true)))
}

fn operate(operator: Operator, left: &Value, right: &Value) -> Result<Value, Error> {
    let compared = |holds: fn(Ordering) -> bool| Ok(truth(holds(left.try_compare(right)?)));
    match operator {
        Operator::Equal => Ok(truth(left.is_equal(right))),
        Operator::NotEqual => Ok(truth(!left.is_equal(right))),
        Operator::Less => compared(Ordering::is_lt),
        Operator::LessOrEqual => compared(Ordering::is_le),
        Operator::Greater => compared(Ordering::is_gt),
        Operator::GreaterOrEqual => compared(Ordering::is_ge),
        _ => match (left.to_number(), right.to_number()) {
            (Some(left), Some(right)) => Ok(Value::Number(calculate(operator, left, right))),
            _ => Err(Error::new("Could not convert value to a number")),
        },
    }
}

fn calculate(operator: Operator, left: f64, right: f64) -> f64 {
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide if right != 0.0 => left / right,
        Operator::Modulo if right == -1.0 => 0.0,
        // Of the integers; RediSearch crashes where the right one is 0 but the number is not.
        Operator::Modulo => match to_integer(right) {
            0 => f64::NAN,
            divisor => to_integer(left).wrapping_rem(divisor) as f64,
        },
        Operator::Power => left.powf(right),
        _ => f64::NAN,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use martlet_base::number::NumberBuffer;

    fn row() -> Vec<(&'static str, Option<Value>)> {
        vec![
            ("t", Some("Hello World".into())),
            ("n", Some("5".into())),
            ("e", Some("".into())),
            ("x", Some(7.0.into())),
            ("zz", None),
            ("a.b", Some(1.0.into())),
        ]
    }

    /// The value as text, or the error behind `ERR `.
    fn evaluated(input: &str) -> String {
        let row = row();
        let mut slot_of = |name: &[u8]| row.iter().position(|(property, _)| property.as_bytes() == name);
        let values: Vec<Option<Value>> = row.iter().map(|(_, value)| value.clone()).collect();
        let result = Expression::parse(input.as_bytes())
            .and_then(|expression| expression.bind(&mut slot_of))
            .and_then(|program| program.evaluate(&values[..], &mut Scratch::default()));
        match result {
            Ok(Value::Null) => "null".to_owned(),
            Ok(Value::Array(values)) => {
                let texts = values
                    .iter()
                    .map(|v| String::from_utf8_lossy(v.to_text(&mut NumberBuffer::new())).into_owned());
                format!("[{}]", texts.collect::<Vec<_>>().join("|"))
            }
            Ok(value) => String::from_utf8_lossy(value.to_text(&mut NumberBuffer::new())).into_owned(),
            Err(error) => format!("ERR {error}"),
        }
    }

    pub(super) fn check(cases: &[(&str, &str)]) {
        for (input, expected) in cases {
            assert_eq!(evaluated(input), *expected, "{input}");
        }
    }

    #[test]
    fn operators_have_redisearchs_precedence() {
        check(&[
            ("2*3^2", "36"),
            ("0 - 5 ^ 2", "-25"),
            ("1 || 0 && 0", "0"),
            ("!1 + 1", "0"),
            ("!0 == 1", "1"),
            ("1 == 1 == 1", "1"),
            ("1 + 2 \u{e9} garbage", "3"),
            ("7 - 2 - 1", "4"),
            ("(7 - (2 - 1))", "6"),
            ("1 - -1", "2"),
            ("!!5", "1"),
        ]);
    }

    #[test]
    fn arithmetic_is_that_of_c() {
        check(&[
            ("@n % 2", "1"),
            ("@n % 0", "nan"),
            ("5 % 0.5", "nan"),
            ("5 % -1", "0"),
            ("-7 % 3", "-1"),
            ("1e300 % 3", "-2"),
            ("1/0", "nan"),
            ("@e + 1", "1"),
            ("@t + 1", "ERR Could not convert value to a number"),
            ("NULL + 1", "ERR Could not convert value to a number"),
        ]);
    }

    #[test]
    fn comparisons_convert_to_numbers() {
        check(&[
            ("@n < 7", "1"),
            ("@t < 1", "ERR Error converting string 'Hello World' to number"),
            ("@n == 'a'", "0"),
            ("7 == 'a'", "0"),
            ("'a' < 'b'", "1"),
            ("NULL < 1", "1"),
            ("NULL == ''", "0"),
            ("'' == 0", "1"),
            ("split('a') < 1", "ERR Error converting string '(null)' to number"),
            ("split('a') == split('a,b')", "1"),
        ]);
    }

    #[test]
    fn missing_properties_are_errors_but_to_exists() {
        check(&[
            ("exists(@zz)", "0"),
            ("exists(@t)", "1"),
            ("exists(NULL)", "1"),
            ("upper(@zz)", "ERR zz: has no value, consider using EXISTS if applicable"),
            ("@zz", "ERR zz: has no value, consider using EXISTS if applicable"),
            ("@nothing", "ERR Property `nothing` not loaded nor in pipeline"),
            ("@nothing + inf", "ERR Property `nothing` not loaded nor in pipeline"),
            ("1 + inf", "ERR Missing (or badly formatted) value for expr->op.right"),
            ("1 || @zz", "1"),
            ("0 && @zz", "0"),
            ("case(1, 'a', @zz)", "a"),
            ("case(@n > 7, @zz, 'b')", "b"),
            ("case(0, 1, case(1, 2, 3)) + 1", "3"),
            ("case(1, 2)", "ERR Function 'case' expects 3 arguments, but got 2"),
            ("case()", "ERR Function 'case' expects 3 arguments, but got 0"),
            ("0 || @zz", "ERR zz: has no value, consider using EXISTS if applicable"),
            (r"@a\.b + 1", "2"),
        ]);
    }

    #[test]
    fn the_scratch_is_used_again() {
        let program =
            Expression::parse(b"1 + @x * (2 + @x)").and_then(|e| e.bind(&mut |_| Some(0))).expect("bound");
        let mut scratch = Scratch::default();
        for number in 0..100 {
            let row = [Some(Value::Number(f64::from(number)))];
            let value = program.evaluate(&row[..], &mut scratch).expect("a number");
            assert_eq!(value.to_number(), Some(f64::from(1 + number * (2 + number))));
        }
        assert!(scratch.stack.capacity() >= 3 && scratch.stack.is_empty());
    }
}
