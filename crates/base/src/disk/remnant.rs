//! Remnants: the bytes that are cut off a file stay beside it under a name of their own.
//!
//! Invariant: a file loses bytes only after a remnant has them on disk, or after the disk had no room for one
//! and the caller learns that. A file has at most [`REMNANTS_MAX`] remnants; the oldest goes when one more is
//! made.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Disk;

/// Most remnants of one file. The oldest is removed when one more is made.
pub const REMNANTS_MAX: usize = 8;
/// Longest end that is cut off although the disk has no room for a copy: it is in memory until the cut has
/// made room.
const IN_MEMORY_MAX_BYTES: u64 = 1 << 20;
/// Between a file's name and the remnant's number.
const INFIX: &str = ".cut-";
/// Bytes copied at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// Outcome of [`cut_off`].
#[derive(Debug, Default)]
pub struct CutOff {
    /// The file with the bytes that were cut off; `None` if there were none, or see `refusal`.
    pub kept: Option<PathBuf>,
    /// Why there is no such file: the disk has no room for it.
    pub refusal: Option<io::Error>,
    /// Older remnants that were removed.
    pub removed: Vec<PathBuf>,
}

/// Cuts off all bytes of the file from `len_bytes` on, and keeps them beside it as `NAME.cut-N`, with a
/// number N that is higher than those in use. Both files are on disk when this returns.
///
/// # Errors
/// When the remnant cannot be written, other than for want of room, or the file cannot be cut off. The file
/// is as it was, unless only the last synchronisation failed.
pub fn cut_off(disk: &dyn Disk, path: &Path, len_bytes: u64) -> io::Result<CutOff> {
    let mut source = File::open(path)?;
    let end_bytes = source.metadata()?.len().saturating_sub(len_bytes);
    if end_bytes == 0 {
        return Ok(CutOff::default());
    }
    let remnants = Remnants::of(path)?;
    let target = remnants.next();
    source.seek(SeekFrom::Start(len_bytes))?;
    let copied = write_remnant(disk, &target, &mut source);
    let mut in_memory = Vec::new();
    match &copied {
        Err(error) if is_lack_of_room(error) && end_bytes <= IN_MEMORY_MAX_BYTES => {
            source.seek(SeekFrom::Start(len_bytes))?;
            source.read_to_end(&mut in_memory)?;
        }
        Err(error) => return Err(io::Error::new(error.kind(), error.to_string())),
        Ok(()) => {}
    }
    let mut file = disk.append(path)?;
    file.set_len(len_bytes)?;
    file.sync_data()?;
    let kept = copied.or_else(|_| write_remnant(disk, &target, &mut in_memory.as_slice()));
    Ok(match kept {
        Ok(()) => CutOff { kept: Some(target), refusal: None, removed: remnants.remove_oldest(disk) },
        Err(error) => CutOff { refusal: Some(error), ..CutOff::default() },
    })
}

/// Gives a file that is in the way of another the name of a remnant, unless it is empty or not there; that
/// name.
///
/// # Errors
/// When the disk refuses; the file has its name still.
pub fn set_aside(disk: &dyn Disk, path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(facts) if facts.is_file() && facts.len() > 0 => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => return Ok(None),
    }
    let remnants = Remnants::of(path)?;
    let target = remnants.next();
    disk.rename(path, &target)?;
    disk.sync_directory(&remnants.directory)?;
    remnants.remove_oldest(disk);
    Ok(Some(target))
}

fn is_lack_of_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Copies the rest of `source` to a new file at `target`. The file is on disk when this returns; after an
/// error it does not exist.
fn write_remnant(disk: &dyn Disk, target: &Path, source: &mut impl Read) -> io::Result<()> {
    let mut copy = || {
        let mut file = disk.create(target)?;
        let mut chunk = Vec::new();
        loop {
            chunk.clear();
            if source.by_ref().take(CHUNK_BYTES).read_to_end(&mut chunk)? == 0 {
                break;
            }
            file.write_all(&chunk)?;
        }
        file.sync_data()?;
        disk.sync_directory(&directory_of(target))
    };
    copy().inspect_err(|_| {
        // The error that counts is the first one.
        let _ = disk.remove(target);
    })
}

fn directory_of(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new(".")).into()
}

/// The remnants of a file, by their numbers.
struct Remnants {
    path: PathBuf,
    directory: PathBuf,
    /// Ascending.
    numbers: Vec<u64>,
}

