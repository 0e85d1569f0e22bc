//! Writing all keys as RDB, to a file or to another receiver of bytes: [`write_cut`] writes a snapshot, with
//! all threads of the pool; for SAVE, SHUTDOWN and DEBUG RELOAD behind the closed gate.
//!
//! Invariant: a cut is made behind the closed gate, and so is one moment of the keyspace and of the stream of
//! commands.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use martlet_base::limits::SHARD_COUNT;
use martlet_engine::{Keys, Outside, SavedKeys, SavedValue, Walk};
use martlet_journal::{Follower, Position};
use martlet_rdb::pack::{Codec, Packer};
use martlet_values::file::chunks::{CHUNK_BYTES, ChunkWriter};
use martlet_values::file::{FileWriter, Record, SlotImport};
use martlet_values::payload::{VERSION_MIN, VERSION_VALKEY_MAX};
use martlet_values::{Readable, Requirement, VERSION_NEWEST, VERSION_VALKEY, descriptor};

use crate::file::{DEFINITION, NewFile, OPEN_SLOTS};
use crate::settings::{KeptAccess, Settings};
use crate::temp_files::{self, Kind};
use crate::{Definition, Storage, StreamName, delay};
use martlet_base::disk::error_text;

/// The disk has refused; the log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveFailed;

/// How many keys of a database a file will hold.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// All.
    pub keys: usize,
    /// Those that expire.
    pub expiring: usize,
    /// Values that not every version of the format holds, and how many there are.
    pub required: Vec<(&'static Requirement, usize)>,
}

/// The totals of each database; all shards are held.
pub(crate) fn totals(keys: &Keys, databases: usize) -> Vec<Totals> {
    let mut totals = vec![Totals::default(); databases];
    for shard in 0..SHARD_COUNT {
        let shard = &keys.shard(shard).keys;
        for index in shard.used() {
            if let Some(total) = totals.get_mut(index) {
                let db = shard.db(index);
                total.keys += db.len();
                total.expiring += db.expiring_len();
                for (kind, version, count) in db.versions() {
                    total.require(kind, version, count);
                }
            }
        }
    }
    totals
}

impl Totals {
    fn require(&mut self, kind: martlet_keyspace::Kind, version: u16, count: usize) {
        let all = descriptor(kind).requirements;
        let Some(requirement) = all.iter().find(|requirement| requirement.version == version) else { return };
        match self.required.iter_mut().find(|(of, _)| std::ptr::eq(*of, requirement)) {
            Some((_, sum)) => *sum += count,
            None => self.required.push((requirement, count)),
        }
    }
}

/// The lowest version of the format that holds the data, from Redis 7.0's on.
fn lowest_version(totals: &[Totals]) -> u16 {
    let required = totals.iter().flat_map(|total| &total.required);
    martlet_values::lowest_version(VERSION_MIN, required.map(|(requirement, _)| *requirement))
}

/// The version of the format to be written: the one that is asked for, or the lowest.
///
/// # Errors
/// The one asked for cannot hold the data; why, as a line for the log.
fn version(settings: &Settings, totals: &[Totals], has_libraries: bool) -> Result<u16, String> {
    let Some(asked) = settings.rdb_version else { return Ok(lowest_version(totals)) };
    let refused = |what: String, versions: String| {
        Err(format!(
            "Can't write RDB version {asked} as rdb-version asks for: {what}, which only versions {versions} \
             hold"
        ))
    };
    if asked < VERSION_MIN && has_libraries {
        return refused("there are libraries of functions".into(), format!("from {VERSION_MIN} on"));
    }
    let all = totals
        .iter()
        .enumerate()
        .flat_map(|(db, total)| total.required.iter().map(move |(requirement, _)| (db, *requirement)));
    let lacking = all.filter(|(_, requirement)| !requirement.is_met_by(asked));
    match lacking.max_by_key(|(db, requirement)| (requirement.version, std::cmp::Reverse(*db))) {
        Some((db, requirement)) => {
            let versions = match (requirement.version, requirement.in_valkey) {
                (VERSION_NEWEST, false) => format!("{VERSION_NEWEST}"),
                (version, false) => format!("from {version} to {VERSION_NEWEST}"),
                (version @ VERSION_VALKEY.., _) => format!("from {version} on"),
                (version, true) => {
                    format!("from {version} to {VERSION_NEWEST} and from {VERSION_VALKEY} on")
                }
            };
            refused(format!("database {db} has {}", requirement.values), versions)
        }
        None => Ok(asked),
    }
}

