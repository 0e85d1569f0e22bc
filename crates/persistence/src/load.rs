//! Reading an RDB file into the keyspace: at the start, while clients get LOADING, and for DEBUG RELOAD.
//!
//! At the start every thread of the pool takes batches of records and stores them; for DEBUG RELOAD one
//! thread does, behind the gate; a data set from the network is loaded beside the present one by separate
//! threads. Invariant: a file that cannot be read to its end is refused, naming the offset and the fault
//! there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::disk::error_text;
use martlet_base::hash::has_slots;
use martlet_base::limits::SHARD_COUNT;
use martlet_base::prefetch::PrefetchQueue;
use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_command::Settings as HandlerSettings;
use martlet_engine::{Keys, Outside, Touch, View, in_view};
use martlet_keyspace::{Db, ExpiryChange, Key, Plan, Value};
pub use martlet_rdb::input::UNKNOWN_LEN;
use martlet_values::file::split::{BatchReader, Decoded, Found, Piece, Place, Records, Splitter};
use martlet_values::file::{Access, FileError, Item, ReadOptions, Record, SlotImport};
use martlet_values::{Error, Limits};

use crate::file::{DEFINITION, OPEN_SLOTS};
use crate::host::StreamPlace;
use crate::settings::Settings;
use crate::{Definition, Libraries, LoadProgress, Storage, delay};

/// Records after which a thread that loads lets others close the gate.
pub(crate) const SLICE_RECORDS: u64 = 256;

/// Why nothing, or not all, was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened.
    #[error("{}", error_text(.0))]
    Open(#[from] io::Error),
    /// It cannot be read to its end.
    #[error("{0}")]
    Damaged(#[from] FileError),
}

impl LoadError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, LoadError::Open(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Where a snapshot is read from.
pub struct Source {
    /// What gives its bytes.
    pub reader: Box<dyn Read + Send>,
    /// Most bytes of the snapshot: other data may follow. [`UNKNOWN_LEN`] if only the reader's end shows it.
    pub len: u64,
    /// Where in its file it begins, for messages about damage.
    pub offset: u64,
}

impl Source {
    /// The file at `path`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(_: &Outside, path: &Path) -> io::Result<Source> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Source { reader: Box::new(file), len, offset: 0 })
    }

    /// Opens the RDB file that is configured. An empty name is that of no file, as for `open`, and not of the
    /// directory.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn configured(outside: &Outside, settings: &Settings) -> io::Result<Source> {
        if settings.dbfilename.as_os_str().is_empty() {
            tracing::warn!("dbfilename is empty: there is no RDB file to load, and none can be saved");
            return Err(io::ErrorKind::NotFound.into());
        }
        Source::open(outside, &settings.rdb_path())
    }

    /// Says that this is what will be loaded.
    pub fn announce(&self, progress: &LoadProgress, now_ms: i64) {
        let total_bytes = if self.len == UNKNOWN_LEN { 0 } else { self.offset + self.len };
        progress.began_ms.store(now_ms, Ordering::Relaxed);
        progress.total_bytes.store(total_bytes, Ordering::Relaxed);
        progress.read_bytes.store(0, Ordering::Relaxed);
    }
}

/// Reads the beginning of the snapshot at `path`: whether its version and its compression are known.
///
/// # Errors
/// [`LoadError`].
pub fn check_start(outside: &Outside, path: &Path, settings: &Settings) -> Result<(), LoadError> {
    let source = Source::open(outside, path)?;
    Splitter::new(source.reader, source.len, read_options(settings))?;
    Ok(())
}

/// Files are read so.
fn read_options(settings: &Settings) -> ReadOptions {
    ReadOptions {
        verify: settings.rdbchecksum,
        any_version: settings.reads_any_version,
        limits: settings.handlers.decoding_limits(),
    }
}

/// The file's fields of that; Redis uses them if it has both an id and an offset.
#[derive(Debug, Default)]
struct StreamFields {
    id: Option<String>,
    offset: Option<u64>,
    db: u64,
}

/// Characters of a replication id.
const ID_CHARACTERS: usize = 40;

