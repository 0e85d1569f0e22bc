//! What INFO and MEMORY STATS report of all shards.
//!
//! Invariant: the numbers of one survey are those of one moment, whichever sections of a reply show them.

use std::collections::BTreeMap;

use martlet_base::limits::SHARD_COUNT;
use martlet_engine::Keys;
use martlet_keyspace::{Kind, SIZE_BINS};
use martlet_values::TYPES;

/// Number of keys by type, in the order of [`TYPES`], and size.
pub(super) type SizeTable = [[u64; SIZE_BINS]; TYPES.len()];

/// The content of a database, in numbers.
#[derive(Default)]
pub(super) struct Held {
    /// All keys.
    pub keys: usize,
    /// Keys that are not hidden.
    pub visible: usize,
    /// Those of them that expire.
    pub expiring: usize,
    /// Hashes and sets with fields or members that expire.
    pub with_parts_that_expire: usize,
    /// Bytes of the tables, entries apart.
    pub table_bytes: usize,
    /// How large the keys are, if that is asked for.
    pub sizes: Option<Box<SizeTable>>,
}

/// See the [module docs](self).
#[derive(Default)]
pub(super) struct Survey {
    /// The databases that have ever been used, by number.
    pub databases: BTreeMap<usize, Held>,
    /// Keys that clients wait for.
    pub blocking_keys: usize,
    /// Those of them whose clients want to know when they are deleted.
    pub until_removed: usize,
    /// Keys that clients watch.
    pub watched_keys: usize,
}

impl Survey {
    /// Takes a survey; of sizes only if they are wanted. It is empty, and [`Keys::gave_up`] set, if it
    /// would have to wait while a script is busy.
    pub fn of(keys: &mut Keys, wants_sizes: bool) -> Survey {
        let mut survey = Survey::default();
        keys.at_one_moment(|keys| {
            debug_assert!(keys.is_counted_right(), "a key came or went uncounted");
            (0..SHARD_COUNT).for_each(|shard| survey.add(keys, shard, wants_sizes));
        });
        survey
    }

    fn add(&mut self, keys: &Keys, shard_index: usize, wants_sizes: bool) {
        let state = keys.shard(shard_index);
        self.blocking_keys += state.hooks.blocked_key_count();
        self.until_removed += state.hooks.blocked_until_removed_count();
        self.watched_keys += state.hooks.watched_key_count();
        for index in state.keys.made() {
            let (db, held) = (state.keys.db(index), self.databases.entry(index).or_default());
            held.table_bytes += db.table_heap_bytes();
            if db.is_empty() {
                continue;
            }
            let (hidden, hidden_expiring) = keys.hidden_len(shard_index, index);
            held.keys += db.len();
            held.visible += db.len() - hidden;
            held.expiring += db.expiring_len() - hidden_expiring;
            let timed = db.versions().filter(|(kind, _, _)| matches!(kind, Kind::Hash | Kind::Set));
            held.with_parts_that_expire += timed.map(|(_, _, count)| count).sum::<usize>();
            if wants_sizes && let Some(sizes) = db.sizes() {
                let sums = held.sizes.get_or_insert_with(|| Box::new([[0; SIZE_BINS]; TYPES.len()]));
                for (sums, data_type) in sums.iter_mut().zip(TYPES) {
                    let Some(counts) = sizes.of(data_type.kind) else { continue };
                    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(*count));
                }
            }
        }
    }
}
