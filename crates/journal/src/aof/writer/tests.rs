//! The writer on disks that fail: nothing is lost, and what counts as durable survives a loss of power.

use std::path::{Path, PathBuf};

use martlet_base::disk::Disk;
use martlet_base::disk::faults::{Fault, FaultyDisk, Operation, errno};
use martlet_base::random::Random;
use proptest::prelude::*;

use super::*;
use crate::aof::{CommandReader, Item};
use crate::journal::Follower;
use crate::record::{Pending, encode};

/// Appends `SET key<n> <fill>`; its end.
fn append(journal: &Journal, n: usize, len: usize) -> Position {
    let mut pending = Pending::default();
    let (key, fill) = (format!("key{n}"), vec![b'x'; len]);
    pending.push(0, |out| encode(out, [b"SET".as_slice(), key.as_bytes(), &fill].into_iter()));
    let (tag, payload) = pending.record().unwrap();
    journal.append(tag, payload)
}

/// The numbers of the keys that the file sets, in order, and whether something else follows.
fn keys(path: &Path) -> (Vec<usize>, bool) {
    let mut reader = CommandReader::new(std::fs::File::open(path).unwrap(), 0);
    let mut keys = Vec::new();
    loop {
        match reader.read() {
            Ok(Some(Item::Command(args))) if args.at(0) == b"SET" => {
                keys.push(String::from_utf8_lossy(&args.at(1)[3..]).parse().unwrap());
            }
            Ok(Some(_)) => {}
            Ok(None) => return (keys, false),
            Err(_) => return (keys, true),
        }
    }
}

struct Scene {
    journal: &'static Journal,
    directory: tempfile::TempDir,
    disk: FaultyDisk,
}

