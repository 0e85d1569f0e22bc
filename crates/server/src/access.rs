//! Access control in the server: the published users, the log, and the consequences of a change of users for
//! clients.
//!
//! Invariant: users change behind the closed gate, and a connection follows a change of its user before it
//! runs later input.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use martlet_acl::{
    DEFAULT_USER, Denial, Event, Listed, Log, Origin, Reason, Request, Rules, SetError, Table, User, Users,
    is_valid_name,
};
use martlet_base::publish::{Follower, Published};
use martlet_base::sync::{Outside, lock};
use martlet_protocol::request::Args;

use crate::config::{Config, ConfigStore, TlsAuthClientsUser};
use crate::connection::Connection;
use crate::pubsub::Kind;
use crate::registry::{Entry, Registry};
use crate::slow_path::SessionFlags;
use crate::worker::Worker;

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
    before: Arc<Users>,
    after: Arc<Users>,
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
    Rules {
        table,
        all_channels: config.acl_pubsub_default == crate::config::AclPubsubDefault::Allchannels,
        databases: config.database_count(),
    }
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

    /// The `user` lines of a configuration file, without the directive's name; none where users have a file
    /// of their own.
    pub fn config_lines(&self, config: &Config) -> Vec<Vec<u8>> {
        if !config.aclfile.as_os_str().is_empty() {
            return Vec::new();
        }
        self.users().iter().map(|user| [&user.name[..], b" ", &user.describe()].concat()).collect()
    }

    /// Takes up the users of the configuration's `user` lines, or of its file.
    ///
    /// # Errors
    /// What ends the server.
    pub fn load_at_start(
        &self,
        outside: &Outside,
        config: &Config,
        declared: &[Vec<Vec<u8>>],
    ) -> Result<(), String> {
        let has_file = !config.aclfile.as_os_str().is_empty();
        if has_file && !declared.is_empty() {
            return Err("Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is invalid. This setup is very likely to lead to configuration errors and security holes, please define either an ACL file or declare users directly in your redis.conf, but not both.".into());
        }
        let change = self.change(|users| {
            if has_file {
                *users = self.read_file(outside, config).map_err(|why| {
                    let why = String::from_utf8_lossy(&why);
                    format!("Aborting Redis startup because of ACL errors: {why}")
                })?;
            }
            for words in declared {
                let user = declared_user(words, &rules(&self.table, config));
                users.insert(
                    user.inspect_err(|_| tracing::error!("Critical error while loading ACLs. Exiting."))?,
                );
            }
            Ok(())
        });
        change.map(|_| ())
    }
}

/// The user of a `user` line: its name and rules.
fn declared_user(words: &[Vec<u8>], rules: &Rules<'_>) -> Result<User, String> {
    let (name, words) = words.split_first().ok_or("A user needs a name")?;
    if !is_valid_name(name) {
        return Err("Spaces not allowed in ACL usernames".into());
    }
    let user = User::new(name, rules).with_rules(rules, words.iter().map(Vec::as_slice));
    let name = String::from_utf8_lossy(name);
    let user = user.map_err(|why| match why {
        SetError::Rule(rule, _, why) => {
            let rule = String::from_utf8_lossy(&rule);
            format!("Error loading ACL rule '{rule}' for the user named '{name}': {why}")
        }
        SetError::Unmatched(..) => why.reply().to_string(),
    })?;
    if !user.is_on {
        tracing::info!(
            "The user '{name}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a configuration error."
        );
    }
    Ok(user)
}

impl Worker {
    /// Follows a change of the connection's user, if the users have changed since the last look.
    #[inline]
    pub(crate) fn follow_user(&self, connection: &mut Connection) {
        if connection.session.users_generation != self.users.generation() {
            self.renew_user(connection);
        }
    }

    #[cold]
    fn renew_user(&self, connection: &mut Connection) {
        let session = &mut connection.session;
        session.users_generation = self.users.generation();
        match self.users.get(&session.user.name) {
            Some(user) => {
                let user = user.clone();
                let must_authenticate = !session.authenticated && !self.users.default_user().is_open();
                session.become_user(user);
                session.flags.set(SessionFlags::UNAUTHENTICATED, must_authenticate);
            }
            // The thread that removed the user closes the connection; until then it may do nothing.
            None => {
                session.become_user(self.users.default_user().clone());
                session.authenticated = false;
                session.flags.set(SessionFlags::UNAUTHENTICATED, true);
            }
        }
    }

    /// Logs the connection in.
    pub(crate) fn log_in(&self, connection: &mut Connection, user: Arc<User>) {
        lock(&connection.info.details).user.clone_from(&user.name);
        connection.session.become_user(user);
        connection.session.authenticated = true;
        connection.session.flags.set(SessionFlags::UNAUTHENTICATED, false);
    }

    /// Logs a TLS client in as the user that its certificate names, if it names one that may log in; else the
    /// client's user stays.
    pub(crate) fn log_in_by_certificate(&self, connection: &mut Connection, certificate: &[u8]) {
        let name = match self.config().tls_auth_clients_user {
            TlsAuthClientsUser::Off => return,
            TlsAuthClientsUser::CommonName => martlet_net::common_name(certificate),
            TlsAuthClientsUser::Uri => martlet_net::alternative_uri(certificate),
        };
        let user = name.as_deref().and_then(|name| self.users.get(name)).filter(|user| user.is_on).cloned();
        match user {
            Some(user) => self.log_in(connection, user),
            None => tracing::debug!("No user is named as the certificate of {}", connection.info.peer),
        }
    }

