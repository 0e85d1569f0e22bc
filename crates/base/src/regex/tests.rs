//! Patterns against texts; what TRE answers, from its sources and its documentation.

use proptest::prelude::*;

use super::{Budget, Invalid, PROGRAM_MAX, Regex, TooManySteps};

fn compile(pattern: &[u8], nocase: bool) -> Result<Regex, Invalid> {
    Regex::new(pattern, nocase, PROGRAM_MAX)
}

fn is_match(regex: &mut Regex, text: &[u8]) -> bool {
    regex.is_match(text, &mut Budget::new()).unwrap()
}

fn matches(pattern: &str, text: &str) -> bool {
    is_match(&mut compile(pattern.as_bytes(), false).unwrap(), text.as_bytes())
}

fn check(pattern: &str, yes: &[&str], no: &[&str]) {
    for text in yes {
        assert!(matches(pattern, text), "{pattern} in {text:?}");
    }
    for text in no {
        assert!(!matches(pattern, text), "{pattern} not in {text:?}");
    }
}

#[test]
fn expressions_match_as_in_posix() {
    check("abc", &["abc", "xabcx"], &["ab", "", "ABC"]);
    check("^.*[0-9]{3}$", &["foo123", "zoo999"], &["bar", "foo12"]);
    check("foo|bar", &["foo", "quxfoo", "zedbar"], &["baz", "fo"]);
    check("^(foo|bar)$", &["foo", "bar"], &["foobar", "xfoo", ""]);
    check("^item-(foo|bar)-[0-9]{3}$", &["item-foo-123"], &["item-baz-123", "item-foo-12"]);
    check("a*", &["", "b"], &[]);
    check("^a+b?$", &["a", "aab"], &["b", "abb"]);
    check("^(ab){2,3}$", &["abab", "ababab"], &["ab", "abababab"]);
    check("^(ab){2,}c$", &["ababc", "ababababc"], &["abc", "ab"]);
    check("^a{,2}$", &["", "a", "aa"], &["aaa"]);
    check("^a{0}b$", &["b"], &["ab"]);
    check("^(a|b*|c){2}$", &["", "ac", "bbb", "ca"], &["acb c", "cac"]);
    check("(a|(b|c)d)*e$", &["e", "abdcdae"], &["ab"]);
    check("a.c", &["abc", "a\nc", "a.c"], &["ac"]);
    check("[a-c]x", &["bx"], &["dx"]);
    check("[]a]", &["]", "a"], &["b", "["]);
    check("[^]a]", &["b"], &["]a"]);
    check("[a-]", &["-", "a"], &["b"]);
    check("[[:digit:][:space:]]", &["1", " "], &["x"]);
    check("[^[:alpha:]a]", &["1"], &["b", "z"]);
    check("a$b", &[], &["ab", "a$b"]);
    check("^^a", &["a"], &["ba"]);
}

#[test]
fn extensions_are_tres() {
    check(r"^\w+\s\d\D\W$", &["ab_1 1x-"], &["ab 1x1"]);
    check(r"\bfoo\b", &["foo", "a foo b", "foo-"], &["afoo", "foob"]);
    check(r"\<foo\>", &["a foo"], &["afoo"]);
    check(r"o\B", &["foot", "oo"], &["o", "a o-"]);
    check(r"^\x41\x{42}\x7a$", &["ABz"], &["abz"]);
    check(r"\x{100}", &[], &["\u{100}", "a"]);
    check(r"\Qa.b*\E+", &["a.b*"], &["axb"]);
    check(r"\Q(a|b)", &["(a|b)"], &["a"]);
    check(r"a\tb\e", &["a\tb\x1b"], &["atb"]);
    check("(?i)abc", &["ABC"], &["ab"]);
    check("a(?i:b)c", &["aBc", "abc"], &["ABC", "abC"]);
    check("a(?i)b|c", &["aB", "aC"], &["c", "Ab"]);
    check("(a(?i)b)c", &["aBc"], &["aBC"]);
    check("(?n)a.b", &["axb"], &["a\nb"]);
    check("(?#words)x", &["x"], &["w"]);
    check("a*?b", &["b", "aab"], &["a"]);
    check("*a", &["a"], &[]);
    check("a||b", &[""], &[]);
    check("()", &[""], &[]);
    check("a)", &["a)"], &["a"]);
}

