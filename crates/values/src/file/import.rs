//! The mark of slots that were on their way from another node of a cluster when a file was written: their
//! keys do not count unless they arrive completely.
//!
//! Valkey 9 has an opcode for it in its own versions of the format:
//! ```text
//! F3 name: 40 characters | ranges | (first last)…
//! ```
//! In Redis' versions, where that opcode means something else, it is a field `martlet-slot-import` with the
//! text `NAME FIRST-LAST …`, which other readers pass over.

use martlet_rdb::input::Input;
use martlet_rdb::{Error, Sink, read_bytes, read_plain_length, write_bytes, write_length};

use crate::VERSION_VALKEY;

/// The opcode of Valkey's versions.
pub(super) const SLOT_IMPORT: u8 = 243;
/// The field of Redis' versions.
const FIELD: &str = "martlet-slot-import";
/// Characters of a name.
const NAME_CHARACTERS: usize = 40;
const SLOTS: u64 = 1 << 14;

/// See the [module docs](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotImport {
    /// The migration's name, 40 characters.
    pub name: Vec<u8>,
    /// First and last slots.
    pub ranges: Vec<(u16, u16)>,
}

/// A range that is one.
fn range(first: u64, last: u64) -> Option<(u16, u16)> {
    let is_one = first <= last && last < SLOTS;
    is_one.then_some((first as u16, last as u16))
}

impl SlotImport {
    /// Reads the part behind the opcode.
    pub(super) fn read(input: &mut impl Input, scratch: &mut Vec<u8>) -> Result<SlotImport, Error> {
        const CORRUPT: Error = Error::Corrupt("a slot import");
        let name = read_bytes(input, scratch)?.to_vec();
        let count = read_plain_length(input)?;
        if name.len() != NAME_CHARACTERS || count > SLOTS {
            return Err(CORRUPT);
        }
        let mut ranges = Vec::new();
        for _ in 0..count {
            let (first, last) = (read_plain_length(input)?, read_plain_length(input)?);
            ranges.push(range(first, last).ok_or(CORRUPT)?);
        }
        Ok(SlotImport { name, ranges })
    }

    /// The import in a field, if it has one.
    pub(super) fn of_field(name: &[u8], text: &[u8]) -> Option<SlotImport> {
        let text = std::str::from_utf8(text).ok().filter(|_| name == FIELD.as_bytes())?;
        let mut words = text.split(' ');
        let name = words.next().filter(|name| name.len() == NAME_CHARACTERS)?;
        let read = |word: &str| {
            let (first, last) = word.split_once('-')?;
            range(first.parse().ok()?, last.parse().ok()?)
        };
        let ranges = words.map(read).collect::<Option<Vec<_>>>()?;
        Some(SlotImport { name: name.into(), ranges })
    }

    /// The field, for versions that have no opcode for it.
    pub fn field(&self, version: u16) -> Option<(&'static str, String)> {
        if version >= VERSION_VALKEY {
            return None;
        }
        let ranges = self.ranges.iter().map(|(first, last)| format!(" {first}-{last}"));
        Some((FIELD, String::from_utf8_lossy(&self.name).into_owned() + &ranges.collect::<String>()))
    }

    /// Appends the opcode and its content.
    pub(super) fn write(&self, out: &mut impl Sink) {
        out.put(&[SLOT_IMPORT]);
        write_bytes(out, &self.name, false);
        write_length(out, self.ranges.len() as u64);
        for (first, last) in &self.ranges {
            write_length(out, u64::from(*first));
            write_length(out, u64::from(*last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileWriter, Item, ReadOptions, read_file};
    use super::*;
    use crate::{Form, Limits};

    fn written(version: u16, import: &SlotImport) -> Vec<u8> {
        let field = import.field(version);
        let aux: Vec<_> = field.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let mut writer = FileWriter::new(Vec::new(), Form { version, compress: true }, &aux, true);
        writer.write_import(import);
        writer.finish().unwrap()
    }

    fn read(file: &[u8]) -> Result<Vec<Item>, Error> {
        let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
        let mut found = Vec::new();
        let push = |item, _| {
            found.push(item);
            Ok(())
        };
        read_file(file, file.len() as u64, &options, push).map_err(|error| error.error)?;
        Ok(found)
    }

    #[test]
    fn an_import_goes_round_in_every_version_with_fields() {
        let import = SlotImport { name: vec![b'a'; 40], ranges: vec![(0, 0), (5, 16_383)] };
        for version in [7, 10, 11, 12, VERSION_VALKEY] {
            let found = read(&written(version, &import)).unwrap();
            assert!(matches!(&found[..], [Item::SlotImport(read)] if *read == import), "{version}");
        }
        assert!(read(&written(6, &import)).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_import_is_refused_or_another_field() {
        let bad = [
            SlotImport { name: vec![b'a'; 39], ranges: vec![(0, 0)] },
            SlotImport { name: vec![b'a'; 40], ranges: vec![(2, 1)] },
            SlotImport { name: vec![b'a'; 40], ranges: vec![(2, 16_384)] },
        ];
        for import in bad {
            assert_eq!(read(&written(VERSION_VALKEY, &import)).unwrap_err(), Error::Corrupt("a slot import"));
            assert!(matches!(&read(&written(11, &import)).unwrap()[..], [Item::Aux { .. }]));
        }
        // In Redis' versions the opcode is of modules.
        let import = SlotImport { name: vec![b'a'; 40], ranges: Vec::new() };
        let mut file = written(VERSION_VALKEY, &import);
        file.splice(..9, *b"REDIS0012");
        assert_eq!(read(&file).unwrap_err(), Error::Unknown("module"));
    }
}
