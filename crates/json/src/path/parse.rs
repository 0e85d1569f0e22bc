//! The parser of paths: one pass, no backtracking, so that its time is linear in the path's length.
//!
//! Filters and expressions share one grammar; that a comparison cannot be an operand of arithmetic is checked
//! when the operator is met. Spaces may stand between tokens, not within names, numbers and strings.

use super::function::Function;
use super::{Arithmetic, Comparison, Expr, Query, Step};
use crate::error::{Error, Result};
use crate::limits::{FILTER_NESTING_MAX, PATH_BYTES_MAX, PATH_NESTING_MAX, REGEX_BYTES_MAX};
use crate::value::{Member, Number, Value};
use regex::RegexBuilder;

const BRACKET: &str = "'<string>[,<string>,...]', '<number>', ['start:end:steps'], '*'";
const NAME: &str = "<string>, '*'";
const END: &str = "EOI, '..'";
const TERM: &str = "decimal, from_current, from_root, boolean_true, boolean_false, null";
const OPERATOR: &str = "ge, gt, le, lt, eq, ne, re, and, or";
const SLICE: &str = "['start:end:steps']";
const STEP: &str = "pos_number";
const QUOTE: &str = "<string>";

/// Whether a path is JSONPath and not legacy: it begins with a rooted path, or in a way that only an
/// expression can.
pub fn is_jsonpath(path: &str) -> bool {
    let bytes = path.as_bytes();
    let skip_spaces = |from: usize| from + bytes.iter().skip(from).take_while(|byte| **byte == b' ').count();
    let is_operand = |at: usize| match bytes.get(at) {
        Some(b'$') => matches!(bytes.get(at + 1), None | Some(b'.' | b'[' | b'~')),
        Some(b'(') => true,
        _ => false,
    };
    match bytes.first() {
        Some(b'$' | b'(') => is_operand(0),
        Some(b'-' | b'+') => is_operand(skip_spaces(1)),
        Some(first) if first.is_ascii_alphabetic() || *first == b'_' => {
            let name = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            bytes.get(skip_spaces(name)) == Some(&b'(')
        }
        _ => false,
    }
}

/// Parses a path in its `$` form.
pub fn parse(text: &str) -> Result<Query> {
    if text.len() > PATH_BYTES_MAX {
        return Err(Error::PathLimit("length"));
    }
    let mut parser = Parser { text, at: 0, nesting: 0, filters: 0 };
    let expression = parser.sum()?;
    parser.spaces();
    if parser.at < text.len() {
        return Err(parser.expected(END));
    }
    parser.value_only(&expression)?;
    Ok(match expression {
        Expr::Root(steps) => Query::Steps(steps),
        expression => Query::Expression(expression),
    })
}

