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
use std::sync::Arc;

use crate::sync::Outside;

#[cfg(any(test, feature = "testing"))]
pub mod faults;
pub mod remnant;

/// Changes of files. Methods return the operating system's results.
pub trait Disk: Send + Sync {
    /// A new file, or the emptied old one; written bytes go to its end, also after it was cut off. Where the
    /// file system knows locks, it is locked until it is closed.
    ///
    /// # Errors
    /// It cannot be created.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// A file to be written at its end; created if absent.
    ///
    /// # Errors
    /// It cannot be opened or created.
    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, of the same file system; what had that name is gone.
    ///
    /// # Errors
    /// When it cannot; both names are as before.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// It cannot be removed, or is absent.
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
    /// Forces written bytes to disk, and the length.
    ///
    /// # Errors
    /// The disk refuses. Bytes written since the last time may be lost even if a later call succeeds.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Cuts the file off, or fills it up with zeros.
    ///
    /// # Errors
    /// When it cannot.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Has the disk reserve `bytes` from the offset `from` on, for later writes; the length stays.
    /// [`DiskFile::set_len`] gives unused ones back.
    ///
    /// # Errors
    /// The disk has no room, or the file system cannot reserve; nothing depends on it.
    fn reserve(&mut self, from: u64, bytes: u64) -> io::Result<()>;
}

/// A disk that only threads outside the gate reach.
#[derive(Clone)]
pub struct GatedDisk(Arc<dyn Disk>);

impl GatedDisk {
    /// Lets threads that are outside reach `disk`.
    pub fn new(disk: Arc<dyn Disk>) -> GatedDisk {
        GatedDisk(disk)
    }

    /// The disk. Whatever keeps it must not use it elsewhere.
    pub fn get(&self, _: &Outside) -> &Arc<dyn Disk> {
        &self.0
    }
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
        // Optional: a search for files left behind sees by it that this one is still being written.
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
