//! Stems beside RediSearch: `fixtures/stems.txt` has languages, words and the stems that FT.EXPLAIN of
//! RediSearch 2.10.5 showed. `MARTLET_SEARCH_STEMS=FILE` compares another file of that form as well.

use martlet_search::schema::Language;
use martlet_search::text::stem::stem_of;

fn compare(text: &str) -> usize {
    let mut compared = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [language, word, stem] = words[..] else { continue };
        let language = Language::parse(language.as_bytes()).expect("a language");
        let ours = stem_of(language, word.as_bytes()).expect("a stem");
        assert_eq!(String::from_utf8_lossy(&ours), stem, "{line}");
        compared += 1;
    }
    compared
}

#[test]
fn stems_are_those_of_redisearch() {
    // 28 languages with 40 words each.
    assert_eq!(compare(include_str!("fixtures/stems.txt")), 28 * 40);
    if let Ok(path) = std::env::var("MARTLET_SEARCH_STEMS") {
        println!("compared: {}", compare(&std::fs::read_to_string(path).expect("a file")));
    }
}
