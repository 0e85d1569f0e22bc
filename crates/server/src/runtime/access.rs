//! Rights of a connection's user, checked for its requests, and changes of users as connections follow them.
//!
//! Invariant: a connection follows a change of its user before it runs later input.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_acl::{Denial, Event, Origin, Reason, User};
use martlet_base::sync::lock;
use martlet_protocol::request::Args;

use super::Worker;
use crate::access::request;
use crate::clients::line::line;
use crate::config::TlsAuthClientsUser;
use crate::connection::Connection;
use crate::registry::Entry;
use crate::slow_path::SessionFlags;

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
        if session.peer.is_some() {
            return;
        }
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
            None => {
                self.shared.stats.refused_certificates.fetch_add(1, Ordering::Relaxed);
                tracing::debug!("No user is named as the certificate of {}", connection.info.peer);
            }
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
        connection.session.user.check(&request(
            entry,
            args,
            connection.session.upcoming_db(),
            self.settings.databases,
        ))
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
            || connection.session.user.may_read_all_keys(&request(
                entry,
                args,
                connection.session.upcoming_db(),
                self.settings.databases,
            ))
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
            Reason::Database => Some(&stats.refused_databases),
        };
        counter.inspect(|counter| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let (clock, registry) = (&self.shared.clock, self.shared.registry);
        let client = line(clock, registry, self.presentation(), &connection.info);
        let event = Event { reason, origin, object: object.into(), user: user.into(), client };
        let max_len = usize::try_from(self.config().acllog_max_len).unwrap_or(usize::MAX);
        lock(&self.shared.access.log).add(event, max_len, self.now_ms);
    }
}
