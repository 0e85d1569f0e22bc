//! From an expression's text to its tokens. Where a token cannot be read, the error's offset is where
//! Redis' reader stands then, which is sometimes behind the offender.

use super::FilterError;
use super::number::{self, is_blank};
use std::ops::Range;

/// An operator or a parenthesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Open,
    Close,
    Not,
    Power,
    Multiply,
    Divide,
    Modulo,
    Add,
    Subtract,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    In,
    And,
    Or,
}

impl Operator {
    /// Binds tighter when higher.
    pub(super) fn precedence(self) -> u8 {
        match self {
            Operator::Open | Operator::Close => 7,
            Operator::Not => 6,
            Operator::Power => 5,
            Operator::Multiply | Operator::Divide | Operator::Modulo => 4,
            Operator::Add | Operator::Subtract => 3,
            Operator::And => 1,
            Operator::Or => 0,
            _ => 2,
        }
    }

    /// How many values it takes.
    pub(super) fn arity(self) -> usize {
        match self {
            Operator::Open | Operator::Close => 0,
            Operator::Not => 1,
            _ => 2,
        }
    }
}

const OPERATORS: &[(&[u8], Operator)] = &[
    (b"(", Operator::Open),
    (b")", Operator::Close),
    (b"!", Operator::Not),
    (b"not", Operator::Not),
    (b"**", Operator::Power),
    (b"*", Operator::Multiply),
    (b"/", Operator::Divide),
    (b"%", Operator::Modulo),
    (b"+", Operator::Add),
    (b"-", Operator::Subtract),
    (b">", Operator::Greater),
    (b">=", Operator::GreaterOrEqual),
    (b"<", Operator::Less),
    (b"<=", Operator::LessOrEqual),
    (b"==", Operator::Equal),
    (b"!=", Operator::NotEqual),
    (b"in", Operator::In),
    (b"and", Operator::And),
    (b"&&", Operator::And),
    (b"or", Operator::Or),
    (b"||", Operator::Or),
];

/// A constant within a tuple.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Number(f64),
    /// Bytes of the expression, backslashes included.
    Text(Range<usize>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Text(Range<usize>),
    /// A range of the literals of all tuples.
    Tuple(Range<usize>),
    /// The name of a field.
    Selector(Range<usize>),
    Null,
    Operator(Operator),
}

/// The tokens of an expression, and the literals of its tuples.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) tokens: Vec<Token>,
    pub(super) literals: Vec<Literal>,
}

/// Splits `text`, which has no zero byte, into tokens; at most `limit`.
pub(super) fn tokenize(text: &[u8], limit: usize) -> Result<Tokens, FilterError> {
    let mut lexer = Lexer { text, at: 0, found: Tokens::default() };
    loop {
        lexer.skip_blanks();
        let Some(byte) = lexer.peek(0) else { return Ok(lexer.found) };
        if lexer.found.tokens.len() == limit {
            return Err(FilterError { offset: lexer.at });
        }
        // A reader that stands at the end has no offset to show: Redis then shows the whole text.
        let token = lexer.token(byte).ok_or_else(|| {
            let offset = if lexer.at >= text.len() { 0 } else { lexer.at };
            FilterError { offset }
        })?;
        lexer.found.tokens.push(token);
    }
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    found: Tokens,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn skip_while(&mut self, accepts: impl Fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        while self.peek(0).is_some_and(&accepts) {
            self.at += 1;
        }
        start..self.at
    }

    fn skip_blanks(&mut self) {
        self.skip_while(is_blank);
    }

    fn token(&mut self, first: u8) -> Option<Token> {
        let second = self.peek(1);
        match first {
            b'0'..=b'9' => self.number().map(Token::Number),
            b'-' if self.minus_is_sign() && second.is_some_and(|byte| byte.is_ascii_digit()) => {
                self.number().map(Token::Number)
            }
            b'"' | b'\'' => self.string(first).map(Token::Text),
            // A dot at the very end selects the field without a name, which no attribute has for Redis.
            b'.' if second.is_none_or(is_selector_byte) => {
                self.at += 1;
                Some(Token::Selector(self.skip_while(is_selector_byte)))
            }
            b'[' => self.tuple().map(Token::Tuple),
            _ => self.operator(),
        }
    }

    /// At the beginning, and behind an operator other than a closing parenthesis.
    fn minus_is_sign(&self) -> bool {
        match self.found.tokens.last() {
            None => true,
            Some(Token::Operator(operator)) => *operator != Operator::Close,
            Some(_) => false,
        }
    }

    fn number(&mut self) -> Option<f64> {
        let start = self.at;
        if self.peek(0) == Some(b'-') {
            self.at += 1;
        }
        let accepts = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E');
        while self.peek(0).is_some_and(accepts) {
            if self.at - start >= number::TEXT_MAX_BYTES {
                return None;
            }
            self.at += 1;
        }
        number::parse(self.text.get(start..self.at)?)
    }

    fn string(&mut self, quote: u8) -> Option<Range<usize>> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek(0)? {
                b'\\' if self.peek(1).is_some() => self.at += 2,
                byte if byte == quote => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(start..self.at - 1)
    }

    fn tuple(&mut self) -> Option<Range<usize>> {
        self.at += 1;
        let start = self.found.literals.len();
        loop {
            self.skip_blanks();
            let literal = match self.peek(0)? {
                b']' => break,
                b'0'..=b'9' | b'-' => Literal::Number(self.number()?),
                quote @ (b'"' | b'\'') => Literal::Text(self.string(quote)?),
                _ => return None,
            };
            self.found.literals.push(literal);
            self.skip_blanks();
            match self.peek(0)? {
                b']' => break,
                b',' => self.at += 1,
                _ => return None,
            }
        }
        self.at += 1;
        Some(start..self.found.literals.len())
    }

    /// The longest operator that the run of letters and signs begins with. `null` is the only word that is
    /// a value, and is one only if the run ends behind it.
    fn operator(&mut self) -> Option<Token> {
        let run = self.skip_while(|byte| byte.is_ascii_alphabetic() || b"+-*%/!()<>=|&".contains(&byte));
        let text = self.text.get(run.clone())?;
        if text == b"null" {
            return Some(Token::Null);
        }
        let matching = OPERATORS.iter().filter(|(name, _)| text.starts_with(name));
        let (name, operator) = matching.max_by_key(|(name, _)| name.len())?;
        self.at = run.start + name.len();
        Some(Token::Operator(*operator))
    }
}

fn is_selector_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
