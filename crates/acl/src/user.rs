//! A user: whether it may log in and how, and the selectors, its own and its roles', of which one has to
//! allow a request.
//!
//! Invariant: `is_unrestricted` is true exactly if the first selector of the user or of one of its roles
//! allows everything, so that requests need no check.

use std::sync::Arc;

use crate::error::{Denial, RuleError, SetError};
use crate::ordered::Ordered;
use crate::password::Password;
use crate::request::{Request, Rules};
use crate::role::{NO_ROLES, ROLE_RULE, Role, Roles, role_names};
use crate::selector::{Access, Asked, Selector};
use crate::selectors::{Selectors, merge_selectors};

/// See the [module docs](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: Vec<u8>,
    /// May log in.
    pub is_on: bool,
    /// Any password is right.
    pub needs_no_password: bool,
    /// Payloads that it restores are validated.
    pub sanitizes_payload: bool,
    passwords: Ordered<Password, ()>,
    selectors: Selectors,
    /// In the order in which they were given, each once.
    roles: Vec<Arc<Role>>,
    is_unrestricted: bool,
}

impl User {
    /// A user as it is before any rule: off, without passwords and rights.
    pub fn new(name: &[u8], rules: &Rules<'_>) -> User {
        User {
            name: name.into(),
            is_on: false,
            needs_no_password: false,
            sanitizes_payload: true,
            passwords: Ordered::new(),
            selectors: Selectors::new(rules),
            roles: Vec::new(),
            is_unrestricted: false,
        }
    }

    /// The user with more rules.
    ///
    /// # Errors
    /// The first rule that is wrong.
    pub fn with_rules<'r>(
        &self,
        rules: &Rules<'_>,
        roles: &Roles,
        words: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<User, SetError> {
        let mut user = self.clone();
        for (place, rule) in merge_selectors(words)?.into_iter().enumerate() {
            user.apply(rules, roles, &rule).map_err(|why| SetError::Rule(rule, place, why))?;
        }
        Ok(user)
    }

