//! Snippets beside those of RediSearch 2.10.5. A line of `oracle.txt` has, between bars: S, H or both for
//! SUMMARIZE and HIGHLIGHT, then FRAGS, LEN, SEPARATOR, the terms with their inverse document frequencies,
//! the text, and the oracle's answer.

use super::*;
use crate::text::token::Tokens;

fn bytes(text: &str) -> Vec<u8> {
    let mut made = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\\x") {
        made.extend(before.as_bytes());
        let (digits, behind) = behind.split_at(2);
        made.push(u8::from_str_radix(digits, 16).expect("two digits"));
        rest = behind;
    }
    made.extend(rest.as_bytes());
    made
}

fn matches(text: &[u8], terms: &str) -> Vec<Match> {
    let terms: Vec<(Vec<u8>, f32)> = terms
        .split_whitespace()
        .map(|term| term.split_once(':').expect("a frequency"))
        .map(|(term, score)| (bytes(term), score.parse().expect("a number")))
        .collect();
    let mut found = Vec::new();
    for (position, token) in Tokens::new(text).enumerate() {
        let word = token.raw.to_ascii_lowercase();
        if let Some(term) = terms.iter().position(|(term, _)| *term == word) {
            found.push(Match {
                position: position as u32,
                start: token.range.start,
                end: None,
                term: term as u32,
                score: terms[term].1,
            });
        }
    }
    found
}

#[test]
fn snippets_are_those_of_redisearch() {
    let mut compared = 0;
    for line in include_str!("oracle.txt").lines() {
        let parts: Vec<&str> = line.split('|').collect();
        let [mode, fragments, words, separator, terms, text, expected] = parts[..] else { panic!("{line}") };
        let summarize = Summarize {
            fragments: fragments.parse().expect("a number"),
            words: words.parse().expect("a number"),
            separator: bytes(separator).into(),
        };
        let highlight = Highlight { open: Box::from(&b"<<"[..]), close: Box::from(&b">>"[..]) };
        let text = bytes(text);
        let shown = snippet(
            &text,
            &matches(&text, terms),
            mode.contains('S').then_some(&summarize),
            mode.contains('H').then_some(&highlight),
        );
        let shown = shown.unwrap_or(text);
        let (shown, expected) = (String::from_utf8_lossy(&shown).into_owned(), bytes(expected));
        assert_eq!(shown, String::from_utf8_lossy(&expected), "\n{line}");
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn matches_outside_the_text_are_harmless() {
    let odd = |position, start, end| Match { position, start, end, term: 0, score: f32::NAN };
    let found = [odd(0, 3, Some(1)), odd(1, 2, None), odd(5, 100, Some(200)), odd(9, 4, Some(900))];
    let shown = snippet(b"a bc de", &found, Some(&Summarize::default()), Some(&Highlight::default()));
    assert!(shown.is_some_and(|shown| shown.len() < 100));
    assert_eq!(snippet(b"", &[], None, Some(&Highlight::default())), None);
}
