//! A disk with scripted failures, for tests, which can also produce the files after a loss of power.
//!
//! Every operation is done to real files, too, which are read as long as the power stays on. Invariant: bytes
//! that a successful, honest synchronisation covered are there after [`FaultyDisk::lose_power`]; of the rest
//! any part may be.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, RealDisk};
use crate::random::Random;

/// An operation on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Create,
    Append,
    Write,
    SetLen,
    Reserve,
    Sync,
    Rename,
    Remove,
    CreateDirectory,
    SyncDirectory,
}

/// How an operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and this error number is returned.
    Refuse(i32),
    /// Half of a write is done, and reported so. Nothing else can be short.
    Short,
    /// Half of a write is done, and this error number is returned.
    Torn(i32),
    /// A synchronisation says that it is done, and is not.
    Lie,
}

/// Error numbers of disks.
pub mod errno {
    /// The device fails.
    pub const EIO: i32 = libc::EIO;
    /// It is full.
    pub const ENOSPC: i32 = libc::ENOSPC;
    /// It may only be read.
    pub const EROFS: i32 = libc::EROFS;
}

/// The fault of an operation, given how many came before and the path; `None` for none.
pub type Plan = dyn FnMut(usize, Operation, &Path) -> Option<Fault> + Send;

/// See the [module docs](self). Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Mutex<State>>);

/// A change that a loss of power may undo.
#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>, len: usize) {
        match self {
            Change::Write { at, bytes } => {
                let bytes = &bytes[..len.min(bytes.len())];
                content.resize(content.len().max(*at), 0);
                let (over, behind) = bytes.split_at(bytes.len().min(content.len() - at));
                content[*at..at + over.len()].copy_from_slice(over);
                content.extend_from_slice(behind);
            }
            Change::SetLen(len) => content.resize(*len, 0),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    /// Since the last synchronisation, in order.
    changes: Vec<Change>,
    len: usize,
}

/// A name that came to stand for a file, or for none; in a rename, another goes at once.
#[derive(Clone, Debug)]
struct Naming {
    path: PathBuf,
    inode: Option<usize>,
    goes: Option<PathBuf>,
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self.inode {
            Some(inode) => names.insert(self.path.clone(), inode),
            None => names.remove(&self.path),
        };
        if let Some(path) = &self.goes {
            names.remove(path);
        }
    }
}

struct State {
    plan: Box<Plan>,
    operations: Vec<Operation>,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// Since their directories were synchronised, in order.
    namings: Vec<Naming>,
}

impl State {
    fn ask(&mut self, operation: Operation, path: &Path) -> Option<Fault> {
        let fault = (self.plan)(self.operations.len(), operation, path);
        self.operations.push(operation);
        fault
    }

    fn name(&mut self, path: &Path, inode: Option<usize>, goes: Option<&Path>) {
        let naming = Naming { path: path.into(), inode, goes: goes.map(Path::to_path_buf) };
        naming.apply(&mut self.names);
        self.namings.push(naming);
    }

    /// The file of that name; one that was there before is taken up as it is on the real disk.
    fn known(&mut self, path: &Path) -> Option<usize> {
        if let Some(&inode) = self.names.get(path) {
            return Some(inode);
        }
        let durable = std::fs::read(path).ok()?;
        let inode = self.inodes.len();
        self.inodes.push(Inode { len: durable.len(), durable, changes: Vec::new() });
        self.names.insert(path.into(), inode);
        self.durable_names.insert(path.into(), inode);
        Some(inode)
    }

    fn sync_names(&mut self, directory: &Path) {
        let is_in = |naming: &Naming| naming.path.parent() == Some(directory);
        let (done, left) = std::mem::take(&mut self.namings).into_iter().partition(is_in);
        self.namings = left;
        let done: Vec<Naming> = done;
        done.iter().for_each(|naming| naming.apply(&mut self.durable_names));
    }
}

