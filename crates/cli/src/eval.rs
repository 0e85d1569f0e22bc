//! `--eval`: the EVAL of a script's file.

use std::path::Path;

use crate::connection::plain;
use crate::settings::Settings;

/// The EVAL of a script's file: keys and arguments have a comma between.
pub fn script(settings: &Settings, file: &Path) -> Result<Vec<Vec<u8>>, String> {
    let text = std::fs::read(file)
        .map_err(|error| format!("Can't open file '{}': {}", file.display(), plain(&error)))?;
    let keys = settings.words.iter().position(|word| word == b",").unwrap_or(settings.words.len());
    let mut words = vec![b"EVAL".to_vec(), text, keys.to_string().into_bytes()];
    words.extend(
        settings.words.iter().enumerate().filter(|(at, _)| *at != keys).map(|(_, word)| word.clone()),
    );
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_divides_keys_from_arguments() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("script.lua");
        std::fs::write(&file, "return 1").expect("written");
        let evaluated = |line: &str| {
            let mut settings = Settings::new(false);
            settings.words = line.split(' ').map(|word| word.as_bytes().into()).collect();
            let words = script(&settings, &file).expect("there").into_iter();
            words.map(|word| String::from_utf8(word).expect("text")).collect::<Vec<_>>()
        };
        assert_eq!(evaluated("k1 k2 , a , b"), ["EVAL", "return 1", "2", "k1", "k2", "a", ",", "b"]);
        assert_eq!(evaluated("k1"), ["EVAL", "return 1", "1", "k1"]);
        let missing = script(&Settings::new(false), &directory.path().join("none"));
        assert!(missing.is_err_and(|error| error.ends_with("none': No such file or directory")));
    }
}
