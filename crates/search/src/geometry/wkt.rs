//! Well-known text: `POINT` and `POLYGON`, as RediSearch (the parser of Boost.Geometry) reads them.
//!
//! Words are separated by blanks; brackets and commas are words of their own. A coordinate that is missing is
//! 0, a third number of a vertex is passed over, and the comma between two rings may be missing.

use super::rings::invalid;
use crate::Error;
use martlet_base::number::parse_f64;

/// The most vertices of a shape.
pub const POINTS_MAX: usize = 1 << 14;
/// The most bytes of a shape's text.
pub const TEXT_MAX: usize = 1 << 20;

/// A shape as the text has it; rings need not be closed or simple.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed {
    Point([f64; 2]),
    Polygon(Vec<Vec<[f64; 2]>>),
}

/// Reads a text.
///
/// # Errors
/// It is no point or polygon, or too long.
pub(super) fn parse(text: &[u8]) -> Result<Parsed, Error> {
    if text.len() > TEXT_MAX {
        return Err(invalid(format_args!("text of more than {TEXT_MAX} bytes")));
    }
    if text.starts_with(b"POI") {
        let mut words = Words::after_name(text, "POINT")?;
        let is_empty = words.begin()?;
        let point = if is_empty { [f64::NAN; 2] } else { words.point()? };
        words.end()?;
        Ok(Parsed::Point(point))
    } else if text.starts_with(b"POL") {
        let mut words = Words::after_name(text, "POLYGON")?;
        let rings = if words.begin()? { Vec::new() } else { words.rings()? };
        words.end()?;
        Ok(Parsed::Polygon(rings))
    } else {
        Err(Error::new("unknown geometry type"))
    }
}

struct Words<'a> {
    text: &'a [u8],
    at: usize,
    word: &'a [u8],
    points: usize,
}

impl<'a> Words<'a> {
    fn after_name(text: &'a [u8], name: &str) -> Result<Words<'a>, Error> {
        let mut words = Words { text, at: 0, word: b"", points: 0 };
        words.advance();
        if !words.word.eq_ignore_ascii_case(name.as_bytes()) {
            return Err(Error::new(format!("Should start with '{name}'' in ({})", show(text))));
        }
        words.advance();
        Ok(words)
    }

    /// The next word, which is empty at the end.
    fn advance(&mut self) {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let rest = self.text.get(self.at..).unwrap_or_default();
        let skipped = rest.iter().take_while(|byte| blank(byte)).count();
        let rest = rest.get(skipped..).unwrap_or_default();
        let ends = |byte: &u8| blank(byte) || matches!(byte, b'(' | b')' | b',');
        let length = rest.iter().position(ends).unwrap_or(rest.len()).max(usize::from(!rest.is_empty()));
        self.word = rest.get(..length).unwrap_or_default();
        self.at += skipped + length;
    }

    fn error(&self, what: impl std::fmt::Display) -> Error {
        let at = if self.word.is_empty() { String::new() } else { format!(" at '{}'", show(self.word)) };
        Error::new(format!("{what}{at} in '{}'", show(self.text)))
    }

    fn expect(&mut self, word: &str) -> Result<(), Error> {
        if self.word != word.as_bytes() {
            return Err(self.error(format_args!("Expected '{word}'")));
        }
        self.advance();
        Ok(())
    }

    /// Reads `EMPTY`, `Z` or `M` before the opening bracket; whether the shape is empty.
    fn begin(&mut self) -> Result<bool, Error> {
        if self.word.eq_ignore_ascii_case(b"EMPTY") {
            self.advance();
            return Ok(true);
        }
        if self.word.eq_ignore_ascii_case(b"Z") || self.word.eq_ignore_ascii_case(b"ZM") {
            let text = show(self.text);
            return Err(Error::new(format!("Z only allowed for 3 or more dimensions' in ({text})")));
        }
        if self.word.eq_ignore_ascii_case(b"M") {
            self.advance();
        }
        Ok(false)
    }

    fn end(&self) -> Result<(), Error> {
        if self.word.is_empty() { Ok(()) } else { Err(self.error("Too many tokens")) }
    }

    fn coordinate(&mut self) -> Result<f64, Error> {
        if self.word.is_empty() || self.word == b")" || self.word == b"," {
            return Ok(0.0);
        }
        let number = number(self.word).ok_or_else(|| {
            self.error("bad lexical cast: source type value could not be interpreted as target")
        })?;
        self.advance();
        Ok(number)
    }

    fn vertex(&mut self) -> Result<[f64; 2], Error> {
        Ok([self.coordinate()?, self.coordinate()?])
    }

    fn point(&mut self) -> Result<[f64; 2], Error> {
        self.expect("(")?;
        let point = self.vertex()?;
        self.expect(")")?;
        Ok(point)
    }

    fn rings(&mut self) -> Result<Vec<Vec<[f64; 2]>>, Error> {
        let mut rings = Vec::new();
        self.expect("(")?;
        while !self.word.is_empty() && self.word != b")" {
            rings.push(self.ring()?);
            if self.word == b"," {
                self.advance();
            }
        }
        self.expect(")")?;
        Ok(rings)
    }

    fn ring(&mut self) -> Result<Vec<[f64; 2]>, Error> {
        let mut ring = Vec::new();
        self.expect("(")?;
        while !self.word.is_empty() && self.word != b")" {
            self.points += 1;
            if self.points > POINTS_MAX {
                return Err(invalid(format_args!("more than {POINTS_MAX} points")));
            }
            ring.push(self.vertex()?);
            while !self.word.is_empty() && self.word != b")" && self.word != b"," {
                self.advance();
            }
            if self.word == b"," {
                self.advance();
            }
        }
        self.expect(")")?;
        Ok(ring)
    }
}

/// A decimal number, `nan` or infinity, as C++ reads them.
fn number(word: &[u8]) -> Option<f64> {
    let is_hexadecimal = word.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'));
    let unsigned = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"+")).unwrap_or(word);
    if unsigned.eq_ignore_ascii_case(b"nan") {
        return Some(f64::NAN);
    }
    let number = std::str::from_utf8(word).ok().filter(|_| !is_hexadecimal)?;
    // A number that is too small is 0 here; the server's own reader refuses it.
    let number = parse_f64(word).or_else(|| number.parse().ok())?;
    (number.is_finite() || unsigned.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'i')))
        .then_some(number)
}

