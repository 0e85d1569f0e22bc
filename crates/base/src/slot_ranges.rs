//! Ranges of hash slots as commands name them: pairs of a first and a last slot, with Redis' errors.

use crate::slot::SLOT_COUNT;

/// First and last slot of each range.
pub type SlotRanges = Vec<(u16, u16)>;

/// The slot number of a client's argument.
///
/// # Errors
/// The argument is not a slot.
pub fn parse_slot(argument: &[u8]) -> Result<u16, String> {
    let number = std::str::from_utf8(argument).ok().filter(|text| !text.starts_with('+'));
    let slot = number.and_then(|text| text.parse::<u16>().ok());
    slot.filter(|slot| usize::from(*slot) < SLOT_COUNT).ok_or_else(|| "Invalid or out of range slot".into())
}

/// Ranges of slots, sorted, and adjacent ones as one; `None` if there is one word too many.
///
/// # Errors
/// The first word that is wrong.
pub fn parse_slot_ranges(words: &[&[u8]]) -> Result<Option<SlotRanges>, String> {
    if !words.len().is_multiple_of(2) {
        return Ok(None);
    }
    let (mut named, mut ranges) = (vec![false; SLOT_COUNT], SlotRanges::new());
    for pair in words.chunks_exact(2) {
        let (first, last) = (parse_slot(pair[0])?, parse_slot(pair[1])?);
        if first > last {
            return Err(format!("start slot number {first} is greater than end slot number {last}"));
        }
        for slot in first..=last {
            if std::mem::replace(&mut named[usize::from(slot)], true) {
                return Err(format!("Slot {slot} specified multiple times"));
            }
        }
        ranges.push((first, last));
    }
    ranges.sort_unstable();
    ranges.dedup_by(|(first, last), before| {
        let joins = before.1 + 1 == *first;
        before.1 = if joins { *last } else { before.1 };
        joins
    });
    Ok(Some(ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<SlotRanges>, String> {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        parse_slot_ranges(&words)
    }

    #[test]
    fn ranges_are_sorted_and_joined() {
        assert_eq!(parsed("7 9 0 0 10 16383 3 3"), Ok(Some(vec![(0, 0), (3, 3), (7, 16383)])));
        assert_eq!(parsed("1 2 3"), Ok(None));
        assert_eq!(parse_slot_ranges(&[]), Ok(Some(Vec::new())));
    }

    #[test]
    fn a_wrong_range_is_refused_in_redis_words() {
        let out_of_range = ["17000 18000", "0 16384", "0 -1", "-1 2", "10 a", "+1 2", "1.0 2"];
        for text in out_of_range {
            assert_eq!(parsed(text), Err("Invalid or out of range slot".into()), "{text}");
        }
        assert_eq!(
            parsed("200 100"),
            Err("start slot number 200 is greater than end slot number 100".into())
        );
        assert_eq!(parsed("7 8 8 9"), Err("Slot 8 specified multiple times".into()));
    }
}
