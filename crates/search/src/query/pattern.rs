//! Patterns that terms match: affixes, wildcards, and texts at an edit distance.
//!
//! A dictionary in ascending order is walked with a pattern: the walk begins at [`TermPattern::prefix`], and
//! each name is given to [`TermPattern::step`], which says whether it matches and which later names cannot.
//! The cost of a step is bounded by the name's length and the pattern's; a name shorter than any match costs
//! nothing. A character is a character of UTF-8, or a byte outside UTF-8.

use super::ast::Side;

/// The bytes of the longest text from which names may be some edits away: names that are terms are shorter.
const FUZZY_MAX_CHARACTERS: usize = 512;

/// The results of a step.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It matches.
    Match,
    /// It does not match.
    Pass,
    /// Names that begin with this many bytes of it do not match: the walk may continue at their
    /// [`successor`].
    Skip(usize),
}

/// A pattern, with the state of one walk.
#[derive(Clone, Debug)]
pub enum TermPattern {
    /// See [`Affix`].
    Affix(Box<Affix>),
    /// See [`Wildcard`].
    Wildcard(Wildcard),
    /// See [`Fuzzy`].
    Fuzzy(Box<Fuzzy>),
}

impl TermPattern {
    /// The bytes with which all matching names begin.
    pub fn prefix(&self) -> &[u8] {
        match self {
            TermPattern::Affix(affix) if affix.side == Side::Prefix => &affix.text,
            TermPattern::Wildcard(wildcard) => &wildcard.prefix,
            TermPattern::Affix(_) | TermPattern::Fuzzy(_) => b"",
        }
    }

    /// The pattern's kind and text, as FT.PROFILE shows it.
    pub fn text(&self) -> Vec<u8> {
        let (kind, text) = match self {
            TermPattern::Affix(affix) => match affix.side {
                Side::Prefix => ("PREFIX", affix.text.to_vec()),
                Side::Suffix => ("SUFFIX", affix.text.to_vec()),
                Side::Infix => ("INFIX", affix.text.to_vec()),
            },
            TermPattern::Wildcard(wildcard) => {
                let parts = wildcard.parts.iter().map(|part| match part {
                    Part::Any => 0x2a,
                    Part::One => 0x3f,
                    Part::Character(character) => *character,
                });
                ("WILDCARD", encoded(parts))
            }
            TermPattern::Fuzzy(fuzzy) => ("FUZZY", encoded(fuzzy.text.iter().copied())),
        };
        [kind.as_bytes(), b" - ", &text].concat()
    }

    /// Tests the next name of the walk.
    pub fn step(&mut self, name: &[u8]) -> Step {
        let matches = match self {
            TermPattern::Affix(affix) => affix.matches(name),
            TermPattern::Wildcard(wildcard) => wildcard.matches(name),
            TermPattern::Fuzzy(fuzzy) => return fuzzy.step(name),
        };
        if matches { Step::Match } else { Step::Pass }
    }
}

/// The text of characters; those that are none show as one that replaces them.
fn encoded(characters: impl Iterator<Item = u32>) -> Vec<u8> {
    let text: String =
        characters.map(|one| char::from_u32(one).unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    text.into_bytes()
}

/// The least name behind all that begin with `prefix`, into `name`. Returns whether it exists.
pub fn successor(prefix: &[u8], name: &mut Vec<u8>) -> bool {
    name.clear();
    let Some(place) = prefix.iter().rposition(|byte| *byte != u8::MAX) else { return false };
    name.extend_from_slice(&prefix[..=place]);
    name[place] += 1;
    true
}

/// A part of names.
#[derive(Clone, Debug)]
pub struct Affix {
    text: Box<[u8]>,
    side: Side,
    finder: memchr::memmem::Finder<'static>,
}

impl Affix {
    /// Names that have `text` at a side.
    pub fn new(text: &[u8], side: Side) -> Affix {
        Affix { text: text.into(), side, finder: memchr::memmem::Finder::new(text).into_owned() }
    }

    /// Whether a name matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self.side {
            Side::Prefix => name.starts_with(&self.text),
            Side::Suffix => name.ends_with(&self.text),
            Side::Infix => self.finder.find(name).is_some(),
        }
    }
}

/// A part of a wildcard pattern.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Part {
    Character(u32),
    /// `?`
    One,
    /// `*`
    Any,
}

/// A pattern of which `?` stands for one character and `*` for any number of them. A backslash before a byte
/// is left out; it does not take a sign's meaning (RediSearch: it is for quotes and backslashes).
#[derive(Clone, Debug)]
pub struct Wildcard {
    parts: Box<[Part]>,
    prefix: Box<[u8]>,
    /// Characters of the shortest match.
    min_characters: usize,
}

