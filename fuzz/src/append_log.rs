//! Files of commands and manifests of any bytes: no panic, no room for what a length only claims, the same whatever pieces the file comes
//! in, and what was read is read again.

use std::io::Read;

use martlet_journal::aof::{CommandReader, Item, Manifest};
use martlet_journal::encode;

/// The input is a file of commands, and a manifest.
pub fn check(data: &[u8]) {
    let (commands, whole, error) = read(data);
    assert!(whole <= data.len() as u64 && (error.is_none() == (whole == data.len() as u64)));
    assert_eq!(read(Slow(data)), (commands.clone(), whole, error));
    let mut again = Vec::new();
    for command in &commands {
        encode(&mut again, command.iter().map(Vec::as_slice));
    }
    assert_eq!(read(&again[..]), (commands, again.len() as u64, None));
    let text = String::from_utf8_lossy(data);
    if let Ok(manifest) = Manifest::parse(&text)
        && !(manifest.is_empty() && manifest.history.is_empty())
    {
        let text = manifest.to_text();
        // Whoever writes a manifest refuses one whose quoted names make lines that are too long.
        let is_readable = text.split_inclusive('\n').all(|line| line.len() <= 1024);
        assert!(!is_readable || Manifest::parse(&text) == Ok(manifest), "{text}");
    }
}

type Command = Vec<Vec<u8>>;

/// Commands, where what follows them begins, and why that cannot be read.
fn read(file: impl Read) -> (Vec<Command>, u64, Option<String>) {
    let mut reader = CommandReader::new(file, 0);
    let mut commands = Vec::new();
    let error = loop {
        match reader.read() {
            Ok(Some(Item::Command(args))) => commands.push(args.iter().map(<[u8]>::to_vec).collect()),
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    (commands, reader.offset(), error)
}

/// Gives a byte at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(1);
        self.0.read(&mut buffer[..len])
    }
}
