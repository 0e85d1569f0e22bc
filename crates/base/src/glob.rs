//! Redis' glob patterns: `*`, `?`, `[a-z]`, `[^…]` and backslash escapes (as documented for KEYS).
//!
//! Every element but `*` matches exactly one byte. So the first occurrence of a part between two stars may be
//! taken, the part before the first star has one place, and the part behind the last star has one, too:
//! nothing is ever tried twice with another choice before it.

mod long;

/// Stars that a pattern may have before its last element; at one more nothing matches (Redis: the nesting
/// limit of `stringmatchlen`).
const STARS_MAX: usize = 1000;
/// Steps that retrying may take: a millisecond's worth.
const SHORT_STEPS_MAX: usize = 1 << 18;

/// Whether `text` matches `pattern`. With `nocase`, ASCII letters match in either case.
///
/// On a mismatch only the last `*` is retried, so a match takes no more than pattern × text steps. Where that
/// is much, it takes a 64th of it ([`long`]).
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    match pattern.len().saturating_mul(text.len()) > SHORT_STEPS_MAX {
        true => long::matches(pattern, text, nocase),
        false => matches_short(pattern, text, nocase),
    }
}

/// Whether `pattern` matches `prefix` and ends in a `*`, and so matches every text that begins with `prefix`.
pub fn covers(pattern: &[u8], prefix: &[u8]) -> bool {
    ends_with_star(pattern) && matches(pattern, prefix, false)
}

/// Whether the last element is a `*`: one of an escape or a class is none.
fn ends_with_star(pattern: &[u8]) -> bool {
    let mut p = 0;
    while let Some(rest) = pattern.get(p..).filter(|rest| !rest.is_empty()) {
        p = match rest {
            b"*" => return true,
            [b'[', ..] => each_of_class(pattern, p + 1, |_| {}).1,
            [b'\\', _, ..] => p + 2,
            _ => p + 1,
        };
    }
    false
}

