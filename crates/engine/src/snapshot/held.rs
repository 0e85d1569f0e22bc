//! The account of memory that only the snapshot under way keeps, so that no key is evicted for it.
//!
//! Each part is counted by its owner and leaves the account when the owner is dropped. Invariant: without a
//! snapshot the account is 0.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use martlet_base::alloc;
use martlet_keyspace::{Db, Entry, Key};

/// Entries of a database that are looked at for an estimate of its size.
const SAMPLE: usize = 8;

/// See the [module docs](self).
#[derive(Debug, Default)]
pub(crate) struct Account {
    bytes: AtomicI64,
    /// The most that there were since the last cut.
    peak: AtomicI64,
}

impl Account {
    fn add(&self, bytes: i64) {
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if now > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).max(0) as u64
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed).max(0) as u64
    }

    pub(crate) fn begin(&self) {
        self.peak.store(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// One owner's part of the account; it leaves the account on drop. The default is part of none.
#[derive(Debug, Default)]
pub struct HeldBytes {
    bytes: usize,
    account: Option<Arc<Account>>,
}

impl HeldBytes {
    pub(crate) fn new(account: &Arc<Account>, bytes: usize) -> HeldBytes {
        let mut held = HeldBytes { bytes: 0, account: Some(account.clone()) };
        held.set(bytes);
        held
    }

    /// Makes this a part of the account, unless it is.
    pub(crate) fn join(&mut self, account: &Arc<Account>) {
        self.account.get_or_insert_with(|| account.clone());
    }

    /// The same account's part of another owner, of no bytes yet.
    pub(crate) fn sibling(&self) -> HeldBytes {
        HeldBytes { bytes: 0, account: self.account.clone() }
    }

    /// The owner has this many bytes now.
    pub fn set(&mut self, bytes: usize) {
        if let Some(account) = &self.account
            && bytes != self.bytes
        {
            account.add(bytes as i64 - self.bytes as i64);
            self.bytes = bytes;
        }
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.set(self.bytes + bytes);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The part of values that the keyspace may share: they grow into it as writers change the originals.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    bytes: AtomicUsize,
    account: Arc<Account>,
}

impl SharedBytes {
    pub(crate) fn new(account: &Arc<Account>) -> Arc<SharedBytes> {
        Arc::new(SharedBytes { bytes: AtomicUsize::new(0), account: account.clone() })
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.account.add(bytes as i64);
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        self.account.add(-(*self.bytes.get_mut() as i64));
    }
}

/// A change, under way, of a key whose value the snapshot shares. What it leaves to the snapshot alone is
/// what the thread allocates beyond the growth of the value: copied blocks of one that is changed in place,
/// all of one that is replaced or deleted.
#[derive(Debug)]
pub(crate) struct Change {
    of: Arc<SharedBytes>,
    db: usize,
    name: Box<[u8]>,
    value_bytes: usize,
    thread_bytes: i64,
}

impl Change {
    pub(crate) fn begin(of: Arc<SharedBytes>, db: usize, entry: &Entry<'_>) -> Change {
        let (name, value_bytes) = (Box::from(entry.key()), entry.heap_bytes());
        Change { of, db, name, value_bytes, thread_bytes: alloc::thread_bytes() }
    }

    /// The changed key.
    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(&self.name)
    }

    /// Its database.
    pub(crate) fn db(&self) -> usize {
        self.db
    }

    /// Counts what the snapshot keeps alone now; the entry is the key's, whose shard is still locked.
    pub(crate) fn end(self, entry: Option<Entry<'_>>) {
        let allocated = alloc::thread_bytes() - self.thread_bytes;
        let growth = entry.map_or(0, |entry| entry.heap_bytes()) as i64 - self.value_bytes as i64;
        // Replies may have been allocated, too: no more than there was is kept.
        self.of.add((allocated - growth).clamp(0, self.value_bytes as i64) as usize);
    }
}

/// About the bytes of a database, from a few of its entries.
pub(crate) fn estimate(db: &Db) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for entry in db.iter().take(SAMPLE) {
        count += 1;
        bytes += entry.heap_bytes();
    }
    db.table_heap_bytes() + (bytes as u128 * db.len() as u128 / count.max(1)) as usize
}
