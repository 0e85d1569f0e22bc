//! Roles: selectors with a name, which users have besides their own (Valkey 9.2).
//!
//! Invariant: a role has neither passwords nor flags nor roles; a user has no role that is not in the list of
//! roles beside it, and has it as it is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{RuleError, SetError};
use crate::request::Rules;
use crate::selector::Selector;
use crate::selectors::{Selectors, merge_selectors};

/// See the [module docs](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: Vec<u8>,
    pub(crate) selectors: Selectors,
}

/// Rules that concern logging in, payloads and roles, which only a user can have.
const USER_RULES: [&[u8]; 8] = [
    b"on",
    b"off",
    b"nopass",
    b"resetpass",
    b"reset",
    b"skip-sanitize-payload",
    b"sanitize-payload",
    b"resetroles",
];

impl Role {
    /// A role without rules: it has the rights of a new user.
    pub fn new(name: &[u8], rules: &Rules<'_>) -> Role {
        Role { name: name.into(), selectors: Selectors::new(rules) }
    }

    /// The role with more rules.
    ///
    /// # Errors
    /// The first rule that is wrong.
    pub fn with_rules<'r>(
        &self,
        rules: &Rules<'_>,
        words: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<Role, SetError> {
        let mut role = self.clone();
        for (place, rule) in merge_selectors(words)?.into_iter().enumerate() {
            role.apply(rules, &rule).map_err(|why| SetError::Rule(rule, place, why))?;
        }
        Ok(role)
    }

    /// Looks through rules of a server that may yet learn more commands and categories.
    ///
    /// # Errors
    /// The first rule that is wrong whatever commands there are.
    pub fn check_rules<'r>(
        &self,
        rules: &Rules<'_>,
        words: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), SetError> {
        let mut role = self.clone();
        for (place, rule) in merge_selectors(words)?.into_iter().enumerate() {
            match role.apply(rules, &rule) {
                Ok(()) | Err(RuleError::Unknown) => {}
                Err(why) => return Err(SetError::Rule(rule, place, why)),
            }
        }
        Ok(())
    }

    fn apply(&mut self, rules: &Rules<'_>, rule: &[u8]) -> Result<(), RuleError> {
        let is_users = USER_RULES.iter().any(|word| rule.eq_ignore_ascii_case(word));
        match rule {
            [] => Ok(()),
            [b'>' | b'#' | b'<' | b'!', ..] => Err(RuleError::Syntax),
            _ if is_users || role_names(rule).is_some() => Err(RuleError::Syntax),
            _ => self.selectors.apply(rules, rule),
        }
    }

    /// The selector of the rules outside parentheses.
    pub fn root(&self) -> &Selector {
        self.selectors.root()
    }

    /// The selectors in parentheses.
    pub fn selectors(&self) -> &[Selector] {
        self.selectors.others()
    }

    /// The role's name, and the rules that make it again.
    pub fn describe(&self) -> Vec<u8> {
        [&self.name[..], b" ", &self.selectors.words().join(&b' ')].concat()
    }

    /// [`Role::describe`] as a line of a file.
    pub fn line(&self) -> Vec<u8> {
        [b"role ", &self.describe()[..]].concat()
    }
}

/// Why a role cannot be called so, in Valkey's words: the name must come back from an ACL file, a
/// configuration file and a user's list of roles as it was.
pub fn role_name_fault(name: &[u8]) -> Option<&'static str> {
    let fault_of = |byte: &u8| match byte {
        b',' => Some("Role names can't contain commas"),
        b'"' | b'\'' | b'\\' => Some("Role names can't contain quotes or backslashes"),
        b'!'..=b'~' => None,
        _ => Some("Role names can only contain printable ASCII characters"),
    };
    if name.is_empty() { Some("Role names can't be empty") } else { name.iter().find_map(fault_of) }
}

/// How the rule begins that gives a user roles, in lower case; names follow, separated by commas.
pub(crate) const ROLE_RULE: &[u8] = b"role=";

/// The names of a rule that gives roles.
pub(crate) fn role_names(rule: &[u8]) -> Option<&[u8]> {
    let (word, names) = rule.split_at_checked(ROLE_RULE.len())?;
    word.eq_ignore_ascii_case(ROLE_RULE).then_some(names)
}

/// All roles, by name.
#[derive(Clone, Debug, Default)]
pub struct Roles(BTreeMap<Vec<u8>, Arc<Role>>);

/// A list without a role.
pub(crate) static NO_ROLES: Roles = Roles(BTreeMap::new());

impl Roles {
    /// The role of this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Role>> {
        self.0.get(name)
    }

    /// All roles by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Role>> {
        self.0.values()
    }

    /// Adds a role, in the place of one of the same name.
    pub(crate) fn insert(&mut self, role: Arc<Role>) {
        self.0.insert(role.name.clone(), role);
    }

    /// Removes a role; whether there was one.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        self.0.remove(name).is_some()
    }

    /// The roles of a list of names that commas separate, each once.
    pub(crate) fn find(&self, names: &[u8]) -> Result<Vec<Arc<Role>>, RuleError> {
        // An empty name counts before one behind it that no role has, but an empty last name before all.
        if names.is_empty() || names.ends_with(b",") {
            return Err(RuleError::Syntax);
        }
        let mut roles: Vec<Arc<Role>> = Vec::new();
        for name in names.split(|byte| *byte == b',') {
            if name.is_empty() {
                return Err(RuleError::Syntax);
            }
            let role = self.get(name).ok_or(RuleError::NoSuchRole)?;
            if !roles.iter().any(|known| known.name == role.name) {
                roles.push(role.clone());
            }
        }
        Ok(roles)
    }
}
