//! The parser of expressions: from tokens to a program for a machine with a stack.
//!
//! The parser does not recurse: open parentheses and pending operators are on a stack of its own. The depth
//! of that stack and the length of the program are limited. Errors have the position and the text of
//! RediSearch's parser, which reports an unknown name at the token behind it.

use super::token::{Kind, Operator, Tokens, unquote};
use super::{Function, Op, Parsed};
use crate::Error;
use crate::aggregate::value::Value;

/// The most steps of a program.
const MAX_OPS: usize = 1 << 16;
/// The most parentheses and operators that are pending at once.
const MAX_DEPTH: usize = 1 << 12;

/// An operator without its right operand, or an open parenthesis.
#[derive(Copy, Clone, Debug)]
enum Pending {
    Group,
    /// `jump` is the step of a `case` that leads past a branch; of another function, how many properties
    /// there were before its arguments.
    Call {
        function: Option<Function>,
        name: (usize, usize),
        arguments: usize,
        jump: usize,
    },
    Not,
    Operator {
        operator: Operator,
        jump: usize,
    },
}

/// A symbol or a call whose name is unknown, until the next token.
struct Unknown {
    text: String,
}

struct Parser<'a> {
    input: &'a [u8],
    tokens: Tokens<'a>,
    pending: Vec<Pending>,
    ops: Vec<Op>,
    properties: Vec<Box<[u8]>>,
    unknown: Option<Unknown>,
    /// Which operand is missing, if the last name was unknown.
    invalid: Option<&'static str>,
    depth: usize,
    max_depth: usize,
}

/// The program of `input`.
pub(super) fn parse(input: &[u8]) -> Result<Parsed, Error> {
    let mut parser = Parser {
        input,
        tokens: Tokens::new(input),
        pending: Vec::new(),
        ops: Vec::new(),
        properties: Vec::new(),
        unknown: None,
        invalid: None,
        depth: 0,
        max_depth: 0,
    };
    let mut kind = parser.tokens.next();
    loop {
        kind = parser.operand(kind)?;
        match parser.continuation(kind)? {
            Some(next) => kind = next,
            None => break,
        }
    }
    Ok(Parsed {
        ops: parser.ops,
        properties: parser.properties,
        invalid: parser.invalid,
        stack_depth: parser.max_depth,
    })
}