fn refused(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl FaultyDisk {
    /// A disk that fails by `plan`.
    pub fn new(plan: impl FnMut(usize, Operation, &Path) -> Option<Fault> + Send + 'static) -> FaultyDisk {
        let plan: Box<Plan> = Box::new(plan);
        let (names, durable_names) = (BTreeMap::new(), BTreeMap::new());
        let (operations, inodes, namings) = (Vec::new(), Vec::new(), Vec::new());
        FaultyDisk(Arc::new(Mutex::new(State { plan, operations, inodes, names, durable_names, namings })))
    }

    /// A disk whose operation of this number, from 0, fails once.
    pub fn failing_at(step: usize, fault: Fault) -> FaultyDisk {
        FaultyDisk::new(move |at, _, _| (at == step).then_some(fault))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues by another plan.
    pub fn plan(&self, plan: impl FnMut(usize, Operation, &Path) -> Option<Fault> + Send + 'static) {
        self.state().plan = Box::new(plan);
    }

    /// The operations so far, in order.
    pub fn operations(&self) -> Vec<Operation> {
        self.state().operations.clone()
    }

    /// Puts into the directory `into` the files that could be left of those in `from` if the power failed
    /// now: `seed` decides about the unsynchronised parts. Each write of a file may be there, or a part of
    /// it, or nothing; names change in order.
    ///
    /// # Errors
    /// The real disk's.
    pub fn lose_power(&self, seed: u64, from: &Path, into: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(from)? {
            // Untouched files stay as they are.
            self.state().known(&entry?.path());
        }
        let state = self.state();
        let mut random = Random::seeded(seed);
        let mut names = state.durable_names.clone();
        let kept = random.below(state.namings.len() as u64 + 1) as usize;
        for naming in &state.namings[..kept] {
            naming.apply(&mut names);
        }
        for (path, inode) in names {
            let inode = &state.inodes[inode];
            let mut content = inode.durable.clone();
            for change in &inode.changes {
                let len = match change {
                    Change::Write { bytes, .. } => bytes.len(),
                    Change::SetLen(_) => 0,
                };
                match random.below(4) {
                    0 => {}
                    1 => change.apply(&mut content, random.below(len as u64 + 1) as usize),
                    _ => change.apply(&mut content, len),
                }
            }
            if let (Some(name), true) = (path.file_name(), path.parent() == Some(from)) {
                std::fs::write(into.join(name), content)?;
            }
        }
        Ok(())
    }

    fn open(&self, path: &Path, operation: Operation) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        if let Some(Fault::Refuse(number)) = state.ask(operation, path) {
            return Err(refused(number));
        }
        let known = state.known(path);
        let empties = operation == Operation::Create;
        let real = if empties { RealDisk.create(path)? } else { RealDisk.append(path)? };
        let inode = known.unwrap_or_else(|| {
            state.inodes.push(Inode::default());
            let inode = state.inodes.len() - 1;
            state.name(path, Some(inode), None);
            inode
        });
        if empties && state.inodes[inode].len > 0 {
            state.inodes[inode].changes.push(Change::SetLen(0));
            state.inodes[inode].len = 0;
        }
        Ok(Box::new(FaultyFile { disk: self.clone(), real, inode, path: path.into() }))
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path, Operation::Create)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path, Operation::Append)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        if let Some(Fault::Refuse(number)) = state.ask(Operation::Rename, from) {
            return Err(refused(number));
        }
        let inode = state.known(from);
        state.known(to);
        RealDisk.rename(from, to)?;
        state.name(to, inode, Some(from));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if let Some(Fault::Refuse(number)) = state.ask(Operation::Remove, path) {
            return Err(refused(number));
        }
        state.known(path);
        RealDisk.remove(path)?;
        state.name(path, None, None);
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match self.state().ask(Operation::CreateDirectory, path) {
            Some(Fault::Refuse(number)) => Err(refused(number)),
            _ => RealDisk.create_directory(path),
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        match state.ask(Operation::SyncDirectory, path) {
            Some(Fault::Refuse(number)) => Err(refused(number)),
            Some(Fault::Lie) => Ok(()),
            _ => {
                state.sync_names(path);
                RealDisk.sync_directory(path)
            }
        }
    }
}

