//! POSIX extended regular expressions over bytes, with the extensions and the error texts of TRE, with which
//! Redis matches ARGREP's `RE`.
//!
//! A pattern is compiled, while it is read, to a program of bytes, branches and assertions; a match runs all
//! branches side by side, so it takes a time in O(program × text) whatever the pattern. As that may be long,
//! both are limited: the program when it is compiled, the steps when it is run ([`Budget`]). Back references
//! and approximate matching (`{~1}`) cannot be compiled so, and are refused.
//!
//! Invariant: jumps are relative and stay within the code of their own atom, which can thus be moved and
//! repeated.

mod bracket;
mod parse;
#[cfg(test)]
mod tests;

use thiserror::Error;

/// Why a pattern was refused; the texts are TRE's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Invalid {
    /// Something in `(?…)`.
    #[error("Invalid regexp")]
    Pattern,
    /// `[.x.]`, `[=x=]`.
    #[error("Unknown collating element")]
    Collation,
    /// `[:x:]`.
    #[error("Unknown character class name")]
    Class,
    /// A backslash at the end.
    #[error("Trailing backslash")]
    Escape,
    /// A reference to a group that is not there.
    #[error("Invalid back reference")]
    Reference,
    /// A bracket that is not closed.
    #[error("Missing ']'")]
    Bracket,
    /// A group that is not closed.
    #[error("Missing ')'")]
    Parenthesis,
    /// A brace that is not closed.
    #[error("Missing '}}'")]
    Brace,
    /// The content of braces.
    #[error("Invalid contents of {{}}")]
    Bound,
    /// A range whose ends are not in order, or shared.
    #[error("Invalid character range")]
    Range,
    /// More steps than were allowed.
    #[error("Out of memory")]
    TooLarge,
    /// One repetition behind another.
    #[error("Invalid use of repetition operators")]
    Repetition,
    /// A count in braces.
    #[error("Maximum repetition in {{}} larger than 255")]
    Count,
}

/// Most steps of a program.
pub const PROGRAM_MAX: usize = 50_000;

/// Steps that matches may take: each is a branch that is followed at a byte, some 10 ns.
///
/// Matches that belong together, as those of one command do, share a budget. It grows with the text, so that
/// usual expressions may search any amount of it, in a time proportional to that.
#[derive(Clone, Debug)]
pub struct Budget(u64);

/// A match has taken more steps than its budget had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("regular expression takes too many steps")]
pub struct TooManySteps;

impl Budget {
    /// Steps whatever the text: as many as take about 0.1 s.
    const STEPS: u64 = 1 << 23;
    /// Steps that each byte of text adds.
    const STEPS_PER_BYTE: u64 = 16;

    /// For no text yet.
    pub fn new() -> Budget {
        Budget(Budget::STEPS)
    }

    fn add_text(&mut self, len: usize) {
        self.0 = self.0.saturating_add((len as u64).saturating_mul(Budget::STEPS_PER_BYTE));
    }

    #[inline]
    fn take(&mut self, steps: usize) -> Result<(), TooManySteps> {
        self.0 = self.0.checked_sub(steps as u64).ok_or(TooManySteps)?;
        Ok(())
    }

    /// Steps that are left.
    pub fn left(&self) -> u64 {
        self.0
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new()
    }
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bytes([u64; 4]);

impl Bytes {
    const ALL: Bytes = Bytes([u64::MAX; 4]);

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn remove(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] &= !(1 << (byte & 63));
    }

    #[inline]
    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn complement(self) -> Bytes {
        Bytes(self.0.map(|bits| !bits))
    }

    fn union(&mut self, other: &Bytes) {
        self.0.iter_mut().zip(other.0).for_each(|(bits, more)| *bits |= more);
    }
}

/// A condition between two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assertion {
    Start,
    End,
    WordStart,
    WordEnd,
    /// At either end of the text too.
    WordEdge,
    /// At neither end of the text.
    InsideOrOutside,
}

impl Assertion {
    fn holds(self, text: &[u8], at: usize) -> bool {
        let is_word =
            |byte: Option<&u8>| byte.is_some_and(|byte| *byte == b'_' || byte.is_ascii_alphanumeric());
        let before = is_word(at.checked_sub(1).and_then(|before| text.get(before)));
        let (after, is_edge) = (is_word(text.get(at)), at == 0 || at == text.len());
        match self {
            Assertion::Start => at == 0,
            Assertion::End => at == text.len(),
            Assertion::WordStart => !before && after,
            Assertion::WordEnd => before && !after,
            Assertion::WordEdge => is_edge || before != after,
            Assertion::InsideOrOutside => !is_edge && before == after,
        }
    }
}

