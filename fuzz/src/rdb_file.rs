//! Whole RDB files of any bytes: reading them record by record and by batches ends alike, and whole files go
//! round.

use martlet_keyspace::Value;
use martlet_values::file::split::{BatchReader, Decoded, Found, Piece, Records, Splitter};
use martlet_values::file::{FileError, FileWriter, Item, ReadOptions, Record, read_file};
use martlet_values::{Form, Limits, VERSION_TIMED, payload};

/// The input is a file; its checksum is not looked at, or hardly any change of a seed would be read further.
pub fn check(data: &[u8]) {
    let (one_by_one, ended) = one_by_one(data);
    let (by_batches, batches_ended) = by_batches(data);
    assert_eq!(ended, batches_ended);
    assert_eq!(one_by_one, by_batches);
    if ended.is_ok() {
        let (again, ended) = self::one_by_one(&write(data));
        assert_eq!((again, ended), (one_by_one, Ok(())));
    }
}

/// The compared facts of a record: its database, key, times and uses as text, and the bytes of its value.
pub(crate) type Seen = (String, usize);

fn seen<K: AsRef<[u8]>>(record: &Record<Value, K>) -> Seen {
    let Record { db, key, expiry_ms, access, value } = record;
    let text = format!("{db} {:?} {expiry_ms:?} {access:?}", key.as_ref());
    (text, payload::dump(value.view(), false).len())
}

fn options() -> ReadOptions {
    ReadOptions { verify: false, any_version: false, limits: Limits::default() }
}

fn records(data: &[u8], mut found: impl FnMut(Record<Value>)) -> Result<(), String> {
    let result = read_file(data, data.len() as u64, &options(), |item, _| {
        if let Item::Record(record) = item {
            found(record);
        }
        Ok(())
    });
    result.map_err(|error| error.to_string())
}

/// The records of a file read one by one, and how that ended.
pub(crate) fn one_by_one(data: &[u8]) -> (Vec<Seen>, Result<(), String>) {
    let mut all = Vec::new();
    let ended = records(data, |record| all.push(seen(&record)));
    (all, ended)
}

/// Takes a batch's records.
struct Taker<'a>(&'a mut Vec<Seen>);

impl Records for Taker<'_> {
    fn mark(&mut self, key: &[u8]) -> u64 {
        key.len() as u64
    }

    fn take(&mut self, found: &mut Found<'_>) -> Result<(), FileError> {
        found.places().iter().try_for_each(|place| {
            found.read(place, |Record { db, key, expiry_ms, access, value }| {
                assert_eq!(place.mark, key.len() as u64);
                let value = match value {
                    Decoded::Text(text) => Value::from_bytes(text),
                    Decoded::Value(value) => value,
                    Decoded::Nothing => return Ok(()),
                };
                self.0.push(seen(&Record { db, key, expiry_ms, access, value }));
                Ok(())
            })
        })
    }
}

fn by_batches(data: &[u8]) -> (Vec<Seen>, Result<(), String>) {
    let mut all = Vec::new();
    let ended = read_batches(data, &mut all);
    (all, ended)
}

fn read_batches(data: &[u8], all: &mut Vec<Seen>) -> Result<(), String> {
    let text = |error: FileError| error.to_string();
    let mut splitter = Splitter::new(data, data.len() as u64, options()).map_err(text)?;
    let mut bytes = Vec::new();
    let limits = Limits::default();
    let mut reader = BatchReader::new(&limits);
    while let Some(piece) = splitter.next(&mut bytes).map_err(text)? {
        match piece {
            Piece::Batch(batch) => {
                reader.read(&batch, &bytes, &mut Taker(all)).map_err(text)?;
            }
            Piece::Item(Item::Record(record), _) => all.push(seen(&record)),
            Piece::Item(_, _) => {}
        }
    }
    Ok(())
}

/// The file once more, as we write it.
fn write(data: &[u8]) -> Vec<u8> {
    let form = Form { version: VERSION_TIMED, compress: true };
    let mut writer = FileWriter::new(Vec::new(), form, &[("redis-ver", "7.2.4")], true);
    let ended = records(data, |record| {
        let Record { db, key, expiry_ms, access, value } = &record;
        let (db, expiry_ms, access) = (*db, *expiry_ms, *access);
        writer.record(&Record { db, key, expiry_ms, access, value: value.view() });
    });
    assert_eq!(ended, Ok(()));
    writer.finish().expect("a vector takes all")
}
