//! The parser of queries on any bytes: a tree that it returns has the depth that it promises, and is printed.

use martlet_search::definition::{self, Context};
use martlet_search::query::ast::{Kind, Node};
use martlet_search::query::pattern::{Affix, Fuzzy, TermPattern, Wildcard};
use martlet_search::query::{DEPTH_MAX, Options, Params, explain, parse};
use martlet_search::schema::{Definition, Language};
use martlet_search::text::stopwords::Stopwords;
use std::sync::LazyLock;

static DEFINITION: LazyLock<Definition> = LazyLock::new(|| {
    let text = "i SCHEMA t TEXT u TEXT PHONETIC dm:en e TEXT INDEXEMPTY g TAG n NUMERIC l GEO s GEOSHAPE m TAG \
                INDEXMISSING v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2";
    let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
    let context = Context { memory_bytes: 1 << 30, is_path: |_| false };
    definition::create(&words, context).expect("a definition")
});

fn depth(node: &Node) -> usize {
    1 + node.children().iter().map(depth).max().unwrap_or(0)
}

/// The patterns of a tree run over some names.
fn match_patterns(node: &Node) {
    let pattern = match &node.kind {
        Kind::Affix(affix) => Some(TermPattern::Affix(Box::new(Affix::new(&affix.text, affix.side)))),
        Kind::Wildcard(text) => Some(TermPattern::Wildcard(Wildcard::new(text))),
        Kind::Fuzzy(fuzzy) => Some(TermPattern::Fuzzy(Box::new(Fuzzy::new(&fuzzy.text, fuzzy.distance)))),
        _ => None,
    };
    if let Some(mut pattern) = pattern {
        for name in [&b""[..], b"ab", b"abc", "\u{e4}bc".as_bytes(), b"hello", b"hello\xff"] {
            pattern.step(name);
        }
    }
    node.children().iter().for_each(match_patterns);
}

/// The first byte chooses the dialect and options, the rest is the query.
pub fn check(data: &[u8]) {
    let Some((&choice, query)) = data.split_first() else { return };
    let stopwords = Stopwords::of(None);
    let mut params = Params::new();
    for (name, value) in [("a", "hello"), ("k", "3"), ("b", "8bytes!!"), ("w", "2.5")] {
        params.insert(name.as_bytes(), value.as_bytes()).expect("a new name");
    }
    let mut options = Options::new(&DEFINITION, &stopwords, &params);
    options.dialect = 1 + choice % 4;
    options.verbatim = choice & 4 != 0;
    options.language = if choice & 8 != 0 { Language::Chinese } else { Language::English };
    let Ok(node) = parse(query, &options) else { return };
    assert!(depth(&node) <= DEPTH_MAX);
    assert!(explain(&node, &DEFINITION).ends_with(b"\n"));
    match_patterns(&node);
}

/// Queries of every kind, right and wrong.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "\0hello world|foo -bar ~baz",
        "\x01(a b)=>{$weight: 2; $slop: 1; $inorder: true}",
        "\x01@t|u:(x y) @n:[(1 +inf] @g:{a|b c|d*|w'?x*'}",
        "\x01@n==5 @n<=-$k @l:[1 2 3 km] ismissing(@m)",
        "\x01\"an exact phrase\" ab* *ab *ab* %fuzzy% %%fuzzy%% w'a*b?'",
        "\x05(@t:hello)=>[KNN $k @v $b EF_RUNTIME 5 AS d]=>{$yield_distance_as: e}",
        "\x01@v:[VECTOR_RANGE $w $b]=>{$epsilon: 0.5}",
        "\0@g:{a}|b} \"quoted words\" 12",
        "\x01((((((-~(x)))))))",
        "\x09\u{4e2d}\u{534e} abc",
        "\x01it's 'odd \\' text\\",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