/// A step of a program; targets are relative to it.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// One of these bytes, and on.
    Any(Bytes),
    /// On, and to the target.
    Branch(i32),
    /// To the target.
    Jump(i32),
    /// On, if that holds.
    Assert(Assertion),
    Match,
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Regex {
    program: Vec<Step>,
    has_back_references: bool,
    /// Bytes that a match can begin with, if it has to begin with one.
    first: Option<Bytes>,
    now: Threads,
    next: Threads,
    /// Steps that are still to be followed.
    pending: Vec<u32>,
}

/// The steps that a match is at, each once.
#[derive(Debug, Default)]
struct Threads {
    dense: Vec<u32>,
    /// Where each step is in `dense`, if it is.
    sparse: Vec<u32>,
}

impl Threads {
    fn insert(&mut self, step: u32) -> bool {
        let place = self.sparse[step as usize] as usize;
        if self.dense.get(place) == Some(&step) {
            return false;
        }
        self.sparse[step as usize] = self.dense.len() as u32;
        self.dense.push(step);
        true
    }
}

impl Regex {
    /// Compiles a pattern to a program of fewer than `steps_max` steps, and of [`PROGRAM_MAX`] at most; with
    /// `nocase`, ASCII letters match in either case.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn new(pattern: &[u8], nocase: bool, steps_max: usize) -> Result<Regex, Invalid> {
        let (program, has_back_references) = parse::compile(pattern, nocase, steps_max.min(PROGRAM_MAX))?;
        let threads = || Threads { dense: Vec::new(), sparse: vec![0; program.len()] };
        let (now, next) = (threads(), threads());
        let mut regex = Regex { program, has_back_references, first: None, now, next, pending: Vec::new() };
        regex.first = regex.first_bytes();
        Ok(regex)
    }

    /// Steps of the program.
    pub fn program_len(&self) -> usize {
        self.program.len()
    }

    /// Whether the pattern has back references, which never match here.
    pub fn has_back_references(&self) -> bool {
        self.has_back_references
    }

    /// The bytes that a match can begin with; `None` if a match may be empty, or the text before it matters.
    fn first_bytes(&mut self) -> Option<Bytes> {
        let mut seen = vec![false; self.program.len()];
        let (mut pending, mut first) = (vec![0_usize], Bytes::default());
        while let Some(at) = pending.pop() {
            if std::mem::replace(seen.get_mut(at)?, true) {
                continue;
            }
            match self.program[at] {
                Step::Any(bytes) => first.union(&bytes),
                Step::Branch(to) => pending.extend([at + 1, at.wrapping_add_signed(to as isize)]),
                Step::Jump(to) => pending.push(at.wrapping_add_signed(to as isize)),
                Step::Assert(_) | Step::Match => return None,
            }
        }
        Some(first)
    }

    /// Whether some part of the text matches.
    ///
    /// # Errors
    /// [`TooManySteps`] when the budget, to which the text has added, is used up.
    pub fn is_match(&mut self, text: &[u8], budget: &mut Budget) -> Result<bool, TooManySteps> {
        budget.add_text(text.len());
        self.now.dense.clear();
        let mut at = 0;
        loop {
            if let Some(first) = &self.first
                && self.now.dense.is_empty()
            {
                let Some(ahead) = text[at..].iter().position(|byte| first.has(*byte)) else {
                    return Ok(false);
                };
                at += ahead;
            }
            if self.follow(0, text, at) {
                return Ok(true);
            }
            let Some(&byte) = text.get(at) else { return Ok(false) };
            budget.take(self.now.dense.len())?;
            at += 1;
            std::mem::swap(&mut self.now, &mut self.next);
            self.now.dense.clear();
            for index in 0..self.next.dense.len() {
                let step = self.next.dense[index];
                let takes = matches!(&self.program[step as usize], Step::Any(bytes) if bytes.has(byte));
                if takes && self.follow(step + 1, text, at) {
                    return Ok(true);
                }
            }
        }
    }

    /// Adds a step and those that are reached from it without a byte; whether the match is complete.
    fn follow(&mut self, step: u32, text: &[u8], at: usize) -> bool {
        self.pending.push(step);
        while let Some(step) = self.pending.pop() {
            if !self.now.insert(step) {
                continue;
            }
            match self.program[step as usize] {
                Step::Any(_) => {}
                Step::Branch(to) => self.pending.extend([step + 1, step.wrapping_add_signed(to)]),
                Step::Jump(to) => self.pending.push(step.wrapping_add_signed(to)),
                Step::Assert(assertion) if assertion.holds(text, at) => self.pending.push(step + 1),
                Step::Assert(_) => {}
                Step::Match => {
                    self.pending.clear();
                    return true;
                }
            }
        }
        false
    }
}
