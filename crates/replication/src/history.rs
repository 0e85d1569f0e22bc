//! The ids of the replication stream, and which servers may continue it.
//!
//! ```text
//! A ───────────┬─▶ A continues elsewhere
//!              └─ B ─────▶     id B, second id A, up to where both are one
//! ```
//!
//! Invariant: a replication id and an offset name one state of the data set. A change of the data set other
//! than by the stream takes a new id first.

/// A stream's name, 40 hexadecimal digits.
pub type Id = String;

/// A server's knowledge of the stream that its data set is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    id: Id,
    second: Option<(Id, u64)>,
    has_place: bool,
}

impl History {
    /// A primary's history, of which no other server knows yet.
    pub fn new(id: Id) -> History {
        History { id, second: None, has_place: false }
    }

    /// The stream's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id that the stream had before, when the server was a replica or before its restart, and the number
    /// of the first byte from which on it has not been that stream.
    pub fn second(&self) -> Option<(&str, u64)> {
        self.second.as_ref().map(|(id, first)| (id.as_str(), *first))
    }

    /// Whether a replica's data set is that of the stream with this id, at the offset that was applied: the
    /// stream can continue from there. A primary's always is, and this is false for it.
    pub fn has_place(&self) -> bool {
        self.has_place
    }

    /// Begins a stream that has nothing to do with the one before it.
    pub fn begin_anew(&mut self, id: Id) {
        self.id = id;
        self.second = None;
    }

    /// The data set was loaded from a file that names its place in a stream. A replica asks for the
    /// continuation. A primary may have continued behind that place before it ended, so its stream is another
    /// one; a replica that is no further than the file may continue here.
    pub fn resume(&mut self, id: Id, offset: u64, is_replica: bool) {
        if is_replica {
            *self = History { id, second: None, has_place: true };
        } else {
            self.second = Some((id, offset + 1));
        }
    }

    /// The server copies a primary from now on. Its data set is at a place of the stream if it was a primary
    /// or knew its place, and unless its own history is unrelated to that primary's (`is_related`).
    pub fn follow(&mut self, was_primary: bool, is_related: bool) {
        self.has_place = is_related && (was_primary || self.has_place);
    }

    /// The server is no replica any more: its stream is its own behind `offset`, up to which it has followed
    /// the other. A replica that knows the stream by its former id and is no further may continue here.
    pub fn promote(&mut self, id: Id, offset: u64) {
        let old = std::mem::replace(&mut self.id, id);
        self.second = self.has_place.then(|| (old, offset + 1));
        self.has_place = false;
    }

    /// A replica's data set goes: it is no place of any stream until another is there.
    pub fn leave(&mut self) {
        self.has_place = false;
    }

    /// A replica's data set was replaced by the primary's, at a place of the stream with this id. For a
    /// primary that does not send its place the id is one that no server knows: the data belongs to no known
    /// stream.
    pub fn arrive(&mut self, id: Id) {
        *self = History { id, second: None, has_place: true };
    }

    /// The primary lets a replica continue behind `offset`, perhaps with another id; returns whether it is
    /// another.
    pub fn go_on(&mut self, id: Option<Id>, offset: u64) -> bool {
        let Some(id) = id.filter(|id| *id != self.id) else { return false };
        let old = std::mem::replace(&mut self.id, id);
        self.second = Some((old, offset + 1));
        true
    }

    /// A replica's request after it has applied `offset`: the stream's id, and the number of the next byte
    /// that it needs; `None` for everything.
    pub fn request(&self, offset: u64) -> Option<(Id, u64)> {
        self.has_place.then(|| (self.id.clone(), offset + 1))
    }

