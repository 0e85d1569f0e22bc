//! Bounds of ranges: of scores (`1.5`, `(1.5`, `-inf`) and of members (`[member`, `(member`, `-`, `+`).

use martlet_base::number::parse_f64_saturating;
use martlet_spec::Error;
use martlet_types::zset::{LexBound, ScoreBound};

/// The bounds of a range of scores.
///
/// # Errors
/// Redis' text for a malformed number.
pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<(ScoreBound, ScoreBound), Error> {
    let both = score(min).zip(score(max));
    both.ok_or(Error::Fixed("ERR min or max is not a float"))
}

/// Redis asks only whether all of the text was read, up to a zero byte: an empty one is zero, and too large a
/// number is infinite. Since 8.2 its reader takes neither blanks before the number nor hexadecimal ones.
fn score(text: &[u8]) -> Option<ScoreBound> {
    let (exclusive, text) = match text {
        [b'(', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(ScoreBound { score: 0.0, exclusive });
    }
    let is_hexadecimal = text.iter().any(|byte| matches!(byte, b'x' | b'X'));
    let score = parse_f64_saturating(text).filter(|_| !is_hexadecimal)?;
    Some(ScoreBound { score, exclusive })
}

/// The bounds of a range of members.
///
/// # Errors
/// Redis' text for what begins otherwise.
pub(super) fn members<'a>(min: &'a [u8], max: &'a [u8]) -> Result<(LexBound<'a>, LexBound<'a>), Error> {
    let both = member(min).zip(member(max));
    both.ok_or(Error::Fixed("ERR min or max not valid string range item"))
}

fn member(text: &[u8]) -> Option<LexBound<'_>> {
    match text {
        b"-" => Some(LexBound::Min),
        b"+" => Some(LexBound::Max),
        [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
        [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
        _ => None,
    }
}
