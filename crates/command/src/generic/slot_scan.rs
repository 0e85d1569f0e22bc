//! The scan of a cluster's slots, one after the other, which CLUSTERSCAN does: its options, and the walk.

use martlet_base::hash::shard_of_slot;
use martlet_base::slot::slot_of_pattern;
use martlet_engine::{Contended, Keys};
use martlet_spec::{Cursor, Error, Presentation};

use super::walk::{Filter, parse_scan_options, visit_slice};

/// The filter of a scan of slots.
pub struct SlotScan<'a> {
    /// The only slot that is asked for.
    pub slot: Option<u16>,
    filter: Filter<'a>,
    count: usize,
}

/// Where it is: before the keys of a slot that its shard orders after a position, 0 for the first.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SlotPlace {
    /// The slot.
    pub slot: u16,
    /// The position, as [`martlet_keyspace::Shard::scan_slot`] has it.
    pub position: u64,
}

impl<'a> SlotScan<'a> {
    /// The options behind the cursor.
    ///
    /// # Errors
    /// Their fault, in Valkey's words.
    pub fn parse(rest: Cursor<'a>) -> Result<SlotScan<'a>, Error> {
        let mut slot = None;
        let (filter, count) = parse_scan_options(rest, Some(&mut slot), Presentation::Redis)?;
        Ok(SlotScan { slot, filter, count })
    }

    /// The slot of all keys that match the pattern, if it allows one only.
    pub fn slot_of_pattern(&self) -> Option<u16> {
        self.filter.pattern.and_then(slot_of_pattern)
    }

    /// Visits about as many keys of the selected database as the options say, up to those of slot `last`,
    /// at one moment: the matching names, and the next position, `None` behind that slot.
    pub fn run(&self, keys: &mut Keys, from: SlotPlace, last: u16) -> (Vec<Vec<u8>>, Option<SlotPlace>) {
        let found = keys.holding(|keys| self.walk(keys, from, last));
        // A busy script holds one of the shards: the reply becomes BUSY.
        found.unwrap_or((Vec::new(), Some(from)))
    }

    /// # Errors
    /// A shard is not free.
    fn walk(
        &self,
        keys: &mut Keys,
        from: SlotPlace,
        last: u16,
    ) -> Result<(Vec<Vec<u8>>, Option<SlotPlace>), Contended> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let (mut place, mut visited) = (from, 0);
        while place.slot <= last && visited < self.count {
            let SlotPlace { slot, position } = place;
            let want = self.count - visited;
            let mut is_empty = false;
            let found = |name: &[u8]| names.push(name.to_vec());
            let (more, next) =
                visit_slice(keys, shard_of_slot(slot), &self.filter, found, |shard, db, visit| {
                    is_empty = shard.db(db).is_empty();
                    shard.scan_slot((db, slot), position, want, visit)
                })?;
            visited += more;
            place = match next {
                Some(position) => SlotPlace { slot, position },
                None if is_empty => SlotPlace { slot: next_shards_first(slot), position: 0 },
                None => SlotPlace { slot: slot + 1, position: 0 },
            };
        }
        Ok((names, (place.slot <= last).then_some(place)))
    }
}

/// The first slot of the shard after a slot's.
fn next_shards_first(slot: u16) -> u16 {
    let shard = shard_of_slot(slot);
    (slot..).find(|other| shard_of_slot(*other) != shard).unwrap_or(slot)
}