    /// Looks through rules of a server that may yet learn more commands, categories and roles.
    ///
    /// # Errors
    /// The first rule that is wrong whatever commands and roles there are.
    pub fn check_rules<'r>(
        &self,
        rules: &Rules<'_>,
        words: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), SetError> {
        let mut user = self.clone();
        for (place, rule) in merge_selectors(words)?.into_iter().enumerate() {
            match user.apply(rules, &NO_ROLES, &rule) {
                Ok(()) | Err(RuleError::Unknown | RuleError::NoSuchRole) => {}
                Err(why) => return Err(SetError::Rule(rule, place, why)),
            }
        }
        Ok(())
    }

    /// As [`User::with_rules`], continuing after wrong rules, which `refused` receives.
    ///
    /// # Errors
    /// A selector does not end.
    pub(crate) fn with_valid_rules<'r>(
        &self,
        rules: &Rules<'_>,
        roles: &Roles,
        words: impl IntoIterator<Item = &'r [u8]>,
        refused: &mut dyn FnMut(&[u8], RuleError),
    ) -> Result<User, SetError> {
        let mut user = self.clone();
        for rule in merge_selectors(words)? {
            if let Err(why) = user.apply(rules, roles, &rule) {
                refused(&rule, why);
            }
        }
        Ok(user)
    }

    /// The user with one password only, or none needed.
    pub fn with_password(&self, password: Option<&[u8]>) -> User {
        let mut passwords = Ordered::new();
        if let Some(password) = password {
            passwords.get_or_add(Password::of(password), ());
        }
        User { passwords, needs_no_password: password.is_none(), ..self.clone() }
    }

    fn apply(&mut self, rules: &Rules<'_>, roles: &Roles, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"skip-sanitize-payload" => self.sanitizes_payload = false,
            b"sanitize-payload" => self.sanitizes_payload = true,
            b"nopass" => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            b"resetroles" => self.roles.clear(),
            b"reset" => *self = User::new(&self.name, rules),
            _ => match *rule {
                [b'>', ref text @ ..] => self.add_password(Password::of(text)),
                [b'#', ref hex @ ..] => self.add_password(Password::from_hex(hex)?),
                [b'<', ref text @ ..] => self.remove_password(&Password::of(text))?,
                [b'!', ref hex @ ..] => self.remove_password(&Password::from_hex(hex)?)?,
                _ => match role_names(rule) {
                    Some(names) => self.roles = roles.find(names)?,
                    None => self.selectors.apply(rules, rule)?,
                },
            },
        }
        self.note_rights();
        Ok(())
    }

    fn note_rights(&mut self) {
        let roles = self.roles.iter().map(|role| role.root());
        self.is_unrestricted = std::iter::once(self.root()).chain(roles).any(Selector::allows_all);
    }

    /// The user with a role in the place of the one of its name; none if it does not have that role.
    pub(crate) fn with_changed_role(&self, role: &Arc<Role>) -> Option<User> {
        let place = self.roles.iter().position(|held| held.name == role.name)?;
        let mut user = self.clone();
        user.roles[place] = role.clone();
        user.note_rights();
        Some(user)
    }

    fn add_password(&mut self, password: Password) {
        self.needs_no_password = false;
        self.passwords.get_or_add(password, ());
    }

    fn remove_password(&mut self, password: &Password) -> Result<(), RuleError> {
        if self.passwords.remove(password) { Ok(()) } else { Err(RuleError::NoSuchPassword) }
    }

    /// The selector of the rules outside parentheses.
    pub fn root(&self) -> &Selector {
        self.selectors.root()
    }

    /// The selectors in parentheses.
    pub fn selectors(&self) -> &[Selector] {
        self.selectors.others()
    }

    /// Its roles, in the order in which they were given.
    pub fn roles(&self) -> &[Arc<Role>] {
        &self.roles
    }

    /// Whether it has a role of this name.
    pub fn has_role(&self, name: &[u8]) -> bool {
        self.roles.iter().any(|role| role.name == name)
    }

    /// The selectors of which one has to allow a request: its own, then those of each role.
    fn effective_selectors(&self) -> impl Iterator<Item = &Selector> {
        self.selectors.iter().chain(self.roles.iter().flat_map(|role| role.selectors.iter()))
    }

    /// The passwords, in the order in which they were given.
    pub fn passwords(&self) -> Vec<&Password> {
        self.passwords.in_order().map(|(password, ())| password).collect()
    }

    /// Whether it may do everything.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Whether a new connection is this user's, if it is the default one, without AUTH.
    pub fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether a client with this password may log in.
    pub fn accepts(&self, password: &[u8]) -> bool {
        if !self.is_on || self.needs_no_password {
            return self.is_on;
        }
        let given = Password::of(password);
        // All are compared, so that the time does not tell which was right.
        self.passwords.iter().fold(false, |right, (known, ())| right | known.is_same(&given))
    }

    /// Whether the user may run the request; if not, the reported reason of the selectors': the command if
    /// none allows it, else the last key or channel that one refuses.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn check(&self, request: &Request<'_>) -> Result<(), Denial> {
        if self.is_unrestricted {
            return Ok(());
        }
        let mut asked = Asked::new(request);
        let mut told: Option<Denial> = None;
        for selector in self.effective_selectors() {
            let Err(denial) = selector.check(&mut asked) else { return Ok(()) };
            if told.is_none_or(|told| weight(denial) > weight(told)) {
                told = Some(denial);
            }
        }
        told.map_or(Ok(()), Err)
    }

    /// Whether a selector that allows the request allows to read any key.
    pub fn may_read_all_keys(&self, request: &Request<'_>) -> bool {
        if self.is_unrestricted {
            return true;
        }
        let mut asked = Asked::new(request);
        let read = Access { read: true, write: false };
        self.effective_selectors().any(|one| one.check(&mut asked).is_ok() && one.allows_all_keys(read))
    }

    /// Whether a selector allows to read a key, which a request does not name.
    pub fn may_read_key(&self, key: &[u8]) -> bool {
        let read = Access { read: true, write: false };
        self.is_unrestricted || self.effective_selectors().any(|selector| selector.allows_key(key, read))
    }

    /// Whether a selector allows to read all keys that begin so; with `writes`, to change them too.
    pub fn may_use_prefix(&self, prefix: &[u8], writes: bool) -> bool {
        let access = Access { read: true, write: writes };
        self.is_unrestricted
            || self.effective_selectors().any(|selector| selector.allows_prefix(prefix, access))
    }

    /// Whether a subscription to a channel, or a pattern of them, may stay.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.effective_selectors().any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// Whether it may use all channels that `before` could, going by the patterns' texts.
    pub fn keeps_channels_of(&self, before: &User) -> bool {
        let channels: Option<Vec<_>> = self.effective_selectors().map(Selector::channels).collect();
        let Some(channels) = channels else { return true };
        let has = |(wanted, ()): (&Vec<u8>, &())| channels.iter().any(|known| known.has(wanted));
        before
            .effective_selectors()
            .all(|selector| selector.channels().is_some_and(|all| all.iter().all(has)))
    }

    /// The flags, in GETUSER's form.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let sanitizes = if self.sanitizes_payload { "sanitize-payload" } else { "skip-sanitize-payload" };
        let is_on = if self.is_on { "on" } else { "off" };
        [Some(is_on), self.needs_no_password.then_some("nopass"), Some(sanitizes)].into_iter().flatten()
    }

    /// All that makes the user, as rules that make it again.
    pub fn describe(&self) -> Vec<u8> {
        self.describe_with(|_| true)
    }

    /// [`User::describe`] with those of the flags that are wanted.
    fn describe_with(&self, is_shown: impl Fn(&str) -> bool) -> Vec<u8> {
        let flags = self.flags().filter(|flag| is_shown(flag));
        let mut parts: Vec<Vec<u8>> = flags.map(|flag| flag.as_bytes().to_vec()).collect();
        parts
            .extend(self.passwords().into_iter().map(|password| format!("#{}", password.hex()).into_bytes()));
        parts.extend(self.selectors.words());
        if !self.roles.is_empty() {
            let names: Vec<&[u8]> = self.roles.iter().map(|role| &role.name[..]).collect();
            parts.push([ROLE_RULE, &names.join(&b',')].concat());
        }
        parts.join(&b' ')
    }

    /// [`User::describe`] as a line of a file.
    pub fn line(&self) -> Vec<u8> {
        self.line_with(|_| true)
    }

    /// [`User::line`] with those of the flags that are wanted.
    pub fn line_with(&self, is_shown: impl Fn(&str) -> bool) -> Vec<u8> {
        [b"user ", &self.name[..], b" ", &self.describe_with(is_shown)].concat()
    }
}

/// The weight of a selector's reason; the heaviest is reported. A selector of other databases counts least
/// while another one applies to the request.
fn weight(denial: Denial) -> (u8, usize) {
    match denial {
        Denial::Database(_) => (0, 0),
        Denial::Command => (1, 0),
        Denial::Key(index) => (2, index),
        Denial::Channel(index) => (3, index),
    }
}