/// The version of the format for receivers that read only some: the one that is asked for if they read it and
/// it holds the data, else the lowest, else Valkey's.
///
/// # Errors
/// They read none that holds the data; why, as a line for the log.
fn version_for(
    settings: &Settings,
    totals: &[Totals],
    has_libraries: bool,
    readable: Readable,
) -> Result<u16, String> {
    let lowest = lowest_version(totals);
    let asked = version(settings, totals, has_libraries).ok();
    let required = || totals.iter().flat_map(|total| &total.required).map(|(requirement, _)| *requirement);
    let holds_all = |version: &u16| required().all(|requirement| requirement.is_met_by(*version));
    let valkeys = [VERSION_VALKEY, VERSION_VALKEY_MAX].into_iter().filter(holds_all);
    let mut versions = [asked, Some(lowest)].into_iter().flatten().chain(valkeys);
    versions.find(|version| readable.reads(*version)).ok_or_else(|| {
        let is_held = |requirement: &&Requirement| requirement.is_read_by(readable);
        let highest = required().max_by_key(|requirement| (!is_held(requirement), requirement.version));
        let values = highest.map_or("values", |requirement| requirement.values);
        format!("it reads RDB versions {}, and none of them holds {values}", readable.name())
    })
}

impl Storage {
    /// The version of the format in which receivers that read only some get the data set that `keys` have, or
    /// `contents` of it. All shards are held.
    ///
    /// # Errors
    /// They read none that holds the data; why, as a line for the log.
    pub fn version_for(
        self,
        keys: &Keys,
        settings: &Settings,
        contents: Contents,
        readable: Readable,
    ) -> Result<u16, String> {
        let totals = if contents.keys { totals(keys, settings.handlers.databases) } else { Vec::new() };
        let has_libraries = contents.libraries && !self.host.libraries().codes().is_empty();
        version_for(settings, &totals, has_libraries, readable)
    }
}

/// A cut's statements about itself before its keys.
#[derive(Clone, Debug)]
pub struct Header {
    /// The format's version.
    pub version: u16,
    /// Strings are compressed.
    pub compresses: bool,
    /// All of it is compressed.
    pub codec: Option<Codec>,
    /// A checksum ends it.
    pub has_checksum: bool,
    /// It is the base of an append-only file, to which later records belong.
    pub is_base: bool,
    /// It is what replicas get.
    pub is_for_replicas: bool,
    /// What of keys' use is written.
    pub access: KeptAccess,
}

impl Header {
    /// As this configuration wants a data set with these totals.
    ///
    /// # Errors
    /// The version that is asked for cannot hold the data; why, as a line for the log.
    pub fn of_file(storage: Storage, settings: &Settings, totals: &[Totals]) -> Result<Header, String> {
        let has_libraries = !storage.host.libraries().codes().is_empty();
        let header = Header::new(settings, version(settings, totals, has_libraries)?, false);
        Ok(header.packed(settings))
    }

    /// The same for the base of an append-only file, in the version that is asked for if it can hold the
    /// data, or the lowest.
    pub fn of_base(storage: Storage, settings: &Settings, totals: &[Totals]) -> Header {
        let has_libraries = !storage.host.libraries().codes().is_empty();
        let version = version(settings, totals, has_libraries);
        Header::new(settings, version.unwrap_or_else(|_| lowest_version(totals)), true)
    }

    /// The same for a stream to replicas.
    pub fn of_stream(storage: Storage, settings: &Settings, totals: &[Totals]) -> Header {
        let header = Header::of_base(storage, settings, totals).packed(settings);
        Header { is_base: false, is_for_replicas: true, ..header }
    }

    /// The same as a whole that is compressed, if that is wanted: strings are not, by themselves, then.
    fn packed(self, settings: &Settings) -> Header {
        let codec = settings.codec;
        Header { codec, compresses: self.compresses && codec.is_none(), ..self }
    }

    fn new(settings: &Settings, version: u16, is_base: bool) -> Header {
        Header {
            version,
            compresses: settings.rdbcompression,
            codec: None,
            has_checksum: settings.rdbchecksum,
            is_base,
            is_for_replicas: false,
            access: settings.kept_access,
        }
    }
}

/// What of the data set is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The keys.
    pub keys: bool,
    /// The libraries of functions.
    pub libraries: bool,
}

