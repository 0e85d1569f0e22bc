//! Temporary files that a save or a rewrite has left behind because its process was killed.
//!
//! Invariant: a file is only removed if its name is to the letter one that this server gives, if the process
//! in the name does not live, or is this one, which has not begun to save yet, and if no process holds the
//! lock that [`Disk::create`] takes. So servers may share a directory, also from within containers that do
//! not see each other's processes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use martlet_base::disk::{Disk, DiskFile, error_text};
use martlet_base::sync::lock;
use rustix::process::{Pid, test_kill_process};

use crate::settings::Settings;

/// Files under a temporary name with the process' id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An RDB file while everything stands still.
    Save,
    /// An RDB file in the background.
    BackgroundSave,
    /// The base of an append-only file.
    Base,
    /// An RDB file that another server sends.
    Received,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Save, Kind::BackgroundSave, Kind::Base, Kind::Received];

    /// The text before and behind the id.
    fn around(self) -> (&'static str, &'static str) {
        match self {
            Kind::Save => ("temp-", ".rdb"),
            Kind::BackgroundSave => ("temp-bg-", ".rdb"),
            Kind::Base => ("temp-rewriteaof-bg-", ".aof"),
            Kind::Received => ("temp-sync-", ".rdb"),
        }
    }
}

/// The temporary name of a file that the process of this id writes.
pub fn name(kind: Kind, pid: u32) -> String {
    let (before, behind) = kind.around();
    format!("{before}{pid}{behind}")
}

/// The process that has given a file this name.
fn maker(name: &str) -> Option<u32> {
    Kind::ALL.into_iter().find_map(|kind| {
        let (before, behind) = kind.around();
        let pid = name.strip_prefix(before)?.strip_suffix(behind)?.parse().ok()?;
        (self::name(kind, pid) == name).then_some(pid)
    })
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Removes such files in the directories of the data, before this process saves for the first time.
pub fn remove(disk: &dyn Disk, settings: &Settings) {
    let is_left = |name: &str| maker(name).is_some_and(|pid| pid == std::process::id() || !is_alive(pid));
    remove_from(disk, &settings.dir, is_left);
    let without_id = [settings.temporary_increment(), settings.temporary_manifest()];
    let is_left = |name: &str| is_left(name) || without_id.iter().any(|other| other == name);
    remove_from(disk, &settings.aof_directory(), is_left);
}

/// Held while a file gets a temporary name.
static NAMING: Mutex<()> = Mutex::new(());

/// Begins a file under a temporary name.
///
/// # Errors
/// When it cannot be created.
pub fn create(disk: &dyn Disk, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    let _naming = lock(&NAMING);
    disk.create(path)
}

/// Removes the files that this process is writing, which ends without finishing them. Another thread that is
/// about to begin a file waits as long as the returned lock is held: to the end.
pub fn remove_own(disk: &dyn Disk, settings: &Settings) -> MutexGuard<'static, ()> {
    let naming = lock(&NAMING);
    for kind in Kind::ALL {
        let directory = if kind == Kind::Base { settings.aof_directory() } else { settings.dir.clone() };
        // Most of them are not there.
        let _ = disk.remove(&directory.join(name(kind, std::process::id())));
    }
    naming
}

fn remove_from(disk: &dyn Disk, directory: &Path, is_left: impl Fn(&str) -> bool) {
    // A directory that is not there has nothing in it; one that cannot be read is not this function's
    // concern.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
        if !name.to_str().is_some_and(&is_left) || !is_file() {
            continue;
        }
        let removed = nobody_writes(&entry.path()).and_then(|locked| {
            disk.remove(&entry.path())?;
            drop(locked);
            Ok(())
        });
        match removed {
            Ok(()) => tracing::info!("Removed {}, which a process that was killed has left", name.display()),
            Err(error) => tracing::warn!("{} is left where it is: {}", name.display(), error_text(&error)),
        }
    }
}

/// The file, locked.
///
/// # Errors
/// Another process writes it, or that is unknown.
fn nobody_writes(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).open(path)?;
    file.try_lock().map_err(io::Error::from)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::disk::RealDisk;
    use martlet_base::disk::faults::{FaultyDisk, Operation};
    use std::process::{Command, Stdio};
    use std::sync::TryLockError;

    /// The id of a process that has ended.
    fn dead() -> u32 {
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn only_what_a_dead_process_has_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let settings = crate::testing::settings(directory.path());
        let log = settings.aof_directory();
        fs::create_dir(&log).unwrap();
        let (dead, own) = (dead(), std::process::id());
        let parent = std::os::unix::process::parent_id();
        let gone: Vec<_> =
            Kind::ALL.into_iter().flat_map(|kind| [name(kind, dead), name(kind, own)]).collect();
        let others = [
            name(Kind::BackgroundSave, parent),
            format!("temp-{dead}.rdb.bak"),
            format!("temp-0{dead}.rdb"),
            format!("temp-+{dead}.rdb"),
            format!("temp-rewriteaof-{dead}.aof"),
            "temp-x.rdb".into(),
            "temp-.rdb".into(),
            "temp-other.aof.incr".into(),
            "temp-4000000000.rdb.".into(),
            "dump.rdb".into(),
        ];
        let mut left: Vec<_> = others.iter().map(|name| settings.dir.join(name)).collect();
        for name in gone.iter().chain(&others) {
            fs::write(settings.dir.join(name), "x").unwrap();
            fs::write(log.join(name), "x").unwrap();
        }
        left.extend(others.iter().map(|name| log.join(name)));
        for name in ["temp-appendonly.aof.incr", "temp-appendonly.aof.manifest"] {
            fs::write(settings.dir.join(name), "not where they are made").unwrap();
            fs::write(log.join(name), "x").unwrap();
            left.push(settings.dir.join(name));
        }
        remove(&RealDisk, &settings);
        left.push(log.clone());
        left.sort();
        let entries = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<_> = entries(&settings.dir).chain(entries(&log)).collect();
        found.sort();
        assert_eq!(found, left);
    }

    #[test]
    fn a_file_that_is_begun_while_own_ones_are_removed_is_not_left() {
        let directory = tempfile::tempdir().unwrap();
        let settings = crate::testing::settings(directory.path());
        let path = settings.dir.join(name(Kind::Save, std::process::id()));
        let others_wait = || matches!(NAMING.try_lock(), Err(TryLockError::WouldBlock));
        let slow = FaultyDisk::new(move |_, operation, _| {
            assert_eq!((operation, others_wait()), (Operation::Create, true));
            None
        });
        create(&slow, &path).unwrap();
        let naming = remove_own(&RealDisk, &settings);
        assert!(others_wait());
        drop(naming);
        assert!(!path.exists());
    }

    #[test]
    fn what_somebody_writes_is_left_to_them() {
        let directory = tempfile::tempdir().unwrap();
        let settings = crate::testing::settings(directory.path());
        // As of a process in another container, with an id that no process here has.
        let path = settings.dir.join(name(Kind::BackgroundSave, dead()));
        let file = RealDisk.create(&path).unwrap();
        remove(&RealDisk, &settings);
        assert!(path.exists());
        drop(file);
        remove(&RealDisk, &settings);
        assert!(!path.exists());
    }
}
