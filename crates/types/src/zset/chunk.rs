//! `Chunk`: some 200 entries of the index in one block; [`super::index`] describes them.

use super::shared::{COUNTS_BYTES, Shared, TAGS};
use crate::size_class::{class_bytes, class_of};

/// The highest bits of an entry's word, which select its home in the chunk.
pub(super) const HOME_BITS: u32 = 9;
/// The bits behind them, which lead to the chunk.
pub(super) const PATH_BITS: u32 = 21;
/// The lowest bits of the word: leaf and slot.
pub(super) const REF_BITS: u32 = 34;
/// The lowest of these: the slot.
pub(super) const SLOT_BITS: u32 = 6;

/// No entry is this word, since no leaf has the largest id.
pub(super) const EMPTY: u64 = u64::MAX;

/// Bytes of a chunk's allocation without its words.
const OVERHEAD_BYTES: usize = COUNTS_BYTES + size_of::<Header>();

/// The block of a chunk with tag `t` has `t + 1` eighths of this. It is only larger where the path's bits are
/// used up, in sets of hundreds of millions.
const CHUNK_MAX_BYTES: usize = if cfg!(test) { 512 } else { 2048 };

/// Chunks that have fewer entries together become one.
pub(super) const MERGE_LEN: usize = CHUNK_MAX_BYTES / 32;

/// Words of a chunk by tag, which the largest may exceed.
const WORDS: [usize; TAGS] = {
    let mut words = [0; TAGS];
    let mut tag = 0;
    while tag < TAGS {
        words[tag] = (CHUNK_MAX_BYTES / TAGS * (tag + 1) - OVERHEAD_BYTES) / 8;
        tag += 1;
    }
    words
};

/// Homes by tag: the words but for some at the end, which take entries pushed out of their homes.
const HOMES: [u64; TAGS] = {
    let mut homes = [0; TAGS];
    let mut tag = 0;
    while tag < TAGS {
        homes[tag] = without_spill(WORDS[tag]) as u64;
        tag += 1;
    }
    homes
};

static EMPTY_WORDS: [u64; WORDS[TAGS - 1]] = [EMPTY; WORDS[TAGS - 1]];

const fn without_spill(words: usize) -> usize {
    words - words / 16 - 1
}

/// The most entries that a chunk of `words` takes.
const fn limit(words: usize) -> usize {
    let homes = without_spill(words);
    homes - homes / 8
}

/// See the module's description.
#[derive(Clone)]
pub(super) struct Chunk(Shared<Header>);

#[derive(Clone, Copy)]
struct Header {
    len: u32,
    /// How many of the path's low bits have not led here.
    rest_bits: u8,
    /// How many bits of the slot in the node the chunk's own splits have used.
    depth: u8,
}

impl Chunk {
    /// An empty chunk for `entries`, in the smallest block that leaves an eighth free.
    pub fn with_room(entries: usize, rest_bits: u32, depth: u8) -> Chunk {
        let header = Header { len: 0, rest_bits: rest_bits as u8, depth };
        match WORDS.iter().position(|&words| entries <= limit(words)) {
            Some(tag) => Chunk(Shared::new(header, &EMPTY_WORDS[..WORDS[tag]], tag)),
            None => {
                let words = vec![EMPTY; entries + entries / 4 + WORDS[TAGS - 1]];
                Chunk(Shared::new(header, &words, TAGS - 1))
            }
        }
    }

    #[inline]
    pub fn words(&self) -> &[u64] {
        self.0.words()
    }

