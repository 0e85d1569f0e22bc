//! The `user` and `role` lines of a configuration: a name and its rules each.
//!
//! Invariant: a line is checked when it is read, whatever commands and roles there are, and applied when all
//! commands are known, roles first.

use crate::error::SetError;
use crate::request::{Rules, is_valid_name};
use crate::role::{Role, role_name_fault};
use crate::user::User;
use crate::users::{DEFAULT_USER, Users};

/// The fault of a role's name where it can be anything.
const BAD_ROLE_NAME: &str = "Role names can't be empty and can only contain printable ASCII characters, excluding commas, quotes and backslashes";

/// Checks a `user` line; unknown commands and roles show when users are declared.
///
/// # Errors
/// The place of the wrong rule among the rules, and Redis' text.
pub fn check_user(rules: &Rules<'_>, words: &[Vec<u8>]) -> Result<(), (usize, String)> {
    let words = words.iter().skip(1).map(Vec::as_slice);
    User::new(DEFAULT_USER, rules).check_rules(rules, words).map_err(|why| fault(&why))
}

/// Checks a `role` line; unknown commands show when roles are declared.
///
/// # Errors
/// The place of the wrong word in the line, the name's being 0, and Valkey's text.
pub fn check_role(rules: &Rules<'_>, words: &[Vec<u8>]) -> Result<(), (usize, String)> {
    let (name, words) = words.split_first().ok_or((0, BAD_ROLE_NAME.to_owned()))?;
    if role_name_fault(name).is_some() {
        return Err((0, BAD_ROLE_NAME.into()));
    }
    let checked = Role::new(name, rules).check_rules(rules, words.iter().map(Vec::as_slice));
    checked.map_err(|why| {
        let (place, text) = fault(&why);
        (place + 1, text)
    })
}

fn fault(why: &SetError) -> (usize, String) {
    match why {
        SetError::Rule(_, place, why) => (*place, why.to_string()),
        SetError::Unmatched(_, place) => (*place, "Wrong format".into()),
    }
}

impl Users {
    /// Makes the user of a `user` line, in the place of one of the same name; whether it may log in.
    ///
    /// # Errors
    /// The fault of the line.
    pub fn declare_user(&mut self, rules: &Rules<'_>, words: &[Vec<u8>]) -> Result<bool, String> {
        let (name, words) = words.split_first().ok_or("A user needs a name")?;
        if !is_valid_name(name) {
            return Err("Spaces not allowed in ACL usernames".into());
        }
        let words = words.iter().map(Vec::as_slice);
        let user = User::new(name, rules).with_rules(rules, self.roles(), words);
        let user = user.map_err(|why| match why {
            SetError::Rule(rule, _, why) => {
                let (rule, name) = (String::from_utf8_lossy(&rule), String::from_utf8_lossy(name));
                format!("Error loading ACL rule '{rule}' for the user named '{name}': {why}")
            }
            SetError::Unmatched(..) => why.reply().to_string(),
        })?;
        let is_on = user.is_on;
        self.insert(user);
        Ok(is_on)
    }

    /// Makes the role of a `role` line.
    ///
    /// # Errors
    /// The fault of the line.
    pub fn declare_role(&mut self, rules: &Rules<'_>, words: &[Vec<u8>]) -> Result<(), String> {
        let (name, words) = words.split_first().ok_or("A role needs a name")?;
        if let Some(fault) = role_name_fault(name) {
            return Err(fault.into());
        }
        self.set_role(rules, name, words.iter().map(Vec::as_slice)).map_err(|why| {
            let why = why.role_reply().to_string();
            let why = why.strip_prefix("ERR ").unwrap_or(&why);
            format!("Error loading ACL role '{}': {why}", String::from_utf8_lossy(name))
        })
    }
}
