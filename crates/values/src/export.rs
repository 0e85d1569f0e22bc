//! Values as JSON, for tools that read no RDB.

use std::io::{self, Write};

use martlet_types::element::Element;

/// JSON being written. The first error is kept for [`Export::finish`], and nothing is written after it.
pub struct Export<'a> {
    out: &'a mut dyn Write,
    /// Something stands before in the innermost array.
    needs_comma: bool,
    result: io::Result<()>,
}

impl<'a> Export<'a> {
    /// JSON that goes to `out`.
    pub fn new(out: &'a mut dyn Write) -> Export<'a> {
        Export { out, needs_comma: false, result: Ok(()) }
    }

    fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.result.is_ok() {
            self.result = write(self.out);
        }
    }

    fn item(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let comma: &[u8] = if self.needs_comma { b"," } else { b"" };
        self.write(|out| out.write_all(comma));
        self.write(write);
        self.needs_comma = true;
    }

    /// An array, which `fill` fills.
    pub fn array(&mut self, fill: impl FnOnce(&mut Self)) {
        self.item(|out| out.write_all(b"["));
        self.needs_comma = false;
        fill(self);
        self.write(|out| out.write_all(b"]"));
        self.needs_comma = true;
    }

    /// A text: a string if it is UTF-8, else an object with its bytes.
    pub fn text(&mut self, bytes: &[u8]) {
        self.item(|mut out| match std::str::from_utf8(bytes) {
            Ok(text) => serde_json::to_writer(&mut out, text).map_err(io::Error::from),
            Err(_) => {
                write!(out, "{{\"hex\":\"")?;
                bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
                write!(out, "\"}}")
            }
        });
    }

    /// An element, as a text.
    pub fn element(&mut self, element: Element<'_>) {
        self.text(&element.to_vec());
    }

    /// An integer.
    pub fn int(&mut self, value: impl Into<i128>) {
        let value = value.into();
        self.item(|out| write!(out, "{value}"));
    }

    /// A number; an infinite one is `"inf"` or `"-inf"`.
    pub fn float(&mut self, value: f64) {
        self.item(|out| match value {
            f64::INFINITY => write!(out, "\"inf\""),
            f64::NEG_INFINITY => write!(out, "\"-inf\""),
            value => write!(out, "{value:?}"),
        });
    }

    /// A value that is JSON text already.
    pub fn json(&mut self, text: &[u8]) {
        self.item(|out| out.write_all(text));
    }

    /// The end.
    ///
    /// # Errors
    /// The first that `out` met.
    pub fn finish(self) -> io::Result<()> {
        self.result
    }
}
