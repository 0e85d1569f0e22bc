//! A file that takes its name only when it is whole and on disk.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use martlet_base::disk::{Disk, DiskFile};

use crate::temp_files;

/// The auxiliary field of a command that makes an index.
pub(crate) const DEFINITION: &str = "martlet-index";

/// The field with slots that move key by key, for replicas of Valkey 8 and of Martlet.
pub(crate) const OPEN_SLOTS: &str = "cluster-slot-states";

/// Bytes after which the written part is sent to the disk, so that the end does not wait for all of it.
const SYNC_BYTES: usize = 4 << 20;

/// A new version of a file, beside the old one; removed when dropped unless it was published.
pub struct NewFile {
    disk: Arc<dyn Disk>,
    file: Box<dyn DiskFile>,
    directory: PathBuf,
    temporary: PathBuf,
    name: PathBuf,
    /// Bytes written since the last were sent to the disk; `None` if that is left to the end.
    unsynced: Option<usize>,
    is_published: bool,
}

impl NewFile {
    /// Begins a file that will be `name` in `directory`, and is `temporary` there until then; with
    /// `incremental`, written bytes go to the disk as they come.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(
        disk: Arc<dyn Disk>,
        directory: &Path,
        name: &Path,
        temporary: &str,
        incremental: bool,
    ) -> io::Result<NewFile> {
        let temporary = directory.join(temporary);
        Ok(NewFile {
            file: temp_files::create(&*disk, &temporary)?,
            disk,
            directory: directory.into(),
            temporary,
            name: directory.join(name),
            unsynced: incremental.then_some(0),
            is_published: false,
        })
    }

    /// Where it is until it has its name.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Forces the file to disk.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(mut self) -> io::Result<NewFile> {
        self.file.sync_data()?;
        Ok(self)
    }

    /// Gives the file, which has been forced to disk, its name.
    ///
    /// # Errors
    /// When the disk refuses. What had that name before is still there, unless it was only the directory that
    /// could not be forced to disk: then it is one of the two.
    pub fn publish(mut self) -> io::Result<()> {
        self.disk.rename(&self.temporary, &self.name)?;
        self.is_published = true;
        // The new name is in the directory, which is a file itself.
        self.disk.sync_directory(&self.directory)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        if let Some(unsynced) = &mut self.unsynced {
            *unsynced += written;
            if *unsynced >= SYNC_BYTES {
                *unsynced = 0;
                self.file.sync_data()?;
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::disk::faults::{Fault, FaultyDisk, Operation, errno};
    use std::fs;

    fn save(disk: &FaultyDisk, directory: &Path, text: &[u8]) -> io::Result<()> {
        let disk = Arc::new(disk.clone());
        let mut file = NewFile::create(disk, directory, Path::new("x"), "temp-1", true)?;
        text.chunks(SYNC_BYTES).try_for_each(|piece| file.write_all(piece))?;
        file.sync()?.publish()
    }

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn the_name_is_taken_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("x"), "old").unwrap();
        let disk = Arc::new(martlet_base::disk::RealDisk);
        let mut file = NewFile::create(disk.clone(), at, Path::new("x"), "temp-1", true).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!((fs::read(at.join("x")).unwrap(), names(at)), (b"old".into(), 2));
        drop(file);
        assert_eq!((fs::read(at.join("x")).unwrap(), names(at)), (b"old".into(), 1));
        save(&FaultyDisk::new(|_, _, _| None), at, &vec![b'n'; SYNC_BYTES + 1]).unwrap();
        assert_eq!((fs::read(at.join("x")).unwrap().len(), names(at)), (SYNC_BYTES + 1, 1));
        assert!(NewFile::create(disk, Path::new("/nonexistent"), Path::new("x"), "t", true).is_err());
    }

    #[test]
    fn whatever_fails_the_old_file_is_there_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let new = vec![b'n'; 2 * SYNC_BYTES + 1];
        let sound = FaultyDisk::new(|_, _, _| None);
        save(&sound, at, &new).unwrap();
        let steps = sound.operations();
        assert_eq!(steps.iter().filter(|&&step| step == Operation::Sync).count(), 3);
        for (step, operation) in steps.iter().enumerate() {
            for fault in [
                Fault::Refuse(errno::EIO),
                Fault::Refuse(errno::ENOSPC),
                Fault::Torn(errno::ENOSPC),
                Fault::Short,
            ] {
                fs::write(at.join("x"), "old").unwrap();
                let result = save(&FaultyDisk::failing_at(step, fault), at, &new);
                let is_fault = match fault {
                    Fault::Refuse(_) => true,
                    Fault::Torn(_) => *operation == Operation::Write,
                    // It is written on where it ended.
                    Fault::Short | Fault::Lie => false,
                };
                assert_eq!(result.is_err(), is_fault, "{operation:?} {fault:?}");
                let left = fs::read(at.join("x")).unwrap();
                let renamed = !is_fault || *operation == Operation::SyncDirectory;
                assert!(left == if renamed { new.as_slice() } else { b"old" }, "{operation:?} {fault:?}");
                assert_eq!(names(at), 1, "{operation:?} {fault:?}");
            }
        }
    }

    #[test]
    fn a_loss_of_power_leaves_the_old_file_or_the_new() {
        let new = vec![b'n'; SYNC_BYTES + 77];
        let sound = FaultyDisk::new(|_, _, _| None);
        let directory = tempfile::tempdir().unwrap();
        save(&sound, directory.path(), &new).unwrap();
        for stop in 1..=sound.operations().len() {
            let (directory, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            fs::write(directory.path().join("x"), "old").unwrap();
            let disk = FaultyDisk::new(move |at, _, _| (at >= stop).then_some(Fault::Refuse(errno::EIO)));
            let result = save(&disk, directory.path(), &new);
            for seed in 0..20 {
                disk.lose_power(seed, directory.path(), left.path()).unwrap();
                let content = fs::read(left.path().join("x")).unwrap();
                assert!(content == b"old" || content == new, "{stop} {seed}: {} bytes", content.len());
                assert!(result.is_err() || content == new, "{stop} {seed}");
            }
        }
    }
}
