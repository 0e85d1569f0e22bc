//! Keys as the commands that make them: the base of an append-only file without `aof-use-rdb-preamble`.

use martlet_engine::{SavedKey, SavedValue};
use martlet_journal::encode;
use martlet_keyspace::ValueRef;
use martlet_values::file::SlotImport;
use martlet_values::{Commands, write_commands};

/// Writes keys as commands.
#[derive(Debug, Default)]
pub struct CommandBase {
    db: Option<usize>,
    /// The written bytes.
    pub bytes: Vec<u8>,
}

fn number(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

impl CommandBase {
    /// Appends what loads a library of functions.
    pub fn write_library(&mut self, code: &[u8]) {
        self.command(&[b"FUNCTION", b"LOAD", code]);
    }

    /// Appends a command that makes an index.
    pub fn write_definition(&mut self, definition: &[u8]) {
        self.bytes.extend_from_slice(definition);
    }

    /// Appends what says that slots' keys are on their way.
    pub fn write_import(&mut self, import: &SlotImport) {
        let ranges = import.ranges.iter().flat_map(|(first, last)| [number(first), number(last)]);
        let ranges: Vec<_> = ranges.collect();
        let words = [b"CLUSTER".as_slice(), b"SYNCSLOTS", b"ESTABLISH", b"NAME", &import.name, b"SLOTSRANGE"];
        self.command(&words.into_iter().chain(ranges.iter().map(Vec::as_slice)).collect::<Vec<_>>());
    }

    /// Appends what makes the key.
    pub fn key(&mut self, saved: &SavedKey<'_>) {
        if self.db.replace(saved.db) != Some(saved.db) {
            self.command(&[b"SELECT", &number(saved.db)]);
        }
        match saved.value {
            SavedValue::Str(value) => self.value(saved.key, value.into()),
            SavedValue::Shared(value) => self.value(saved.key, value.view()),
        }
        if let Some(at_ms) = saved.expiry_ms {
            self.command(&[b"PEXPIREAT", saved.key, &number(at_ms)]);
        }
    }

    fn value(&mut self, key: &[u8], value: ValueRef<'_>) {
        let mut take = |arguments: &[&[u8]]| self.command(arguments);
        write_commands(value, key, &mut Commands::new(&mut take));
    }

    fn command(&mut self, args: &[&[u8]]) {
        encode(&mut self.bytes, args.iter().copied());
    }
}