impl Wildcard {
    /// The pattern of a query's text.
    pub fn new(text: &[u8]) -> Wildcard {
        let mut plain = Vec::with_capacity(text.len());
        let mut is_escaped = false;
        for &byte in text {
            is_escaped = byte == b'\\' && !is_escaped;
            if !is_escaped {
                plain.push(byte);
            }
        }
        let mut parts: Vec<Part> = characters(&plain)
            .map(|(character, _)| match character {
                0x2a => Part::Any,
                0x3f => Part::One,
                character => Part::Character(character),
            })
            .collect();
        parts.dedup_by(|part, before| *part == Part::Any && *before == Part::Any);
        let literal = plain.iter().take_while(|byte| !matches!(byte, b'*' | b'?')).count();
        let min_characters = parts.iter().filter(|part| **part != Part::Any).count();
        Wildcard { parts: parts.into(), prefix: plain[..literal].into(), min_characters }
    }

    /// The bytes with which all matches begin.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Whether a whole name matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        if self.min_characters > name.len() || !name.starts_with(&self.prefix) {
            return false;
        }
        let (mut part, mut at) = (0, 0);
        // Where the last `*` was, and how much of the name it has taken: a mismatch gives it one character
        // more.
        let mut star: Option<(usize, usize)> = None;
        while at < name.len() {
            let (character, len) = character_at(&name[at..]);
            match self.parts.get(part) {
                Some(Part::Any) => {
                    star = Some((part, at));
                    part += 1;
                }
                Some(Part::One) => (part, at) = (part + 1, at + len),
                Some(Part::Character(expected)) if *expected == character => {
                    (part, at) = (part + 1, at + len)
                }
                _ => {
                    let Some((place, taken)) = star else { return false };
                    let taken = taken + character_at(&name[taken..]).1;
                    star = Some((place, taken));
                    (part, at) = (place + 1, taken);
                }
            }
        }
        self.parts[part..].iter().all(|part| *part == Part::Any)
    }
}

/// The first character of a text that is not empty, and its bytes. A byte that is not UTF-8 is a character
/// beyond Unicode's.
fn character_at(text: &[u8]) -> (u32, usize) {
    let byte = text[0];
    let len = match byte {
        0..=0x7f => return (u32::from(byte), 1),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return (0x11_0000 + u32::from(byte), 1),
    };
    let character = text.get(..len).and_then(|bytes| std::str::from_utf8(bytes).ok()?.chars().next());
    character.map_or((0x11_0000 + u32::from(byte), 1), |character| (u32::from(character), len))
}

fn characters(text: &[u8]) -> impl Iterator<Item = (u32, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let (character, len) = character_at(rest);
        at += len;
        Some((character, len))
    })
}

/// Names at most some insertions, deletions and replacements of characters away from a text.
///
/// A name's distance is found by a table, a row for each of its characters; the rows of the characters that a
/// name shares with the one before it are kept. Where the least number of a row exceeds the distance, no name
/// with these characters at its beginning matches.
#[derive(Clone, Debug)]
pub struct Fuzzy {
    text: Box<[u32]>,
    distance: u8,
    /// The last name that was looked at, as far as there are rows.
    name: Vec<u8>,
    /// The byte of `name` behind each character.
    ends: Vec<usize>,
    /// The rows, the first of which is that of no character.
    rows: Vec<u8>,
}

impl Fuzzy {
    /// Names at most `distance` from `text`.
    pub fn new(text: &[u8], distance: u8) -> Fuzzy {
        let text: Box<[u32]> =
            characters(text).map(|(character, _)| character).take(FUZZY_MAX_CHARACTERS + 1).collect();
        let rows = (0..=text.len()).map(|place| place.min(usize::from(distance) + 1) as u8).collect();
        Fuzzy { text, distance, name: Vec::new(), ends: Vec::new(), rows }
    }

    /// Whether a name matches.
    pub fn matches(&mut self, name: &[u8]) -> bool {
        self.step(name) == Step::Match
    }

    /// See [`TermPattern::step`].
    pub fn step(&mut self, name: &[u8]) -> Step {
        if self.text.len() > FUZZY_MAX_CHARACTERS {
            // No term is near; the walk ends at the next byte that a name begins with.
            return Step::Skip(name.len().min(1));
        }
        let shared = self.name.iter().zip(name).take_while(|(one, other)| one == other).count();
        let kept = self.ends.partition_point(|end| *end <= shared);
        self.ends.truncate(kept);
        let width = self.text.len() + 1;
        self.rows.truncate((kept + 1) * width);
        let mut at = self.ends.last().copied().unwrap_or(0);
        self.name.truncate(at);
        if !self.is_near() {
            return Step::Skip(at);
        }
        while at < name.len() {
            let (character, len) = character_at(&name[at..]);
            self.push_row(character, width);
            self.name.extend_from_slice(&name[at..at + len]);
            at += len;
            self.ends.push(at);
            if !self.is_near() {
                return Step::Skip(at);
            }
        }
        let is_match = self.rows.last().is_some_and(|distance| *distance <= self.distance);
        if is_match { Step::Match } else { Step::Pass }
    }

    /// Whether names that continue the last row may match.
    fn is_near(&self) -> bool {
        let width = self.text.len() + 1;
        self.rows[self.rows.len() - width..].iter().any(|distance| *distance <= self.distance)
    }