/// The beginning of a client's text for an error.
fn show(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text.get(..256).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text.as_bytes()).expect_err(text).text().to_owned()
    }

    #[test]
    fn shapes_are_read_as_boost_reads_them() {
        for (text, wanted) in [
            ("POINT(1 2)", [1.0, 2.0]),
            ("POINT ( -1e3   +.5 ) ", [-1000.0, 0.5]),
            ("POINT(1)", [1.0, 0.0]),
            ("POINT()", [0.0, 0.0]),
            ("POINT M (5. 1e-400)", [5.0, 0.0]),
            ("POINT(-inf 2)", [f64::NEG_INFINITY, 2.0]),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(Parsed::Point(wanted)), "{text}");
        }
        for (text, wanted) in [
            ("POLYGON((0 1,2 3))", vec![vec![[0.0, 1.0], [2.0, 3.0]]]),
            ("POLYGON((0 1 7 8,2)(4 5),)", vec![vec![[0.0, 1.0], [2.0, 0.0]], vec![[4.0, 5.0]]]),
            ("POLYGON((1 1,,2 2))", vec![vec![[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]]),
            ("POLYGON(())", vec![vec![]]),
            ("POLYGON()", vec![]),
            ("POLYGON EMPTY", vec![]),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(Parsed::Polygon(wanted)), "{text}");
        }
    }

    /// RediSearch 2.10.5's words.
    #[test]
    fn errors_are_boosts() {
        let cast = "bad lexical cast: source type value could not be interpreted as target";
        for (text, wanted) in [
            ("", "unknown geometry type".to_owned()),
            ("point(1 2)", "unknown geometry type".to_owned()),
            ("LINESTRING(0 0, 1 1)", "unknown geometry type".to_owned()),
            ("POI(1 2)", "Should start with 'POINT'' in (POI(1 2))".to_owned()),
            ("POINT", "Expected '(' in 'POINT'".to_owned()),
            ("POINT Z(1 2 3)", "Z only allowed for 3 or more dimensions' in (POINT Z(1 2 3))".to_owned()),
            ("POINT(1 2 3)", "Expected ')' at '3' in 'POINT(1 2 3)'".to_owned()),
            ("POINT (1 1", "Expected ')' in 'POINT (1 1'".to_owned()),
            ("POINT (1 a)", format!("{cast} at 'a' in 'POINT (1 a)'")),
            ("POINT(0x10 1)", format!("{cast} at '0x10' in 'POINT(0x10 1)'")),
            ("POINT(1e400 1)", format!("{cast} at '1e400' in 'POINT(1e400 1)'")),
            ("POINT (1 1) x", "Too many tokens at 'x' in 'POINT (1 1) x'".to_owned()),
            ("POLYGON(0 0, 1 1)", "Expected '(' at '0' in 'POLYGON(0 0, 1 1)'".to_owned()),
            ("POLYGON((0 0, 1 1)", "Expected ')' in 'POLYGON((0 0, 1 1)'".to_owned()),
        ] {
            assert_eq!(error(text), wanted);
        }
        let many = format!("POLYGON(({}))", "0 0,".repeat(POINTS_MAX + 1));
        assert_eq!(error(&many), format!("invalid geometry: more than {POINTS_MAX} points"));
        let long = format!("POINT({}1 1)", " ".repeat(TEXT_MAX));
        assert_eq!(error(&long), format!("invalid geometry: text of more than {TEXT_MAX} bytes"));
    }
}
