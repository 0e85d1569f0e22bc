//! A compiled expression: values and operators in postfix order, and the run over one attribute. What
//! always holds: every operator of the program finds its operands, and exactly one value is left at the
//! end.

use super::json::{self, Value};
use super::lexer::{self, Literal, Operator, Token};
use super::{FILTER_BYTES_MAX, FILTER_INSTRUCTIONS_MAX, FilterError, number};
use std::borrow::Cow;
use std::ops::Range;

/// Values that a run keeps without allocating.
const STACK_VALUES: usize = 16;

/// A compiled FILTER expression.
#[derive(Clone, Debug)]
pub struct Filter {
    text: Box<[u8]>,
    program: Box<[Token]>,
    literals: Box<[Literal]>,
    /// The most values that a run has at a time.
    depth_max: usize,
}

impl Filter {
    /// Compiles an expression, which ends at its first zero byte.
    ///
    /// # Errors
    /// Where the syntax is wrong or a limit is passed, as the offset that Redis shows; 0 for all errors found
    /// after the text was split into tokens.
    pub fn compile(expression: &[u8]) -> Result<Filter, FilterError> {
        let text = expression.split(|byte| *byte == 0).next().unwrap_or_default();
        if text.len() > FILTER_BYTES_MAX {
            return Err(FilterError { offset: 0 });
        }
        let found = lexer::tokenize(text, FILTER_INSTRUCTIONS_MAX)?;
        let (program, depth_max) = postfix(found.tokens).ok_or(FilterError { offset: 0 })?;
        Ok(Filter { text: text.into(), program: program.into(), literals: found.literals.into(), depth_max })
    }

    /// Whether an element with this attribute passes. Elements without an attribute never do.
    pub fn matches(&self, attribute: &[u8]) -> bool {
        if self.depth_max <= STACK_VALUES {
            let mut values = [const { Value::Null }; STACK_VALUES];
            self.run(attribute, &mut values)
        } else {
            self.run(attribute, &mut vec![Value::Null; self.depth_max])
        }
    }

    fn run<'a>(&'a self, attribute: &'a [u8], values: &mut [Value<'a>]) -> bool {
        let mut depth = 0;
        for instruction in &self.program {
            let value = match instruction {
                Token::Number(number) => Value::Number(*number),
                Token::Text(range) => Value::Text(Cow::Borrowed(self.slice(range))),
                Token::Tuple(range) => Value::Tuple(range.start, range.end),
                Token::Null => Value::Null,
                Token::Selector(name) if name.is_empty() => return false,
                Token::Selector(name) => match json::field(attribute, self.slice(name)) {
                    Some(value) => value,
                    None => return false,
                },
                Token::Operator(operator) => {
                    depth -= operator.arity();
                    let result = match &values[depth..depth + operator.arity()] {
                        [value] => f64::from(!is_true(value)),
                        [left, right] => self.apply(*operator, left, right),
                        _ => 0.0,
                    };
                    Value::Number(result)
                }
            };
            values[depth] = value;
            depth += 1;
        }
        values.first().is_some_and(is_true)
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.text.get(range.clone()).unwrap_or_default()
    }

    fn apply(&self, operator: Operator, left: &Value<'_>, right: &Value<'_>) -> f64 {
        let (a, b) = (to_number(left), to_number(right));
        let truth = match operator {
            Operator::Power => return a.powf(b),
            Operator::Multiply => return a * b,
            Operator::Divide => return a / b,
            Operator::Modulo => return a % b,
            Operator::Add => return a + b,
            Operator::Subtract => return a - b,
            Operator::Greater => a > b,
            Operator::GreaterOrEqual => a >= b,
            Operator::Less => a < b,
            Operator::LessOrEqual => a <= b,
            Operator::Equal => are_equal(left, right),
            Operator::NotEqual => !are_equal(left, right),
            Operator::In => self.contains(right, left),
            Operator::And => is_true(left) && is_true(right),
            Operator::Or => is_true(left) || is_true(right),
            Operator::Open | Operator::Close | Operator::Not => false,
        };
        f64::from(truth)
    }

    /// `value in container`: an element of an array or tuple, or a part of a string.
    fn contains(&self, container: &Value<'_>, value: &Value<'_>) -> bool {
        match (container, value) {
            (Value::Tuple(start, end), _) => {
                self.literals.get(*start..*end).unwrap_or_default().iter().any(|literal| match literal {
                    Literal::Number(number) => are_equal(value, &Value::Number(*number)),
                    Literal::Text(range) => are_equal(value, &Value::Text(Cow::Borrowed(self.slice(range)))),
                })
            }
            (Value::Array(text), _) => json::elements(text).any(|element| are_equal(value, &element)),
            (Value::Text(text), Value::Text(part)) => {
                part.is_empty() || text.windows(part.len()).any(|window| window == &**part)
            }
            _ => false,
        }
    }
}

/// Tokens in the order of execution, and the values that a run needs room for; `None` when operands or
/// parentheses do not match.
fn postfix(tokens: Vec<Token>) -> Option<(Vec<Token>, usize)> {
    let mut builder = Builder::default();
    let mut waiting: Vec<Operator> = Vec::new();
    for token in tokens {
        let Token::Operator(operator) = token else {
            builder.push(token);
            continue;
        };
        match operator {
            Operator::Open => waiting.push(operator),
            Operator::Close => loop {
                match waiting.pop()? {
                    Operator::Open => break,
                    inner => builder.apply(inner)?,
                }
            },
            _ => {
                while let Some(top) = waiting.pop_if(|top| precedes(*top, operator)) {
                    builder.apply(top)?;
                }
                waiting.push(operator);
            }
        }
    }
    while let Some(operator) = waiting.pop() {
        if operator == Operator::Open {
            return None;
        }
        builder.apply(operator)?;
    }
    (builder.depth == 1).then_some((builder.program, builder.depth_max))
}

/// Whether `top`, which came first, is applied before `next`. `**` groups from the right, and a prefix
/// operator applies nothing before it: `!!x`, which Redis 8.6.2 still refuses, is `!(!x)`.
fn precedes(top: Operator, next: Operator) -> bool {
    match next {
        _ if top == Operator::Open => false,
        Operator::Not => false,
        Operator::Power => top.precedence() > next.precedence(),
        _ => top.precedence() >= next.precedence(),
    }
}

#[derive(Default)]
struct Builder {
    program: Vec<Token>,
    depth: usize,
    depth_max: usize,
}

impl Builder {
    fn push(&mut self, token: Token) {
        self.program.push(token);
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
    }

    fn apply(&mut self, operator: Operator) -> Option<()> {
        self.depth = (self.depth + 1).checked_sub(operator.arity()).filter(|depth| *depth > 0)?;
        self.program.push(Token::Operator(operator));
        Some(())
    }
}

fn is_true(value: &Value<'_>) -> bool {
    match value {
        Value::Number(number) => *number != 0.0,
        Value::Text(text) => !text.is_empty(),
        Value::Null => false,
        Value::Array(_) | Value::Tuple(..) => true,
    }
}

/// The number that a string spells; 0 for anything else.
fn to_number(value: &Value<'_>) -> f64 {
    match value {
        Value::Number(number) => *number,
        Value::Text(text) if text.len() <= number::TEXT_MAX_BYTES => number::parse(text).unwrap_or(0.0),
        _ => 0.0,
    }
}

fn are_equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        _ => to_number(left) == to_number(right),
    }
}