impl StreamFields {
    /// Takes a field; whether all are there now.
    fn note(&mut self, name: &[u8], text: &str) -> bool {
        match name {
            b"repl-id" if text.len() == ID_CHARACTERS => self.id = Some(text.into()),
            b"repl-offset" => self.offset = text.parse().ok(),
            b"repl-stream-db" => self.db = text.parse().unwrap_or(0),
            _ => {}
        }
        self.id.is_some() && self.offset.is_some()
    }

    fn take(&mut self) -> Option<StreamPlace> {
        Some(StreamPlace { id: self.id.take()?, offset: self.offset?, db: self.db })
    }
}

/// The loaded data.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Keys.
    pub keys: u64,
    /// Keys whose time had come; they are left out unless replicas have to hear of them.
    pub expired: u64,
    /// Empty collections, which are left out.
    pub empty: u64,
    /// Bytes that the snapshot takes of its source.
    pub bytes: u64,
    /// Where it is in a stream of commands.
    pub place: Option<StreamPlace>,
    /// Slots that move key by key, in the form for replicas.
    pub open_slots: Option<String>,
    /// Slots whose keys were on their way.
    pub imports: Vec<SlotImport>,
    /// The commands that make its indexes.
    pub definitions: Vec<Definition>,
}

/// Empty collections that each thread names.
const EMPTY_NAMED: u64 = 10;

impl Loaded {
    #[cold]
    fn skip_empty(&mut self, key: &[u8]) {
        self.empty += 1;
        if self.empty <= EMPTY_NAMED {
            tracing::info!("skipping empty key: {}", key.escape_ascii());
        }
    }
}

/// For fewer keys no room is made ahead.
const RESERVED_KEYS_PER_SHARD: usize = 100;

/// Why a file with an invalid library is refused.
const BAD_LIBRARY: Error = Error::Corrupt("a library of functions that cannot be loaded");

/// The code of libraries of functions, in the file's order.
type LibraryCodes = Vec<Arc<[u8]>>;

/// Where a file's libraries of functions go.
enum Functions {
    /// To those that there are.
    Added(&'static dyn Libraries),
    /// Nowhere yet.
    Kept(Mutex<LibraryCodes>),
}

/// A file being read by several threads.
struct Reading {
    splitter: Mutex<Splitter<Box<dyn Read + Send>>>,
    settings: HandlerSettings,
    limits: Limits,
    touch: Touch,
    now_ms: i64,
    /// A key that is there already is replaced; else the file is refused.
    replaces: bool,
    offset: u64,
    /// The fault that comes first in the file.
    damage: Mutex<Option<FileError>>,
    is_damaged: AtomicBool,
    total: Mutex<Total>,
    stream: Mutex<StreamFields>,
    /// Expired keys are loaded, too: replicas may continue from this place, and have to hear of their
    /// deletion.
    keeps_expired: AtomicBool,
    libraries: Functions,
    /// By database, what will come to be in each shard. A batch is known here before the next one is taken.
    plans: Mutex<BTreeMap<usize, Arc<Plan>>>,
}

/// Faults in the file's order. The file may end where a bad record does: the record comes before the end,
/// which another thread may have met first.
fn order(fault: &FileError) -> (u64, bool) {
    (fault.offset, matches!(fault.error, Error::Truncated | Error::Io(_)))
}

#[derive(Default)]
struct Total {
    loaded: Loaded,
    /// Definitions and where they begin: threads take them as they come, and one depends on those before it.
    definitions: Vec<(u64, Definition)>,
    /// What batches add to the checksum.
    sums: u64,
}

impl Reading {
    /// With `now_ms` as the time by which keys have expired.
    fn begin(
        storage: Storage,
        source: Source,
        settings: &Settings,
        now_ms: i64,
        replaces: bool,
    ) -> Result<Reading, FileError> {
        let options = read_options(settings);
        let limits = options.limits;
        let splitter = Splitter::new(source.reader, source.len, options)?;
        Ok(Reading {
            splitter: Mutex::new(splitter),
            settings: settings.handlers.clone(),
            limits,
            touch: storage.host.touch(storage.now_ms()),
            now_ms,
            replaces,
            offset: source.offset,
            damage: Mutex::default(),
            is_damaged: AtomicBool::new(false),
            total: Mutex::default(),
            stream: Mutex::default(),
            keeps_expired: AtomicBool::new(false),
            libraries: Functions::Added(storage.host.libraries()),
            plans: Mutex::default(),
        })
    }

