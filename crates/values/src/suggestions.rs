//! Dictionaries of suggestions (FT.SUGADD), RediSearch's module type `trietype0`.
//!
//! ```text
//! version 1: number of suggestions | (text: string, score: double, payload: string)…
//! version 0: without the payloads
//! ```
//!
//! Each string ends with a zero byte, which is not part of it: without a payload it is that byte alone.

use martlet_keyspace::{ModuleObject, ModuleValue};
use martlet_rdb::Error;
use martlet_rdb::module::{ItemReader, ItemWriter, NAME_CHARACTERS};
use martlet_spec::data_type::{SUGGESTIONS, TypeView};
use martlet_types::suggestions::Suggestions;

use crate::commands::{Commands, number};
use crate::digest::Digest;
use crate::export::Export;
use crate::module::{ModuleDescriptor, ModuleType, restore};

pub(crate) static DESCRIPTOR: ModuleDescriptor = ModuleDescriptor::of::<SuggestionDictionary>();

/// The version without payloads.
const VERSION_SCORES: u16 = 0;
/// The version that is written.
const VERSION_PAYLOADS: u16 = 1;

/// A dictionary of suggestions as a key's value.
#[derive(Clone, Debug, Default)]
pub struct SuggestionDictionary(pub Suggestions);

impl ModuleObject for SuggestionDictionary {
    fn type_name(&self) -> &str {
        SUGGESTIONS.name
    }

    // A dictionary without suggestions stays in its key.
    fn element_count(&self) -> usize {
        self.0.len().max(1)
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

/// Writes a string with a zero byte behind it.
fn write_terminated(items: &mut ItemWriter<'_, '_>, text: &[u8], scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.extend_from_slice(text);
    scratch.push(0);
    items.string(scratch);
}

/// Reads a string without the byte behind it.
fn read_terminated<'a>(items: &'a mut ItemReader<'_>) -> Result<&'a [u8], Error> {
    const UNTERMINATED: Error = Error::Corrupt("a suggestion's string without an end");
    items.string()?.split_last().map(|(_, text)| text).ok_or(UNTERMINATED)
}

impl ModuleType for SuggestionDictionary {
    const NAME: &'static [u8; NAME_CHARACTERS] = b"trietype0";
    const ENCODING_VERSIONS: std::ops::RangeInclusive<u16> = VERSION_SCORES..=VERSION_PAYLOADS;
    const VIEW: Option<&'static TypeView> = Some(&SUGGESTIONS);

    fn save(&self, items: &mut ItemWriter<'_, '_>) {
        items.unsigned(self.0.len() as u64);
        let mut scratch = Vec::new();
        self.0.each(|suggestion| {
            write_terminated(items, suggestion.text, &mut scratch);
            items.double(f64::from(suggestion.score));
            write_terminated(items, suggestion.payload.unwrap_or_default(), &mut scratch);
        });
    }

    fn load(items: &mut ItemReader<'_>, version: u16) -> Result<SuggestionDictionary, Error> {
        let mut dictionary = Suggestions::new();
        let mut payload = Vec::new();
        let mut text = Vec::new();
        for _ in 0..items.unsigned()? {
            text.clear();
            text.extend_from_slice(read_terminated(items)?);
            let score = items.double()?;
            payload.clear();
            if version > VERSION_SCORES {
                payload.extend_from_slice(read_terminated(items)?);
            }
            // What no dictionary takes is left out, as RediSearch does.
            dictionary
                .load(&text, score, &payload)
                .map_err(|_| Error::Corrupt("a suggestion's score that is no number"))?;
        }
        Ok(SuggestionDictionary(dictionary))
    }

    /// FT.SUGADD for each suggestion; it can make neither an empty dictionary nor scores of 0, which need
    /// RESTORE.
    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        let mut are_addable = !self.0.is_empty();
        self.0.each(|suggestion| are_addable &= suggestion.score != 0.0);
        if !are_addable {
            return restore(&ModuleValue::new(self.clone()), key, out);
        }
        self.0.each(|suggestion| {
            let score = number(suggestion.score);
            let plain = [b"FT.SUGADD".as_slice(), key, suggestion.text, &score];
            match suggestion.payload {
                None => out.put(&plain),
                Some(payload) => out.put(&[&plain[..], &[b"PAYLOAD", payload]].concat()),
            }
        });
    }

    fn digest(&self, digest: &mut Digest) {
        self.0.each(|suggestion| {
            digest.mix(suggestion.text);
            digest.mix(&suggestion.score.to_le_bytes());
            digest.mix(suggestion.payload.unwrap_or_default());
        });
    }

    /// An array of texts, each with its score and, if it has one, its payload.
    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            self.0.each(|suggestion| {
                out.array(|out| {
                    out.text(suggestion.text);
                    out.float(f64::from(suggestion.score));
                    if let Some(payload) = suggestion.payload {
                        out.text(payload);
                    }
                });
            });
        });
    }
}
