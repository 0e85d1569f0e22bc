//! A bag of words: how often each was put in, and until when it counts.

use std::sync::Arc;

use martlet_keyspace::ModuleObject;

/// A word of a bag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: Vec<u8>,
    pub count: u64,
    /// When it is gone, Unix milliseconds.
    pub until_ms: Option<i64>,
}

/// See the [module docs](self). A clone shares the words until one of the two is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bag(Arc<Vec<Word>>);

impl Bag {
    /// The words, ascending.
    pub fn words(&self) -> &[Word] {
        &self.0
    }

    /// Puts a word in, or more of it.
    pub fn add(&mut self, text: &[u8], count: u64, until_ms: Option<i64>) {
        let words = Arc::make_mut(&mut self.0);
        match words.binary_search_by(|word| word.text.as_slice().cmp(text)) {
            Ok(at) => {
                words[at].count += count;
                words[at].until_ms = until_ms;
            }
            Err(at) => words.insert(at, Word { text: text.to_vec(), count, until_ms }),
        }
    }

    /// How often a word is in the bag.
    pub fn count(&self, text: &[u8], now_ms: i64) -> u64 {
        let found = self.0.iter().find(|word| word.text == text);
        let counts = found.filter(|word| word.until_ms.is_none_or(|until_ms| until_ms > now_ms));
        counts.map_or(0, |word| word.count)
    }
}

impl ModuleObject for Bag {
    fn type_name(&self) -> &str {
        "bag-words"
    }

    fn element_count(&self) -> usize {
        self.0.len()
    }

    fn heap_bytes(&self) -> usize {
        let texts: usize = self.0.iter().map(|word| word.text.capacity()).sum();
        size_of::<Vec<Word>>() + 2 * size_of::<usize>() + self.0.capacity() * size_of::<Word>() + texts
    }

    fn due_ms(&self) -> Option<i64> {
        self.0.iter().filter_map(|word| word.until_ms).min()
    }

    fn remove_due(&mut self, now_ms: i64, limit: usize) -> usize {
        let mut left = limit;
        Arc::make_mut(&mut self.0).retain(|word| {
            let goes = left > 0 && word.until_ms.is_some_and(|until_ms| until_ms <= now_ms);
            left -= usize::from(goes);
            !goes
        });
        limit - left
    }
}