impl Scene {
    fn new() -> (Scene, Writer<'static>) {
        let journal: &'static Journal = Box::leak(Box::default());
        let writer = Writer::new(journal).unwrap();
        journal.follow(Follower::File, true);
        let disk = FaultyDisk::new(|_, _, _| None);
        (Scene { journal, directory: tempfile::tempdir().unwrap(), disk }, writer)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn switch(&self, writer: &mut Writer<'_>, name: &str) {
        let file = self.disk.append(&self.path(name)).unwrap();
        self.disk.sync_directory(self.directory.path()).unwrap();
        writer.switch(self.journal.cut_file(), file, 0, None);
    }
}

const ALWAYS: Terms = Terms { policy: SyncPolicy::Always, now_ms: 5000, timestamps: false };

#[test]
fn records_go_to_the_file_of_their_time() {
    let (scene, mut writer) = Scene::new();
    append(scene.journal, 0, 1);
    scene.switch(&mut writer, "a");
    append(scene.journal, 1, 300_000);
    append(scene.journal, 2, 1);
    scene.switch(&mut writer, "b");
    let end = append(scene.journal, 3, 1);
    assert!(writer.step(end, &ALWAYS).unwrap());
    assert!(!writer.step(end, &ALWAYS).unwrap());
    assert_eq!(keys(&scene.path("a")), (vec![1, 2], false));
    assert_eq!(keys(&scene.path("b")), (vec![3], false));
    assert!(!scene.journal.is_behind());
    let written = |name: &str| std::fs::metadata(scene.path(name)).unwrap().len();
    assert_eq!(writer.files_bytes(), written("a") + written("b"));
    writer.stop(scene.journal.cut_file(), true);
    assert_eq!(writer.files_bytes(), written("a") + written("b"));
    append(scene.journal, 4, 1);
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    assert_eq!(keys(&scene.path("b")).0, [3]);
    assert!(!scene.journal.is_behind());
}

#[test]
fn positions_are_places_in_the_file() {
    let (scene, mut writer) = Scene::new();
    std::fs::write(scene.path("a"), "*1\r\n$4\r\nPING\r\n").unwrap();
    let file = scene.disk.append(&scene.path("a")).unwrap();
    writer.switch(scene.journal.cut_file(), file, 14, Some(100));
    let before = scene.journal.end();
    for n in 0..10 {
        let end = append(scene.journal, n, 1000);
        writer.step(end, &ALWAYS).unwrap();
        let bytes = std::fs::metadata(scene.path("a")).unwrap().len();
        assert_eq!((writer.place_in_file(end), writer.files_bytes()), (Some(bytes), 100 + bytes));
    }
    assert_eq!(writer.place_in_file(before), Some(14));
    let cut = scene.journal.cut().position;
    append(scene.journal, 10, 10_000);
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    let place = writer.place_in_file(cut).unwrap();
    assert!(std::fs::read(scene.path("a")).unwrap()[place as usize..].starts_with(b"*2\r\n$6\r\nSELECT"));
    scene.switch(&mut writer, "b");
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    assert_eq!((writer.place_in_file(cut), writer.place_in_file(scene.journal.end())), (None, Some(0)));
}

#[test]
fn room_is_set_aside_where_each_write_is_forced_to_disk() {
    use std::os::unix::fs::MetadataExt;
    let blocks = |path: &Path| std::fs::metadata(path).unwrap().blocks() * 512;
    let (scene, mut writer) = Scene::new();
    scene.switch(&mut writer, "a");
    for n in 0..10 {
        append(scene.journal, n, 1);
        writer.step(scene.journal.end(), &ALWAYS).unwrap();
    }
    let asked =
        |scene: &Scene| scene.disk.operations().iter().filter(|&&asked| asked == Operation::Reserve).count();
    assert_eq!(asked(&scene), 1);
    // A file system that knows no such thing is no fault.
    let has_room = blocks(&scene.path("a")) >= RESERVED_BYTES;
    append(scene.journal, 10, RESERVED_BYTES as usize);
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    assert!(!has_room || asked(&scene) > 1);
    scene.switch(&mut writer, "b");
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    assert!(blocks(&scene.path("a")) < RESERVED_BYTES * 3 / 2, "the rest is given back");
    assert_eq!(keys(&scene.path("a")), ((0..=10).collect(), false));

    let before = asked(&scene);
    scene
        .disk
        .plan(|_, operation, _| (operation == Operation::Reserve).then_some(Fault::Refuse(errno::ENOSPC)));
    for n in 0..10 {
        append(scene.journal, n, 1);
        writer.step(scene.journal.end(), &ALWAYS).unwrap();
    }
    assert_eq!((asked(&scene) - before, scene.journal.is_behind()), (1, false));
    assert_eq!(keys(&scene.path("b")), ((0..10).collect(), false));
}

#[test]
fn the_time_is_noted_once_a_second() {
    let (scene, mut writer) = Scene::new();
    scene.switch(&mut writer, "a");
    for now_ms in [5000, 5999, 6000] {
        append(scene.journal, 0, 1);
        writer.step(scene.journal.end(), &Terms { now_ms, timestamps: true, ..ALWAYS }).unwrap();
    }
    let text = std::fs::read_to_string(scene.path("a")).unwrap();
    assert_eq!(text.matches("#TS:").count(), 2);
    assert!(text.starts_with("#TS:5\r\n") && text.contains("#TS:6\r\n"));
}

#[test]
fn every_second_means_every_second() {
    let (scene, mut writer) = Scene::new();
    scene.switch(&mut writer, "a");
    let mut durable_at = |now_ms: i64| {
        append(scene.journal, 0, 1);
        let terms = Terms { policy: SyncPolicy::EverySecond, now_ms, timestamps: false };
        writer.step(scene.journal.end(), &terms).unwrap();
        !scene.journal.is_behind()
    };
    let times = [10_000, 10_500, 10_999, 11_000, 11_999, 12_000, 2000];
    assert_eq!(times.map(&mut durable_at), [true, false, false, true, false, true, true]);
}

#[test]
fn after_a_failed_synchronisation_only_a_rewrite_is_trusted() {
    let (scene, mut writer) = Scene::new();
    scene.switch(&mut writer, "a");
    append(scene.journal, 0, 1);
    scene.disk.plan(|_, operation, _| (operation == Operation::Sync).then_some(Fault::Refuse(errno::EIO)));
    assert!(matches!(writer.step(scene.journal.end(), &ALWAYS), Err(StepError::Sync(_))));
    scene.disk.plan(|_, _, _| None);
    append(scene.journal, 1, 1);
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    assert!(writer.is_doubtful() && scene.journal.is_behind());
    scene.switch(&mut writer, "b");
    let cut = scene.journal.end();
    append(scene.journal, 2, 1);
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    assert_eq!(keys(&scene.path("b")).0, [2]);
    assert!(scene.journal.durable() < cut);
    scene.disk.plan(|_, operation, _| (operation == Operation::Sync).then_some(Fault::Refuse(errno::EIO)));
    append(scene.journal, 3, 1);
    assert!(matches!(writer.step(scene.journal.end(), &ALWAYS), Err(StepError::Sync(_))));
    scene.disk.plan(|_, _, _| None);
    writer.rewritten(cut, 1000);
    assert_eq!(writer.files_bytes(), 1000 + std::fs::metadata(scene.path("b")).unwrap().len());
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    assert_eq!((scene.journal.durable(), writer.is_doubtful()), (cut, true));
    scene.switch(&mut writer, "c");
    writer.rewritten(scene.journal.end(), 2000);
    assert!(
        writer.files_bytes() > 1000 && writer.files_bytes() < 2000,
        "the file before \"c\" is still written"
    );
    writer.step(scene.journal.end(), &ALWAYS).unwrap();
    assert_eq!(writer.files_bytes(), 2000);
    assert!(!scene.journal.is_behind());
}

proptest! {
    #[test]
    fn a_disk_that_refuses_and_then_loses_power_keeps_what_was_durable(
        sizes in proptest::collection::vec(0_usize..3000, 1..60),
        seed: u64,
    ) {
        let (scene, mut writer) = Scene::new();
        scene.switch(&mut writer, "a");
        let mut chance = Random::seeded(seed);
        scene.disk.plan(move |_, operation, _| match (operation, chance.below(6)) {
            (Operation::Write, 0) => Some(Fault::Refuse(errno::ENOSPC)),
            (Operation::Write, 1) => Some(Fault::Short),
            (Operation::Write, 2) => Some(Fault::Torn(errno::ENOSPC)),
            _ => None,
        });
        let mut random = Random::seeded(!seed);
        let mut ends = Vec::new();
        for (n, &size) in sizes.iter().enumerate() {
            ends.push(append(scene.journal, n, size));
            if random.below(3) == 0 {
                let policy = if random.below(2) == 0 { SyncPolicy::Always } else { SyncPolicy::Never };
                match writer.step(scene.journal.end(), &Terms { policy, ..ALWAYS }) {
                    Ok(_) | Err(StepError::Write(_)) => {}
                    Err(StepError::Sync(error)) => panic!("{error}"),
                }
            }
        }
        let durable = ends.iter().filter(|&&end| end <= scene.journal.durable()).count();
        let after = tempfile::tempdir().unwrap();
        scene.disk.lose_power(seed, scene.directory.path(), after.path()).unwrap();
        let (kept, _) = keys(&after.path().join("a"));
        prop_assert!(kept.len() >= durable, "{} of {durable} are left", kept.len());
        prop_assert!(kept.iter().copied().take(durable).eq(0..durable));
        scene.disk.plan(|_, _, _| None);
        writer.step(scene.journal.end(), &ALWAYS).unwrap();
        prop_assert_eq!(keys(&scene.path("a")), ((0..sizes.len()).collect(), false));
        prop_assert!(!scene.journal.is_behind());
    }
}
