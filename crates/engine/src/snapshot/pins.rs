//! Long strings of a snapshot, which may be changed in place while they are copied out of the keyspace piece
//! by piece.
//!
//! A pin keeps a string's block. A thread that changes a part of that saves the part's content at the cut,
//! unless it has been copied out, takes the block out of the pin for the change, so that its only owner
//! changes it in place, and puts it back. Invariant: of the part that has not been copied out, `earlier` has
//! the pieces that were changed since the cut, and the block has the others unchanged. A holder of a pin's
//! state may lock the table of pins, and never waits the other way round.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use martlet_base::sync::lock;
use martlet_keyspace::{Entry, StrValue, Value};

use super::REST_INTERVAL;

/// Strings of at least this many bytes are pinned; shorter ones are copied as a whole when they are changed,
/// in some ten microseconds.
pub(crate) const PINNED_MIN_BYTES: usize = 1 << 16;

/// Bytes that are copied at a time: some microseconds.
const PIECE_BYTES: usize = 1 << 14;

/// A long string as it was at the cut.
#[derive(Debug)]
pub(crate) struct Pin {
    /// Its length then.
    len: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    /// The string; nothing when all was copied out.
    block: Option<Value>,
    /// Bytes that were copied out.
    taken: usize,
    /// What changed pieces held at the cut, by number.
    earlier: BTreeMap<usize, Vec<u8>>,
}

/// The pins of a snapshot, by their blocks' addresses. One whose string was copied out may stay: another
/// block may have its address then.
#[derive(Debug, Default)]
pub(crate) struct Pins(Mutex<HashMap<usize, Arc<Pin>>>);

/// A string's bytes; none of any other value.
fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Str { bytes, .. } => bytes,
        _ => &[],
    }
}

/// Where a string's block is.
fn address(value: &Value) -> Option<usize> {
    match value {
        Value::Str { bytes, .. } => Some(std::ptr::from_ref::<Vec<u8>>(bytes).addr()),
        _ => None,
    }
}

/// Where the block of an entry's long string is, and that.
fn long(entry: &Entry<'_>) -> Option<(usize, Value)> {
    match entry.str() {
        Some(StrValue::Bytes(bytes)) if bytes.len() >= PINNED_MIN_BYTES => {}
        _ => return None,
    }
    let value = entry.value();
    Some((address(&value)?, value))
}

impl Pins {
    /// Pins the string of an entry of a locked shard, if it is long. `None` also if its block is pinned for
    /// another key, which may be changing it: then it has more than one owner, and a thread that changes it
    /// copies it.
    pub(crate) fn pin(&self, entry: &Entry<'_>) -> Option<Arc<Pin>> {
        let (address, value) = long(entry)?;
        let mut pins = lock(&self.0);
        if pins.get(&address).is_some_and(|pin| pin.is_in_use()) {
            return None;
        }
        let len = bytes(&value).len();
        let state = State { block: Some(value), taken: 0, earlier: BTreeMap::new() };
        let pin = Arc::new(Pin { len, state: Mutex::new(state) });
        pins.insert(address, pin.clone());
        Some(pin)
    }

    /// The pin of an entry's string, with the address of its block.
    pub(crate) fn of(&self, entry: &Entry<'_>) -> Option<(usize, Arc<Pin>)> {
        let (address, _) = long(entry)?;
        Some((address, lock(&self.0).get(&address)?.clone()))
    }

    /// Follows a pin's block that has moved from the address `before`; the entry has it now.
    pub(crate) fn put_back(
        &self,
        pin: &Arc<Pin>,
        state: &mut State,
        before: usize,
        entry: Option<Entry<'_>>,
    ) {
        // A string that is changed in place does not become shorter.
        let Some((address, value)) = entry.and_then(|entry| long(&entry)) else { return };
        state.block = Some(value);
        if address != before {
            let mut pins = lock(&self.0);
            if pins.get(&before).is_some_and(|there| Arc::ptr_eq(there, pin)) {
                pins.remove(&before);
            }
            pins.insert(address, pin.clone());
        }
    }

