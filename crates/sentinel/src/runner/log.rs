//! The log: lines of Redis' form, to a file that is opened for each (so that it may be rotated), or to
//! standard output.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use martlet_base::clock::wall;

use crate::events::Level;

/// Bytes of a line.
const LINE_MAX_BYTES: usize = 1024;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// See the [module docs](self).
pub(super) struct Log {
    file: PathBuf,
}

impl Log {
    pub fn new(file: PathBuf) -> Log {
        Log { file }
    }

    /// Writes a line; the caller has checked that its level is logged.
    pub fn write(&self, level: Level, text: &str) {
        let mut text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let end = (0..=text.len().min(LINE_MAX_BYTES)).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        let line = format!("{}:X {} {} {text}\n", std::process::id(), time_text(), level.mark());
        // An error of the log itself has no place to be reported.
        let _ = if self.file.as_os_str().is_empty() {
            std::io::stdout().write_all(line.as_bytes())
        } else {
            let file = OpenOptions::new().append(true).create(true).open(&self.file);
            file.and_then(|mut file| file.write_all(line.as_bytes()))
        };
    }
}

/// The time in UTC, as `24 Nov 2026 22:53:24.031`.
fn time_text() -> String {
    let now = wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (seconds, ms) = (now.as_secs(), now.subsec_millis());
    let (year, month, day) = civil_date((seconds / 86_400) as i64);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let month = MONTHS.get(month).unwrap_or(&"");
    format!("{day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{ms:03}")
}

/// Year, month from 0 and day of a number of days since 1970 (Gregorian, after H. Hinnant).
fn civil_date(days: i64) -> (i64, usize, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = (shifted + 2) % 12;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    (year + era * 400 + i64::from(month < 2), month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::civil_date;

    #[test]
    fn dates() {
        assert_eq!(civil_date(0), (1970, 0, 1));
        assert_eq!(civil_date(19_782), (2024, 1, 29));
        assert_eq!(civil_date(20_781), (2026, 10, 24));
    }
}