    /// The libraries' code is kept for the thread that publishes it.
    fn keeping_libraries(self) -> Reading {
        Reading { libraries: Functions::Kept(Mutex::default()), ..self }
    }

    /// Notes that this many keys of a database come.
    fn expect(&self, db: u64, keys: u64) {
        if has_slots() {
            // A node has a part of the slots, and the file does not say which of them have keys.
            return;
        }
        let per_shard = keys as usize / SHARD_COUNT;
        let db = usize::try_from(db).ok().filter(|&db| db < self.settings.databases);
        if let Some(db) = db.filter(|_| per_shard >= RESERVED_KEYS_PER_SHARD) {
            lock(&self.plans).insert(db, Arc::new(Plan::new(per_shard)));
        }
    }

    /// Takes a library of functions.
    fn add_library(&self, code: &[u8], offset: u64) -> Result<(), FileError> {
        match &self.libraries {
            Functions::Added(libraries) => libraries.add(code, self.replaces).map_err(|why| {
                tracing::warn!("Failed creating the library: {why}");
                FileError { error: BAD_LIBRARY, offset }
            }),
            Functions::Kept(codes) => {
                lock(codes).push(code.into());
                Ok(())
            }
        }
    }

    /// Records a fault, unless an earlier one in the file is known.
    fn refuse(&self, error: FileError) {
        let mut damage = lock(&self.damage);
        if damage.is_none_or(|known| order(&error) < order(&known)) {
            *damage = Some(error);
        }
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// The loaded data, after all readers have ended.
    fn end(&self, progress: &LoadProgress) -> Result<Loaded, FileError> {
        let total = std::mem::take(&mut *lock(&self.total));
        let splitter = lock(&self.splitter);
        let place = lock(&self.stream).take();
        let mut definitions = total.definitions;
        definitions.sort_by_key(|(offset, _)| *offset);
        let definitions = definitions.into_iter().map(|(_, text)| text).collect();
        let loaded = Loaded { bytes: splitter.source_offset(), place, definitions, ..total.loaded };
        progress.keys.store(loaded.keys, Ordering::Relaxed);
        progress.expired.store(loaded.expired, Ordering::Relaxed);
        let damage = lock(&self.damage).or(splitter.verify(total.sums).err());
        match damage {
            Some(damage) => Err(FileError { offset: damage.offset + self.offset, ..damage }),
            None => {
                let Loaded { keys, expired, empty, .. } = loaded;
                let also = if empty > 0 { format!(", empty keys skipped: {empty}") } else { String::new() };
                tracing::info!("Done loading RDB, keys loaded: {keys}, keys expired: {expired}{also}.");
                Ok(loaded)
            }
        }
    }
}

/// One thread's part in reading a file.
struct Loader<'a> {
    keys: &'a mut Keys,
    reading: &'a Reading,
    progress: &'a LoadProgress,
    /// The thread's number at the gate, which it is outside of while it reads the file; `None` if it has
    /// closed the gate.
    thread: Option<usize>,
    /// Called after [`SLICE_RECORDS`] records or somewhat more, with their number; false ends it.
    pause: &'a mut dyn FnMut(u64) -> bool,
    /// Records since then.
    records: u64,
    /// The shard that it begins with in each batch, so that threads do not follow each other through the
    /// shards.
    first_shard: usize,
    by_shard: ByShard,
    queue: PrefetchQueue,
    total: Total,
}

/// Records sorted by their keys' shards, in the file's order within each.
#[derive(Default)]
struct ByShard {
    places: Vec<Place>,
    /// Where the next of each shard goes.
    next: Vec<u32>,
}

impl ByShard {
    fn sort(&mut self, places: &[Place]) {
        let Some(&any) = places.first() else { return self.places.clear() };
        self.next.clear();
        self.next.resize(SHARD_COUNT, 0);
        for place in places {
            self.next[shard(place)] += 1;
        }
        let mut sum = 0;
        for next in &mut self.next {
            sum += std::mem::replace(next, sum);
        }
        self.places.resize(places.len(), any);
        for place in places {
            let next = &mut self.next[shard(place)];
            self.places[*next as usize] = *place;
            *next += 1;
        }
    }

