//! Writing a new text over a small document in the blocks that it has: a document is mostly replaced by one
//! of the same shape, and then no block has to be found, which the processor's caches do not have, and none
//! freed.
//!
//! The text is read into tokens first. Invariants: until it has been read to its end nothing is changed, and
//! a block that another value shares never is. Where shapes differ, the new value is what `text::parse`
//! makes.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::value::{Member, Number, Value, replace};

/// The longest text that is read into tokens, which take more room than the text.
const TEXT_BYTES_MAX: usize = 4096;
/// Room for tokens of most documents.
const TOKENS: usize = 32;

/// A value of the text, or a member's name, in the text's order.
enum Token<'t> {
    Constant(Value),
    Number(Number),
    Text(&'t str),
    /// A string with escapes, which stands nowhere in the text.
    Unescaped(Value),
    /// An array of so many elements, which follow.
    Array(usize),
    /// An object of so many names and values, which follow.
    Object(usize),
}

/// Puts the value of a JSON text in the place of `root`, and adds to `heap` by how much its blocks grow.
/// False if the text is none or is too long; nothing has changed then.
pub(crate) fn rewrite(root: &mut Value, text: &[u8], heap: &mut isize) -> bool {
    if text.len() > TEXT_BYTES_MAX {
        return false;
    }
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let mut tokens = Vec::with_capacity(TOKENS);
    let mut parser = serde_json::Deserializer::from_str(text);
    if Reader(&mut tokens).deserialize(&mut parser).and_then(|()| parser.end()).is_err() {
        return false;
    }
    Tokens(&tokens).assign(root, heap);
    true
}

/// Tokens that are left.
struct Tokens<'a, 't>(&'a [Token<'t>]);

impl<'a, 't> Tokens<'a, 't> {
    fn next(&mut self) -> Option<&'a Token<'t>> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// The next value, made anew.
    fn build(&mut self) -> Value {
        match self.next() {
            None => Value::NULL,
            Some(Token::Constant(value) | Token::Unescaped(value)) => value.clone(),
            Some(Token::Number(number)) => Value::number(*number),
            Some(Token::Text(text)) => Value::text(text),
            Some(Token::Array(count)) => {
                let values: Vec<Value> = (0..*count).map(|_| self.build()).collect();
                Value::array(values.into_iter())
            }
            Some(Token::Object(count)) => {
                let members: Vec<Member> =
                    (0..*count).map(|_| Member::new(self.build(), self.build())).collect();
                Value::object(members.into_iter())
            }
        }
    }

    /// Puts the next value in the place of `slot`.
    fn assign(&mut self, slot: &mut Value, heap: &mut isize) {
        let start = self.0;
        let fits = match self.next() {
            Some(Token::Text(text)) => slot.overwrite_text(text),
            Some(Token::Number(number)) => slot.overwrite_number(*number),
            Some(Token::Array(count)) => match slot.own_elements(*count) {
                Some(values) => {
                    values.iter_mut().for_each(|value| self.assign(value, heap));
                    true
                }
                None => false,
            },
            Some(Token::Object(count)) => match slot.own_members(*count) {
                // Of an object whose names turn out to be others, the values before are assigned in vain.
                Some(members) => members.iter_mut().all(|member| {
                    let is_same = self.next().is_some_and(|name| name.is_text(member.name()));
                    if is_same {
                        self.assign(&mut member.value, heap);
                    }
                    is_same
                }),
                None => false,
            },
            _ => false,
        };
        if !fits {
            self.0 = start;
            replace(slot, self.build(), heap);
        }
    }
}

impl Token<'_> {
    fn is_text(&self, text: &str) -> bool {
        match self {
            Token::Text(own) => *own == text,
            Token::Unescaped(own) => own.as_str() == Some(text),
            _ => false,
        }
    }
}

/// Reads a value into tokens.
struct Reader<'a, 't>(&'a mut Vec<Token<'t>>);

impl<'t> DeserializeSeed<'t> for Reader<'_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Reader<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.push(Token::Constant(Value::NULL));
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.push(Token::Constant(Value::bool(value)));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.push(Token::Number(Number::Int(value)));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.push(Token::Number(Number::from_u64(value)));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.push(Token::Number(Number::Float(value)));
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'t str) -> Result<(), E> {
        self.0.push(Token::Text(text));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.push(Token::Unescaped(Value::text(text)));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut elements: A) -> Result<(), A::Error> {
        let place = self.0.len();
        self.0.push(Token::Array(0));
        let mut count = 0;
        while elements.next_element_seed(Reader(self.0))?.is_some() {
            count += 1;
        }
        if let Some(token) = self.0.get_mut(place) {
            *token = Token::Array(count);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'t>>(self, mut members: A) -> Result<(), A::Error> {
        let place = self.0.len();
        self.0.push(Token::Object(0));
        let mut count = 0;
        while members.next_key_seed(Reader(self.0))?.is_some() {
            members.next_value_seed(Reader(self.0))?;
            count += 1;
        }
        if let Some(token) = self.0.get_mut(place) {
            *token = Token::Object(count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
