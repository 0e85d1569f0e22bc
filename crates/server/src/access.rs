//! Access control in the server: the published users, and the log of refusals.
//!
//! Invariant: users change behind the closed gate.

use std::sync::{Arc, Mutex};

use martlet_acl::{Listed, Log, Request, Rules, Table, User, Users};
use martlet_base::publish::{Follower, Published};
use martlet_base::sync::{Outside, lock};
use martlet_protocol::request::Args;

use crate::config::{AccessLines, Config, ConfigStore, Declarations};
use crate::registry::{Entry, Registry};

/// See the [module docs](self).
pub struct AccessControl {
    table: Table,
    users: Published<Users>,
    /// Held during a change of the users.
    change: Mutex<()>,
    /// The refusals.
    pub log: Mutex<Log>,
}

/// The users before and after a change.
pub struct UsersChange {
    /// Those before it.
    pub before: Arc<Users>,
    /// Those after it.
    pub after: Arc<Users>,
}

/// The table of all commands that rules may name.
pub fn table(registry: &Registry) -> Table {
    Table::new(registry.entries().iter().map(|entry| Listed {
        spec: entry.spec,
        parent: entry.parent,
        is_hidden: entry.stats_id != entry.id,
    }))
}

/// What rules are understood by under a configuration.
pub fn rules<'t>(table: &'t Table, config: &Config) -> Rules<'t> {
    Rules { table, all_channels: config.acl_pubsub_default == crate::config::AclPubsubDefault::Allchannels }
}

impl AccessControl {
    /// The default user alone, with the password that the configuration requires.
    pub fn new(registry: &Registry, config: &Config) -> AccessControl {
        let table = table(registry);
        let mut users = Users::new(&rules(&table, config));
        if let Some(password) = &config.requirepass {
            let user = users.default_user().with_password(Some(password));
            users.insert(user);
        }
        AccessControl { table, users: Published::new(users), change: Mutex::default(), log: Mutex::default() }
    }

    /// A user that may do everything, whatever the users here may: the primary's stream is applied in its
    /// name.
    pub fn superuser(&self, config: &Config) -> Arc<User> {
        Arc::new(Users::new(&rules(&self.table, config)).default_user().as_ref().clone())
    }

    /// The commands that rules may name.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The current users.
    pub fn users(&self) -> Arc<Users> {
        self.users.snapshot()
    }

    /// One thread's view of the users.
    pub fn follow(&self) -> Follower<Users> {
        Follower::new(&self.users)
    }

    /// Takes up the newest users.
    #[inline]
    pub fn refresh(&self, view: &mut Follower<Users>) {
        view.refresh(&self.users);
    }

    /// Publishes the users as `change` makes them of the current ones.
    ///
    /// # Errors
    /// Those of `change`; nothing has changed then.
    pub fn change<E>(&self, change: impl FnOnce(&mut Users) -> Result<(), E>) -> Result<UsersChange, E> {
        let _changing = lock(&self.change);
        let before = self.users();
        let mut users = (*before).clone();
        change(&mut users)?;
        self.users.publish(users);
        Ok(UsersChange { before, after: self.users() })
    }

    /// Gives the default user the password that the configuration requires, or none.
    pub fn require_password(&self, password: Option<&[u8]>) {
        let Ok(_) = self.change(|users| {
            let user = users.default_user().with_password(password);
            users.insert(user);
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// The users of a file.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read_file(&self, _: &Outside, config: &Config) -> Result<Users, Vec<u8>> {
        let name = config.aclfile.display().to_string();
        let text = std::fs::read(&config.aclfile).map_err(|error| {
            let why = martlet_base::disk::error_text(&error);
            format!("Error loading ACLs, opening file '{name}': {why}").into_bytes()
        })?;
        Users::from_text(&text, &name, &rules(&self.table, config))
    }

    /// Writes the users to their file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save_file(&self, outside: &Outside, store: &ConfigStore) -> std::io::Result<()> {
        // Taken in its turn, so that nothing older replaces something newer.
        store.replace_file(outside, |config| &config.aclfile, || self.users().to_text())
    }

    /// The `role` and `user` lines of a configuration file, without the directive's name; none where users
    /// have a file of their own.
    pub fn config_lines(&self, config: &Config) -> AccessLines {
        if !config.aclfile.as_os_str().is_empty() {
            return AccessLines::default();
        }
        let users = self.users();
        let line = |user: &Arc<User>| [&user.name[..], b" ", &user.describe()].concat();
        AccessLines {
            roles: users.roles().iter().map(|role| role.describe()).collect(),
            users: users.iter().map(line).collect(),
        }
    }

    /// Takes up the users and roles that the configuration declares, or those of its file.
    ///
    /// # Errors
    /// What ends the server.
    pub fn load_at_start(
        &self,
        outside: &Outside,
        config: &Config,
        declared: &Declarations,
    ) -> Result<(), String> {
        let has_file = !config.aclfile.as_os_str().is_empty();
        let kinds = [("users", &declared.users), ("roles", &declared.roles)];
        if let Some((kind, _)) = kinds.iter().find(|(_, lines)| has_file && !lines.is_empty()) {
            return Err(format!(
                "Configuring Redis with {kind} defined in redis.conf and at the same setting an ACL file path is invalid. This setup is very likely to lead to configuration errors and security holes, please define either an ACL file or declare {kind} directly in your redis.conf, but not both."
            ));
        }
        let rules = rules(&self.table, config);
        let change = self.change(|users| {
            if has_file {
                *users = self.read_file(outside, config).map_err(|why| {
                    let why = String::from_utf8_lossy(&why);
                    format!("Aborting Redis startup because of ACL errors: {why}")
                })?;
            }
            for words in &declared.roles {
                let role = users.declare_role(&rules, words);
                role.inspect_err(|_| tracing::error!("Critical error while loading ACL roles. Exiting."))?;
            }
            for words in &declared.users {
                let is_on = users.declare_user(&rules, words);
                let is_on =
                    is_on.inspect_err(|_| tracing::error!("Critical error while loading ACLs. Exiting."))?;
                if !is_on {
                    let name = String::from_utf8_lossy(words.first().map_or(&[], Vec::as_slice));
                    tracing::info!(
                        "The user '{name}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a configuration error."
                    );
                }
            }
            Ok(())
        });
        change.map(|_| ())
    }
}

/// A request as its user's rules see it.
pub fn request<'a>(entry: &Entry, args: &Args<'a>, db: usize, databases: usize) -> Request<'a> {
    Request { place: entry.stats_id, spec: entry.spec, args: *args, db, databases }
}
