//! Rewrites on a disk that refuses one step after another, that lies, or that loses power: the server
//! continues, acknowledged writes are loaded, the next rewrite ends well, and no files pile up.

use std::fs;
use std::path::Path;

use martlet_base::disk::faults::{Fault, FaultyDisk, Operation, errno};
use martlet_base::number::NumberBuffer;
use martlet_keyspace::Key;
use martlet_protocol::request::OwnedArgs;

use super::*;
use crate::start::{announce, load_at_start};
use crate::testing::{self, TestHost};
use replay::{Replay, of_host};

/// The key that is written.
const TEXT: &[u8] = b"text";

/// A server without clients.
struct House {
    storage: Storage,
    host: &'static TestHost,
    keys: martlet_engine::Keys,
    disk: FaultyDisk,
    _directory: tempfile::TempDir,
    /// The numbers from 0 on that were appended to a text.
    written: usize,
    /// The number of these that are on disk for certain.
    acknowledged: usize,
}

impl House {
    fn new(change: impl FnOnce(&mut Settings)) -> House {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            appendonly: true,
            appendfsync: SyncPolicy::Always,
            ..testing::settings(directory.path())
        };
        change(&mut settings);
        let disk = FaultyDisk::new(|_, _, _| None);
        let (storage, host) = testing::server(settings.clone(), 1, Arc::new(disk.clone()));
        announce(storage);
        load_at_start(storage, &settings).unwrap();
        let keys = testing::keys(storage);
        let mut house =
            House { storage, host, keys, disk, _directory: directory, written: 0, acknowledged: 0 };
        house.write(10);
        assert!(house.flush());
        house
    }

    fn log(&self) -> &'static AppendLog {
        &self.storage.persistence.log
    }

    fn files(&self) -> std::path::PathBuf {
        self.storage.host.settings().aof_directory()
    }

    fn write(&mut self, count: usize) {
        let settings = self.storage.host.settings();
        let host = self.storage.host;
        let elsewhere = of_host(host);
        let mut replay = Replay::new(host.commands(), &elsewhere, &settings.handlers, 0);
        for _ in 0..count {
            let number = format!("{},", self.written);
            let args = OwnedArgs::from_slices([b"APPEND".as_slice(), TEXT, number.as_bytes()]);
            let keys = &mut self.keys;
            self.storage.engine.gate.enter(0);
            keys.effects.recording = self.storage.engine.journal.is_on();
            replay.run(keys, &args.view(), &mut |_, _| ()).unwrap();
            self.storage.engine.gate.leave(0);
            self.written += 1;
        }
    }

    /// Whether all that was written is on disk.
    fn flush(&mut self) -> bool {
        let is_done = self.storage.flush_log(&Outside::of_background_thread());
        if is_done {
            self.acknowledged = self.written;
        }
        is_done
    }

    /// Has one of the next steps fail once, counted among those that can fail so: threads interleave, but
    /// their writes do not. Returns whether it has come to that.
    fn fail_at(&self, step: usize, fault: Fault) -> Arc<AtomicBool> {
        let is_hit = Arc::new(AtomicBool::new(false));
        let (hit, mut apt) = (is_hit.clone(), 0..);
        self.disk.plan(move |_, operation, _| {
            let is_apt = operation == Operation::Write || !fails_writes_only(fault);
            let is_here = is_apt && apt.next() == Some(step);
            hit.fetch_or(is_here, Ordering::SeqCst);
            is_here.then_some(fault)
        });
        is_hit
    }

    fn fail_no_more(&self) {
        self.disk.plan(|_, _, _| None);
    }

    /// Rewrites; whether that went well.
    fn rewrite(&self) -> bool {
        rewrite::begin(self.storage).unwrap();
        self.log().wait_for_rewrite();
        self.log().facts().is_sound
    }

    /// Switches the file on or off.
    fn switch(&mut self, on: bool) {
        self.host.set(|settings| settings.appendonly = on);
        let storage = self.storage;
        self.keys.alone(|_| storage.follow_appendonly(&storage.host.settings()).unwrap());
        self.log().wait_for_rewrite();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.files()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Once the disk is sound again, everything is as if nothing had happened.
    fn recover(&mut self, reader: &mut Reader, about: &str) {
        self.fail_no_more();
        assert!(self.rewrite(), "{about}");
        assert!(self.flush(), "{about}");
        assert_eq!(self.names().len(), 3, "{about}: {:?}", self.names());
        self.write(1);
        assert!(self.flush(), "{about}");
        self.check(reader, &self.files(), about);
    }

    /// Loads the files as they are: all that was acknowledged is there, and nothing that was not written, or
    /// in another order.
    fn check(&self, reader: &mut Reader, files: &Path, about: &str) {
        let loaded = reader.load(files).unwrap_or_else(|error| panic!("{about}: {error}"));
        let count = loaded.matches(',').count();
        assert!((self.acknowledged..=self.written).contains(&count), "{about}: {loaded} of {}", self.written);
        assert_eq!(loaded, (0..count).map(|number| format!("{number},")).collect::<String>(), "{about}");
    }
}

