//! The state machine's surroundings: the configuration file, names, scripts.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;

use super::resolver::Resolver;
use crate::config::replace_file;
use crate::config::rewrite::{Line, rewrite};
use crate::machine::World;

/// See the [module docs](self).
pub(super) struct FileWorld {
    path: PathBuf,
    /// The file's text as it was last: lines that are not the state machine's outlive the file's removal.
    last: Vec<u8>,
    /// Lines that are not the state machine's: roles and users.
    users: Rc<RefCell<Vec<Vec<u8>>>>,
    resolver: Resolver,
}

impl FileWorld {
    pub fn new(path: PathBuf, users: Rc<RefCell<Vec<Vec<u8>>>>) -> FileWorld {
        let last = std::fs::read(&path).unwrap_or_default();
        FileWorld { path, last, users, resolver: Resolver::default() }
    }
}

impl World for FileWorld {
    fn save(&mut self, lines: &[Line]) -> io::Result<()> {
        let old = std::fs::read(&self.path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(self.last.clone()),
            _ => Err(error),
        })?;
        let users = self.users.borrow();
        let mut all: Vec<Line> = Vec::with_capacity(lines.len() + users.len() + 2);
        for option in ["role", "user"] {
            let own = users.iter().filter(|line| line.starts_with(option.as_bytes())).cloned().map(Some);
            // The last stands for the lines of the file that are no longer any's.
            let line = |text| Line { option: option.into(), text, is_default: false };
            all.extend(own.chain([None]).map(line));
        }
        all.extend_from_slice(lines);
        let text = rewrite(&old, &all);
        replace_file(&self.path, &text)?;
        self.last = text;
        Ok(())
    }

    fn resolve(&mut self, host: &str) -> Option<IpAddr> {
        self.resolver.resolve(host)
    }

    fn is_executable(&self, path: &str) -> bool {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_removed_is_written_anew_with_the_lines_of_its_owner() {
        let path = std::env::temp_dir().join(format!("martlet-sentinel-{}.conf", std::process::id()));
        let line = |text: &str| Line {
            option: "sentinel monitor".into(),
            text: Some(text.as_bytes().to_vec()),
            is_default: false,
        };
        std::fs::write(&path, "# mine\nport 26001\ndir /\nsentinel monitor a 10.0.0.1 1 2\n").unwrap();
        let mut world = FileWorld::new(path.clone(), Rc::default());
        std::fs::remove_file(&path).unwrap();
        world.save(&[line("sentinel monitor a 10.0.0.1 1 3")]).unwrap();
        let written = || std::fs::read_to_string(&path).unwrap();
        assert_eq!(written(), "# mine\nport 26001\ndir /\nsentinel monitor a 10.0.0.1 1 3\n");
        // A file that has been changed is the one that counts, also once it is gone.
        std::fs::write(&path, "port 26002\nsentinel monitor a 10.0.0.1 1 3\n").unwrap();
        world.save(&[line("sentinel monitor a 10.0.0.1 1 4")]).unwrap();
        std::fs::remove_file(&path).unwrap();
        world.save(&[line("sentinel monitor a 10.0.0.1 1 5")]).unwrap();
        assert_eq!(written(), "port 26002\nsentinel monitor a 10.0.0.1 1 5\n");
        std::fs::remove_file(&path).unwrap();
    }
}