    /// The records of each shard, from this one on and around, so many at a time that other threads may close
    /// the gate between.
    fn groups(&self, first_shard: usize) -> Vec<&[Place]> {
        let (behind, before) =
            self.places.split_at(self.places.partition_point(|place| shard(place) < first_shard));
        let is_same = |a: &Place, b: &Place| shard(a) == shard(b);
        let shards = before.chunk_by(is_same).chain(behind.chunk_by(is_same));
        shards.flat_map(|places| places.chunks(SLICE_RECORDS as usize)).collect()
    }
}

/// The shard of a record's key: its mark is the key's hash.
fn shard(place: &Place) -> usize {
    place.mark as usize & (SHARD_COUNT - 1)
}

impl<'a> Loader<'a> {
    /// Reads along until the file ends or is refused; the thread is the `index`th reader.
    fn run(
        keys: &'a mut Keys,
        reading: &'a Reading,
        progress: &'a LoadProgress,
        (index, thread): (usize, Option<usize>),
        pause: &'a mut dyn FnMut(u64) -> bool,
    ) {
        // Far from each other, however many there are: the golden ratio.
        let first_shard = index * (SHARD_COUNT * 5 / 8 + 1) % SHARD_COUNT;
        let mut loader = Loader {
            keys,
            reading,
            progress,
            thread,
            pause,
            records: 0,
            first_shard,
            by_shard: ByShard::default(),
            queue: PrefetchQueue::default(),
            total: Total::default(),
        };
        if let Err(error) = loader.read() {
            reading.refuse(error);
        }
        let mut total = lock(&reading.total);
        total.loaded.keys += loader.total.loaded.keys;
        total.loaded.expired += loader.total.loaded.expired;
        total.loaded.empty += loader.total.loaded.empty;
        let open_slots = loader.total.loaded.open_slots.take();
        total.loaded.open_slots = total.loaded.open_slots.take().or(open_slots);
        total.loaded.imports.append(&mut loader.total.loaded.imports);
        total.definitions.append(&mut loader.total.definitions);
        total.sums ^= loader.total.sums;
    }

    fn read(&mut self) -> Result<(), FileError> {
        let reading = self.reading;
        let mut bytes = Vec::new();
        let mut reader = BatchReader::new(&reading.limits);
        while !reading.is_damaged.load(Ordering::Relaxed) {
            let (piece, offset) = {
                let mut splitter = lock(&reading.splitter);
                if reading.is_damaged.load(Ordering::Relaxed) {
                    break;
                }
                let piece = splitter.next(&mut bytes)?;
                // Before any thread can take keys of that database: the thread that stores a shard's first
                // key makes room in it.
                if let Some(Piece::Batch(_)) = &piece {
                    splitter.take_announced().for_each(|(db, keys)| reading.expect(db, keys));
                }
                if let Some(Piece::Item(Item::Library(code), offset)) = &piece {
                    // One after the other, in the file's order. A fault is known before another thread reads
                    // on.
                    reading.add_library(code, *offset).inspect_err(|error| reading.refuse(*error))?;
                }
                (piece, splitter.source_offset())
            };
            self.progress.read_bytes.fetch_max(reading.offset + offset, Ordering::Relaxed);
            match piece {
                None => break,
                Some(Piece::Batch(batch)) => {
                    let sums = self.inside(|loader| reader.read(&batch, &bytes, loader))?;
                    self.total.sums ^= sums;
                }
                Some(Piece::Item(Item::Aux { name, text }, offset)) => {
                    if name == DEFINITION.as_bytes() {
                        self.total.definitions.push((offset, text.into()));
                    } else {
                        self.note(&name, &text);
                    }
                }
                Some(Piece::Item(Item::Library(_), _)) => {}
                Some(Piece::Item(Item::SlotImport(import), _)) => self.total.loaded.imports.push(import),
                Some(Piece::Item(Item::ModuleAux { name }, _)) => {
                    tracing::warn!(
                        "The file has data of the module type {name} beside its keys, which is left out."
                    );
                }
                Some(Piece::Item(Item::Record(record), offset)) => {
                    let refuse = |error| FileError { error, offset };
                    let db = self.db(record.db).map_err(refuse)?;
                    let Record { db: number, key, expiry_ms, access, value } = record;
                    let (key, value) = (Key::new(&key), Decoded::Value(value));
                    let record = Record { db: number, key: key.bytes, expiry_ms, access, value };
                    let store = |loader: &mut Self| {
                        let Loader { keys, reading, total, .. } = &mut *loader;
                        keys.in_db(db, |keys| {
                            keys.with_shard(key.shard(), |keys| {
                                store(keys, reading, None, &key, record, &mut total.loaded)
                            })
                        })?;
                        loader.pause_after(1)
                    };
                    self.inside(store).map_err(refuse)?;
                }
            }
        }
        Ok(())
    }