impl Contents {
    /// All that there is.
    pub const ALL: Contents = Contents { keys: true, libraries: true };
}

/// A moment of the keyspace, on its way to a file or to another receiver of bytes.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Later cuts have higher ones.
    pub(crate) number: u64,
    header: Header,
    /// How much of each database there was.
    totals: Arc<[Totals]>,
    /// The libraries of functions that there were.
    libraries: Arc<[Arc<[u8]>]>,
    /// The commands that make the indexes that there were.
    definitions: Arc<[Definition]>,
    /// Slots whose keys were on their way.
    imports: Arc<[SlotImport]>,
    /// Slots that move key by key, for replicas.
    open_slots: Option<Arc<str>>,
    /// Where it is in the journal and in which stream, if replicas follow that.
    place: Option<(Position, StreamName)>,
    /// When it was, Unix milliseconds.
    began_ms: i64,
    /// Keys written so far.
    pub written: Arc<AtomicU64>,
    /// Set to cancel it.
    pub is_cancelled: Arc<AtomicBool>,
    /// The gate is closed in this time, by the thread that waits for this.
    is_behind_gate: bool,
    /// There is a snapshot of the keys, which a walk ends.
    has_keys: bool,
}

impl Cut {
    /// Makes a cut of `keys`, which hold all shards, while no other is under way. The caller has it written,
    /// or ends its walk. With `is_behind_gate` the gate stays closed until it is written.
    pub fn make(
        storage: Storage,
        keys: &Keys,
        header: Header,
        totals: Vec<Totals>,
        is_behind_gate: bool,
    ) -> Cut {
        keys.cut_snapshot();
        Cut::now(storage, header, totals, is_behind_gate)
    }

    /// As [`Cut::make`] in the open, with these contents only.
    pub fn make_of(
        storage: Storage,
        keys: &Keys,
        header: Header,
        totals: Vec<Totals>,
        contents: Contents,
    ) -> Cut {
        let mut cut = match contents.keys {
            true => Cut::make(storage, keys, header, totals, false),
            false => {
                let (imports, definitions) = (Arc::default(), Arc::default());
                Cut { has_keys: false, imports, definitions, ..Cut::now(storage, header, Vec::new(), false) }
            }
        };
        if !contents.libraries {
            cut.libraries = Arc::default();
        }
        cut
    }

    /// A cut of an empty keyspace, in the open.
    pub(crate) fn without_keys(storage: Storage, header: Header, totals: Vec<Totals>) -> Cut {
        Cut { has_keys: false, ..Cut::now(storage, header, totals, false) }
    }

    /// A cut of some slots' keys, in the open.
    pub(crate) fn make_of_slots(storage: Storage, keys: &Keys, header: Header, slots: &[u16]) -> Cut {
        keys.cut_snapshot_of(slots.iter().map(|slot| martlet_base::hash::shard_of_slot(*slot)));
        Cut::now(storage, header, Vec::new(), false)
    }

    /// The same cut, but cancelled: its walk only ends.
    pub(crate) fn unwanted(&self) -> Cut {
        Cut { is_cancelled: Arc::new(AtomicBool::new(true)), ..self.clone() }
    }

    /// This moment, without a snapshot.
    fn now(storage: Storage, header: Header, totals: Vec<Totals>, is_behind_gate: bool) -> Cut {
        let journal = &storage.engine.journal;
        // The base's place in the file is the affair of the thread that switches to it.
        let has_place = (journal.is_followed_by(Follower::Replicas) || journal.relays()) && !header.is_base;
        let open_slots = storage.host.open_slots().filter(|_| header.is_for_replicas);
        let stream = if has_place { storage.host.stream() } else { None };
        Cut {
            number: storage.number_cut(),
            header,
            totals: totals.into(),
            libraries: storage.host.libraries().codes().into(),
            definitions: storage.host.definitions().into(),
            imports: storage.host.imports().into(),
            open_slots: open_slots.map(Arc::from),
            place: stream.map(|stream| (journal.cut().position, stream)),
            began_ms: storage.now_ms(),
            written: Arc::default(),
            is_cancelled: Arc::default(),
            is_behind_gate,
            has_keys: true,
        }
    }

    /// The replication offset at which the stream continues after it, if replicas follow that. It waits until
    /// records before the cut are in the stream; `None` also when it is cancelled in that time.
    pub fn offset(&self, storage: Storage) -> Option<u64> {
        /// Until the append-only file's reader has come further, if it is that which is behind.
        const BEHIND: Duration = Duration::from_millis(1);
        let (journal, position) = (&storage.engine.journal, self.place.as_ref()?.0);
        while !journal.pump(position) {
            if !self.is_wanted() {
                return None;
            }
            std::thread::sleep(BEHIND);
        }
        Some(journal.place_of(position)?.offset)
    }