/// Another server, that loads the first one's files.
struct Reader {
    storage: Storage,
    keys: martlet_engine::Keys,
}

impl Reader {
    fn new() -> Reader {
        let disk = Arc::new(martlet_base::disk::RealDisk);
        let (storage, _) = testing::server(testing::settings(Path::new("/")), 1, disk);
        Reader { storage, keys: testing::keys(storage) }
    }

    fn load(&mut self, files: &Path) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let settings = testing::settings(directory.path());
        let copy = settings.aof_directory();
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(files).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let (storage, keys) = (self.storage, &mut self.keys);
        storage.engine.gate.closed(|alone| {
            keys.lock_all_shards(alone);
            keys.flush(None, true);
            let loaded = load::load(
                storage,
                &keys.standstill(),
                keys,
                &settings,
                &mut |keys, work| work(keys),
                &mut || true,
            );
            let text = keys.read_str(&Key::new(TEXT)).unwrap();
            let text = text.map(|text| text.bytes(&mut NumberBuffer::new()).to_vec()).unwrap_or_default();
            keys.release();
            loaded.map(|_| String::from_utf8(text).unwrap())
        })
    }
}

fn fails_writes_only(fault: Fault) -> bool {
    matches!(fault, Fault::Torn(_) | Fault::Short)
}

const FAULTS: [Fault; 5] = [
    Fault::Refuse(errno::EIO),
    Fault::Refuse(errno::ENOSPC),
    Fault::Torn(errno::ENOSPC),
    Fault::Short,
    Fault::Lie,
];

#[test]
fn whichever_step_of_a_rewrite_fails_the_server_goes_on() {
    let mut reader = Reader::new();
    for preamble in [true, false] {
        let mut house = House::new(|settings| settings.aof_use_rdb_preamble = preamble);
        for fault in FAULTS {
            let mut refused = 0;
            for step in 0.. {
                let about = format!("preamble {preamble}, step {step}, {fault:?}");
                house.write(2);
                assert!(house.flush(), "{about}");
                let is_hit = house.fail_at(step, fault);
                let is_sound = house.rewrite();
                house.check(&mut reader, &house.files(), &about);
                house.write(2);
                let is_trusted = house.flush();
                if !is_hit.load(Ordering::SeqCst) {
                    let least = if fails_writes_only(fault) { 4 } else { 20 };
                    assert!(is_sound && is_trusted && step >= least, "{about}: there are no more steps");
                    break;
                }
                refused += usize::from(!is_sound);
                assert!(is_sound || matches!(fault, Fault::Refuse(_) | Fault::Torn(_)), "{about}");
                assert!(house.names().len() <= 6, "{about}: {:?}", house.names());
                house.check(&mut reader, &house.files(), &about);
                house.recover(&mut reader, &about);
            }
            let expected = match fault {
                Fault::Refuse(_) => 14..,
                Fault::Torn(_) => 3..,
                Fault::Short | Fault::Lie => 0..,
            };
            assert!(expected.contains(&refused), "{fault:?}: {refused}");
        }
    }
}

