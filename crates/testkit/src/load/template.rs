//! Requests with placeholders, in the notation of resp-benchmark: `SET {key uniform 1000} {value 64}`.

use std::fmt;

/// Bytes from which random values are cut.
const VALUE_POOL_BYTES: usize = 1 << 20;
const ALPHANUMERIC: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Digits after `key_`.
const KEY_DIGITS: usize = 10;

/// Requests, sent in turn, whose placeholders get fresh values each time.
pub struct Template {
    /// The arguments of each.
    requests: Vec<Vec<Vec<Part>>>,
    /// Whose turn is next.
    next: usize,
    counters: Vec<u64>,
    pool: Vec<u8>,
    state: u64,
    scratch: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(Vec<u8>),
    /// `key_` and ten digits below the bound.
    Uniform(u64),
    /// The same, counting up and around; the second number is the counter.
    Sequence(u64, usize),
    /// A decimal number below the bound.
    Number(u64),
    /// A decimal number, counting up and around; the second number is the counter.
    Count(u64, usize),
    /// That many random alphanumerics.
    Value(usize),
    /// That many random floats of single precision from -1 to 1, little-endian.
    Vector(usize),
}

/// A template that cannot be read.
#[derive(Debug)]
pub struct TemplateError(String);

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template: {}", self.0)
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Reads a template; requests stand between semicolons as words of their own, and two opening braces
    /// stand for one that is sent. The same seed gives the same requests.
    pub fn parse(text: &str, seed: u64) -> Result<Template, TemplateError> {
        let mut template = Template {
            requests: vec![Vec::new()],
            next: 0,
            counters: Vec::new(),
            pool: Vec::with_capacity(VALUE_POOL_BYTES),
            state: seed | 1,
            scratch: Vec::new(),
        };
        for _ in 0..VALUE_POOL_BYTES {
            let at = template.below(ALPHANUMERIC.len() as u64) as usize;
            template.pool.push(ALPHANUMERIC[at]);
        }
        let words = words(text)?;
        template.requests = words
            .split(|word| *word == ";")
            .map(|words| words.iter().map(|word| template.parts(word)).collect())
            .collect::<Result<_, _>>()?;
        let is_empty = template.requests.iter().any(Vec::is_empty);
        if is_empty { Err(TemplateError("no command".into())) } else { Ok(template) }
    }

    fn parts(&mut self, word: &str) -> Result<Vec<Part>, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = word;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                parts.push(Part::Literal(rest.as_bytes()[..open].to_vec()));
            }
            if let Some(literal) = rest[open..].strip_prefix("{{") {
                parts.push(Part::Literal(b"{".to_vec()));
                rest = literal;
                continue;
            }
            let close =
                rest.find('}').ok_or_else(|| TemplateError(format!("{word}: a brace is not closed")))?;
            parts.push(self.placeholder(&rest[open + 1..close])?);
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.as_bytes().to_vec()));
        }
        Ok(parts)
    }

    fn placeholder(&mut self, text: &str) -> Result<Part, TemplateError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |word: &str| match word.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(TemplateError(format!("{{{text}}}: {word} is not a positive number"))),
        };
        Ok(match words.as_slice() {
            ["key", "uniform", bound] => Part::Uniform(number(bound)?),
            ["key", "sequence", bound] => {
                self.counters.push(0);
                Part::Sequence(number(bound)?, self.counters.len() - 1)
            }
            ["rand", bound] => Part::Number(number(bound)?),
            ["count", bound] => {
                self.counters.push(0);
                Part::Count(number(bound)?, self.counters.len() - 1)
            }
            [kind @ ("value" | "vector"), length] => {
                let length = number(length)? as usize;
                if length > VALUE_POOL_BYTES / 2 {
                    return Err(TemplateError(format!("{{{text}}}: too long")));
                }
                if *kind == "value" { Part::Value(length) } else { Part::Vector(length) }
            }
            _ => return Err(TemplateError(format!("no such placeholder: {{{text}}}"))),
        })
    }

    /// Appends the next request.
    pub fn append(&mut self, out: &mut Vec<u8>) {
        let turn = self.next;
        self.next = (turn + 1) % self.requests.len();
        let arguments = std::mem::take(&mut self.requests[turn]);
        out.push(b'*');
        append_number(out, arguments.len() as u64);
        out.extend_from_slice(b"\r\n");
        for parts in &arguments {
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.clear();
            parts.iter().for_each(|part| self.fill(part, &mut scratch));
            out.push(b'$');
            append_number(out, scratch.len() as u64);
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&scratch);
            out.extend_from_slice(b"\r\n");
            self.scratch = scratch;
        }
        self.requests[turn] = arguments;
    }

    fn fill(&mut self, part: &Part, out: &mut Vec<u8>) {
        match part {
            Part::Literal(bytes) => out.extend_from_slice(bytes),
            Part::Uniform(bound) => append_key(out, self.below(*bound)),
            Part::Sequence(bound, counter) => {
                let number = self.counters[*counter];
                self.counters[*counter] = (number + 1) % bound;
                append_key(out, number);
            }
            Part::Count(bound, counter) => {
                let number = self.counters[*counter];
                self.counters[*counter] = (number + 1) % bound;
                append_number(out, number);
            }
            Part::Number(bound) => {
                let number = self.below(*bound);
                append_number(out, number);
            }
            Part::Value(length) => {
                let start = self.below((VALUE_POOL_BYTES - length) as u64) as usize;
                out.extend_from_slice(&self.pool[start..start + length]);
            }
            Part::Vector(length) => {
                for _ in 0..*length {
                    let component = self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0;
                    out.extend_from_slice(&component.to_le_bytes());
                }
            }
        }
    }

    /// A number below `bound` (xorshift, multiply-shift: the bias is below 2⁻³²).
    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((u128::from(self.state) * u128::from(bound)) >> 64) as u64
    }
}