    /// Begins its bytes: what wrote them, when, where that is in the stream of commands, and how much of each
    /// database will come. A codec has checksums of its own, in place of the format's.
    fn begin<W: Write>(&self, storage: Storage, out: W) -> FileWriter<Packer<W>> {
        let (codec, has_checksum) = (self.header.codec, self.header.has_checksum);
        let out = Packer::new(out, codec, has_checksum);
        let bits = usize::BITS.to_string();
        let created_s = (self.began_ms / 1000).to_string();
        let memory = martlet_base::alloc::used_bytes().to_string();
        let mut aux = vec![
            ("redis-ver", storage.host.settings().server_version.to_owned()),
            ("redis-bits", bits),
            ("ctime", created_s),
            ("used-mem", memory),
        ];
        if let Some((offset, (_, stream))) = self.offset(storage).zip(self.place.as_ref()) {
            aux.push(("repl-stream-db", stream.db.to_string()));
            aux.push(("repl-id", stream.id.clone()));
            aux.push(("repl-offset", offset.to_string()));
        }
        aux.push(("aof-base", u8::from(self.header.is_base).to_string()));
        aux.extend(self.open_slots.iter().map(|slots| (OPEN_SLOTS, slots.to_string())));
        aux.extend(self.imports.iter().filter_map(|import| import.field(self.header.version)));
        let aux: Vec<_> = aux.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let form = martlet_values::Form { version: self.header.version, compress: self.header.compresses };
        let mut file = FileWriter::new(out, form, &aux, has_checksum && codec.is_none());
        self.definitions.iter().for_each(|definition| file.write_aux(DEFINITION, definition));
        self.libraries.iter().for_each(|code| file.write_library(code));
        self.imports.iter().for_each(|import| file.write_import(import));
        for (db, total) in self.totals.iter().enumerate().filter(|(_, total)| total.keys > 0) {
            file.database(db as u64, total.keys as u64, total.expiring as u64);
        }
        file
    }

    /// The code of the libraries of functions that there were.
    pub fn libraries(&self) -> &[Arc<[u8]>] {
        &self.libraries
    }

    /// The commands that make the indexes that there were.
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// The slots whose keys were on their way.
    pub fn imports(&self) -> &[SlotImport] {
        &self.imports
    }

    /// Keys that it has.
    pub fn keys(&self) -> u64 {
        self.totals.iter().map(|total| total.keys as u64).sum()
    }

    /// When it was, Unix milliseconds.
    pub fn began_ms(&self) -> i64 {
        self.began_ms
    }

    /// Whether it has not been cancelled.
    pub fn is_wanted(&self) -> bool {
        !self.is_cancelled.load(Ordering::Relaxed)
    }

    fn walk(&self, storage: Storage, index: usize) -> Walk {
        match self.is_behind_gate {
            true => Walk::behind_gate(storage.engine),
            false => Walk::new(storage.engine, storage.saver(index)),
        }
    }

