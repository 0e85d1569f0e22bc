//! All users.
//!
//! Invariant: there always is a `default` user; a list that is published does not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::RuleError;
use crate::request::{Rules, is_valid_name};
use crate::user::User;

/// The name of the user that connections have before AUTH.
pub const DEFAULT_USER: &[u8] = b"default";

/// Rules of the default user without a configuration: all is allowed.
const DEFAULT_RULES: [&[u8]; 5] = [b"+@all", b"~*", b"&*", b"on", b"nopass"];

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Users {
    by_name: BTreeMap<Vec<u8>, Arc<User>>,
    default: Arc<User>,
}

impl Users {
    /// The default user alone.
    pub fn new(rules: &Rules<'_>) -> Users {
        let fresh = User::new(DEFAULT_USER, rules);
        // The rules are right: a test says so.
        let default = Arc::new(fresh.with_rules(rules, DEFAULT_RULES).unwrap_or(fresh));
        Users { by_name: BTreeMap::from([(DEFAULT_USER.into(), default.clone())]), default }
    }

    /// The user of this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// The user that connections have before AUTH.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// All users by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    /// Adds a user, in the place of one of the same name.
    pub fn insert(&mut self, user: User) {
        let user = Arc::new(user);
        if user.name == DEFAULT_USER {
            self.default = user.clone();
        }
        self.by_name.insert(user.name.clone(), user);
    }

    /// Removes a user; whether there was one. The default user stays.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        name != DEFAULT_USER && self.by_name.remove(name).is_some()
    }

    /// The user with this name and password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        self.get(name).filter(|user| user.accepts(password))
    }

    /// All users as lines of a file.
    pub fn to_text(&self) -> Vec<u8> {
        self.iter().flat_map(|user| [user.line(), b"\n".to_vec()].concat()).collect()
    }

    /// The users that a file's text lists; `name` is the file's, for messages.
    ///
    /// # Errors
    /// All that is wrong with it, in one line.
    pub fn from_text(text: &[u8], name: &str, rules: &Rules<'_>) -> Result<Users, Vec<u8>> {
        let mut errors = Vec::new();
        let mut by_name = BTreeMap::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            let place = format!("{name}:{}", index + 1);
            if line.is_empty() {
                continue;
            }
            let mut words = line.split(|byte| *byte == b' ');
            let (Some(b"user"), Some(name)) = (words.next(), words.next()) else {
                let what = " should start with user keyword followed by the username. ";
                errors.extend([place.as_bytes(), what.as_bytes()].concat());
                continue;
            };
            if !is_valid_name(name) {
                let what =
                    [b"'", place.as_bytes(), b": username '", name, b"' contains invalid characters. "];
                errors.extend(what.concat());
            } else if by_name.contains_key(name) {
                let line = format!("' found on line {}. ", index + 1);
                errors.extend([b"WARNING: Duplicate user '", name, line.as_bytes()].concat());
            } else if let Some(user) = user_of_words(name, words, &place, rules, &mut errors) {
                by_name.insert(user.name.clone(), Arc::new(user));
            }
        }
        if !errors.is_empty() {
            errors.extend(
                b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
            );
            return Err(errors);
        }
        let default = by_name.entry(DEFAULT_USER.into()).or_insert_with(|| Users::new(rules).default).clone();
        Ok(Users { by_name, default })
    }
}

/// The user with the rules of one line; faults are appended to `errors`.
fn user_of_words<'w>(
    name: &[u8],
    words: impl Iterator<Item = &'w [u8]>,
    place: &str,
    rules: &Rules<'_>,
    errors: &mut Vec<u8>,
) -> Option<User> {
    let mut has_told = false;
    let mut refused = |rule: &[u8], why: RuleError| {
        if why == RuleError::Unknown {
            let what = [b": Error in applying operation '", rule, format!("': {why}. ").as_bytes()].concat();
            errors.extend([place.as_bytes(), &what].concat());
        } else if !std::mem::replace(&mut has_told, true) {
            // Only the first, for the others may follow from it.
            errors.extend(format!("{place}: {why}. ").bytes());
        }
    };
    let user = User::new(name, rules).with_valid_rules(rules, words.map(<[u8]>::trim_ascii), &mut refused);
    if user.is_err() {
        errors.extend(format!("{place}: Unmatched parenthesis in selector definition.").bytes());
    }
    user.ok()
}
