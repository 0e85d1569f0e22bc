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
    /// Lines that are not the state machine's: users.
    users: Rc<RefCell<Vec<Vec<u8>>>>,
    resolver: Resolver,
}

impl FileWorld {
    pub fn new(path: PathBuf, users: Rc<RefCell<Vec<Vec<u8>>>>) -> FileWorld {
        FileWorld { path, users, resolver: Resolver::default() }
    }
}

impl World for FileWorld {
    fn save(&mut self, lines: &[Line]) -> io::Result<()> {
        let old = std::fs::read(&self.path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(Vec::new()),
            _ => Err(error),
        })?;
        let option = || "user".to_owned();
        let users = self.users.borrow();
        let mut all: Vec<Line> = Vec::with_capacity(lines.len() + users.len() + 1);
        all.extend(users.iter().map(|text| Line {
            option: option(),
            text: Some(text.clone()),
            is_default: false,
        }));
        all.push(Line { option: option(), text: None, is_default: false });
        all.extend_from_slice(lines);
        replace_file(&self.path, &rewrite(&old, &all))
    }

    fn resolve(&mut self, host: &str) -> Option<IpAddr> {
        self.resolver.resolve(host)
    }

    fn is_executable(&self, path: &str) -> bool {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    }
}
