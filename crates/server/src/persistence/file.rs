//! A file that takes its name only when it is whole and on disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes after which what has been written is sent to the disk, so that the end does not wait for all of it.
const SYNC_BYTES: usize = 4 << 20;

/// A new version of a file, beside the old one; removed when dropped unless it was published.
pub struct NewFile {
    file: File,
    directory: PathBuf,
    temporary: PathBuf,
    name: PathBuf,
    /// Bytes written since the last were sent to the disk; `None` if that is left to the end.
    unsynced: Option<usize>,
    is_published: bool,
}

impl NewFile {
    /// Begins a file in `directory` under a temporary name with `tag` in it; with `incremental`, what is written goes to the disk as it
    /// comes.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(directory: &Path, name: &Path, tag: &str, incremental: bool) -> io::Result<NewFile> {
        let temporary = directory.join(format!("temp-{tag}.rdb"));
        Ok(NewFile {
            file: File::create(&temporary)?,
            directory: directory.into(),
            temporary,
            name: directory.join(name),
            unsynced: incremental.then_some(0),
            is_published: false,
        })
    }

    /// Forces the file to disk.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(self) -> io::Result<NewFile> {
        self.file.sync_all()?;
        Ok(self)
    }

    /// Gives the file, which has been forced to disk, its name.
    ///
    /// # Errors
    /// When the disk refuses; what had that name before is still there.
    pub fn publish(mut self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.name)?;
        self.is_published = true;
        // The new name is in the directory, which is a file of its own.
        File::open(&self.directory)?.sync_all()
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
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_taken_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("x");
        let names = || fs::read_dir(directory.path()).unwrap().count();
        fs::write(&name, "old").unwrap();
        let mut file = NewFile::create(directory.path(), Path::new("x"), "1", true).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!((fs::read(&name).unwrap(), names()), (b"old".into(), 2));
        drop(file);
        assert_eq!((fs::read(&name).unwrap(), names()), (b"old".into(), 1));
        let mut file = NewFile::create(directory.path(), Path::new("x"), "1", true).unwrap();
        file.write_all(&vec![b'n'; SYNC_BYTES + 1]).unwrap();
        file.sync().unwrap().publish().unwrap();
        assert_eq!((fs::read(&name).unwrap().len(), names()), (SYNC_BYTES + 1, 1));
        assert!(NewFile::create(Path::new("/nonexistent"), Path::new("x"), "1", true).is_err());
    }
}
