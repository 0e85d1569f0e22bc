//! What a branch changes: the files that differ from where it left the main one, so that `./x ci` leaves out
//! chores whose outcome these files cannot change.

use crate::run::root;
use std::process::Command;

/// The branches that work leaves from and returns to, the remote's first.
const MAIN: &[&str] = &["origin/main", "main"];
/// Files of the workspace itself may change every outcome.
const EVERYWHERE: &[&str] = &["Cargo.lock", "Cargo.toml", "rust-toolchain.toml", ".ci/", ".cargo/"];

/// The changed files of a branch, or all files.
pub enum Changes {
    /// There is no branch to compare with (the main branch itself, a clone without history): all count.
    All,
    /// Paths from the root, of committed and other changes.
    Files(Vec<String>),
}

impl Changes {
    /// Those of the checked-out commit and of the work tree.
    pub fn of_branch() -> Self {
        let base = MAIN.iter().find_map(|main| git(&["merge-base", "HEAD", main])?.pop());
        let head = git(&["rev-parse", "HEAD"]).and_then(|mut lines| lines.pop());
        let (Some(base), Some(head)) = (base, head) else { return Self::All };
        if base == head {
            return Self::All;
        }
        let changed = git(&["diff", "--name-only", &base]);
        let new = git(&["ls-files", "--others", "--exclude-standard"]);
        match (changed, new) {
            (Some(mut files), Some(new)) => {
                files.extend(new);
                Self::Files(files)
            }
            _ => Self::All,
        }
    }

    /// Whether a file below one of these paths is among them.
    pub fn touch(&self, paths: &[&str]) -> bool {
        let Self::Files(files) = self else { return true };
        let below = |file: &String, path: &&str| file.starts_with(path);
        files.iter().any(|file| EVERYWHERE.iter().chain(paths).any(|path| below(file, path)))
    }
}

/// The lines that git prints; `None` where it fails.
fn git(words: &[&str]) -> Option<Vec<String>> {
    let output = Command::new("git").args(words).current_dir(root()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_touch_the_paths_above_them() {
        let changes = Changes::Files(vec!["crates/bench/src/cli.rs".into(), "docs/bench.md".into()]);
        assert!(changes.touch(&["python/", "crates/bench/"]));
        assert!(!changes.touch(&["crates/benchmark/", "crates/cli/"]));
        assert!(Changes::All.touch(&["crates/cli/"]));
        assert!(Changes::Files(vec!["Cargo.lock".into()]).touch(&["crates/cli/"]));
    }
}