    /// Forgets them all.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

impl Pin {
    /// Bytes that the string had at the cut.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it has its string, or a thread is changing or copying that just now.
    fn is_in_use(&self) -> bool {
        match self.state.try_lock() {
            Ok(state) => state.block.is_some(),
            Err(TryLockError::Poisoned(state)) => state.into_inner().block.is_some(),
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// To be called before a change of these bytes of the block at `place`, whose shard is locked: saves
    /// their content at the cut, and gives the block up until [`Pins::put_back`]. `None` if the string was
    /// copied out, or has moved since, so that the block is another string's.
    pub(crate) fn open(&self, place: usize, changes: &Range<usize>) -> Option<MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        let State { block, taken, earlier } = &mut *state;
        let value = block.take_if(|value| address(value) == Some(place))?;
        let (from, to) = (changes.start.max(*taken), changes.end.min(self.len));
        if from < to {
            for piece in from / PIECE_BYTES..=(to - 1) / PIECE_BYTES {
                let at = piece * PIECE_BYTES;
                let content = bytes(&value).get(at..(at + PIECE_BYTES).min(self.len));
                earlier.entry(piece).or_insert_with(|| content.unwrap_or_default().to_vec());
            }
        }
        Some(state)
    }

    /// Copies the string into `out`, which is empty, letting others run now and then.
    pub(crate) fn copy(&self, out: &mut Vec<u8>) {
        out.reserve_exact(self.len);
        let mut rested = martlet_base::clock::monotonic();
        while self.copy_piece(out) {
            if rested.elapsed() >= REST_INTERVAL {
                std::thread::yield_now();
                rested = martlet_base::clock::monotonic();
            }
        }
    }

    /// Copies the next piece to the end of `out`, which has the earlier ones; false at the end.
    pub(crate) fn copy_piece(&self, out: &mut Vec<u8>) -> bool {
        let from = out.len();
        let to = (from + PIECE_BYTES).min(self.len);
        // Before it is locked: the system may have to find memory for it.
        out.resize(to, 0);
        let Some(place) = out.get_mut(from..to) else { return false };
        let mut state = lock(&self.state);
        let State { block, taken, earlier } = &mut *state;
        let saved = earlier.remove(&(from / PIECE_BYTES));
        let content = match (&saved, &*block) {
            (Some(saved), _) => saved.as_slice(),
            (None, Some(value)) => bytes(value).get(from..to).unwrap_or_default(),
            (None, None) => &[],
        };
        debug_assert_eq!(content.len(), place.len(), "what was not copied out is in the block or saved");
        if content.len() == place.len() {
            place.copy_from_slice(content);
        }
        *taken = to;
        if to == self.len {
            *block = None;
        }
        to < self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;
    use martlet_keyspace::{Db, ExpiryChange, Key, Shard};
    use proptest::prelude::*;

    const NAME: &[u8] = b"long";

    fn block(shard: &Shard) -> *const u8 {
        let entry = shard.db(0).get(&Key::new(NAME)).unwrap();
        let Some(StrValue::Bytes(bytes)) = entry.str() else { panic!("no text") };
        bytes.as_ptr()
    }

    fn value(shard: &Shard) -> Value {
        shard.db(0).get(&Key::new(NAME)).unwrap().value()
    }

    fn write(snapshot: &Snapshot, shard: &mut Shard, touched: &Range<usize>, byte: u8) {
        let key = Key::new(NAME);
        let change = |db: &mut Db| db.str_bytes_mut(&key).unwrap()[touched.clone()].fill(byte);
        snapshot.change_str(shard, 0, &key, touched, change);
    }

    proptest! {
        #[test]
        fn what_is_copied_is_what_was_there_at_the_cut(
            len in PINNED_MIN_BYTES..PINNED_MIN_BYTES * 2,
            steps in prop::collection::vec((0u8..8, 0usize..PINNED_MIN_BYTES, 1usize..40_000, any::<u8>()), 1..40),
        ) {
            let (snapshot, mut shard, key) = (Snapshot::default(), Shard::default(), Key::new(NAME));
            let at_cut: Vec<u8> = (0..len).map(|i| ((i * i) >> 5) as u8).collect();
            shard.db_mut(0).set_bytes(&key, &at_cut, true, ExpiryChange::Clear, 0);
            let pins = &snapshot.progress.pins;
            let pin = pins.pin(&shard.db(0).get(&key).unwrap()).unwrap();
            prop_assert!(pins.pin(&shard.db(0).get(&key).unwrap()).is_none(), "once");
            let (mut now, mut copy, mut shared, mut more) = (at_cut.clone(), Vec::new(), None, true);
            for (what, from, count, byte) in steps {
                match what {
                    0..=3 => {
                        let touched = from..(from + count).min(len);
                        let before = block(&shard);
                        write(&snapshot, &mut shard, &touched, byte);
                        prop_assert!(shared.is_some() || block(&shard) == before, "changed in place");
                        now[touched].fill(byte);
                    }
                    4 => {
                        let touched = now.len()..now.len();
                        snapshot.change_str(&mut shard, 0, &key, &touched, |db| {
                            db.update_str(&key, 0, 0, |bytes| bytes.extend(vec![byte; count]));
                        });
                        now.extend(vec![byte; count]);
                    }
                    5 => shared = shared.xor(Some((value(&shard), now.clone()))),
                    _ if more => more = pin.copy_piece(&mut copy),
                    _ => {}
                }
                prop_assert!(bytes(&value(&shard)) == now);
                if let Some((shared, then)) = &shared {
                    prop_assert!(bytes(shared) == then);
                }
            }
            while more {
                more = pin.copy_piece(&mut copy);
            }
            prop_assert!(copy == at_cut);
            // Nothing is kept for it any more.
            drop(shared);
            let before = block(&shard);
            write(&snapshot, &mut shard, &(0..1), 7);
            prop_assert!(block(&shard) == before);
        }
    }

    /// Two keys that share one block, in shards of their own, as COPY leaves them: one is changed while the
    /// other is pinned or changed, and blocks of other strings come to lie where theirs were.
    #[test]
    fn keys_that_share_a_block_are_changed_by_several_threads() {
        const ROUNDS: usize = 300;
        let key = Key::new(NAME);
        for round in 0..ROUNDS {
            let snapshot = Snapshot::default();
            let pins = &snapshot.progress.pins;
            let at_cut = vec![round as u8; PINNED_MIN_BYTES];
            let mut shards = [Shard::default(), Shard::default()];
            shards[0].db_mut(0).set_bytes(&key, &at_cut, true, ExpiryChange::Clear, 0);
            let shared = value(&shards[0]);
            shards[1].db_mut(0).set_value(&key, shared, None, 0);
            let start = std::sync::Barrier::new(shards.len());
            std::thread::scope(|scope| {
                for (i, shard) in shards.iter_mut().enumerate() {
                    let (snapshot, start, at_cut, key) = (&snapshot, &start, &at_cut, &key);
                    scope.spawn(move || {
                        start.wait();
                        let saved = value(shard);
                        let pin = pins.pin(&shard.db(0).get(key).unwrap());
                        // With a pin the block may be changed where it is, without one it has another owner.
                        let other = pin.is_none().then_some(saved);
                        write(snapshot, shard, &(0..100 + i), 201);
                        let mut copy = Vec::new();
                        if let Some(pin) = &pin {
                            pin.copy_piece(&mut copy);
                        }
                        write(snapshot, shard, &(0..PINNED_MIN_BYTES), 202);
                        // Another string, which is in no snapshot, where the old one was.
                        let text = vec![203; PINNED_MIN_BYTES];
                        shard.db_mut(0).set_bytes(key, &text, true, ExpiryChange::Clear, 0);
                        write(snapshot, shard, &(0..PINNED_MIN_BYTES), 204);
                        match (pin, other) {
                            (Some(pin), _) => {
                                while pin.copy_piece(&mut copy) {}
                                assert!(copy == *at_cut);
                            }
                            (None, Some(other)) => assert!(bytes(&other) == at_cut.as_slice()),
                            (None, None) => unreachable!(),
                        }
                        assert!(bytes(&value(shard)).iter().all(|&byte| byte == 204));
                    });
                }
            });
        }
    }

    #[test]
    fn a_pin_whose_block_has_moved_is_not_opened_for_the_string_in_its_old_place() {
        let (snapshot, mut shard, key) = (Snapshot::default(), Shard::default(), Key::new(NAME));
        shard.db_mut(0).set_bytes(&key, &[1; PINNED_MIN_BYTES], true, ExpiryChange::Clear, 0);
        let pin = snapshot.progress.pins.pin(&shard.db(0).get(&key).unwrap()).unwrap();
        let place = address(&value(&shard)).unwrap();
        assert!(pin.open(place + 8, &(0..1)).is_none());
        assert!(pin.open(place, &(0..1)).is_some());
    }

    #[test]
    fn a_string_that_is_replaced_or_deleted_is_copied_as_it_was() {
        for replaces in [false, true] {
            let (snapshot, mut shard, key) = (Snapshot::default(), Shard::default(), Key::new(NAME));
            let set = |shard: &mut Shard, byte: u8| {
                let text = vec![byte; PINNED_MIN_BYTES * 3];
                shard.db_mut(0).set_bytes(&key, &text, true, ExpiryChange::Clear, 0);
                text
            };
            let at_cut = set(&mut shard, 1);
            let pin = snapshot.progress.pins.pin(&shard.db(0).get(&key).unwrap()).unwrap();
            let mut copy = Vec::new();
            pin.copy_piece(&mut copy);
            write(&snapshot, &mut shard, &(0..PINNED_MIN_BYTES), 2);
            if replaces {
                set(&mut shard, 3);
                write(&snapshot, &mut shard, &(PINNED_MIN_BYTES..PINNED_MIN_BYTES * 2), 4);
            } else {
                shard.db_mut(0).remove(&key);
            }
            while pin.copy_piece(&mut copy) {}
            assert!(copy == at_cut);
        }
    }
}
