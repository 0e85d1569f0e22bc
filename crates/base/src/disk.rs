//! Changes of files, behind a trait: what saves and logs go through this, so that tests can have a disk that
//! fails.
//!
//! Invariant: nothing is promised of bytes before [`DiskFile::sync_data`] has said yes to them, nor
//! of a name that was given, taken or removed before [`Disk::sync_directory`] has said yes to its directory.
//! Reading needs no such interface: files are read with `std::fs`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

#[cfg(any(test, feature = "testing"))]
pub mod faults;
pub mod remnant;

/// Where files are changed. Methods return what the operating system says.
pub trait Disk: Send + Sync {
    /// A new file, or the emptied old one; what is written goes to its end, also after it was cut off. Where
    /// the file system knows locks, it is locked until it is closed.
    ///
    /// # Errors
    /// When it cannot be created.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// A file to be written at its end; created if there is none.
    ///
    /// # Errors
    /// When it cannot be opened or created.
    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, of the same file system; what had that name is gone.
    ///
    /// # Errors
    /// When it cannot; both names are as before.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// When it cannot, also if there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory, unless there is one.
    ///
    /// # Errors
    /// When it cannot.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Forces a directory to disk: the names in it, and which files they are of.
    ///
    /// # Errors
    /// When the disk refuses; then nothing is known of the changes since the last time.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// A file that is written.
pub trait DiskFile: Write + Send {
    /// Forces to disk what has been written, and the length.
    ///
    /// # Errors
    /// When the disk refuses. What was written since the last time may be lost even if a later call succeeds.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Cuts the file off, or fills it up with zeros.
    ///
    /// # Errors
    /// When it cannot.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Has the disk set aside `bytes` from the offset `from` on, for writes to come; the length stays. What
    /// is left of them goes with [`DiskFile::set_len`].
    ///
    /// # Errors
    /// When the disk has no room, or the file system does not know the like; nothing depends on it.
    fn reserve(&mut self, from: u64, bytes: u64) -> io::Result<()>;
}

/// The text of an operating system's error, as C's `strerror` gives it.
pub fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].into(),
        None => text,
    }
}

/// The operating system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        file.set_len(0)?;
        // Nobody has to; it tells who looks for what was left behind that somebody still writes this one.
        let _ = file.try_lock();
        Ok(Box::new(file))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().append(true).create(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result,
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl DiskFile for File {
    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn reserve(&mut self, from: u64, bytes: u64) -> io::Result<()> {
        let (from, bytes) = (from.min(i64::MAX as u64) as i64, bytes.min(i64::MAX as u64) as i64);
        // SAFETY: the descriptor is open as long as `self` is, and no memory is handed over.
        match unsafe { libc::fallocate(self.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from, bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