/// Splits at spaces outside braces. A brace that is sent is closed by one that is, too.
fn words(text: &str) -> Result<Vec<&str>, TemplateError> {
    let (mut words, mut start, mut depth) = (Vec::new(), None, 0_usize);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' if text.as_bytes()[..at].ends_with(b"{") => {}
            b'{' => depth += 1,
            b'}' if depth == 0 => return Err(TemplateError("a brace that was not opened".into())),
            b'}' => depth -= 1,
            b' ' if depth == 0 => {
                if let Some(start) = start.take() {
                    words.push(&text[start..at]);
                }
                continue;
            }
            _ => {}
        }
        start = start.or(Some(at));
    }
    words.extend(start.map(|start| &text[start..]));
    if depth == 0 { Ok(words) } else { Err(TemplateError("a brace is not closed".into())) }
}

fn append_key(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [b'0'; KEY_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(b"key_");
    out.extend_from_slice(&digits);
}

fn append_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(template: &mut Template) -> String {
        let mut out = Vec::new();
        template.append(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn placeholders_are_filled() {
        let mut template =
            Template::parse("ZADD {key sequence 2} {rand 10} xx{key uniform 1} {value 3}", 7).unwrap();
        let first = request(&mut template);
        let lines: Vec<&str> = first.split("\r\n").collect();
        assert_eq!(lines[0], "*5");
        assert_eq!(&lines[1..5], ["$4", "ZADD", "$14", "key_0000000000"]);
        assert_eq!(lines[5], "$1");
        assert_eq!(lines[8], "xxkey_0000000000");
        assert_eq!(lines[10].len(), 3);
        assert!(request(&mut template).contains("key_0000000001"));
        assert!(request(&mut template).contains("$14\r\nkey_0000000000"));
    }

    #[test]
    fn doubled_braces_are_sent() {
        let mut template = Template::parse(r#"SET k {{"a":{count 9},"o":{{"b":[1]}}"#, 7).unwrap();
        assert!(request(&mut template).ends_with("$21\r\n{\"a\":0,\"o\":{\"b\":[1]}}\r\n"));
    }

    #[test]
    fn vectors_are_floats_around_zero() {
        let mut template = Template::parse("ECHO {vector 400}", 7).unwrap();
        let mut out = Vec::new();
        template.append(&mut out);
        let blob = out.strip_prefix(b"*2\r\n$4\r\nECHO\r\n$1600\r\n").unwrap().strip_suffix(b"\r\n").unwrap();
        let components: Vec<f32> =
            blob.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert!(components.iter().all(|component| component.abs() <= 1.0) && components.len() == 400);
        let mean = components.iter().sum::<f32>() / 400.0;
        assert!(mean.abs() < 0.2, "{mean}");
    }

    #[test]
    fn requests_take_turns() {
        let mut template = Template::parse("PING ; ECHO {count 2}-1", 7).unwrap();
        let sent: String = (0..5).map(|_| request(&mut template)).collect();
        let (ping, echo) = ("*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nECHO\r\n$3\r\n");
        assert_eq!(sent, format!("{ping}{echo}0-1\r\n{ping}{echo}1-1\r\n{ping}"));
    }

    #[test]
    fn random_keys_cover_their_range() {
        let mut template = Template::parse("GET {key uniform 8}", 42).unwrap();
        let seen: std::collections::BTreeSet<String> = (0..500).map(|_| request(&mut template)).collect();
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn mistakes_are_named() {
        for text in [
            "",
            "PING ;",
            "GET {key",
            "GET key}",
            "GET {what 5}",
            "GET {key uniform 0}",
            "GET {value 9999999}",
            "GET {vector 0}",
        ] {
            assert!(Template::parse(text, 1).is_err(), "{text}");
        }
    }
}
