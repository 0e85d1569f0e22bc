//! The functions of Redis 8.10's expressions. A call with arguments of the wrong number or type is *nothing*.

use super::term::{Term, integer, length, number, truncated};
use crate::value::{Node, Number, Value, View};

/// A function by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Length,
    Count,
    Value,
    Ceiling,
    Floor,
    Abs,
    Concat,
    Sum,
    Min,
    Max,
    Avg,
    Stddev,
    Keys,
    Append,
    First,
    Last,
    Index,
    Match,
    Search,
    /// No function has the name: nothing, as in RedisJSON.
    Unknown,
}

impl Function {
    pub fn named(name: &str) -> Function {
        match name {
            "length" => Function::Length,
            "count" => Function::Count,
            "value" => Function::Value,
            "ceiling" => Function::Ceiling,
            "floor" => Function::Floor,
            "abs" => Function::Abs,
            "concat" => Function::Concat,
            "sum" => Function::Sum,
            "min" => Function::Min,
            "max" => Function::Max,
            "avg" => Function::Avg,
            "stddev" => Function::Stddev,
            "keys" => Function::Keys,
            "append" => Function::Append,
            "first" => Function::First,
            "last" => Function::Last,
            "index" => Function::Index,
            "match" => Function::Match,
            "search" => Function::Search,
            _ => Function::Unknown,
        }
    }

    /// The result for these arguments; a method's receiver is the first. `=~`-like functions are not decided
    /// here.
    pub fn call<'a>(self, mut arguments: Vec<Term<'a>>) -> Term<'a> {
        if self == Function::Concat {
            return concat(&arguments);
        }
        match (arguments.pop(), arguments.pop(), arguments.pop()) {
            (Some(argument), None, None) => self.call_with_one(argument),
            (Some(second), Some(first), None) => self.call_with_two(first, second),
            _ => Term::Nothing,
        }
    }

    fn call_with_one<'a>(self, argument: Term<'a>) -> Term<'a> {
        match self {
            Function::Length => match &argument {
                Term::List(values) => count(Some(values.len())),
                _ => count(argument.single().and_then(length)),
            },
            Function::Count => count(Some(match &argument {
                Term::Nothing => 0,
                Term::Nodes(nodes) => nodes.len(),
                Term::List(values) => values.len(),
                _ => 1,
            })),
            Function::Value => match argument {
                Term::Stored(_) => argument,
                Term::List(mut values) if values.len() == 1 => {
                    values.pop().map_or(Term::Nothing, Term::Computed)
                }
                _ => Term::Nothing,
            },
            Function::Ceiling => round(&argument, f64::ceil),
            Function::Floor => round(&argument, f64::floor),
            Function::Abs => Term::from_number(argument.number().and_then(|number| match number {
                Number::Int(value) => value.checked_abs().map(Number::Int),
                Number::UInt(_) => Some(number),
                Number::Float(value) => Some(Number::Float(value.abs())),
            })),
            Function::Sum | Function::Min | Function::Max | Function::Avg | Function::Stddev => {
                self.aggregate(&argument)
            }
            Function::Keys => keys(&argument),
            Function::First => element(argument, 0),
            Function::Last => element(argument, -1),
            _ => Term::Nothing,
        }
    }

    fn call_with_two<'a>(self, first: Term<'a>, second: Term<'a>) -> Term<'a> {
        match self {
            Function::Index => {
                second.number().and_then(truncated).map_or(Term::Nothing, |index| element(first, index))
            }
            Function::Append => append(first, second),
            _ => Term::Nothing,
        }
    }

    fn aggregate<'a>(self, argument: &Term<'_>) -> Term<'a> {
        let numbers: Option<Vec<f64>> = argument
            .elements()
            .and_then(|elements| elements.into_iter().map(|node| number(node).map(Number::as_f64)).collect());
        let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else { return Term::Nothing };
        let sum: f64 = numbers.iter().sum();
        let mean = sum / numbers.len() as f64;
        let result = match self {
            Function::Sum => sum,
            Function::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            Function::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Function::Avg => mean,
            _ => {
                let squares: f64 = numbers.iter().map(|value| (value - mean).powi(2)).sum();
                (squares / numbers.len() as f64).sqrt()
            }
        };
        Term::from_number(Number::from_f64(result))
    }
}

fn count<'a>(count: Option<usize>) -> Term<'a> {
    Term::from_number(count.map(|count| Number::from_u64(count as u64)))
}

fn round<'a>(argument: &Term<'_>, round: fn(f64) -> f64) -> Term<'a> {
    Term::from_number(argument.number().and_then(|number| match number {
        Number::Float(value) => integer(round(value)).map(Number::Int),
        whole => Some(whole),
    }))
}

fn concat<'a>(arguments: &[Term<'_>]) -> Term<'a> {
    let texts: Option<Vec<&str>> = arguments.iter().map(Term::text).collect();
    match texts {
        Some(texts) if !texts.is_empty() => Term::Computed(Value::text(&texts.concat())),
        _ => Term::Nothing,
    }
}

/// The names of the members of an object, or of all objects of a sequence.
fn keys<'a>(argument: &Term<'_>) -> Term<'a> {
    fn names(node: Node<'_>, out: &mut Vec<Value>) -> bool {
        let View::Object(object) = node.view() else { return false };
        out.extend(object.members().iter().map(|member| member.name_value().clone()));
        true
    }
    let mut out = Vec::new();
    let found = match argument {
        Term::Nodes(nodes) => {
            nodes.iter().for_each(|node| {
                names(*node, &mut out);
            });
            true
        }
        _ => argument.single().is_some_and(|node| names(node, &mut out)),
    };
    if found { Term::List(out) } else { Term::Nothing }
}

/// The element of a sequence at an index, which counts from the end if it is negative.
fn element<'a>(argument: Term<'a>, index: i64) -> Term<'a> {
    let resolve = |length: usize| {
        let index = if index < 0 { index + length as i64 } else { index };
        usize::try_from(index).ok().filter(|index| *index < length)
    };
    match argument {
        Term::Stored(node) => match node.view() {
            View::Array(array) => {
                resolve(array.len()).and_then(|index| array.get(index)).map_or(Term::Nothing, Term::Stored)
            }
            _ => Term::Nothing,
        },
        Term::Nodes(nodes) => resolve(nodes.len())
            .and_then(|index| nodes.get(index))
            .map_or(Term::Nothing, |node| Term::Stored(*node)),
        _ => {
            let elements = argument.elements().unwrap_or_default();
            let found = resolve(elements.len()).and_then(|index| elements.get(index));
            found.map_or(Term::Nothing, |node| Term::Computed(node.to_value()))
        }
    }
}

/// The receiver as a sequence, and one more element; the document stays as it is.
fn append<'a>(receiver: Term<'a>, new: Term<'a>) -> Term<'a> {
    let new = match new {
        Term::Nothing => return Term::Nothing,
        Term::List(values) => Value::array(values.into_iter()),
        other => match other.into_values().pop() {
            Some(value) => value,
            None => return Term::Nothing,
        },
    };
    let sequence = receiver.elements().map(|nodes| nodes.into_iter().map(Node::to_value).collect());
    let mut values: Vec<Value> = match sequence {
        Some(values) => values,
        None => receiver.into_values(),
    };
    values.push(new);
    Term::List(values)
}