    /// Runs `work` inside the gate.
    fn inside<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let gate = &self.keys.engine().gate;
        let thread = self.thread;
        thread.iter().for_each(|&thread| gate.enter(thread));
        let result = work(self);
        thread.iter().for_each(|&thread| gate.leave(thread));
        result
    }

    fn db(&self, db: u64) -> Result<usize, Error> {
        let db = usize::try_from(db).ok().filter(|&db| db < self.reading.settings.databases);
        db.ok_or(Error::Corrupt("a database beyond the directive databases"))
    }

    /// Lets others close the gate now and then.
    fn pause_after(&mut self, records: usize) -> Result<(), Error> {
        self.records += records as u64;
        if self.records < SLICE_RECORDS {
            return Ok(());
        }
        let records = std::mem::take(&mut self.records);
        if (self.pause)(records) { Ok(()) } else { Err(Error::Interrupted) }
    }

    /// Prefetches the lines that the next groups of keys will meet: the places in the directory two groups
    /// ahead, the buckets one ahead.
    fn prefetch_groups(&mut self, db: usize, groups: &[&[Place]]) {
        let (engine, queue) = (self.keys.engine(), &mut self.queue);
        let steps: [fn(&Db, u64, &mut PrefetchQueue); 2] = [Db::queue_bucket, Db::queue_place];
        for (group, step) in groups.iter().skip(1).zip(steps) {
            let Some(first) = group.first() else { continue };
            engine.peek(first.mark, |shard| {
                group.iter().for_each(|place| step(shard.db(db), place.mark, queue));
            });
        }
        if let Some(first) = groups.get(3).and_then(|group| group.first()) {
            engine.prefetch_shard(first.mark);
        }
        queue.issue();
    }

    /// Logs the file's statements about itself.
    fn note(&mut self, name: &[u8], text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let number = || text.parse::<i64>().unwrap_or(0);
        match name {
            b"redis-ver" | b"valkey-ver" => tracing::info!("Loading RDB produced by version {text}"),
            b"ctime" => tracing::info!("RDB age {} seconds", (self.keys.now_ms() / 1000 - number()).max(0)),
            b"used-mem" => {
                tracing::info!("RDB memory usage when created {:.2} Mb", number() as f64 / (1 << 20) as f64);
                self.progress.memory_bytes.store(number().max(0) as u64, Ordering::Relaxed);
            }
            _ if name == OPEN_SLOTS.as_bytes() => self.total.loaded.open_slots = Some(text.into_owned()),
            b"aof-base" if number() != 0 => tracing::info!("RDB is base AOF"),
            b"aof-preamble" if number() != 0 => tracing::info!("RDB has an AOF tail"),
            _ => {
                let is_place = lock(&self.reading.stream).note(name, &text);
                self.reading.keeps_expired.fetch_or(is_place, Ordering::Relaxed);
            }
        }
    }
}

