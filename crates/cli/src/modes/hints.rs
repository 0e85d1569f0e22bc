//! `--test_hint`, `--test_hint_file`: the hint after a line, and a file of lines with the hints that they
//! shall have.

use super::open;
use crate::connection::plain;
use crate::docs::Docs;
use crate::hint::hint;
use crate::settings::Settings;
use martlet_protocol::quote;
use std::path::Path;

fn docs(settings: &Settings) -> Result<Docs, String> {
    Docs::ask(&mut open(settings)?).map_err(|lost| super::lost(&lost))
}

/// Prints one hint.
pub fn show(settings: &Settings, line: &str) -> Result<i32, String> {
    println!("{}", hint(&docs(settings)?, line).unwrap_or_else(|| "(null)".into()));
    Ok(0)
}

/// Compares; the exit status is how many hints differ, as far as a status can say.
pub fn compare(settings: &Settings, file: &Path) -> Result<i32, String> {
    let cases = std::fs::read_to_string(file)
        .map_err(|error| format!("Can't open file '{}': {}", file.display(), plain(&error)))?;
    let docs = docs(settings)?;
    let (mut passed, mut failed) = (0, 0);
    for case in cases.lines().filter(|line| !line.starts_with('#')) {
        let words = quote::split(case.as_bytes()).unwrap_or_default();
        let Some(input) = words.first() else { continue };
        let input = String::from_utf8_lossy(input);
        let Some(expected) = words.get(1) else {
            return Err(format!("Missing expected hint for input '{input}'"));
        };
        let expected = String::from_utf8_lossy(expected);
        let got = hint(&docs, &input);
        // A separator at the end cannot be seen.
        let got = got.as_deref().map(|got| got.trim_end_matches(' '));
        if got == Some(&*expected) {
            passed += 1;
        } else {
            failed += 1;
            let got = got.unwrap_or("(null)");
            eprintln!("Test case '{input}' FAILED: expected '{expected}', got '{got}'");
        }
    }
    let verdict = if failed == 0 { "SUCCESS" } else { "FAILURE" };
    println!("{verdict}: {passed}/{} passed", passed + failed);
    Ok(failed.min(255))
}