    /// Where the stream may continue for a replica that has asked for byte `next` of this one; `None` if its
    /// data is not known to be a prefix of this history. Whether the bytes are still there is another
    /// question.
    pub fn place_of(&self, asked: &[u8], next: i64) -> Option<u64> {
        let offset = u64::try_from(next.checked_sub(1)?).ok()?;
        let is_second =
            || self.second.as_ref().is_some_and(|(id, first)| id.as_bytes() == asked && offset < *first);
        (self.id.as_bytes() == asked || is_second()).then_some(offset)
    }

    /// Whether a replica may take over from the primary that names its stream so (`PSYNC … FAILOVER`).
    pub fn may_take_over(&self, asked: &str) -> bool {
        self.id.eq_ignore_ascii_case(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(letter: char) -> Id {
        letter.to_string().repeat(40)
    }

    fn place_of(history: &History, letter: char, next: i64) -> Option<u64> {
        history.place_of(id(letter).as_bytes(), next)
    }

    #[test]
    fn siblings_go_on_with_who_was_promoted_up_to_where_it_was() {
        let mut history = History::new(id('x'));
        history.follow(true, true);
        history.arrive(id('a'));
        assert_eq!(history.request(100), Some((id('a'), 101)));
        history.promote(id('b'), 100);
        assert_eq!(history.second(), Some((id('a').as_str(), 101)));
        assert_eq!(place_of(&history, 'a', 101), Some(100));
        assert_eq!(place_of(&history, 'a', 102), None, "what the old primary did after that is not here");
        assert_eq!(place_of(&history, 'b', 500), Some(499));
        assert_eq!(place_of(&history, 'x', 1), None);
        assert!(!history.has_place());
    }

    #[test]
    fn odd_places_are_nobodys() {
        let history = History::new(id('a'));
        for next in [0, -1, i64::MIN] {
            assert_eq!(place_of(&history, 'a', next), None);
        }
        assert_eq!(history.place_of(b"?", -1), None);
        assert_eq!(place_of(&history, 'a', 1), Some(0));
    }

    #[test]
    fn who_is_promoted_without_a_place_has_no_past() {
        let mut history = History::new(id('a'));
        history.follow(true, true);
        history.leave();
        assert_eq!(history.request(7), None);
        history.promote(id('b'), 7);
        assert_eq!((history.second(), place_of(&history, 'a', 1)), (None, None));
        history.follow(true, false);
        assert_eq!(history.request(7), None, "another history");
    }

    #[test]
    fn a_primary_that_is_demoted_asks_for_its_own_stream() {
        let mut history = History::new(id('a'));
        history.follow(true, true);
        assert_eq!(history.request(50), Some((id('a'), 51)));
        history.follow(false, true);
        assert!(!history.go_on(None, 50) && !history.go_on(Some(id('a')), 50));
        assert!(history.go_on(Some(id('b')), 50));
        assert_eq!((history.id(), history.second()), (id('b').as_str(), Some((id('a').as_str(), 51))));
    }

    #[test]
    fn a_restart_goes_on_as_a_replica_and_begins_another_stream_as_a_primary() {
        let mut replica = History::new(id('x'));
        replica.resume(id('a'), 30, true);
        assert_eq!(replica.request(30), Some((id('a'), 31)));
        let mut primary = History::new(id('x'));
        primary.resume(id('a'), 30, false);
        assert_eq!(primary.id(), id('x'));
        assert_eq!((place_of(&primary, 'a', 31), place_of(&primary, 'a', 32)), (Some(30), None));
    }

    #[test]
    fn a_full_sync_forgets_the_past() {
        let mut history = History::new(id('x'));
        history.resume(id('a'), 30, true);
        history.go_on(Some(id('b')), 30);
        history.leave();
        history.arrive(id('c'));
        assert_eq!((history.id(), history.second(), history.has_place()), (id('c').as_str(), None, true));
    }

    #[test]
    fn who_takes_over_must_be_asked_by_the_stream_that_it_follows() {
        let history = History::new(id('a'));
        assert!(history.may_take_over(&id('A')) && !history.may_take_over(&id('b')));
    }
}