impl Remnants {
    fn of(path: &Path) -> io::Result<Remnants> {
        let directory = directory_of(path);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let name = entry?.file_name();
            let infix = INFIX.as_bytes();
            let number: Option<u64> = (name.as_encoded_bytes())
                .strip_prefix(path.file_name().unwrap_or_default().as_encoded_bytes())
                .and_then(|rest| std::str::from_utf8(rest.strip_prefix(infix)?).ok()?.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(Remnants { path: path.into(), directory, numbers })
    }

    fn name(&self, number: u64) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!("{INFIX}{number}"));
        name.into()
    }

    fn next(&self) -> PathBuf {
        self.name(self.numbers.last().map_or(1, |last| last.saturating_add(1)))
    }

    /// Removes those for which the next leaves no place; their names.
    fn remove_oldest(&self, disk: &dyn Disk) -> Vec<PathBuf> {
        let surplus = (self.numbers.len() + 1).saturating_sub(REMNANTS_MAX);
        let names = self.numbers.iter().take(surplus).map(|number| self.name(*number));
        names.filter(|name| disk.remove(name).is_ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use crate::disk::faults::{Fault, FaultyDisk, Operation};

    fn names(directory: &Path) -> Vec<String> {
        let entry = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(entry).collect();
        names.sort();
        names
    }

    #[test]
    fn the_end_stays_beside_the_file_and_the_oldest_of_many_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.aof");
        for round in 1..=REMNANTS_MAX + 3 {
            fs::write(&path, format!("whole{round}")).unwrap();
            let cut = cut_off(&RealDisk, &path, 5).unwrap();
            let kept = cut.kept.unwrap();
            assert_eq!(kept, directory.path().join(format!("log.aof.cut-{round}")));
            assert_eq!(fs::read_to_string(kept).unwrap(), round.to_string());
            assert_eq!(fs::read(&path).unwrap(), b"whole");
            assert_eq!(cut.removed.len(), usize::from(round > REMNANTS_MAX));
            assert_eq!(names(directory.path()).len(), 1 + round.min(REMNANTS_MAX));
        }
        assert!(!directory.path().join("log.aof.cut-1").exists());
        assert!(cut_off(&RealDisk, &path, 5).unwrap().kept.is_none(), "there is nothing to cut");
    }

    #[test]
    fn whatever_step_fails_no_byte_is_lost() {
        for lacks_room in [false, true] {
            for step in 0.. {
                let directory = tempfile::tempdir().unwrap();
                let path = directory.path().join("log.aof");
                fs::write(&path, "wholeend").unwrap();
                let errno = if lacks_room { libc::ENOSPC } else { libc::EIO };
                let disk = FaultyDisk::new(move |at, _, _| (at == step).then_some(Fault::Refuse(errno)));
                let outcome = cut_off(&disk, &path, 5);
                let rest = fs::read_to_string(&path).unwrap();
                match outcome {
                    Ok(CutOff { kept: Some(kept), .. }) => {
                        assert_eq!(
                            (rest.as_str(), fs::read_to_string(kept).unwrap().as_str()),
                            ("whole", "end")
                        );
                    }
                    Ok(_) => panic!("step {step} has lost the end"),
                    Err(_) => {
                        assert!(rest == "wholeend" || names(directory.path()).len() == 2, "step {step}")
                    }
                }
                if disk.operations().len() <= step {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_disk_without_room_for_the_end_has_it_cut_off_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.aof");
        fs::write(&path, "wholeend").unwrap();
        let full = FaultyDisk::new(|_, operation, _| {
            (operation == Operation::Create).then_some(Fault::Refuse(libc::ENOSPC))
        });
        let cut = cut_off(&full, &path, 5).unwrap();
        assert!(cut.kept.is_none() && cut.refusal.is_some());
        assert_eq!(names(directory.path()), ["log.aof"]);
        fs::write(&path, vec![b'x'; IN_MEMORY_MAX_BYTES as usize + 6]).unwrap();
        assert!(cut_off(&full, &path, 5).is_err(), "an end that is long is not given up");
        assert_eq!(fs::metadata(&path).unwrap().len(), IN_MEMORY_MAX_BYTES + 6);
    }

    #[test]
    fn a_file_in_the_way_gets_the_name_of_a_remnant() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.incr.aof");
        assert_eq!(set_aside(&RealDisk, &path).unwrap(), None);
        fs::write(&path, "").unwrap();
        assert_eq!(set_aside(&RealDisk, &path).unwrap(), None);
        fs::write(&path, "data").unwrap();
        let aside = set_aside(&RealDisk, &path).unwrap().unwrap();
        assert_eq!((fs::read(aside).unwrap(), path.exists()), (b"data".to_vec(), false));
    }
}