impl Parser<'_> {
    fn syntax_error(&mut self) -> Error {
        let near = String::from_utf8_lossy(self.tokens.text);
        let mut text = format!("Syntax error at offset {} near '{near}'", self.tokens.position);
        if let Some(unknown) = self.unknown.take() {
            text = format!("{text}: {}", unknown.text);
        }
        Error::new(text)
    }

    fn push(&mut self, op: Op) -> Result<(), Error> {
        if self.ops.len() >= MAX_OPS {
            return Err(Error::new("Expression is too long"));
        }
        self.ops.push(op);
        Ok(())
    }

    fn push_operand(&mut self, op: Op) -> Result<(), Error> {
        self.depth += 1;
        self.max_depth = self.max_depth.max(self.depth);
        self.push(op)
    }

    fn push_pending(&mut self, pending: Pending) -> Result<(), Error> {
        if self.pending.len() >= MAX_DEPTH {
            return Err(Error::new("Expression is nested too deeply"));
        }
        self.pending.push(pending);
        Ok(())
    }

    /// An operand with all that precedes it, from `kind`; the token behind it.
    fn operand(&mut self, mut kind: Kind) -> Result<Kind, Error> {
        loop {
            match kind {
                Kind::Open => self.push_pending(Pending::Group)?,
                Kind::Not => self.push_pending(Pending::Not)?,
                Kind::Number(number) => {
                    self.push_operand(Op::Value(Value::Number(number)))?;
                    return Ok(self.tokens.next());
                }
                Kind::Operator(Operator::Subtract) => {
                    let Kind::Number(number) = self.tokens.next() else { return Err(self.syntax_error()) };
                    self.push_operand(Op::Value(Value::Number(-number)))?;
                    return Ok(self.tokens.next());
                }
                Kind::String => {
                    let text = unquote(self.tokens.text);
                    self.push_operand(Op::Value(Value::Text(text.into())))?;
                    return Ok(self.tokens.next());
                }
                Kind::Property => {
                    let index = self.property();
                    self.push_operand(Op::Property(index))?;
                    return Ok(self.tokens.next());
                }
                Kind::Symbol => {
                    let name = (self.tokens.position, self.tokens.text.len());
                    let next = self.tokens.next();
                    if next != Kind::Open {
                        self.symbol(name)?;
                        return Ok(next);
                    }
                    if let Some(next) = self.open_call(name)? {
                        return Ok(next);
                    }
                }
                _ => return Err(self.syntax_error()),
            }
            kind = self.tokens.next();
            if let (Some(Pending::Call { arguments: 0, .. }), Kind::Comma) = (self.pending.last(), kind) {
                // The list of arguments may begin with a comma.
                kind = self.tokens.next();
            }
        }
    }

    fn property(&mut self) -> usize {
        let name = self.tokens.text;
        let known = self.properties.iter().position(|property| **property == *name);
        known.unwrap_or_else(|| {
            self.properties.push(name.into());
            self.properties.len() - 1
        })
    }

    fn name(&self, (position, len): (usize, usize)) -> &[u8] {
        self.input.get(position..position + len).unwrap_or_default()
    }

    /// A symbol that is no call: NULL or an error.
    fn symbol(&mut self, name: (usize, usize)) -> Result<(), Error> {
        if self.name(name) != b"NULL" {
            let text = format!("Unknown symbol '{}'", String::from_utf8_lossy(self.name(name)));
            self.unknown = Some(Unknown { text });
        }
        self.push_operand(Op::Value(Value::Null))
    }

    /// A call from behind its parenthesis. The token behind the call, if it has no arguments.
    fn open_call(&mut self, name: (usize, usize)) -> Result<Option<Kind>, Error> {
        let function = Function::of(self.name(name));
        let jump = self.properties.len();
        self.push_pending(Pending::Call { function, name, arguments: 0, jump })?;
        let mut ahead = self.tokens.clone();
        if ahead.next() != Kind::Close {
            return Ok(None);
        }
        self.tokens = ahead;
        self.pending.pop();
        self.call(function, name, 0)?;
        if function == Some(Function::Case) {
            self.case(name, 0, 0)?;
        }
        Ok(Some(self.tokens.next()))
    }

    fn call(
        &mut self,
        function: Option<Function>,
        name: (usize, usize),
        arguments: usize,
    ) -> Result<(), Error> {
        self.depth = self.depth.saturating_sub(arguments);
        match function {
            Some(function) => self.push_operand(Op::Call(function, arguments)),
            None => {
                let text = format!("Unknown function name '{}'", String::from_utf8_lossy(self.name(name)));
                self.unknown = Some(Unknown { text });
                self.push_operand(Op::Value(Value::Null))
            }
        }
    }

    /// A comma in `case`, behind the argument of this index; the step that leads past the branch that begins.
    fn branch(&mut self, argument: usize, jump: usize) -> Result<usize, Error> {
        let step = self.ops.len();
        match argument {
            0 => self.push(Op::Unless(0))?,
            1 => {
                self.push(Op::Jump(0))?;
                self.land(jump);
            }
            // There are too many, which is an error at the end.
            _ => return Ok(jump),
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(step)
    }

    /// The end of `case`, of which only the branch that is taken is evaluated.
    fn case(&mut self, name: (usize, usize), arguments: usize, jump: usize) -> Result<(), Error> {
        if arguments != 3 {
            let name = String::from_utf8_lossy(self.name(name));
            let text = format!("Function '{name}' expects 3 arguments, but got {arguments}");
            self.unknown = Some(Unknown { text });
            return Ok(());
        }
        self.land(jump);
        Ok(())
    }

    /// Lets the jump at this step lead here.
    fn land(&mut self, jump: usize) {
        let end = self.ops.len();
        if let Some(Op::AndThen(target) | Op::OrElse(target) | Op::Unless(target) | Op::Jump(target)) =
            self.ops.get_mut(jump)
        {
            *target = end;
        }
    }

    /// Parses operators and closing parentheses, from `kind` on. Returns the first token of the next operand,
    /// or `None` at the end of the expression.
    fn continuation(&mut self, mut kind: Kind) -> Result<Option<Kind>, Error> {
        loop {
            self.reduce(match kind {
                Kind::Operator(operator) => operator.precedence(),
                _ => 0,
            })?;
            let last = self.pending.last().copied();
            match (kind, last) {
                (Kind::Operator(operator), _) => {
                    self.check_known()?;
                    self.operator(operator)?;
                    return Ok(Some(self.tokens.next()));
                }
                (Kind::Close, Some(Pending::Group)) => {
                    self.check_known()?;
                    self.pending.pop();
                }
                (Kind::Close, Some(Pending::Call { function, name, arguments, jump })) => {
                    self.check_known()?;
                    self.pending.pop();
                    match function {
                        Some(Function::Case) => self.case(name, arguments + 1, jump)?,
                        Some(_) => self.call(function, name, arguments + 1)?,
                        // The properties of its arguments are not looked for.
                        None => {
                            self.properties.truncate(jump);
                            self.call(function, name, arguments + 1)?;
                        }
                    }
                }
                (Kind::Comma, Some(Pending::Call { function, arguments, jump, .. })) => {
                    self.check_known()?;
                    let branch = match function {
                        Some(Function::Case) => self.branch(arguments, jump)?,
                        _ => jump,
                    };
                    if let Some(Pending::Call { arguments, jump, .. }) = self.pending.last_mut() {
                        *arguments += 1;
                        *jump = branch;
                    }
                    return Ok(Some(self.tokens.next()));
                }
                (Kind::End, None) => {
                    return match self.unknown.take() {
                        // RediSearch finds a name that is all of the expression, and forgets another.
                        Some(unknown) if self.invalid.is_none() => Err(Error::new(unknown.text)),
                        _ => Ok(None),
                    };
                }
                _ => return Err(self.syntax_error()),
            }
            kind = self.tokens.next();
        }
    }

    fn check_known(&mut self) -> Result<(), Error> {
        match self.unknown.take() {
            Some(unknown) => Err(Error::new(unknown.text)),
            None => Ok(()),
        }
    }

    /// An operator whose left operand is complete.
    fn operator(&mut self, operator: Operator) -> Result<(), Error> {
        let jump = self.ops.len();
        match operator {
            Operator::And => self.push(Op::AndThen(0))?,
            Operator::Or => self.push(Op::OrElse(0))?,
            _ => {}
        }
        // The left operand of `&&` is gone when the right one is there.
        if matches!(operator, Operator::And | Operator::Or) {
            self.depth = self.depth.saturating_sub(1);
        }
        self.push_pending(Pending::Operator { operator, jump })
    }

    /// Completes the pending operators that bind at least as tightly as `precedence`.
    fn reduce(&mut self, precedence: u8) -> Result<(), Error> {
        while let Some(&pending) = self.pending.last() {
            let missing = match pending {
                Pending::Not if precedence <= Operator::And.precedence() => {
                    self.push(Op::Not)?;
                    "expr->inverted.child"
                }
                Pending::Operator { operator, jump } if precedence <= operator.precedence() => {
                    self.complete(operator, jump)?;
                    if operator.precedence() <= 2 { "expr->pred.right" } else { "expr->op.right" }
                }
                _ => break,
            };
            if self.unknown.is_some() && self.invalid.is_none() {
                self.invalid = Some(missing);
            }
            self.pending.pop();
        }
        Ok(())
    }

    fn complete(&mut self, operator: Operator, jump: usize) -> Result<(), Error> {
        match operator {
            Operator::And | Operator::Or => {
                self.push(Op::Truth)?;
                self.land(jump);
                Ok(())
            }
            _ => {
                self.depth = self.depth.saturating_sub(1);
                self.push(Op::Operator(operator))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(input: &str) -> String {
        parse(input.as_bytes()).err().map_or_else(String::new, |error| error.text().to_owned())
    }

    #[test]
    fn errors_are_found_where_redisearch_finds_them() {
        for (input, expected) in [
            ("3-2", "Syntax error at offset 1 near '-2'"),
            ("inf", "Unknown symbol 'inf'"),
            ("null", "Unknown symbol 'null'"),
            ("\"abc", "Unknown symbol 'abc'"),
            ("foo(1)", "Unknown function name 'foo'"),
            ("foo(1) )", "Syntax error at offset 7 near '1': Unknown function name 'foo'"),
            ("foo(1", "Syntax error at offset 4 near '1'"),
            ("\u{e9}", "Syntax error at offset 0 near ''"),
            ("@a.b", "Syntax error at offset 3 near 'b'"),
            ("", "Syntax error at offset 0 near ''"),
            ("()", "Syntax error at offset 1 near ''"),
            ("1 = 2", "Syntax error at offset 4 near '2'"),
            ("1 |||| 1", "Syntax error at offset 4 near '1'"),
            ("upper", "Unknown symbol 'upper'"),
            ("upper(,)", "Syntax error at offset 7 near 'upper'"),
            ("upper(1,)", "Syntax error at offset 8 near '1'"),
            ("-(2)", "Syntax error at offset 1 near ''"),
            ("inf + 1", "Unknown symbol 'inf'"),
            ("upper(foo(1))", "Unknown function name 'foo'"),
            ("1 ! 2", "Syntax error at offset 2 near '1'"),
            ("1)", "Syntax error at offset 1 near '1'"),
            ("1,2", "Syntax error at offset 1 near '1'"),
            ("- - 1", "Syntax error at offset 2 near ''"),
            ("(inf", "Syntax error at offset 1 near 'inf': Unknown symbol 'inf'"),
        ] {
            assert_eq!(error(input), expected, "{input}");
        }
    }

    #[test]
    fn a_name_unknown_at_the_end_is_a_missing_operand() {
        for (input, missing) in [
            ("1 + inf", "expr->op.right"),
            ("!foo(1)", "expr->inverted.child"),
            ("1 < foo(1)", "expr->pred.right"),
            ("1 || !foo", "expr->inverted.child"),
        ] {
            let parsed = parse(input.as_bytes()).expect(input);
            assert_eq!(parsed.invalid, Some(missing), "{input}");
        }
    }

    #[test]
    fn depth_and_length_are_limited() {
        assert_eq!(error(&"(".repeat(100_000)), "Expression is nested too deeply");
        assert_eq!(error(&"!".repeat(100_000)), "Expression is nested too deeply");
        assert_eq!(error(&format!("1{}", "+ 1".repeat(100_000))), "Expression is too long");
        let parsed = parse(format!("1{}", " + 1".repeat(1000)).as_bytes()).expect("a sum");
        assert_eq!(parsed.stack_depth, 2);
    }
}
