//! Sounds beside RediSearch: `fixtures/sounds.txt` has words and the codes that FT.EXPLAIN of RediSearch
//! 2.10.5 showed. `MARTLET_SEARCH_SOUNDS=FILE` compares another file of that form as well.

use martlet_search::text::phonetic::code_of;

fn differences(text: &str) -> (usize, Vec<String>) {
    let pairs: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let differs = |(word, expected): &(&str, &str)| {
        let ours =
            code_of(word.as_bytes()).map_or("-".into(), |code| String::from_utf8_lossy(&code).into_owned());
        (ours != *expected).then(|| format!("{word}: {ours}, not {expected}"))
    };
    (pairs.len(), pairs.iter().filter_map(differs).collect())
}

#[test]
fn sounds_are_those_of_redisearch() {
    let (compared, different) = differences(include_str!("fixtures/sounds.txt"));
    assert_eq!(different, [""; 0]);
    assert!(compared > 800, "{compared}");
    if let Ok(path) = std::env::var("MARTLET_SEARCH_SOUNDS") {
        let (compared, different) = differences(&std::fs::read_to_string(path).expect("a file"));
        println!("compared: {compared}, different: {}", different.len());
        different.iter().take(60).for_each(|difference| println!("{difference}"));
        assert!(different.is_empty());
    }
}