#[test]
fn power_may_fail_at_each_step_of_a_rewrite() {
    let mut reader = Reader::new();
    for preamble in [true, false] {
        let mut house = House::new(|settings| settings.aof_use_rdb_preamble = preamble);
        for stop in 0.. {
            house.write(2);
            assert!(house.flush());
            let first = house.disk.operations().len();
            house.disk.plan(move |at, _, _| (at >= first + stop).then_some(Fault::Refuse(errno::EIO)));
            let is_sound = house.rewrite();
            house.write(1);
            let is_whole = house.disk.operations().len() < first + stop;
            for seed in 0..8 {
                let left = tempfile::tempdir().unwrap();
                house.disk.lose_power(seed, &house.files(), left.path()).unwrap();
                let about = format!("preamble {preamble}, power lost at {stop}, {seed}");
                house.check(&mut reader, left.path(), &about);
            }
            house.recover(&mut reader, &format!("preamble {preamble}, stopped at {stop}"));
            if is_whole {
                assert!(is_sound && stop >= 20, "{stop}");
                break;
            }
        }
    }
}

#[test]
fn whichever_step_of_switching_it_on_fails_the_old_files_or_the_new_ones_load() {
    let mut reader = Reader::new();
    let mut house = House::new(|_| ());
    for fault in [Fault::Refuse(errno::EIO), Fault::Torn(errno::ENOSPC)] {
        for step in 0.. {
            let about = format!("step {step}, {fault:?}");
            house.switch(false);
            house.write(2);
            let is_hit = house.fail_at(step, fault);
            house.switch(true);
            house.write(2);
            if house.log().facts().phase == Phase::On {
                house.flush();
            }
            house.check(&mut reader, &house.files(), &about);
            house.recover(&mut reader, &about);
            assert_eq!(house.log().facts().phase, Phase::On, "{about}");
            if !is_hit.load(Ordering::SeqCst) {
                assert!(step >= if fails_writes_only(fault) { 3 } else { 10 }, "{about}");
                break;
            }
        }
    }
}

#[test]
fn increments_of_rewrites_that_do_not_end_do_not_pile_up() {
    let mut reader = Reader::new();
    let mut house = House::new(|_| ());
    let is_base = |path: &Path| path.to_string_lossy().contains("temp-rewriteaof");
    let refuse = move |_: usize, operation: Operation, path: &Path| {
        (operation == Operation::Create && is_base(path)).then_some(Fault::Refuse(errno::ENOSPC))
    };
    house.disk.plan(refuse);
    let increments = |house: &House| lock(&house.log().listed).manifest.increments.len();
    for round in 0..4 {
        for _ in 0..5 {
            assert!(!house.rewrite());
            assert_eq!(increments(&house), round + 2);
        }
        // The entries of one stay in it.
        house.write(1);
        assert!(house.flush());
        house.check(&mut reader, &house.files(), "after failures");
    }
    house.fail_no_more();
    house.host.set(|settings| settings.rdb_key_save_delay_us = 10_000_000);
    let before = increments(&house);
    for _ in 0..5 {
        rewrite::begin(house.storage).unwrap();
        house.log().cancel_rewrite();
        house.log().wait_for_rewrite();
        assert!(increments(&house) <= before + 1);
    }
    house.host.set(|settings| settings.rdb_key_save_delay_us = 0);
    house.recover(&mut reader, "after cancellations");
    assert_eq!(increments(&house), 1);
}

#[test]
fn an_increment_does_not_go_on_over_what_was_done_while_the_file_was_off() {
    let mut reader = Reader::new();
    let mut house = House::new(|_| ());
    house.disk.plan(|_, operation, path: &Path| {
        let is_base = path.to_string_lossy().contains("temp-rewriteaof");
        (operation == Operation::Create && is_base).then_some(Fault::Refuse(errno::ENOSPC))
    });
    assert!(!house.rewrite());
    house.switch(false);
    house.write(2);
    house.switch(true);
    assert_eq!(house.log().facts().phase, Phase::Starting);
    house.write(2);
    assert!(house.storage.flush_log(&Outside::of_background_thread()));
    house.check(&mut reader, &house.files(), "switched on again");
    house.recover(&mut reader, "switched on again");
}