    /// The words from a key's home on.
    ///
    /// How many there are lies in another line than the home: it is read after the last word that the tag
    /// promises.
    #[inline]
    pub fn words_from_home(&self, key: u64) -> impl Iterator<Item = u64> + '_ {
        let promised = WORDS[self.0.tag()];
        // SAFETY: a chunk has no fewer words than its tag promises, and its homes are among these.
        let first = unsafe { self.0.words_at(self.home(key)..promised) };
        let rest = move || self.words()[promised..].iter();
        first.iter().chain(std::iter::once_with(rest).flatten()).copied()
    }

    pub fn len(&self) -> usize {
        self.0.header().len as usize
    }

    /// How many bits of the slot in its node the chunk's own splits have used.
    pub fn depth(&self) -> u8 {
        self.0.header().depth
    }

    pub fn set_depth(&mut self, depth: u8) {
        self.0.edit(|body| body.header_mut().depth = depth);
    }

    /// How many bits of the path are left to split by.
    pub fn rest_bits(&self) -> u32 {
        u32::from(self.0.header().rest_bits)
    }

    /// Whether the block has the size at which a chunk splits.
    pub fn is_largest(&self) -> bool {
        self.0.tag() + 1 == TAGS
    }

    /// Whether a smaller block would do, or a neighbour could take the entries in.
    pub fn is_sparse(&self) -> bool {
        let (len, words) = (self.len(), self.words().len());
        len * 4 < words && (words > WORDS[0] || len % 4 == 0)
    }

    /// The home of a key among the words of this chunk.
    #[inline]
    pub fn home(&self, key: u64) -> usize {
        (((key >> PATH_BITS) * HOMES[self.0.tag()]) >> HOME_BITS) as usize
    }

    pub fn heap_bytes(&self) -> usize {
        class_bytes(class_of(OVERHEAD_BYTES + size_of_val(self.words())))
    }

    /// Asks the processor for the line in which a key's entry is most likely.
    #[inline]
    pub fn prefetch(&self, key: u64) {
        martlet_base::prefetch::prefetch(self.home_address(key));
    }

    /// Where the entry with the key is most likely.
    #[inline]
    pub fn home_address(&self, key: u64) -> *const u8 {
        self.0.address(self.home(key))
    }

    /// Adds an entry; false if there is no room.
    pub fn insert(&mut self, word: u64) -> bool {
        let words = self.words();
        if self.len() >= limit(words.len()) {
            return false;
        }
        let home = self.home(word >> REF_BITS);
        let Some(at) = words[home..].iter().position(|&other| other > word).map(|offset| home + offset)
        else {
            return false;
        };
        let Some(run) = words[at..].iter().position(|&other| other == EMPTY) else { return false };
        self.0.edit(|body| {
            body.header_mut().len += 1;
            let words = body.slice_mut();
            words.copy_within(at..at + run, at + 1);
            words[at] = word;
        });
        true
    }

    fn position(&self, word: u64) -> Option<usize> {
        let home = self.home(word >> REF_BITS);
        let offset = self.words()[home..].iter().position(|&other| other >= word)?;
        (self.words()[home + offset] == word).then_some(home + offset)
    }

    /// Removes an entry.
    pub fn remove(&mut self, word: u64) {
        let Some(at) = self.position(word) else { return };
        let words = self.words();
        // Those behind move up until one is at its home.
        let after = at + 1;
        let run = words[after..]
            .iter()
            .enumerate()
            .position(|(offset, &other)| other == EMPTY || self.home(other >> REF_BITS) == after + offset)
            .unwrap_or(words.len() - after);
        self.0.edit(|body| {
            body.header_mut().len -= 1;
            let words = body.slice_mut();
            words.copy_within(after..after + run, at);
            words[at + run] = EMPTY;
        });
    }

    /// Replaces an entry by one of the same key; what lies between the two in order moves.
    pub fn replace(&mut self, from: u64, to: u64) {
        let Some(mut at) = self.position(from) else { return };
        self.0.edit(|body| {
            let words = body.slice_mut();
            // Only entries of the same key can lie between, and all of them are behind their common home.
            while at > 0 && words[at - 1] != EMPTY && words[at - 1] > to {
                words[at] = words[at - 1];
                at -= 1;
            }
            while let Some(&next) = words.get(at + 1)
                && next < to
            {
                words[at] = next;
                at += 1;
            }
            words[at] = to;
        });
    }

    /// The entries in order.
    pub fn entries(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        self.words().iter().copied().filter(|&word| word != EMPTY)
    }

    /// The same entries, with room for `entries`.
    pub fn rebuilt(&self, entries: usize) -> Chunk {
        Chunk::of(self.entries(), entries, self.rest_bits(), self.depth())
    }

    /// The same entries in the next larger block.
    pub fn larger(&self) -> Chunk {
        self.rebuilt(limit(self.words().len()) + 1)
    }

    /// Two chunks: the entries whose next bit is 0, and those whose next bit is 1.
    pub fn split(&self) -> (Chunk, Chunk) {
        let rest_bits = self.rest_bits() - 1;
        let bit = 1u64 << (rest_bits + REF_BITS);
        let half = |set: bool| {
            let entries = self.entries().filter(move |word| (word & bit != 0) == set);
            let room = entries.clone().count() + 1;
            Chunk::of(entries, room, rest_bits, self.depth() + 1)
        };
        (half(false), half(true))
    }

    /// The reverse of [`Chunk::split`].
    pub fn joined(&self, high: &Chunk) -> Chunk {
        let mut entries: Vec<u64> = self.entries().chain(high.entries()).collect();
        entries.sort_unstable();
        let room = entries.len() * 3 / 2 + 4;
        Chunk::of(entries.into_iter(), room, self.rest_bits() + 1, self.depth() - 1)
    }

    /// A chunk of ascending entries, with room for `room` of them or more.
    fn of(entries: impl Iterator<Item = u64> + Clone, mut room: usize, rest_bits: u32, depth: u8) -> Chunk {
        loop {
            let mut chunk = Chunk::with_room(room, rest_bits, depth);
            if chunk.fill(entries.clone()) {
                return chunk;
            }
            room = limit(chunk.words().len()) + 1;
        }
    }

    /// Puts ascending entries into an empty chunk; false if one would lie behind the last word.
    fn fill(&mut self, entries: impl Iterator<Item = u64>) -> bool {
        let homes = HOMES[self.0.tag()];
        self.0.edit(|body| {
            let (mut next, mut len) = (0, 0);
            for word in entries {
                let home = ((word >> (REF_BITS + PATH_BITS)) * homes) >> HOME_BITS;
                let at = (home as usize).max(next);
                match body.slice_mut().get_mut(at) {
                    Some(place) => *place = word,
                    None => return false,
                }
                next = at + 1;
                len += 1;
            }
            body.header_mut().len = len;
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_from_home_on_are_given_whatever_the_block() {
        // Of one key, as where the path's bits are used up: the last are more than any tag promises.
        for entries in [1, 10, 40, 300] {
            let mut chunk = Chunk::with_room(entries, 0, 0);
            (0..entries as u64).for_each(|place| assert!(chunk.insert(place)));
            assert_eq!(chunk.len(), entries);
            for key in [0, 1 << (PATH_BITS + HOME_BITS - 1), (1 << (PATH_BITS + HOME_BITS)) - 1] {
                let words: Vec<u64> = chunk.words_from_home(key).collect();
                assert_eq!(words, chunk.words()[chunk.home(key)..], "{entries} entries, key {key}");
            }
        }
        assert!(Chunk::with_room(300, 0, 0).words().len() > WORDS[TAGS - 1]);
    }
}