struct FaultyFile {
    disk: FaultyDisk,
    real: Box<dyn DiskFile>,
    inode: usize,
    path: PathBuf,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let fault = state.ask(Operation::Write, &self.path);
        let len = match fault {
            Some(Fault::Refuse(number)) => return Err(refused(number)),
            Some(Fault::Short | Fault::Torn(_)) => bytes.len().div_ceil(2),
            _ => bytes.len(),
        };
        self.real.write_all(&bytes[..len])?;
        let inode = &mut state.inodes[self.inode];
        inode.changes.push(Change::Write { at: inode.len, bytes: bytes[..len].to_vec() });
        inode.len += len;
        match fault {
            Some(Fault::Torn(number)) => Err(refused(number)),
            _ => Ok(len),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.real.flush()
    }
}

impl DiskFile for FaultyFile {
    fn sync_data(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        match state.ask(Operation::Sync, &self.path) {
            Some(Fault::Refuse(number)) => return Err(refused(number)),
            Some(Fault::Lie) => return Ok(()),
            _ => {}
        }
        let inode = &mut state.inodes[self.inode];
        for change in std::mem::take(&mut inode.changes) {
            change.apply(&mut inode.durable, usize::MAX);
        }
        self.real.sync_data()
    }

    fn reserve(&mut self, from: u64, bytes: u64) -> io::Result<()> {
        match self.disk.state().ask(Operation::Reserve, &self.path) {
            Some(Fault::Refuse(number)) => Err(refused(number)),
            _ => self.real.reserve(from, bytes),
        }
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        if let Some(Fault::Refuse(number)) = state.ask(Operation::SetLen, &self.path) {
            return Err(refused(number));
        }
        let inode = &mut state.inodes[self.inode];
        inode.changes.push(Change::SetLen(len as usize));
        inode.len = len as usize;
        self.real.set_len(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("martlet-faults-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn faults_come_where_they_are_planned() {
        let at = directory("plan");
        let disk = FaultyDisk::failing_at(1, Fault::Torn(errno::ENOSPC));
        let mut file = disk.create(&at.join("x")).unwrap();
        let error = file.write_all(b"abcd").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno::ENOSPC));
        assert_eq!(std::fs::read(at.join("x")).unwrap(), b"ab");
        disk.plan(|_, operation, _| (operation == Operation::Write).then_some(Fault::Short));
        file.write_all(b"cdef").unwrap();
        assert_eq!(std::fs::read(at.join("x")).unwrap(), b"abcdef");
        disk.plan(|_, operation, _| (operation == Operation::Rename).then_some(Fault::Refuse(errno::EROFS)));
        assert!(disk.rename(&at.join("x"), &at.join("y")).is_err() && at.join("x").exists());
        assert_eq!(&disk.operations()[..2], [Operation::Create, Operation::Write]);
        std::fs::remove_dir_all(at).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn power_takes_only_what_was_not_synchronised() {
        let (at, left) = (directory("from"), directory("into"));
        std::fs::write(at.join("x"), "old").unwrap();
        let disk = FaultyDisk::new(|_, _, _| None);
        let mut file = disk.create(&at.join("temp")).unwrap();
        file.write_all(b"first").unwrap();
        file.sync_data().unwrap();
        file.write_all(b"second").unwrap();
        disk.rename(&at.join("temp"), &at.join("x")).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let _ = std::fs::remove_file(left.join("x"));
            disk.lose_power(seed, &at, &left).unwrap();
            let content = std::fs::read_to_string(left.join("x")).unwrap();
            assert!(content == "old" || content.starts_with("first"), "{seed}: {content}");
            seen.insert(content);
        }
        assert!(seen.contains("old") && seen.contains("first") && seen.contains("firstsecond"));
        file.sync_data().unwrap();
        disk.sync_directory(&at).unwrap();
        for seed in 0..20 {
            disk.lose_power(seed, &at, &left).unwrap();
            assert_eq!(std::fs::read_to_string(left.join("x")).unwrap(), "firstsecond");
        }
        disk.plan(|_, operation, _| (operation == Operation::Sync).then_some(Fault::Lie));
        file.write_all(b"third").unwrap();
        file.sync_data().unwrap();
        let lost = (0..20).any(|seed| {
            disk.lose_power(seed, &at, &left).unwrap();
            std::fs::read_to_string(left.join("x")).unwrap() == "firstsecond"
        });
        assert!(lost);
        std::fs::remove_dir_all(at).and_then(|()| std::fs::remove_dir_all(left)).unwrap();
    }
}