struct Parser<'t> {
    text: &'t str,
    /// Bytes that have been read.
    at: usize,
    /// Open brackets and parentheses.
    nesting: usize,
    /// Open filters.
    filters: usize,
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_`+#%$^/:".contains(&byte)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'t> Parser<'t> {
    fn expected(&self, expected: &'static str) -> Error {
        Error::Path { path: self.text.to_owned(), position: self.at, expected }
    }

    fn rest(&self) -> &'t [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn spaces(&mut self) {
        self.at += self.rest().iter().take_while(|byte| **byte == b' ').count();
    }

    /// Skips spaces and `token`, if it comes next.
    fn accept(&mut self, token: &str) -> bool {
        self.spaces();
        let found = self.rest().starts_with(token.as_bytes());
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn require(&mut self, token: &str, expected: &'static str) -> Result<()> {
        if self.accept(token) { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// Skips spaces and `word`, if it comes next and ends there.
    fn accept_word(&mut self, word: &str) -> bool {
        self.spaces();
        let rest = self.rest();
        let found = rest.starts_with(word.as_bytes())
            && !rest.get(word.len()).is_some_and(|byte| is_word_byte(*byte));
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// The longest run of bytes that `is_part`.
    fn take(&mut self, is_part: impl Fn(u8) -> bool) -> &'t str {
        let length = self.rest().iter().take_while(|byte| is_part(**byte)).count();
        let taken = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.at += taken.len();
        taken
    }

    fn nest<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting == PATH_NESTING_MAX {
            return Err(Error::PathLimit("nesting"));
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    /// The steps behind `$` or `@`.
    fn steps(&mut self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        if let Some(first) = self.first_step() {
            steps.push(first);
        }
        loop {
            let before = self.at;
            self.spaces();
            match self.rest() {
                [b'.', b'.', ..] => {
                    self.at += 2;
                    steps.push(Step::Descend);
                    let step = self.selector(true)?;
                    steps.push(step);
                }
                [b'.', ..] if self.is_method() => {
                    self.at = before;
                    return Ok(steps);
                }
                [b'.', ..] => {
                    self.at += 1;
                    let step = self.selector(true)?;
                    steps.push(step);
                }
                [b'[', ..] => {
                    let step = self.selector(false)?;
                    steps.push(step);
                }
                _ => {
                    self.at = before;
                    return Ok(steps);
                }
            }
        }
    }

    /// A name or `*` straight behind `$` or `@`, unless it is an operator.
    fn first_step(&mut self) -> Option<Step> {
        let before = self.at;
        self.spaces();
        let words = ["in", "nin", "subsetof", "anyof", "noneof", "sizeof", "size", "empty"];
        let is_operator = words.iter().any(|word| {
            let at = self.at;
            let found = self.accept_word(word);
            self.at = at;
            found
        });
        match self.peek() {
            Some(b'*') => {
                self.at += 1;
                Some(Step::All)
            }
            Some(byte) if is_name_byte(byte) && !is_operator => {
                Some(Step::Child(self.take(is_name_byte).into()))
            }
            _ => {
                self.at = before;
                None
            }
        }
    }

    /// Whether `.name(` comes next: a method call on the term before it.
    fn is_method(&self) -> bool {
        let rest = self.rest().get(1..).unwrap_or_default();
        let name = rest.iter().take_while(|byte| is_word_byte(**byte)).count();
        let behind = rest.iter().skip(name).find(|byte| **byte != b' ');
        rest.first().is_some_and(u8::is_ascii_alphabetic) && behind == Some(&b'(')
    }

    /// A name, `*` or a bracket.
    fn selector(&mut self, name_allowed: bool) -> Result<Step> {
        self.spaces();
        match self.peek() {
            Some(b'[') => {
                self.at += 1;
                self.nest(Parser::bracket)
            }
            Some(b'*') if name_allowed => {
                self.at += 1;
                Ok(Step::All)
            }
            Some(byte) if name_allowed && is_name_byte(byte) => {
                Ok(Step::Child(self.take(is_name_byte).into()))
            }
            _ => Err(self.expected(NAME)),
        }
    }

    /// The inside of a bracket, and its end.
    fn bracket(&mut self) -> Result<Step> {
        self.spaces();
        let start = self.at;
        let step = match self.peek() {
            Some(b'*') => {
                self.at += 1;
                Step::All
            }
            Some(b'?') => {
                self.at += 1;
                self.filter()?
            }
            Some(b'\'' | b'"') => self.names()?,
            Some(b'-' | b'0'..=b'9') => self.numbers()?,
            Some(b':') => self.slice(None)?,
            _ => return Err(self.expected(BRACKET)),
        };
        if self.accept("]") {
            return Ok(step);
        }
        match step {
            Step::Filter(_) => Err(self.expected(OPERATOR)),
            _ => {
                // ReJSON reports the position of the bracket's content as a whole.
                self.at = start;
                Err(self.expected(SLICE))
            }
        }
    }

    fn filter(&mut self) -> Result<Step> {
        if self.filters == FILTER_NESTING_MAX {
            return Err(Error::PathLimit("nested filters"));
        }
        self.filters += 1;
        let expression = self.or()?;
        self.filters -= 1;
        Ok(Step::Filter(Box::new(expression)))
    }

    fn names(&mut self) -> Result<Step> {
        let mut names = vec![self.string(BRACKET)?.into_boxed_str()];
        while self.accept(",") {
            self.spaces();
            names.push(self.string(QUOTE)?.into_boxed_str());
        }
        Ok(match names.len() {
            1 => names.pop().map_or(Step::All, Step::Child),
            _ => Step::Children(names),
        })
    }

    fn numbers(&mut self) -> Result<Step> {
        let first = self.integer()?;
        self.spaces();
        if self.peek() == Some(b':') {
            return self.slice(Some(first));
        }
        let mut indices = vec![first];
        while self.accept(",") {
            self.spaces();
            indices.push(self.integer()?);
        }
        Ok(Step::Elements(indices))
    }

    /// A slice from its first colon on.
    fn slice(&mut self, start: Option<i64>) -> Result<Step> {
        self.require(":", SLICE)?;
        self.spaces();
        let end = match self.peek() {
            Some(b'-' | b'0'..=b'9') => Some(self.integer()?),
            _ => None,
        };
        let mut step = 1;
        if self.accept(":") {
            self.spaces();
            match self.peek() {
                Some(b'1'..=b'9') => {
                    step = self.take(|byte| byte.is_ascii_digit()).parse().unwrap_or(usize::MAX);
                }
                Some(b']') => {}
                _ => return Err(self.expected(STEP)),
            }
        }
        Ok(Step::Slice { start, end, step })
    }

    /// An integer without leading zeros; one beyond `i64` is the nearest that is not.
    fn integer(&mut self) -> Result<i64> {
        let start = self.at;
        let is_negative = self.peek() == Some(b'-');
        self.at += usize::from(is_negative);
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => {
                self.take(|byte| byte.is_ascii_digit());
            }
            _ => {
                self.at = start;
                return Err(self.expected(BRACKET));
            }
        }
        let digits = self.text.get(start..self.at).unwrap_or_default();
        Ok(digits.parse().unwrap_or(if is_negative { i64::MIN } else { i64::MAX }))
    }

    /// A string in quotes of either kind, in which a backslash stands only before its quote or itself.
    fn string(&mut self, expected: &'static str) -> Result<String> {
        let start = self.at;
        let quote = match self.peek() {
            Some(quote @ (b'\'' | b'"')) => quote,
            _ => return Err(self.expected(expected)),
        };
        self.at += 1;
        let mut text = String::new();
        loop {
            text.push_str(self.take(|byte| byte != quote && byte != b'\\'));
            match self.rest() {
                [b'\\', escaped, ..] if *escaped == quote || *escaped == b'\\' => {
                    text.push(char::from(*escaped));
                    self.at += 2;
                }
                [end, ..] if *end == quote => {
                    self.at += 1;
                    return Ok(text);
                }
                _ => {
                    self.at = start;
                    return Err(self.expected(expected));
                }
            }
        }
    }

    fn or(&mut self) -> Result<Expr> {
        let mut alternatives = vec![self.and()?];
        while self.accept("||") {
            alternatives.push(self.and()?);
        }
        Ok(match alternatives.len() {
            1 => alternatives.remove(0),
            _ => Expr::Or(alternatives),
        })
    }

    fn and(&mut self) -> Result<Expr> {
        let mut conditions = vec![self.condition()?];
        while self.accept("&&") {
            conditions.push(self.condition()?);
        }
        Ok(match conditions.len() {
            1 => conditions.remove(0),
            _ => Expr::And(conditions),
        })
    }

    fn condition(&mut self) -> Result<Expr> {
        self.spaces();
        if self.rest().starts_with(b"!") && !self.rest().starts_with(b"!=") {
            self.at += 1;
            return self.nest(Parser::condition).map(|inner| Expr::Not(Box::new(inner)));
        }
        let left = self.sum()?;
        let Some(comparison) = self.comparison() else { return Ok(left) };
        self.value_only(&left)?;
        let right = self.sum()?;
        self.value_only(&right)?;
        if let (Comparison::Matches, Expr::Literal(pattern)) = (comparison, &right) {
            let pattern = pattern.as_str().and_then(compile);
            return Ok(Expr::Matches(Box::new(left), pattern.map(Box::new)));
        }
        Ok(Expr::Compare(comparison, Box::new(left), Box::new(right)))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let symbols = [
            (">=", Comparison::GreaterOrEqual),
            ("<=", Comparison::LessOrEqual),
            (">", Comparison::Greater),
            ("<", Comparison::Less),
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("=~", Comparison::Matches),
        ];
        let words = [
            ("in", Comparison::In),
            ("nin", Comparison::NotIn),
            ("subsetof", Comparison::SubsetOf),
            ("anyof", Comparison::AnyOf),
            ("noneof", Comparison::NoneOf),
            ("sizeof", Comparison::Size),
            ("size", Comparison::Size),
            ("empty", Comparison::Empty),
        ];
        let symbol = symbols.iter().find(|(symbol, _)| self.accept(symbol)).map(|(_, found)| *found);
        symbol.or_else(|| words.iter().find(|(word, _)| self.accept_word(word)).map(|(_, found)| *found))
    }

    /// An error if an operand is a condition and no value.
    fn value_only(&self, operand: &Expr) -> Result<()> {
        match operand {
            Expr::And(_) | Expr::Or(_) | Expr::Not(_) | Expr::Compare(..) | Expr::Matches(..) => {
                Err(self.expected(OPERATOR))
            }
            _ => Ok(()),
        }
    }

    fn sum(&mut self) -> Result<Expr> {
        self.operators(&[("+", Arithmetic::Add), ("-", Arithmetic::Subtract)], Parser::product)
    }

    fn product(&mut self) -> Result<Expr> {
        let operators =
            [("*", Arithmetic::Multiply), ("/", Arithmetic::Divide), ("%", Arithmetic::Remainder)];
        self.operators(&operators, Parser::factor)
    }

    /// Operands between operators of one precedence, from the left.
    fn operators(
        &mut self,
        operators: &[(&str, Arithmetic)],
        operand: fn(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
        let mut left = operand(self)?;
        let mut count = 0;
        while let Some((_, operator)) = operators.iter().find(|(symbol, _)| self.accept(symbol)) {
            count += 1;
            // The tree leans to the left, and evaluating it recurses as deeply.
            if count > PATH_NESTING_MAX {
                return Err(Error::PathLimit("operators in a row"));
            }
            self.value_only(&left)?;
            let right = operand(self)?;
            self.value_only(&right)?;
            left = Expr::Arithmetic(*operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expr> {
        self.spaces();
        let is_number = matches!(self.rest(), [b'-', b'0'..=b'9', ..]);
        let sign = self.peek().filter(|byte| matches!(byte, b'-' | b'+') && !is_number);
        let Some(sign) = sign else { return self.primary() };
        self.at += 1;
        let operand = Box::new(self.primary()?);
        self.value_only(&operand)?;
        Ok(if sign == b'-' { Expr::Negative(operand) } else { Expr::Positive(operand) })
    }

    fn primary(&mut self) -> Result<Expr> {
        self.spaces();
        if self.accept("(") {
            let inner = self.nest(Parser::or)?;
            self.require(")", OPERATOR)?;
            return Ok(inner);
        }
        let mut term = self.term()?;
        if self.accept("~") {
            return Ok(Expr::Call(Function::Keys, vec![term]));
        }
        let mut calls = 0;
        loop {
            let before = self.at;
            self.spaces();
            if self.peek() != Some(b'.') || !self.is_method() {
                self.at = before;
                return Ok(term);
            }
            calls += 1;
            if calls > PATH_NESTING_MAX {
                return Err(Error::PathLimit("calls in a row"));
            }
            self.at += 1;
            term = self.call(vec![term])?;
        }
    }

    /// A call from its name on; `arguments` has the receiver.
    fn call(&mut self, mut arguments: Vec<Expr>) -> Result<Expr> {
        let name = self.take(is_word_byte);
        let function = Function::named(name);
        self.require("(", TERM)?;
        if !self.accept(")") {
            loop {
                let argument = self.nest(Parser::sum)?;
                self.value_only(&argument)?;
                arguments.push(argument);
                if !self.accept(",") {
                    break;
                }
            }
            self.require(")", OPERATOR)?;
        }
        Ok(Expr::Call(function, arguments))
    }

    fn term(&mut self) -> Result<Expr> {
        self.spaces();
        match self.peek() {
            Some(b'@') if self.filters > 0 => {
                self.at += 1;
                self.steps().map(Expr::Current)
            }
            Some(b'$') => {
                self.at += 1;
                self.steps().map(Expr::Root)
            }
            Some(byte) if byte.is_ascii_alphabetic() && self.is_call() => self.call(Vec::new()),
            _ => self.literal().map(Expr::Literal),
        }
    }

    /// Whether `name(` comes next.
    fn is_call(&self) -> bool {
        let rest = self.rest();
        let name = rest.iter().take_while(|byte| is_word_byte(**byte)).count();
        rest.iter().skip(name).find(|byte| **byte != b' ') == Some(&b'(')
    }

    fn literal(&mut self) -> Result<Value> {
        self.spaces();
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.decimal(),
            Some(b'\'' | b'"') => self.string(TERM).map(|text| Value::text(&text)),
            Some(b'[') => {
                self.at += 1;
                self.nest(Parser::array)
            }
            Some(b'{') => {
                self.at += 1;
                self.nest(Parser::object)
            }
            _ if self.accept_word("true") => Ok(Value::bool(true)),
            _ if self.accept_word("false") => Ok(Value::bool(false)),
            _ if self.accept_word("null") => Ok(Value::NULL),
            _ => Err(self.expected(TERM)),
        }
    }

    fn decimal(&mut self) -> Result<Value> {
        let start = self.at;
        self.integer().map_err(|_| self.expected(TERM))?;
        if let [b'.', b'0'..=b'9', ..] = self.rest() {
            self.at += 1;
            self.take(|byte| byte.is_ascii_digit());
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let integer = text.parse().ok().map(Number::Int);
        let number = integer.or_else(|| text.parse().ok().and_then(Number::from_f64));
        number.map(Value::number).ok_or_else(|| self.expected(TERM))
    }

    fn array(&mut self) -> Result<Value> {
        let mut values = Vec::new();
        if !self.accept("]") {
            loop {
                values.push(self.literal()?);
                if !self.accept(",") {
                    break;
                }
            }
            self.require("]", TERM)?;
        }
        Ok(Value::array(values.into_iter()))
    }

    fn object(&mut self) -> Result<Value> {
        let mut members = Vec::new();
        if !self.accept("}") {
            loop {
                self.spaces();
                let name = self.string(QUOTE)?;
                self.require(":", QUOTE)?;
                members.push(Member::new(Value::text(&name), self.literal()?));
                if !self.accept(",") {
                    break;
                }
            }
            self.require("}", TERM)?;
        }
        Ok(Value::object(members.into_iter()))
    }
}

/// The regular expression of a pattern, if it is one of bounded size.
pub fn compile(pattern: &str) -> Option<regex::Regex> {
    RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build().ok()
}