impl Records for Loader<'_> {
    #[inline]
    fn mark(&mut self, key: &[u8]) -> u64 {
        Key::new(key).hash
    }

    fn take(&mut self, found: &mut Found<'_>) -> Result<(), FileError> {
        let db = match self.db(found.db()) {
            Ok(db) => db,
            // An empty collection is no key, wherever it is.
            Err(error) => {
                let refuse = |record: Record<Decoded<'_>, &[u8]>| match record.value {
                    Decoded::Nothing => Ok(()),
                    _ => Err(error),
                };
                return found.places().iter().try_for_each(|place| found.read(place, refuse));
            }
        };
        let plan = lock(&self.reading.plans).get(&db).cloned();
        let mut by_shard = std::mem::take(&mut self.by_shard);
        by_shard.sort(found.places());
        let groups = by_shard.groups(self.first_shard);
        let mut damage: Option<FileError> = None;
        for (i, group) in groups.iter().enumerate() {
            if !self.keys.has_all_shards() {
                self.prefetch_groups(db, &groups[i..]);
            }
            groups
                .get(i + 1)
                .into_iter()
                .for_each(|next| next.iter().for_each(|place| found.prefetch(place)));
            let Loader { keys, reading, total, .. } = &mut *self;
            let shard = group.first().map_or(0, shard);
            let mut store_group = |keys: &mut Keys| {
                for place in *group {
                    let result = found.read(place, |record| {
                        let key = Key { bytes: record.key, hash: place.mark };
                        store(keys, reading, plan.as_deref(), &key, record, &mut total.loaded)
                    });
                    let first = |error: &FileError| damage.is_none_or(|known| error.offset < known.offset);
                    damage = result.err().filter(first).or(damage);
                }
            };
            keys.in_db(db, |keys| keys.with_shard(shard, &mut store_group));
            self.pause_after(group.len()).map_err(|error| FileError { error, offset: 0 })?;
        }
        self.by_shard = by_shard;
        damage.map_or(Ok(()), Err)
    }
}