/// A rewrite that was asked for while the file was off makes a base alone; records are switched on by the
/// next one's cut.
#[test]
fn a_rewrite_that_began_while_the_file_was_off_does_not_end_switching_it_on() {
    let mut reader = Reader::new();
    let mut house = House::new(|_| ());
    house.write(2);
    house.switch(false);
    let log = house.log();
    // As CONFIG SET appendonly yes on another thread, at the last moment.
    let mut is_first = true;
    house.disk.plan(move |_, operation, _| {
        if operation == Operation::Rename && std::mem::take(&mut is_first) {
            lock(&log.facts).phase = Phase::Starting;
        }
        None
    });
    assert!(house.rewrite());
    assert_eq!(log.facts().phase, Phase::Starting, "nothing is recorded yet");
    house.fail_no_more();
    lock(&log.facts).phase = Phase::Off;
    house.switch(true);
    assert_eq!(log.facts().phase, Phase::On);
    house.write(2);
    assert!(house.storage.flush_log(&Outside::of_background_thread()));
    house.check(&mut reader, &house.files(), "switched on during a rewrite");
}

#[test]
fn rewrites_that_are_asked_for_at_once_are_one() {
    let house = House::new(|settings| settings.rdb_key_save_delay_us = 10_000_000);
    rewrite::begin(house.storage).unwrap();
    assert!(rewrite::begin(house.storage).is_err());
    assert!(house.log().cancel_rewrite());
    house.log().wait_for_rewrite();
    assert_eq!(house.log().facts().rewrites, 1);
}

#[test]
fn what_the_disk_refuses_is_given_up_when_the_file_is_switched_off() {
    let mut reader = Reader::new();
    for apt in [Operation::Write, Operation::Sync] {
        let mut house = House::new(|_| ());
        house.disk.plan(move |_, operation, _| (operation == apt).then_some(Fault::Refuse(errno::EIO)));
        house.write(2);
        assert!(!house.storage.flush_log(&Outside::of_background_thread()), "{apt:?}");
        assert!(house.log().refuses_writes.load(Ordering::SeqCst), "{apt:?}");
        house.switch(false);
        house.storage.flush_log(&Outside::of_background_thread());
        assert!(!house.log().refuses_writes.load(Ordering::SeqCst), "{apt:?}");
        house.fail_no_more();
        house.write(1);
        house.switch(true);
        assert_eq!(house.log().facts().phase, Phase::On, "{apt:?}");
        house.write(1);
        assert!(house.flush(), "{apt:?}");
        house.check(&mut reader, &house.files(), &format!("{apt:?}"));
    }
}

