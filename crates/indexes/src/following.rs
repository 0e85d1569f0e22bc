//! The catalogue hears of each change of a key before its shard is unlocked.

use martlet_engine::Follower;
use martlet_keyspace::{Entry, Key};

use crate::access::DB;
use crate::catalogue::Catalogue;

impl Follower for Catalogue {
    fn wants(&self, db: usize, name: &[u8]) -> bool {
        db == DB && self.published().prefixes.matches(name).next().is_some()
    }

    fn changed(&self, db: usize, key: &Key<'_>, entry: Option<Entry<'_>>, now_ms: i64) {
        if db == DB {
            for index in self.published().prefixes.matches(key.bytes) {
                index.follow(key, entry.as_ref(), now_ms);
                if index.index().wants_collection() {
                    self.order_collection(index);
                }
            }
        }
    }

    /// As in RediSearch the indexes go with the keys.
    fn emptied(&self, db: Option<usize>) {
        if db.is_none_or(|db| db == DB) {
            self.clear();
            self.agreement.note_flush();
        }
    }

    fn swapped(&self, a: usize, b: usize) {
        if a != b && (a == DB || b == DB) {
            self.begin_anew();
        }
    }

    fn replaced(&self) {
        self.begin_anew();
    }
}