/// Stores a record in the database of `keys`, unless its time has come, and makes room there by `plan` before
/// the first.
#[inline]
fn store(
    keys: &mut Keys,
    reading: &Reading,
    plan: Option<&Plan>,
    key: &Key<'_>,
    record: Record<Decoded<'_>, &[u8]>,
    loaded: &mut Loaded,
) -> Result<(), Error> {
    if matches!(record.value, Decoded::Nothing) {
        loaded.skip_empty(key.bytes);
        return Ok(());
    }
    if record.expiry_ms.is_some_and(|at_ms| at_ms <= keys.now_ms()) {
        loaded.expired += 1;
        if !reading.keeps_expired.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    loaded.keys += 1;
    let len = |keys: &Keys| keys.shard(key.shard()).keys.db(keys.db()).len();
    let before = len(keys);
    if let (0, Some(plan)) = (before, plan) {
        let db = keys.db();
        keys.shard_mut(key.shard()).keys.db_mut(db).reserve(plan);
    }
    let expiry = record.expiry_ms.map_or(ExpiryChange::Clear, ExpiryChange::At);
    match record.value {
        Decoded::Text(bytes) => keys.set_str(key, bytes, expiry),
        Decoded::Value(Value::Int(int)) => keys.set_int(key, int, expiry),
        Decoded::Value(Value::Str { bytes, .. }) => keys.set_shared(key, &bytes, expiry),
        Decoded::Value(value) => keys.set_value(key, value, record.expiry_ms),
        Decoded::Nothing => {}
    }
    if let Some(lru) = access_bits(keys, record.access) {
        keys.set_lru(key, lru);
    }
    let is_alone = reading.replaces || len(keys) > before;
    if is_alone { Ok(()) } else { Err(Error::Corrupt("a key that is there already")) }
}

/// The file's record of a key's use, as far as the policy uses it.
fn access_bits(keys: &Keys, access: Option<Access>) -> Option<u32> {
    match (access?, keys.touch()) {
        (Access::Frequency(count), Touch::Lfu { minutes, .. }) => {
            Some(u32::from(minutes) << 8 | u32::from(count))
        }
        (Access::IdleSeconds(idle_s), Touch::Lru(clock) | Touch::Lrm(clock)) => {
            Some(u64::from(clock).wrapping_sub(idle_s) as u32 & 0xff_ffff)
        }
        _ => None,
    }
}

/// Loads a snapshot by this thread alone. `keys` holds all shards.
///
/// # Errors
/// [`FileError`]; the part before the damage has been loaded.
pub fn load(
    storage: Storage,
    keys: &mut Keys,
    settings: &Settings,
    source: Source,
    replaces: bool,
) -> Result<Loaded, FileError> {
    let progress = &storage.persistence.load;
    let reading = Reading::begin(storage, source, settings, keys.now_ms(), replaces)?;
    let view = View { touch: reading.touch, ..keys.view() };
    let events = std::mem::take(&mut keys.effects.wanted_events);
    in_view(keys, view, |keys| Loader::run(keys, &reading, progress, (0, None), &mut |_| true));
    keys.effects.wanted_events = events;
    reading.end(progress)
}

/// Loads a snapshot with every thread of the pool, beside those that serve, until the server is stopped;
/// without keys that had expired at `now_ms`.
///
/// # Errors
/// [`FileError`]; the part before the damage has been loaded, and some of the part behind it.
pub(crate) fn load_with_pool(
    storage: Storage,
    settings: &Settings,
    source: Source,
    now_ms: i64,
) -> Result<Loaded, FileError> {
    let progress = &storage.persistence.load;
    let reading = Reading::begin(storage, source, settings, now_ms, false)?;
    let reading = Arc::new(reading);
    let parts = reading.clone();
    let is_whole = storage.persistence.pool.run(Arc::new(move |index| load_part(storage, &parts, index)));
    let loaded = reading.end(progress)?;
    // A thread that panics ends the process.
    if is_whole { Ok(loaded) } else { Err(FileError { error: Error::Interrupted, offset: 0 }) }
}

/// Loads a snapshot into an engine without other users, with separate threads, which wait for the source;
/// with expired keys, and the code of its libraries.
///
/// # Errors
/// [`FileError`]; the content of that engine is to be removed then.
pub(crate) fn load_beside(
    beside: Storage,
    settings: &Settings,
    source: Source,
) -> Result<(Loaded, LibraryCodes), FileError> {
    let reading = Reading::begin(beside, source, settings, 0, false)?.keeping_libraries();
    std::thread::scope(|scope| {
        for index in 1..beside.persistence.threads {
            let reading = &reading;
            let load = move || {
                martlet_base::thread::use_batch_scheduling();
                beside.host.begin_thread();
                load_part(beside, reading, index);
            };
            let started = std::thread::Builder::new().name(format!("load-{index}")).spawn_scoped(scope, load);
            // Those that there are do all.
            started.err().into_iter().for_each(|error| tracing::warn!("One thread less loads: {error}"));
        }
        load_part(beside, &reading, 0);
    });
    let loaded = reading.end(&beside.persistence.load)?;
    let Functions::Kept(codes) = &reading.libraries else { return Ok((loaded, Vec::new())) };
    Ok((loaded, std::mem::take(&mut *lock(codes))))
}

/// One thread's part.
fn load_part(storage: Storage, reading: &Reading, index: usize) {
    let (gate, thread) = (&storage.engine.gate, storage.loader(index));
    let mut keys = Keys::new(storage.engine, thread, Random::from_entropy());
    keys.see(View { now_ms: reading.now_ms, touch: reading.touch, ..View::default() });
    Loader::run(&mut keys, reading, &storage.persistence.load, (index, Some(thread)), &mut |records| {
        gate.leave(thread);
        let is_wanted = || !storage.host.is_stopping();
        delay(|| storage.host.settings().key_load_delay_us, records as usize, is_wanted);
        gate.enter(thread);
        is_wanted()
    });
}

/// Loads the base of the append-only file at `path`; returns where it ends, or `None` when the server was
/// stopped in that time. `keys` holds all shards, or is loader 0's. Expired keys are loaded: later commands
/// delete them.
///
/// # Errors
/// [`LoadError`].
pub(crate) fn load_base(
    storage: Storage,
    outside: &Outside,
    keys: &mut Keys,
    settings: &Settings,
    path: &Path,
) -> Result<Option<u64>, LoadError> {
    let source = Source::open(outside, path)?;
    let loaded = if keys.has_all_shards() {
        let view = View { now_ms: 0, ..keys.view() };
        in_view(keys, view, |keys| load(storage, keys, settings, source, false))
    } else {
        load_with_pool(storage, settings, source, 0)
    };
    match loaded {
        Ok(loaded) => {
            storage.host.take_imports(&loaded.imports);
            storage.host.take_definitions(&loaded.definitions);
            Ok(Some(loaded.bytes))
        }
        Err(FileError { error: Error::Interrupted, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use martlet_keyspace::StrValue;
    use martlet_values::Form;
    use martlet_values::file::FileWriter;
    use martlet_values::payload::VERSION_MIN;

    use super::*;
    use crate::testing;

    #[test]
    fn a_bad_record_comes_before_the_end_behind_it() {
        let fault = |error, offset| FileError { error, offset };
        let in_order = [
            fault(Error::Truncated, 15),
            fault(Error::Empty("hash"), 16),
            fault(Error::Truncated, 16),
            fault(Error::Empty("hash"), 17),
        ];
        for pair in in_order.windows(2) {
            assert!(order(&pair[0]) < order(&pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn definitions_come_in_the_order_of_the_file_however_many_threads_read_it() {
        let settings = testing::settings(Path::new("/"));
        let (beside, _) = testing::server(settings.clone(), 4, Arc::new(martlet_base::disk::RealDisk));
        let mut file = FileWriter::new(Vec::new(), Form { version: VERSION_MIN, compress: false }, &[], true);
        let expected: Vec<Definition> = (0..5000).map(|n: u32| n.to_string().into_bytes().into()).collect();
        expected.iter().for_each(|definition| file.write_aux(DEFINITION, definition));
        let bytes = file.finish().unwrap();
        let len = bytes.len() as u64;
        let source = Source { reader: Box::new(io::Cursor::new(bytes)), len, offset: 0 };
        let (loaded, _) = load_beside(beside, &settings, source).unwrap();
        assert!(loaded.definitions == expected);
    }

    #[test]
    fn room_is_made_for_what_is_stored_only() {
        let settings = testing::settings(Path::new("/"));
        let (storage, _) = testing::server(settings.clone(), 1, Arc::new(martlet_base::disk::RealDisk));
        let mut keys = testing::keys(storage);
        let form = Form { version: VERSION_MIN, compress: false };
        let mut file = FileWriter::new(Vec::new(), form, &[], true);
        let many = (SHARD_COUNT * RESERVED_KEYS_PER_SHARD) as u64;
        file.database(3, many, many);
        // No more is believed than the bytes that follow have room for.
        let text = [b'x'; 400];
        for n in 0..1000 {
            let (key, value) = (n.to_string(), StrValue::Bytes(&text).into());
            let (key, expiry_ms) = (key.as_bytes(), Some(1000));
            file.record(&Record { db: 3, key, expiry_ms, access: None, value });
        }
        let bytes = file.finish().unwrap();
        let room = |keys: &Keys| -> usize {
            (0..SHARD_COUNT).map(|shard| keys.shard(shard).keys.db(3).table_heap_bytes()).sum()
        };
        storage.engine.gate.closed(|alone| keys.lock_all_shards(alone));
        let none = room(&keys);
        for (now_ms, stored) in [(2000, 0), (500, 1000)] {
            keys.see(View { now_ms, ..View::default() });
            let reader = Box::new(io::Cursor::new(bytes.clone()));
            let source = Source { reader, len: bytes.len() as u64, offset: 0 };
            let loaded = load(storage, &mut keys, &settings, source, false).unwrap();
            assert_eq!((loaded.keys, loaded.expired), (stored, 1000 - stored));
            assert_eq!(room(&keys) > none, stored > 0);
        }
        keys.release();
    }

    /// Redis never keeps an empty collection, and passes over one in a file.
    #[test]
    fn empty_collections_are_counted_and_left_out() {
        let settings = testing::settings(Path::new("/"));
        let (storage, _) = testing::server(settings.clone(), 1, Arc::new(martlet_base::disk::RealDisk));
        let mut keys = testing::keys(storage);
        let mut bytes = b"REDIS0011\xfe\0".to_vec();
        for kind in [1, 2, 4, 5, 14] {
            bytes.extend([kind, 1, b'a' + kind, 0]);
        }
        bytes.extend(b"\0\x01k\x01v\xff");
        // A checksum of 0 means none.
        bytes.extend([0; 8]);
        storage.engine.gate.closed(|alone| keys.lock_all_shards(alone));
        let len = bytes.len() as u64;
        let source = Source { reader: Box::new(io::Cursor::new(bytes)), len, offset: 0 };
        let loaded = load(storage, &mut keys, &settings, source, false).unwrap();
        assert_eq!((loaded.keys, loaded.empty, keys.count(0)), (1, 5, 1));
        keys.release();
    }
}