    /// Writes the taken keys; returns their number.
    fn write(&self, chunks: &mut ChunkWriter<'_, impl Write>, taken: &mut SavedKeys) -> usize {
        let count = taken.len();
        taken.drain(|saved| {
            let value = match saved.value {
                SavedValue::Str(text) => text.into(),
                SavedValue::Shared(value) => value.view(),
            };
            chunks.record(&Record {
                db: saved.db as u64,
                key: saved.key,
                expiry_ms: saved.expiry_ms,
                access: self.header.access.encode(saved.lru, self.began_ms),
                value,
            });
        });
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    /// One thread's part.
    fn write_part(&self, storage: Storage, file: &Mutex<FileWriter<impl Write>>, index: usize) {
        let mut walk = self.walk(storage, index);
        let mut taken = SavedKeys::default();
        let _chunk = storage.engine.snapshot.hold(CHUNK_BYTES);
        let mut chunks = ChunkWriter::new(file);
        while self.is_wanted() && chunks.go_on() && walk.take(&mut taken) {
            let count = self.write(&mut chunks, &mut taken);
            delay(|| storage.host.settings().rdb_key_save_delay_us, count, || self.is_wanted());
        }
        chunks.finish();
    }
}

/// Writes a cut to `out` with every thread of the pool, and ends its walk; `out` is given back, neither
/// flushed nor forced to disk.
///
/// # Errors
/// The refusal of `out`; [`io::ErrorKind::Interrupted`] if the cut was cancelled.
pub fn write_cut<W>(storage: Storage, out: W, cut: &Cut) -> io::Result<W>
where
    W: Write + Send + 'static,
{
    let file = cut.begin(storage, out);
    if !cut.has_keys {
        return file.finish().and_then(Packer::finish);
    }
    let file = Arc::new(Mutex::new(file));
    let (part, part_file) = (cut.clone(), file.clone());
    let is_whole =
        storage.persistence.pool.run(Arc::new(move |index| part.write_part(storage, &part_file, index)));
    let mut taken = SavedKeys::default();
    cut.walk(storage, 0).end(&mut taken);
    let mut chunks = ChunkWriter::new(&file);
    cut.write(&mut chunks, &mut taken);
    chunks.finish();
    if !cut.is_wanted() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let file = Arc::into_inner(file).filter(|_| is_whole);
    let file = file.ok_or_else(|| io::Error::other("a thread that saves has failed"))?;
    file.into_inner().unwrap_or_else(PoisonError::into_inner).finish().and_then(Packer::finish)
}

/// Begins a file beside the RDB file; why not, as a line for the log.
pub(crate) fn create(
    storage: Storage,
    outside: &Outside,
    settings: &Settings,
    kind: Kind,
) -> Result<NewFile, String> {
    let disk = storage.persistence.disk.get(outside);
    let (directory, name) = (&settings.dir, &settings.dbfilename);
    let temporary = temp_files::name(kind, std::process::id());
    let new = NewFile::create(disk.clone(), directory, name, &temporary, settings.rdb_save_incremental_fsync);
    new.map_err(|error| {
        format!(
            "Failed opening the temp RDB file for {} (in server root dir {}) for saving: {}",
            name.display(),
            directory.display(),
            error_text(&error)
        )
    })
}

impl Storage {
    /// Writes the RDB file while everything stands still: `keys` hold all shards.
    ///
    /// # Errors
    /// The disk's refusal, which has been logged; the old file is still there.
    pub fn save(self, outside: &Outside, keys: &Keys, settings: &Settings) -> Result<(), SaveFailed> {
        if let Err(message) = self.write_all(outside, keys, settings) {
            tracing::warn!("{message}");
            return Err(SaveFailed);
        }
        tracing::info!("DB saved on disk");
        self.persistence.saved(self.now_ms(), self.changes(keys));
        self.note_disk_state();
        Ok(())
    }

    fn write_all(self, outside: &Outside, keys: &Keys, settings: &Settings) -> Result<(), String> {
        let mut newest = self.lock_name(outside);
        let totals = totals(keys, settings.handlers.databases);
        let header = Header::of_file(self, settings, &totals)?;
        let file = create(self, outside, settings, Kind::Save)?;
        // Nothing else makes a cut in this time.
        *newest = self.number_cut();
        let persistence = self.persistence;
        let written = if persistence.background.running().is_some() || persistence.log.is_rewriting() {
            // That has a snapshot under way, or will have, and its threads wait at the gate.
            self.write_directly(keys, file, header, totals)
        } else {
            write_cut(self, file, &Cut::make(self, keys, header, totals, true))
        };
        let published = written.and_then(NewFile::sync).and_then(NewFile::publish);
        published.map_err(|error| format!("Write error saving DB on disk: {}", error_text(&error)))
    }

    /// Writes what there is without a snapshot, alone.
    fn write_directly(
        self,
        keys: &Keys,
        file: NewFile,
        header: Header,
        totals: Vec<Totals>,
    ) -> io::Result<NewFile> {
        let cut = Cut::now(self, header, totals, true);
        let mut file = cut.begin(self, file);
        for shard in 0..SHARD_COUNT {
            let shard = &keys.shard(shard).keys;
            for db in shard.used() {
                for entry in shard.db(db).iter() {
                    let access = cut.header.access.encode(entry.lru(), cut.began_ms);
                    let (db, key, expiry_ms) = (db as u64, entry.key(), entry.expiry_ms());
                    file.record(&Record { db, key, expiry_ms, access, value: entry.view() });
                }
            }
        }
        file.finish().and_then(Packer::finish)
    }
}

#[cfg(test)]
mod tests;
