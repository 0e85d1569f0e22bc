//! Places in the stream, of records in the journal.

use martlet_journal::{Journal, Position};

/// The replication offset behind the records up to `position`, or a little more; `None` as long as the
/// append-only file's disk is so far behind that it is unknown.
pub fn offset_of(journal: &Journal, position: Position) -> Option<u64> {
    journal.pump(position);
    journal.place_of(position).map(|place| place.offset)
}
