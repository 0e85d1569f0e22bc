//! Documents as the RDB value of the module `ReJSON-RL`: one string, in text (version 3) or in CBOR (version
//! 4).
//!
//! Redis Stack 7.4 writes version 3, RedisJSON since 8.8 version 4, and it reads 3. Versions 0 and 2, which
//! ReJSON 1 wrote, are not read here: 2 is the text of 3 with fields behind it, 0 a tree of records.

use crate::cbor;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::text;

/// The version with JSON text.
pub const VERSION_TEXT: u16 = 3;

/// The version with CBOR.
pub const VERSION_CBOR: u16 = 4;

/// The string of version 3.
pub fn encode_text(document: &Document) -> Vec<u8> {
    text::to_text(document.root())
}

/// The string of version 4.
pub fn encode_cbor(document: &Document) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::encode(document.root(), &mut out);
    out
}

/// A document from the string of `version`.
///
/// # Errors
/// The version is another, or the string is damaged.
pub fn decode(version: u16, bytes: &[u8]) -> Result<Document> {
    match version {
        VERSION_TEXT => Document::new(text::parse(bytes, None)?),
        VERSION_CBOR => Document::new(cbor::decode(bytes)?),
        _ => Err(Error::Damaged("a version of the encoding that is not known")),
    }
}
