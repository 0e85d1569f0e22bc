//! One file written by several threads: each collects whole records into its own chunk, and adds it when it
//! is full.
//!
//! Invariant: a record lies in one piece, and the database of a chunk's first record is selected, if it is
//! another than that of the chunk before it, where the chunk is added, so chunks may come in any order, and a
//! file of one database selects it once. A record that outgrows its chunk keeps the file until it has ended;
//! no thread holds more than a chunk.

use std::io::Write;
use std::sync::{Mutex, MutexGuard};

use martlet_base::copy;
use martlet_base::sync::lock;
use martlet_keyspace::ValueRef;
use martlet_rdb::Sink;
use martlet_rdb::crc64::crc64;

use super::{FileWriter, Record, write_record};
use crate::Form;

/// Bytes of a thread's chunk, about.
pub const CHUNK_BYTES: usize = 1 << 18;

/// A thread's way into the file.
pub struct ChunkWriter<'a, W: Write> {
    file: &'a Mutex<FileWriter<W>>,
    /// The file, from the moment at which a record outgrew the chunk to the record's end.
    held: Option<MutexGuard<'a, FileWriter<W>>>,
    chunk: Vec<u8>,
    /// The database of the chunk's first record, until it is selected in the file.
    first: Option<u64>,
    /// The database of its last one.
    selected: Option<u64>,
    form: Form,
    wants_sum: bool,
    is_sound: bool,
}

impl<'a, W: Write> ChunkWriter<'a, W> {
    /// Begins a chunk of `file`.
    pub fn new(file: &'a Mutex<FileWriter<W>>) -> ChunkWriter<'a, W> {
        let (form, wants_sum) = {
            let file = lock(file);
            (file.form, file.wants_sum)
        };
        let chunk = Vec::with_capacity(CHUNK_BYTES);
        ChunkWriter { file, held: None, chunk, first: None, selected: None, form, wants_sum, is_sound: true }
    }

    /// Writes a key.
    pub fn record<K: AsRef<[u8]>>(&mut self, record: &Record<ValueRef<'_>, K>) {
        if self.selected.is_none() {
            (self.first, self.selected) = (Some(record.db), Some(record.db));
        }
        let (mut selected, form) = (self.selected, self.form);
        write_record(self, record, &mut selected, form);
        self.selected = selected;
        if self.held.is_some() {
            self.hand_over(&[]);
            self.release();
        }
    }

    /// Adds the chunk to the file, and after it `more`, which is large; the file is held then.
    fn hand_over(&mut self, more: &[u8]) {
        let sum = |bytes| if self.wants_sum { crc64(0, bytes) } else { 0 };
        // Before the file is taken: other threads may write in this time.
        let (chunk_sum, more_sum) = (sum(&self.chunk), sum(more));
        let file = self.held.get_or_insert_with(|| lock(self.file));
        if let Some(first) = self.first.take() {
            file.select(first);
        }
        file.chunk(&self.chunk, chunk_sum);
        file.chunk(more, more_sum);
        file.db = self.selected.or(file.db);
        self.is_sound = file.is_sound();
        self.chunk.clear();
    }

    /// Lets other threads write: the next bytes begin a chunk.
    fn release(&mut self) {
        self.held = None;
        self.selected = None;
    }

    /// Adds the chunk if it is nearly full, so that the next record need not keep the file. To be called
    /// between records.
    fn hand_over_full(&mut self) {
        if self.chunk.len() >= CHUNK_BYTES / 8 * 7 {
            self.hand_over(&[]);
            self.release();
        }
    }

    /// Whether writing still goes well, as far as this thread has seen. Also adds a chunk that is nearly
    /// full.
    pub fn go_on(&mut self) -> bool {
        self.hand_over_full();
        self.is_sound
    }

    /// Adds the last chunk.
    pub fn finish(mut self) {
        self.hand_over(&[]);
    }
}

impl<W: Write> Sink for ChunkWriter<'_, W> {
    fn put(&mut self, bytes: &[u8]) {
        if self.chunk.len() + bytes.len() <= CHUNK_BYTES {
            copy::extend(&mut self.chunk, bytes);
        } else if bytes.len() >= CHUNK_BYTES / 2 {
            self.hand_over(bytes);
        } else {
            self.hand_over(&[]);
            copy::extend(&mut self.chunk, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::file::{Item, ReadOptions, read_file};
    use martlet_keyspace::StrValue;

    #[test]
    fn one_database_is_selected_once() {
        let form = Form { version: 10, compress: false };
        let long = vec![b'l'; CHUNK_BYTES];
        let records: Vec<_> = [3, 400_000, 5, 150_000, 150_000, 90, 600_000]
            .iter()
            .enumerate()
            .map(|(i, &len)| {
                let text = if len < CHUNK_BYTES { &long[..len] } else { &long };
                let value = ValueRef::Str(StrValue::Bytes(text));
                Record { db: 4, key: i.to_string(), expiry_ms: None, access: None, value }
            })
            .collect();
        let mut plain = FileWriter::new(Vec::new(), form, &[], true);
        plain.database(4, 7, 0);
        records.iter().for_each(|record| plain.record(record));

        let mut file = FileWriter::new(Vec::new(), form, &[], true);
        file.database(4, 7, 0);
        let file = Mutex::new(file);
        let mut chunks = ChunkWriter::new(&file);
        for record in &records {
            chunks.record(record);
            assert!(chunks.go_on());
        }
        chunks.finish();
        assert!(file.into_inner().unwrap().finish().unwrap() == plain.finish().unwrap());
    }

    #[test]
    fn threads_write_one_file() {
        let header = [("redis-ver", "7.0.15")];
        let file =
            Mutex::new(FileWriter::new(Vec::new(), Form { version: 10, compress: true }, &header, true));
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let file = &file;
                scope.spawn(move || {
                    let mut chunks = ChunkWriter::new(file);
                    for i in 0..5_000u64 {
                        let len = if i % 1_000 == 7 { 400_000 } else { i % 90 } as usize;
                        let text: Vec<u8> = (0..len).map(|at| (at as u64 * i % 251) as u8).collect();
                        let value = ValueRef::Str(StrValue::Bytes(&text));
                        let key = format!("{thread}:{i}");
                        chunks.record(&Record { db: i % 3, key, expiry_ms: None, access: None, value });
                        assert!(chunks.go_on());
                    }
                    chunks.finish();
                });
            }
        });
        let bytes = file.into_inner().unwrap().finish().unwrap();
        let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
        let mut seen = std::collections::HashSet::new();
        read_file(&bytes[..], bytes.len() as u64, &options, |item, _| {
            if let Item::Record(record) = item {
                let text = String::from_utf8(record.key).unwrap();
                let i: u64 = text.split_once(':').unwrap().1.parse().unwrap();
                let ValueRef::Str(value) = record.value.view() else { panic!() };
                let value = value.to_vec();
                assert!(value.iter().enumerate().all(|(at, &byte)| byte == (at as u64 * i % 251) as u8));
                assert_eq!(record.db, i % 3);
                seen.insert(text);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.len(), 15_000);
    }
}
