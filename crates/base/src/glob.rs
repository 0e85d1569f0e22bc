//! Redis' glob patterns: `*`, `?`, `[a-z]`, `[^…]` and backslash escapes (as documented for KEYS).

/// Stars that a pattern may have before its last element; at one more nothing matches (Redis: the nesting
/// limit of `stringmatchlen`).
const STARS_MAX: usize = 1000;

/// Whether `text` matches `pattern`. With `nocase`, ASCII letters match in either case.
///
/// Runs in O(pattern × text): on a mismatch only the last `*` is retried.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
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
fn match_one(pattern: &[u8], p: usize, byte: u8, nocase: bool) -> Option<usize> {
    let fold = |b: u8| if nocase { b.to_ascii_lowercase() } else { b };
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => match_class(pattern, p + 1, byte, nocase),
        b'\\' if p + 1 < pattern.len() => (fold(pattern[p + 1]) == fold(byte)).then_some(p + 2),
        c => (fold(c) == fold(byte)).then_some(p + 1),
    }
}

/// Matches one byte against the class whose content begins at `p`; a class never closed ends with the
/// pattern.
fn match_class(pattern: &[u8], mut p: usize, byte: u8, nocase: bool) -> Option<usize> {
    let fold = |b: u8| if nocase { b.to_ascii_lowercase() } else { b };
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut found = false;
    loop {
        match pattern.get(p) {
            None => break,
            Some(b']') => {
                p += 1;
                break;
            }
            Some(b'\\') if p + 1 < pattern.len() => {
                found |= pattern[p + 1] == byte;
                p += 2;
            }
            Some(&low) if pattern.get(p + 1) == Some(&b'-') && p + 2 < pattern.len() => {
                let (low, high) = (fold(low), fold(pattern[p + 2]));
                let (low, high) = if low > high { (high, low) } else { (low, high) };
                found |= (low..=high).contains(&fold(byte));
                p += 3;
            }
            Some(&c) => {
                found |= fold(c) == fold(byte);
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn many_stars_stay_fast() {
        let pattern = b"a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b".to_vec();
        assert!(!matches(&pattern, &[b'a'; 5000], false));
    }
}