    fn push_row(&mut self, character: u32, width: usize) {
        let before = self.rows.len() - width;
        // Larger numbers are alike.
        let far = self.distance + 1;
        let mut left = (self.rows[before] + 1).min(far);
        self.rows.push(left);
        for place in 1..width {
            let (diagonal, above) = (self.rows[before + place - 1], self.rows[before + place]);
            let replaced = diagonal + u8::from(self.text[place - 1] != character);
            left = replaced.min(above + 1).min(left + 1).min(far);
            self.rows.push(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;
    use std::collections::BTreeSet;

    #[test]
    fn wildcards_match_characters() {
        for (pattern, name, expected) in [
            ("foo*b?r", "foobar", true),
            ("foo*b?r", "foo bar", true),
            ("foo*b?r", "foobr", false),
            ("*", "", true),
            ("?", "", false),
            ("?", "ä", true),
            ("??", "ä", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "ab", true),
            ("*ab", "aab", true),
            ("a*", "b", false),
            ("", "", true),
            ("", "a", false),
            (r"it\'s", "it's", true),
            (r"a\\b", r"a\b", true),
            // The sign keeps its meaning.
            (r"a\*", "abc", true),
        ] {
            let matcher = Wildcard::new(pattern.as_bytes());
            assert_eq!(matcher.matches(name.as_bytes()), expected, "{pattern} {name}");
        }
        assert_eq!(Wildcard::new(b"ab?c").prefix(), b"ab");
        assert!(Wildcard::new(b"?").matches(b"\xff"));
        // The worst case ends.
        assert!(!Wildcard::new("*a".repeat(60).as_bytes()).matches(&[b'b'; 100_000]));
        assert!(!Wildcard::new(&b"?".repeat(1_000_000)).matches(&[b'b'; 1000]));
    }

    /// The distance of two texts by the whole table.
    fn distance(one: &str, other: &str) -> usize {
        let other: Vec<char> = other.chars().collect();
        let mut row: Vec<usize> = (0..=other.len()).collect();
        for character in one.chars() {
            let mut diagonal = std::mem::replace(&mut row[0], 0);
            row[0] = diagonal + 1;
            for place in 1..row.len() {
                let replaced = diagonal + usize::from(other[place - 1] != character);
                diagonal = row[place];
                row[place] = replaced.min(row[place] + 1).min(row[place - 1] + 1);
            }
        }
        row[other.len()]
    }

    fn word(random: &mut Random) -> String {
        (0..random.below(7)).map(|_| ['a', 'b', 'c', 'ä', '語'][random.below(5) as usize]).collect()
    }

    #[test]
    fn a_walk_finds_what_each_name_alone_says() {
        let seed = 20_261_127;
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for _ in 0..50 {
            let names: BTreeSet<String> = (0..400).map(|_| word(&mut random)).collect();
            let text = word(&mut random);
            for edits in 1..=3_u8 {
                let mut pattern = TermPattern::Fuzzy(Box::new(Fuzzy::new(text.as_bytes(), edits)));
                let (mut found, mut looked_at) = (Vec::new(), 0);
                let mut from = Vec::new();
                'walk: loop {
                    for name in names.iter().filter(|name| name.as_bytes() >= &*from) {
                        looked_at += 1;
                        match pattern.step(name.as_bytes()) {
                            Step::Match => found.push(name),
                            Step::Pass => {}
                            Step::Skip(len) => {
                                if !successor(&name.as_bytes()[..len], &mut from) {
                                    break 'walk;
                                }
                                continue 'walk;
                            }
                        }
                    }
                    break;
                }
                let expected: Vec<&String> =
                    names.iter().filter(|name| distance(name, &text) <= usize::from(edits)).collect();
                assert_eq!(found, expected, "{text} {edits}");
                assert!(looked_at <= names.len());
            }
        }
    }

    #[test]
    fn successors_are_behind_all_that_begin_alike() {
        let mut name = Vec::new();
        assert!(successor(b"ab", &mut name) && name == b"ac");
        assert!(successor(b"a\xff\xff", &mut name) && name == b"b");
        assert!(!successor(b"\xff", &mut name));
        assert!(!successor(b"", &mut name));
    }

    #[test]
    fn long_texts_are_near_nothing() {
        let mut fuzzy = Fuzzy::new(&b"a".repeat(1_000_000), 3);
        assert_eq!(fuzzy.step(b"abc"), Step::Skip(1));
        assert!(!fuzzy.matches(b""));
        assert!(Fuzzy::new(b"", 1).matches(b"x"));
        assert!(!Fuzzy::new(b"", 1).matches(b"xy"));
    }

    #[test]
    fn affixes_stand_at_their_side() {
        for (side, expected) in [
            (Side::Prefix, [true, false, false]),
            (Side::Suffix, [false, true, false]),
            (Side::Infix, [true; 3]),
        ] {
            let mut pattern = TermPattern::Affix(Box::new(Affix::new(b"ab", side)));
            let found = [b"abx", b"xab", &b"xabx"[..]].map(|name| pattern.step(name) == Step::Match);
            assert_eq!(found, expected, "{side:?}");
        }
        assert_eq!(TermPattern::Affix(Box::new(Affix::new(b"ab", Side::Prefix))).prefix(), b"ab");
    }
}