#[test]
fn case_is_ignored_in_letters_only() {
    let mut regex = compile(br"^[a-c]x_\k[[:upper:]]", true).unwrap();
    for (text, is) in [("Ax_ka", true), ("bX_kZ", true), ("ax_Ka", false), ("ax_k1", false)] {
        assert_eq!(is_match(&mut regex, text.as_bytes()), is, "{text}");
    }
    let mut regex = compile("[^a-z]".as_bytes(), true).unwrap();
    assert!(!is_match(&mut regex, b"Q") && is_match(&mut regex, b"\xff"));
}

#[test]
fn refusals_have_tres_words() {
    for (pattern, error) in [
        ("(", Invalid::Parenthesis),
        ("(?", Invalid::Pattern),
        ("(?x)a", Invalid::Pattern),
        ("(?#a", Invalid::Pattern),
        ("[a", Invalid::Bracket),
        ("[", Invalid::Bracket),
        ("[[:x:]]", Invalid::Class),
        ("[[.a.]]", Invalid::Collation),
        ("[z-a]", Invalid::Range),
        ("[a-c-e]", Invalid::Range),
        ("a\\", Invalid::Escape),
        ("a{", Invalid::Brace),
        ("a{1", Invalid::Brace),
        ("a{}", Invalid::Bound),
        ("a{x}", Invalid::Bound),
        ("a{2,1}", Invalid::Bound),
        ("a{~1}", Invalid::Bound),
        ("a{256}", Invalid::Count),
        ("a{1,99999999999999999999}", Invalid::Count),
        ("a**", Invalid::Repetition),
        ("a{2}+", Invalid::Repetition),
        ("\\x{1", Invalid::Brace),
        ("\\x{g}", Invalid::Brace),
        ("\\x{123456789}", Invalid::Brace),
        ("\\1", Invalid::Reference),
        ("((((a{255}){255}){255}){255})", Invalid::TooLarge),
    ] {
        assert_eq!(compile(pattern.as_bytes(), false).err(), Some(error), "{pattern}");
    }
    assert_eq!(Invalid::Brace.to_string(), "Missing '}'");
    assert!(compile(br"(a)\1", false).unwrap().has_back_references());
    assert!(!compile(b"(a)", false).unwrap().has_back_references());
}

#[test]
fn deep_nesting_and_dull_patterns_take_bounded_time() {
    let deep = format!("{}a{}", "(".repeat(1000), ")*".repeat(1000));
    assert!(matches(&deep, "aaaa"));
    let dull = format!("^(a|aa|a*)*{}b$", "a?".repeat(100));
    assert!(!matches(&dull, &"a".repeat(3000)));
}

/// Usual expressions search any amount of text; one that follows many branches at each byte ends at the
/// budget.
#[test]
fn a_match_takes_no_more_steps_than_its_budget_has() {
    let text = vec![b'a'; 4_000_000];
    for pattern in ["b", "^a*b", "(ab|ac|ad)[0-9]", "a.c", "a+b"] {
        assert_eq!(
            compile(pattern.as_bytes(), false).unwrap().is_match(&text, &mut Budget::new()),
            Ok(false)
        );
    }
    let mut dear = compile(b"(a{1,255}){1,90}b", false).unwrap();
    let mut budget = Budget::new();
    assert_eq!(dear.is_match(&text, &mut budget), Err(TooManySteps));
    // The regex is unchanged, and another text may still be searched with the rest of the budget.
    assert!(budget.left() < dear.program_len() as u64);
    let mut budget = Budget::new();
    assert_eq!(dear.is_match(b"xab", &mut budget), Ok(true));
    let left = budget.left();
    assert_eq!(dear.is_match(b"x", &mut budget), Ok(false));
    assert!(budget.left() <= left + Budget::STEPS_PER_BYTE);
}

