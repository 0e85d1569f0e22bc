//! SUMMARIZE and HIGHLIGHT: the part of a text that a result shows, with the matches marked.
//!
//! Matches near each other form a fragment. The fragments of the highest scores are shown in the order of the
//! text, each with context on both sides. Context is cut at words as RediSearch cuts it, which loses the
//! first and the last word of a text, so that results are equal.

use crate::number::is_blank;
use crate::request::{Highlight, Summarize};
use crate::text::token::is_separator;

/// The most tokens between two matches of a fragment, the second one included.
const FRAGMENT_DISTANCE: u32 = 8;
/// Bytes that a word is taken for.
const WORD_BYTES: usize = 6;

/// A term of the query at a place in the text.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Match {
    /// The token's position among the tokens of the text.
    pub position: u32,
    /// Where its bytes begin.
    pub start: usize,
    /// Where its bytes end; none: at the next separator.
    pub end: Option<usize>,
    /// Which term of the query it is.
    pub term: u32,
    /// The term's inverse document frequency.
    pub score: f32,
}

/// Matches that stand together.
#[derive(Debug, Default)]
struct Fragment {
    start: usize,
    end: usize,
    first_position: u32,
    last_position: u32,
    score: f32,
    /// Bytes of each match.
    terms: Vec<(usize, usize)>,
    ids: Vec<u32>,
}

impl Fragment {
    /// Tokens that are no matches.
    fn other_tokens(&self) -> usize {
        ((self.last_position - self.first_position) as usize + 1).saturating_sub(self.terms.len())
    }
}

/// The snippet of a text. `matches` are in the order of their positions. `None`: the text is shown unchanged.
pub fn snippet(
    text: &[u8],
    matches: &[Match],
    summarize: Option<&Summarize>,
    highlight: Option<&Highlight>,
) -> Option<Vec<u8>> {
    let fragments = fragments(text, matches);
    match (summarize, highlight) {
        (None, None) => None,
        (Some(summarize), None) if fragments.is_empty() => Some(beginning(text, summarize)),
        _ if fragments.is_empty() => None,
        (None, Some(highlight)) => Some(marked(text, &fragments, highlight)),
        (Some(summarize), highlight) => Some(summary(text, fragments, summarize, highlight)),
    }
}

fn fragments(text: &[u8], matches: &[Match]) -> Vec<Fragment> {
    let mut fragments: Vec<Fragment> = Vec::new();
    let (mut last_position, mut last_end) = (None, 0);
    for found in matches {
        if last_position == Some(found.position) || found.start < last_end || found.start > text.len() {
            continue;
        }
        let rest = text.get(found.start..).unwrap_or_default();
        let word_len = rest.iter().position(|byte| is_separator(*byte)).unwrap_or(rest.len());
        let end = found.end.unwrap_or(found.start + word_len).clamp(found.start, text.len());
        let is_near = |fragment: &Fragment| found.position - fragment.last_position <= FRAGMENT_DISTANCE;
        if !fragments.last().is_some_and(is_near) {
            fragments.push(Fragment {
                start: found.start,
                first_position: found.position,
                ..Fragment::default()
            });
        }
        if let Some(fragment) = fragments.last_mut() {
            if !fragment.ids.contains(&found.term) {
                fragment.score += found.score;
                fragment.ids.push(found.term);
            }
            (fragment.end, fragment.last_position) = (end, found.position);
            fragment.terms.push((found.start, end));
        }
        (last_position, last_end) = (Some(found.position), end);
    }
    fragments
}

/// Appends the bytes between `from` and `to`, with the terms among them marked.
fn mark(
    made: &mut Vec<u8>,
    text: &[u8],
    from: usize,
    terms: &[(usize, usize)],
    highlight: Option<&Highlight>,
) -> usize {
    let mut at = from;
    for &(start, end) in terms {
        made.extend_from_slice(text.get(at..start).unwrap_or_default());
        made.extend_from_slice(highlight.map_or(b"", |tags| &tags.open));
        made.extend_from_slice(text.get(start..end).unwrap_or_default());
        made.extend_from_slice(highlight.map_or(b"", |tags| &tags.close));
        at = end;
    }
    at
}

