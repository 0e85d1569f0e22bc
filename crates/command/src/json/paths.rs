//! Paths that were parsed before: applications have few, and send them with every command.
//!
//! Invariants: each thread has [`PATHS_MAX`] of them at most, of [`BYTES_MAX`] bytes at most, without
//! filters; a path's place follows from its text, so that nothing is searched.

use std::cell::RefCell;

use martlet_base::hash::hash_bytes;
use martlet_json::error::Error;
use martlet_json::path::Path;

/// Paths that a thread keeps; a power of two.
const PATHS_MAX: usize = 64;
/// The longest text of a path that is kept.
const BYTES_MAX: usize = 64;

/// A path with its text, or none yet.
type Slot = Option<(Box<[u8]>, Path)>;

thread_local! {
    static PATHS: RefCell<[Slot; PATHS_MAX]> = const { RefCell::new([const { None }; PATHS_MAX]) };
}

/// As [`Path::parse`].
///
/// # Errors
/// The same.
pub(super) fn parse(text: &[u8]) -> Result<Path, Error> {
    // The root needs no parsing.
    if text.len() < 2 || text.len() > BYTES_MAX {
        return Path::parse(text);
    }
    PATHS.with_borrow_mut(|paths| {
        let slot = &mut paths[hash_bytes(text) as usize % PATHS_MAX];
        if let Some((known, path)) = slot
            && **known == *text
        {
            return Ok(path.clone());
        }
        let path = Path::parse(text)?;
        if path.is_plain() {
            *slot = Some((text.into(), path.clone()));
        }
        Ok(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_same_whether_it_is_kept_or_not() {
        let texts = (0..3 * PATHS_MAX).map(|at| format!("$.name{at}[?@.x > {at}]"));
        let texts = texts.chain((0..3 * PATHS_MAX).map(|at| format!(".name{at}.*[1:2]")));
        let texts: Vec<String> =
            texts.chain(["$", ".", "", "a", "$..a", "$.a + 1"].map(str::to_owned)).collect();
        for round in 0..3 {
            for text in &texts {
                let (kept, expected) = (parse(text.as_bytes()), Path::parse(text.as_bytes()));
                assert_eq!(format!("{kept:?}"), format!("{expected:?}"), "round {round}: {text}");
            }
        }
        for text in [&b"$.a["[..], b"\xff\xff", b"$..", b"$.a b"] {
            assert_eq!(parse(text).err(), Path::parse(text).err());
        }
        PATHS.with_borrow(|paths| {
            assert!(paths.iter().flatten().all(|(text, path)| text.len() <= BYTES_MAX && path.is_plain()));
            assert!(paths.iter().flatten().count() > PATHS_MAX / 4);
        });
    }
}