#[test]
fn rewrites_that_keep_failing_wait_longer_and_longer() {
    let minutes: Vec<_> = (0..11).map(held_back_minutes).collect();
    assert_eq!(minutes, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(held_back_minutes(u64::MAX), 60);
    let mut facts = AppendLog::default().facts();
    for (failures, wait_ms) in [(0, 0), (1, 1000), (2, 1000), (3, 60_000), (4, 120_000), (100, 3_600_000)] {
        (facts.failures, facts.ended_ms) = (failures, 5);
        assert!(!is_held_back(&facts, 5 + wait_ms), "{failures}");
        assert_eq!(is_held_back(&facts, 4 + wait_ms), failures > 0, "{failures}");
        assert!(!is_held_back(&facts, 4 - 3_600_000), "the clock was set back, {failures}");
    }
}

#[test]
fn the_disk_is_left_alone_during_a_rewrite_if_that_is_wanted() {
    for (spares, expected) in [(true, 0), (false, 1)] {
        let mut house = House::new(|settings| settings.no_appendfsync_on_rewrite = spares);
        let syncs = |house: &House| {
            house.disk.operations().iter().filter(|&&operation| operation == Operation::Sync).count()
        };
        let write = |house: &mut House| {
            let before = syncs(house);
            house.write(1);
            house.storage.engine.journal.nudge();
            // Replies leave: a write that the configuration leaves to the operating system counts as on disk.
            while house.storage.engine.journal.is_behind() {
                std::thread::yield_now();
            }
            syncs(house) - before
        };
        assert_eq!(write(&mut house), 1);
        let rewrite = Rewrite { began_ms: 0, is_cancelled: Arc::default(), is_followed: false };
        lock(&house.log().facts).rewrite = Some(rewrite);
        let before = syncs(&house);
        assert_eq!(write(&mut house), expected);
        lock(&house.log().facts).rewrite = None;
        house.storage.engine.journal.nudge();
        // Writes left to the operating system are forced to disk now, without a further write.
        while syncs(&house) == before {
            std::thread::yield_now();
        }
        assert_eq!(write(&mut house), 1);
    }
}

#[test]
fn a_file_in_doubt_makes_nothing_durable_while_the_disk_is_left_alone() {
    let mut house = House::new(|settings| settings.no_appendfsync_on_rewrite = true);
    house.disk.plan(|_, operation, _| (operation == Operation::Sync).then_some(Fault::Refuse(errno::EIO)));
    house.write(1);
    assert!(!house.storage.flush_log(&Outside::of_background_thread()));
    house.fail_no_more();
    let rewrite = Rewrite { began_ms: 0, is_cancelled: Arc::default(), is_followed: false };
    lock(&house.log().facts).rewrite = Some(rewrite);
    house.write(1);
    assert!(!house.storage.flush_log(&Outside::of_background_thread()));
    assert!(house.storage.engine.journal.is_behind());
}

#[test]
fn replies_are_held_by_what_is_set_when_records_begin() {
    let mut house = House::new(|settings| settings.appendfsync = SyncPolicy::EverySecond);
    house.switch(false);
    let (storage, host) = (house.storage, house.host);
    // The rewrite that begins has to wait with its cut until the gate opens.
    house.keys.alone(|_| {
        for appendfsync in [SyncPolicy::EverySecond, SyncPolicy::Always] {
            host.set(|settings| (settings.appendonly, settings.appendfsync) = (true, appendfsync));
            storage.follow_appendonly(&storage.host.settings()).unwrap();
        }
    });
    house.log().wait_for_rewrite();
    assert!(house.log().facts().is_sound && storage.engine.journal.holds_replies());
}

#[test]
fn what_was_set_while_loading_holds_once_it_ends() {
    for was_on in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { appendonly: was_on, ..testing::settings(directory.path()) };
        let disk = Arc::new(FaultyDisk::new(|_, _, _| None));
        let (storage, host) = testing::server(settings.clone(), 1, disk);
        announce(storage);
        assert_eq!(*lock(&host.conditions), [Condition::Loading]);
        host.set(|settings| settings.appendonly = !was_on);
        testing::keys(storage).alone(|_| storage.follow_appendonly(&storage.host.settings())).unwrap();
        assert_eq!(storage.persistence.log.facts().phase, Phase::Off, "loading has not ended");
        load_at_start(storage, &settings).unwrap();
        assert_eq!(storage.persistence.log.facts().phase != Phase::Off, !was_on);
        assert!(lock(&host.conditions).is_empty());
        storage.persistence.log.wait_for_rewrite();
    }
}

/// The writer and the thread that switches the file off may look at once: the server hears of each change in
/// its order, else it would take the last word for another. (The test's host fails if it hears one twice.)
#[test]
fn what_the_disk_does_is_told_in_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(|_, _, _| None);
    let (storage, host) = testing::server(testing::settings(directory.path()), 1, Arc::new(disk));
    let together = &std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for refusal in [None, Some("No space left on device".to_owned())] {
            scope.spawn(move || {
                together.wait();
                (0..200_000).for_each(|_| storage.note_log_state(refusal.clone()));
            });
        }
    });
    storage.note_log_state(None);
    assert_eq!(*lock(&host.conditions), []);
}