/// The whole text, marked.
fn marked(text: &[u8], fragments: &[Fragment], highlight: &Highlight) -> Vec<u8> {
    let mut made = Vec::with_capacity(text.len());
    let mut at = 0;
    for fragment in fragments {
        at = mark(&mut made, text, at, &fragment.terms, Some(highlight));
    }
    made.extend_from_slice(text.get(at..).unwrap_or_default());
    made
}

fn summary(
    text: &[u8],
    mut fragments: Vec<Fragment>,
    summarize: &Summarize,
    highlight: Option<&Highlight>,
) -> Vec<u8> {
    let most = summarize.fragments as usize;
    // Equal ones stay in the order of the text.
    fragments.sort_by(|one, two| two.score.total_cmp(&one.score));
    fragments.truncate(most);
    fragments.sort_by_key(|fragment| fragment.start);
    let mut made = Vec::new();
    for (index, fragment) in fragments.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| fragments.get(before));
        let begin = before.map_or(0, |before| before.end);
        let end = fragments.get(index + 1).map_or(text.len().saturating_sub(1), |next| next.start);
        let mut shown = Vec::new();
        match context_bytes(fragment, summarize) {
            None => {
                mark(&mut shown, text, fragment.start, &fragment.terms, highlight);
            }
            Some(bytes) => {
                let from = context_start(text, fragment, begin, bytes);
                mark(&mut shown, text, from, &fragment.terms, highlight);
                let to = context_end(text, fragment, end, bytes);
                shown.extend_from_slice(text.get(fragment.end..to).unwrap_or_default());
            }
        }
        one_blank(&mut shown);
        made.append(&mut shown);
        made.extend_from_slice(&summarize.separator);
    }
    made
}

/// How many bytes are shown on either side of a fragment.
fn context_bytes(fragment: &Fragment, summarize: &Summarize) -> Option<usize> {
    let words = (summarize.words as usize).checked_sub(fragment.other_tokens()).filter(|words| *words > 0)?;
    Some((words / 2).saturating_mul(WORD_BYTES))
}

fn separates(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(|byte| is_separator(*byte))
}

/// Where the context before a fragment begins: at the first word that is whole, not before `limit`.
fn context_start(text: &[u8], fragment: &Fragment, limit: usize, bytes: usize) -> usize {
    let mut at = fragment.start.saturating_sub(bytes).max(limit);
    while at < fragment.start && !separates(text, at) {
        at += 1;
    }
    while at < fragment.start && separates(text, at) {
        at += 1;
    }
    at
}

/// Where the context behind a fragment ends: with the last word that is whole, not behind `limit`.
fn context_end(text: &[u8], fragment: &Fragment, limit: usize, bytes: usize) -> usize {
    let mut at = fragment.end.saturating_add(bytes).min(limit);
    while at > fragment.end && !separates(text, at) {
        at -= 1;
    }
    while at > fragment.end && separates(text, at) {
        at -= 1;
    }
    (at + 1).max(fragment.end)
}

/// Several blanks become one space.
fn one_blank(text: &mut Vec<u8>) {
    let mut is_after_blank = false;
    text.retain_mut(|byte| {
        let is_blank = is_blank(*byte);
        if is_blank {
            *byte = b' ';
        }
        let is_kept = !(is_blank && is_after_blank);
        is_after_blank = is_blank;
        is_kept
    });
}

/// The summary of a text without matches: its beginning, up to the last whole word.
fn beginning(text: &[u8], summarize: &Summarize) -> Vec<u8> {
    let words = (summarize.words as usize).saturating_mul(summarize.fragments as usize).saturating_add(1);
    let len = words.saturating_mul(WORD_BYTES).min(text.len());
    let mut made = text.get(..len).unwrap_or_default().to_vec();
    one_blank(&mut made);
    while made.len() > 1 && !made.last().is_some_and(|byte| is_separator(*byte)) {
        made.pop();
    }
    while made.last().is_some_and(|byte| is_blank(*byte)) {
        made.pop();
    }
    made
}

#[cfg(test)]
mod tests;
