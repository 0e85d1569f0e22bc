//! `--hotkeys`: the keys that are used most, by the counters of an LFU policy.

use super::screen::{self, Screen};
use super::walk::{Walk, Wanted, percent, quoted};
use crate::settings::Settings;
use std::fmt::Write as _;

/// How many keys are reported.
const HOT_KEYS: usize = 16;

/// The hottest keys, coldest first.
#[derive(Default)]
struct Hottest(Vec<(u64, Vec<u8>)>);

impl Hottest {
    /// Takes a key if it is one of the hottest; returns whether it is.
    fn add(&mut self, key: &[u8], frequency: u64) -> bool {
        let place = self.0.partition_point(|(known, _)| *known < frequency);
        let is_full = self.0.len() == HOT_KEYS;
        if frequency == 0 || (is_full && place == 0) {
            return false;
        }
        self.0.insert(place, (frequency, key.to_vec()));
        if is_full {
            self.0.remove(0);
        }
        true
    }

    fn lines(&self) -> String {
        let mut out = String::new();
        for (frequency, key) in self.0.iter().rev() {
            let _ = writeln!(out, "hot key found with counter: {frequency}\tkeyname: {}", quoted(key));
        }
        out
    }
}

/// Walks and reports.
pub fn run(settings: &Settings) -> Result<i32, String> {
    let mut walk = Walk::begin(settings, Wanted { frequency: true, ..Wanted::default() })?;
    println!("\n# Scanning the entire keyspace to find hot keys as well as");
    println!("# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec");
    println!("# per 100 SCAN commands (not usually needed).\n");
    let (mut hottest, mut sampled, mut screen) = (Hottest::default(), 0, Screen::new());
    while let Some(samples) = walk.next()? {
        let done = percent(sampled, walk.total_keys);
        for sample in samples {
            sampled += 1;
            if hottest.add(&sample.key, sample.frequency) && !screen.is_terminal {
                let (key, frequency) = (quoted(&sample.key), sample.frequency);
                println!("[{done:05.2}%] Hot key {key} found so far with counter {frequency}");
            }
        }
        if screen.is_due() {
            let progress = screen::progress(true, sampled, walk.total_keys);
            screen.draw(&format!("{progress}\n{}", hottest.lines()));
        }
    }
    if screen.is_terminal {
        screen.end(&screen::progress(true, sampled, walk.total_keys));
    }
    println!("\n-------- summary -------\n");
    if !screen.is_terminal {
        if walk.is_interrupted {
            print!("[{:05.2}%] ", percent(sampled, walk.total_keys));
        }
        println!("Sampled {sampled} keys in the keyspace!");
    }
    print!("{}", hottest.lines());
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_stay() {
        let mut hottest = Hottest::default();
        assert!(!hottest.add(b"unused", 0));
        for frequency in (1..=20).rev() {
            let is_hot = hottest.add(frequency.to_string().as_bytes(), frequency);
            assert_eq!(is_hot, frequency > 4, "{frequency}");
        }
        assert!(hottest.add(b"new", 100) && !hottest.add(b"5", 5) && hottest.add(b"7", 7));
        let expected: Vec<u64> = [7, 7].into_iter().chain(8..=20).chain([100]).collect();
        assert_eq!(hottest.0.iter().map(|(frequency, _)| *frequency).collect::<Vec<_>>(), expected);
    }
}
