//! DEBUG DIGEST of any state of database 0, computed from the digests of single elements.
//!
//! The digest of a data set with one database is a start value, exclusive-or that of each key. So from the
//! answers for single elements, and for two of them together, that for any state follows.

use super::{Elements, State};

/// A digest as DEBUG DIGEST writes it: 40 hexadecimal digits.
const DIGITS: usize = 40;

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Digests {
    start: Vec<u8>,
    /// Of each element, with the start value.
    elements: Vec<Vec<u8>>,
}

/// The digits' values; `None` if it is no digest.
fn parse(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    digits.filter(|digits| digits.len() == DIGITS)
}

fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(left, right)| left ^ right).collect()
}

impl Digests {
    /// From the answers for each element alone, and for the first two together; `None` if they are no
    /// digests.
    pub fn new(alone: &[String], first_two: &str) -> Option<Digests> {
        let elements: Vec<Vec<u8>> = alone.iter().map(|text| parse(text)).collect::<Option<_>>()?;
        let [first, second, ..] = elements.as_slice() else { return None };
        let start = xor(&xor(first, second), &parse(first_two)?);
        Some(Digests { start, elements })
    }

    /// The answer for a state whose other databases are empty.
    pub(super) fn of(&self, state: State) -> String {
        let there = |element: &usize| state.0[0] >> element & 1 == 1;
        let empty = vec![0; DIGITS];
        let sum = match state.0[0] as Elements {
            0 => empty,
            _ => (0..self.elements.len()).filter(there).fold(self.start.clone(), |sum, element| {
                xor(&xor(&sum, &self.elements[element]), &self.start)
            }),
        };
        sum.iter().filter_map(|digit| char::from_digit(u32::from(*digit), 16)).collect()
    }
}