/// As [`matches`], for any pattern and text.
fn matches_short(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    let mut stars = 0;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            while pattern.get(p) == Some(&b'*') {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            stars += 1;
            if stars > STARS_MAX {
                return false;
            }
            star = Some((p, t));
            continue;
        }
        match match_one(pattern, p, text[t], nocase) {
            Some(next) => {
                p = next;
                t += 1;
            }
            None => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    p = after;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// Matches one byte against the element at `p`; the position after the element if it does.
#[inline(always)]
fn match_one(pattern: &[u8], p: usize, byte: u8, nocase: bool) -> Option<usize> {
    let fold = |b: u8| if nocase { b.to_ascii_lowercase() } else { b };
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => {
            let (is_match, next) = match_class(pattern, p + 1, byte, nocase);
            is_match.then_some(next)
        }
        b'\\' if p + 1 < pattern.len() => (fold(pattern[p + 1]) == fold(byte)).then_some(p + 2),
        c => (fold(c) == fold(byte)).then_some(p + 1),
    }
}

/// Matches one byte against the class whose content begins at `p`, and the position after the class; one
/// never closed ends with the pattern.
#[inline(never)]
fn match_class(pattern: &[u8], p: usize, byte: u8, nocase: bool) -> (bool, usize) {
    let fold = |b: u8| if nocase { b.to_ascii_lowercase() } else { b };
    let mut found = false;
    let (negated, next) = each_of_class(pattern, p, |item| {
        found |= match item {
            Item::Exact(one) => one == byte,
            Item::Byte(one) => fold(one) == fold(byte),
            Item::Range(one, other) => {
                let (one, other) = (fold(one), fold(other));
                (one.min(other)..=one.max(other)).contains(&fold(byte))
            }
        }
    });
    (found != negated, next)
}

/// An item of a class.
enum Item {
    /// A byte in just this case.
    Exact(u8),
    Byte(u8),
    /// The bytes between two, in either order.
    Range(u8, u8),
}

/// Calls `f` with the items of a class. Returns whether the class is negated, and the position after it.
#[inline]
fn each_of_class(pattern: &[u8], mut p: usize, mut f: impl FnMut(Item)) -> (bool, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    loop {
        let (item, len) = match pattern.get(p..).unwrap_or_default() {
            [] => return (negated, p),
            [b']', ..] => return (negated, p + 1),
            [b'\\', byte, ..] => (Item::Exact(*byte), 2),
            [low, b'-', high, ..] => (Item::Range(*low, *high), 3),
            [byte, ..] => (Item::Byte(*byte), 1),
        };
        f(item);
        p += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        let yes = [
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbbc"),
            ("a?c", "abc"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("a\\*b", "a*b"),
            ("**a", "ba"),
            ("[", "["),
            ("foo*bar*", "fooxbarybarz"),
            ("[b-a]", "a"),
            ("\\", "\\"),
        ];
        for (p, t) in yes {
            if p == "[" {
                assert!(!matches(p.as_bytes(), t.as_bytes(), false));
                continue;
            }
            assert!(matches(p.as_bytes(), t.as_bytes(), false), "{p} should match {t}");
        }
        for (p, t) in
            [("", "a"), ("a", ""), ("a?c", "ac"), ("h[^e]llo", "hello"), ("a*b", "abc"), ("a\\*b", "axb")]
        {
            assert!(!matches(p.as_bytes(), t.as_bytes(), false), "{p} should not match {t}");
        }
        assert!(matches(b"ABC*", b"abcd", true));
    }

    #[test]
    fn too_many_stars_match_nothing() {
        for (stars, fits) in [(1000, true), (1001, false)] {
            let pattern = b"*?".repeat(stars);
            assert_eq!(matches(&pattern, &vec![b'a'; 2000], false), fits);
            assert_eq!(matches(&[&pattern[..], b"*"].concat(), &vec![b'a'; 2000], false), fits);
        }
    }

    #[test]
    fn a_prefix_is_covered_by_a_star_behind_it() {
        for (pattern, prefix, expected) in [
            ("*", "", true),
            ("a:*", "a:", true),
            ("a*", "a:b", true),
            ("[ab]:*", "b:", true),
            ("a\\\\*", "a\\", true),
            ("a:*", "a", false),
            ("a:b*", "a:", false),
            ("a:", "a:", false),
            ("*a", "a", false),
            ("a\\*", "a*", false),
            ("[a*", "a", false),
            ("*[^b\\]*", "a", false),
        ] {
            assert_eq!(covers(pattern.as_bytes(), prefix.as_bytes()), expected, "{pattern} {prefix}");
        }
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            8 => "[abA]{1,4}",
            3 => "[*]{1,2}",
            3 => "[?]{1,3}",
            2 => "\\[\\^?[abA*?]{0,3}(a-b)?\\]",
            1 => "\\[[ab\\]-]{0,4}",
            1 => "\\\\[abA*\\\\]",
            1 => Just("\\".to_string()),
        ]
    }

    proptest! {
        #[test]
        fn long_matching_answers_as_short(
            pieces in prop::collection::vec(piece(), 0..8),
            text in "[abAB*]{0,40}",
            nocase: bool,
        ) {
            let pattern = pieces.concat();
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(long::matches(pattern, text, nocase), matches_short(pattern, text, nocase));
        }

        #[test]
        fn what_is_covered_matches_whatever_follows(
            pieces in prop::collection::vec(piece(), 0..5),
            prefix in "[abA*]{0,5}",
            rest in prop::collection::vec("[abAB*]{0,5}", 8),
        ) {
            let pattern = pieces.concat() + "*";
            if covers(pattern.as_bytes(), prefix.as_bytes()) {
                for rest in rest {
                    prop_assert!(matches(pattern.as_bytes(), (prefix.clone() + &rest).as_bytes(), false));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 16 }))]

        /// Pieces of more elements than one pass looks for.
        #[test]
        fn long_pieces_are_found_where_they_are(before in 0_usize..200, after in 0_usize..200, at in 0_usize..4200) {
            let mut text = vec![b'a'; before + 4200 + after];
            text[before + at] = b'b';
            let mut piece = vec![b'?'; 4200];
            piece[at] = b'b';
            let pattern = [b"*", &piece[..], b"*"].concat();
            prop_assert!(matches(&pattern, &text, false));
            text[before + at] = b'c';
            prop_assert!(!matches(&pattern, &text, false));
        }
    }

    #[test]
    fn long_matching_has_the_same_limit_of_stars() {
        for (stars, fits) in [(1000, true), (1001, false)] {
            let pattern = b"*?".repeat(stars);
            let text = vec![b'a'; 2000];
            assert_eq!(long::matches(&pattern, &text, false), fits);
            assert_eq!(long::matches(&[&pattern[..], b"*"].concat(), &text, false), fits);
        }
    }

    /// Retrying, each of these would take 10^11 steps and more.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn no_pattern_is_tried_at_every_place() {
        let text = vec![b'a'; 400_000];
        let plain = [b"*", &vec![b'a'; 300_000][..], b"b*"].concat();
        assert!(!matches(&plain, &text, false));
        assert!(!matches(&plain[..plain.len() - 1], &text, false));
        let class = [b"*[", &vec![b'z'; 400_000][..], b"]*b"].concat();
        assert!(!matches(&class, &text, false));
        let any = [b"*", &vec![b'?'; 4000][..], b"b*"].concat();
        assert!(!matches(&any, &text, true));
    }

    #[test]
    fn many_stars_stay_fast() {
        let pattern = b"a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b".to_vec();
        assert!(!matches(&pattern, &[b'a'; 5000], false));
    }
}