    /// Whether the connection's user may run the request, where a check is needed.
    #[inline]
    pub(crate) fn permits(
        &self,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
    ) -> Result<(), Denial> {
        if !connection.session.flags.has(SessionFlags::RESTRICTED) {
            return Ok(());
        }
        connection.session.user.check(&request(entry, args, connection.session.db))
    }

    /// The command's name in messages to users: that of DEBUG for each of its subcommands.
    pub(crate) fn public_name(&self, entry: &Entry) -> &'static str {
        self.shared.registry.entries()[entry.stats_id].spec.full_name
    }

    /// As [`Worker::permits`]; a refusal is counted and logged.
    pub(crate) fn check_access(
        &self,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
        origin: Origin,
    ) -> Result<(), Denial> {
        let checked = self.permits(connection, entry, args);
        checked.inspect_err(|denial| self.note_denial(connection, entry, args, *denial, origin))
    }

    /// Counts and logs that the connection's user may not run the request.
    pub(crate) fn note_denial(
        &self,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
        denial: Denial,
        origin: Origin,
    ) {
        let object = denial.object(self.public_name(entry), args);
        self.note_refusal(connection, Reason::from(denial), origin, object, &connection.session.user.name);
    }

    /// Whether the user may read keys that the request does not name (SORT's BY and GET).
    pub(crate) fn may_read_all_keys(&self, connection: &Connection, entry: &Entry, args: &Args<'_>) -> bool {
        entry.spec.undeclared_keys.is_none()
            || !connection.session.flags.has(SessionFlags::RESTRICTED)
            || connection.session.user.may_read_all_keys(&request(entry, args, connection.session.db))
    }

    /// Counts and logs that something was refused to `user`.
    #[cold]
    pub(crate) fn note_refusal(
        &self,
        connection: &Connection,
        reason: Reason,
        origin: Origin,
        object: &[u8],
        user: &[u8],
    ) {
        let stats = &self.shared.stats;
        let counter = match reason {
            Reason::Auth => Some(&stats.auth_failures),
            Reason::Command => Some(&stats.refused_commands),
            Reason::Key => Some(&stats.refused_keys),
            Reason::Channel => Some(&stats.refused_channels),
            Reason::Database => None,
        };
        counter.inspect(|counter| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let client = crate::commands::client_line(self, &connection.info);
        let event = Event { reason, origin, object: object.into(), user: user.into(), client };
        let max_len = usize::try_from(self.config().acllog_max_len).unwrap_or(usize::MAX);
        lock(&self.shared.access.log).add(event, max_len, self.now_ms);
    }
}

/// A request as its user's rules see it.
pub fn request<'a>(entry: &Entry, args: &Args<'a>, db: usize) -> Request<'a> {
    Request { place: entry.stats_id, spec: entry.spec, args: *args, db }
}

/// Closes the connections that a change of users concerns: those of users that are gone, and subscribers of
/// channels that their user may not use any more.
pub fn revoke(worker: &mut Worker, connection: &mut Connection, change: &UsersChange) {
    let UsersChange { before, after } = change;
    let shared = worker.shared;
    shared.access.refresh(&mut worker.users);
    worker.follow_user(connection);
    // Users that have lost a channel.
    let has_lost = |user: &Arc<User>| {
        after.get(&user.name).is_some_and(|now| !Arc::ptr_eq(now, user) && !now.keeps_channels_of(user))
    };
    let losers: Vec<&Arc<User>> = before.iter().filter(|user| has_lost(user)).collect();
    let mut refused = std::collections::HashSet::new();
    if !losers.is_empty() && shared.hub.clients.load(Ordering::Acquire) > 0 {
        shared.hub.for_each_subscription(|kind, channel, client| {
            let Some(info) = shared.clients.get(client) else { return };
            let name = lock(&info.details).user.clone();
            let user = losers.iter().find(|user| user.name == name).and_then(|_| after.get(&name));
            if user.is_some_and(|user| !user.allows_channel(channel, kind == Kind::Pattern)) {
                refused.insert(client);
            }
        });
    }
    let has_gone = before.iter().any(|user| after.get(&user.name).is_none());
    if !has_gone && refused.is_empty() {
        return;
    }
    for client in shared.clients.all() {
        let is_of_nobody = after.get(&lock(&client.details).user).is_none();
        if is_of_nobody || refused.contains(&client.id) {
            crate::commands::close_client(worker, connection, &client);
        }
    }
}

/// Checks a `user` line of a configuration; unknown commands show when users are loaded.
///
/// # Errors
/// The place of the wrong rule among the rules, and Redis' text.
pub fn check_declaration(words: &[Vec<u8>], rules: &Rules<'_>) -> Result<(), (usize, String)> {
    let words = words.iter().skip(1).map(Vec::as_slice);
    User::new(DEFAULT_USER, rules).check_rules(rules, words).map_err(|why| match why {
        SetError::Rule(_, place, why) => (place, why.to_string()),
        SetError::Unmatched(_, place) => (place, "Wrong format".into()),
    })
}