#[test]
fn a_program_has_no_more_steps_than_allowed() {
    let len = compile(b"a{1,50}", false).unwrap().program_len();
    assert!(Regex::new(b"a{1,50}", false, 2 * len).is_ok());
    assert_eq!(Regex::new(b"a{1,50}", false, len - 1).err(), Some(Invalid::TooLarge));
    assert_eq!(Regex::new(b"a", false, 0).err(), Some(Invalid::TooLarge));
    assert_eq!(Regex::new(b"((a{255}){255}){255}", false, usize::MAX).err(), Some(Invalid::TooLarge));
}

/// An expression as a tree, with the naive way to match it: all ends that it can reach.
#[derive(Clone, Debug)]
enum Tree {
    Byte(u8),
    Any,
    Start,
    End,
    Then(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Times(Box<Tree>, u8, Option<u8>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Tree::Byte(byte) => char::from(*byte).to_string(),
            Tree::Any => ".".into(),
            Tree::Start => "^".into(),
            Tree::End => "$".into(),
            Tree::Then(left, right) => format!("({}{})", left.text(), right.text()),
            Tree::Or(left, right) => format!("({}|{})", left.text(), right.text()),
            Tree::Times(tree, min, Some(max)) => format!("({}){{{min},{max}}}", tree.text()),
            Tree::Times(tree, min, None) => format!("({}){{{min},}}", tree.text()),
        }
    }

    fn ends(&self, text: &[u8], from: usize) -> Vec<usize> {
        let mut ends = match self {
            Tree::Byte(byte) => {
                if text.get(from) == Some(byte) {
                    vec![from + 1]
                } else {
                    vec![]
                }
            }
            Tree::Any => {
                if from < text.len() {
                    vec![from + 1]
                } else {
                    vec![]
                }
            }
            Tree::Start => {
                if from == 0 {
                    vec![0]
                } else {
                    vec![]
                }
            }
            Tree::End => {
                if from == text.len() {
                    vec![from]
                } else {
                    vec![]
                }
            }
            Tree::Then(left, right) => {
                left.ends(text, from).into_iter().flat_map(|middle| right.ends(text, middle)).collect()
            }
            Tree::Or(left, right) => [left.ends(text, from), right.ends(text, from)].concat(),
            Tree::Times(tree, min, max) => {
                let (mut now, mut all) = (vec![from], Vec::new());
                let most = max.map_or(usize::from(*min) + text.len() + 1, usize::from);
                for times in 0..=most {
                    if times >= usize::from(*min) {
                        all.extend(now.iter().copied());
                    }
                    now = now.into_iter().flat_map(|at| tree.ends(text, at)).collect();
                    now.sort_unstable();
                    now.dedup();
                }
                all
            }
        };
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        6 => (b'a'..=b'c').prop_map(Tree::Byte),
        1 => Just(Tree::Any),
        1 => Just(Tree::Start),
        1 => Just(Tree::End),
    ];
    leaf.prop_recursive(4, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| Tree::Then(left.into(), right.into())),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| Tree::Or(left.into(), right.into())),
            (inner, 0..3_u8, prop::option::of(0..3_u8)).prop_map(|(tree, min, more)| Tree::Times(
                tree.into(),
                min,
                more.map(|more| min + more)
            )),
        ]
    })
}

proptest! {
    #[test]
    fn matches_what_the_tree_does(tree in tree(), text in "[abcd]{0,8}") {
        let pattern = tree.text();
        let expected = (0..=text.len()).any(|from| !tree.ends(text.as_bytes(), from).is_empty());
        prop_assert_eq!(matches(&pattern, &text), expected, "{}", pattern);
    }

    #[test]
    fn nothing_panics(pattern in prop::collection::vec(any::<u8>(), 0..40), written in "[\\]\\[ab(|)*+?{},^$.0-9\\\\QExwE:-]{0,30}", text: Vec<u8>) {
        for pattern in [pattern.as_slice(), written.as_bytes()] {
            for nocase in [false, true] {
                if let Ok(mut regex) = compile(pattern, nocase) {
                    is_match(&mut regex, &text);
                    is_match(&mut regex, written.as_bytes());
                }
            }
        }
    }
}
