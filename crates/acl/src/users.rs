//! All users, and the roles that they can have.
//!
//! Invariant: there always is a `default` user; each role of a user is that of its name in the list of roles;
//! a list that is published does not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{RuleError, SetError};
use crate::request::{Rules, is_valid_name};
use crate::role::{NO_ROLES, Role, Roles, role_name_fault};
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
    roles: Roles,
}

impl Users {
    /// The default user alone.
    pub fn new(rules: &Rules<'_>) -> Users {
        let fresh = User::new(DEFAULT_USER, rules);
        // The rules are right: a test says so.
        let default = Arc::new(fresh.with_rules(rules, &NO_ROLES, DEFAULT_RULES).unwrap_or(fresh));
        let by_name = BTreeMap::from([(DEFAULT_USER.into(), default.clone())]);
        Users { by_name, default, roles: Roles::default() }
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

    /// Changes a user by more rules, or makes one of that name; the user as it is then.
    ///
    /// # Errors
    /// The first rule that is wrong; nothing has changed then.
    pub fn set_user<'r>(
        &mut self,
        rules: &Rules<'_>,
        name: &[u8],
        words: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), SetError> {
        let user = match self.get(name) {
            Some(known) => known.with_rules(rules, &self.roles, words)?,
            None => User::new(name, rules).with_rules(rules, &self.roles, words)?,
        };
        self.insert(user);
        Ok(())
    }

    /// The roles.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Changes a role by more rules, or makes one of that name; users that have it follow.
    ///
    /// # Errors
    /// The first rule that is wrong; nothing has changed then.
    pub fn set_role<'r>(
        &mut self,
        rules: &Rules<'_>,
        name: &[u8],
        words: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), SetError> {
        let role = match self.roles.get(name) {
            Some(known) => known.with_rules(rules, words)?,
            None => Role::new(name, rules).with_rules(rules, words)?,
        };
        let role = Arc::new(role);
        self.roles.insert(role.clone());
        let changed: Vec<User> = self.iter().filter_map(|user| user.with_changed_role(&role)).collect();
        changed.into_iter().for_each(|user| self.insert(user));
        Ok(())
    }

    /// The users that have a role, by name.
    pub fn holders(&self, role: &[u8]) -> impl Iterator<Item = &Arc<User>> {
        self.iter().filter(move |user| user.has_role(role))
    }

    /// Removes roles; how many there were.
    ///
    /// # Errors
    /// The first of them that a user has; nothing has changed then.
    pub fn remove_roles<'n>(&mut self, names: &[&'n [u8]]) -> Result<usize, &'n [u8]> {
        match names.iter().find(|name| self.holders(name).next().is_some()) {
            Some(held) => Err(held),
            None => Ok(names.iter().filter(|name| self.roles.remove(name)).count()),
        }
    }

    /// Removes a user; whether there was one. The default user stays.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        name != DEFAULT_USER && self.by_name.remove(name).is_some()
    }

    /// The user with this name and password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        self.get(name).filter(|user| user.accepts(password))
    }

    /// All roles and users as lines of a file.
    pub fn to_text(&self) -> Vec<u8> {
        let roles = self.roles.iter().map(|role| role.line());
        roles
            .chain(self.iter().map(|user| user.line()))
            .flat_map(|line| [line, b"\n".to_vec()].concat())
            .collect()
    }

    /// The roles and users that a file's text lists; `name` is the file's, for messages.
    ///
    /// # Errors
    /// All that is wrong with it, in one line.
    pub fn from_text(text: &[u8], name: &str, rules: &Rules<'_>) -> Result<Users, Vec<u8>> {
        let mut errors = Vec::new();
        let lines = || {
            let numbered = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).zip(1_usize..);
            numbered.filter(|(line, _)| !line.is_empty())
        };
        let roles = roles_of_lines(lines(), name, rules, &mut errors);
        let mut by_name = BTreeMap::new();
        for (line, number) in lines() {
            let place = format!("{name}:{number}");
            let mut words = line.split(|byte| *byte == b' ');
            let (Some(b"user"), Some(name)) = (words.next(), words.next()) else {
                if line.split(|byte| *byte == b' ').next() != Some(b"role") {
                    let what = " should start with user keyword followed by the username. ";
                    errors.extend([place.as_bytes(), what.as_bytes()].concat());
                }
                continue;
            };
            if !is_valid_name(name) {
                let what =
                    [b"'", place.as_bytes(), b": username '", name, b"' contains invalid characters. "];
                errors.extend(what.concat());
            } else if by_name.contains_key(name) {
                errors.extend(duplicate("user", name, number));
            } else if let Some(user) = user_of_words(name, words, &place, (rules, &roles), &mut errors) {
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
        Ok(Users { by_name, default, roles })
    }
}

/// The fault that a user or a role has more than one line.
fn duplicate(what: &str, name: &[u8], number: usize) -> Vec<u8> {
    let end = format!("' found on line {number}. ");
    [format!("WARNING: Duplicate {what} '").as_bytes(), name, end.as_bytes()].concat()
}

/// The roles that lines and their numbers declare; faults are appended to `errors`.
fn roles_of_lines<'t>(
    lines: impl Iterator<Item = (&'t [u8], usize)>,
    file: &str,
    rules: &Rules<'_>,
    errors: &mut Vec<u8>,
) -> Roles {
    let mut roles = Roles::default();
    for (line, number) in lines {
        let mut words = line.split(|byte| *byte == b' ');
        if words.next() != Some(b"role") {
            continue;
        }
        let place = format!("{file}:{number}: ");
        let Some(name) = words.next() else {
            errors.extend(format!("{place}role line requires a role name. ").bytes());
            continue;
        };
        if let Some(fault) = role_name_fault(name) {
            let end = format!("': {fault}. ");
            errors.extend([place.as_bytes(), b"invalid role name '", name, end.as_bytes()].concat());
        } else if roles.get(name).is_some() {
            errors.extend(duplicate("role", name, number));
        } else {
            match Role::new(name, rules).with_rules(rules, words) {
                Ok(role) => roles.insert(Arc::new(role)),
                Err(why) => {
                    let why = why.role_reply().to_bytes();
                    let why = why.strip_prefix(b"ERR ").unwrap_or(&why);
                    errors.extend([place.as_bytes(), why, b". "].concat());
                }
            }
        }
    }
    roles
}

/// The user with the rules of one line; faults are appended to `errors`.
fn user_of_words<'w>(
    name: &[u8],
    words: impl Iterator<Item = &'w [u8]>,
    place: &str,
    (rules, roles): (&Rules<'_>, &Roles),
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
    let user =
        User::new(name, rules).with_valid_rules(rules, roles, words.map(<[u8]>::trim_ascii), &mut refused);
    if user.is_err() {
        errors.extend(format!("{place}: Unmatched parenthesis in selector definition.").bytes());
    }
    user.ok()
}
