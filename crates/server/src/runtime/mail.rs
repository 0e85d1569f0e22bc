//! Requests of other threads.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use martlet_base::copy;
use martlet_net::Token;

use super::Worker;
use crate::clients::flag;
use crate::connection::{Connection, ReplyMode, Suspended};
use crate::migration::state::MigrationStep;
use crate::runtime::Mail;
use crate::slow_path::SessionFlags;
use crate::tracking::table::Notice;

/// A thread's mail, as far as it has been taken out of the mailbox.
#[derive(Default)]
pub(crate) struct Inbox {
    /// Messages that are not handled yet.
    mails: VecDeque<Mail>,
    /// The mailbox is to be read.
    is_due: bool,
}

impl Inbox {
    /// Has the mailbox read before the thread continues.
    pub fn note(&mut self) {
        self.is_due = true;
    }

    /// As [`Inbox::note`] if that is so.
    pub fn note_if(&mut self, is_due: bool) {
        self.is_due |= is_due;
    }

    /// Whether it is to be read.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Handles these before those that are there.
    fn put_before(&mut self, earlier: VecDeque<Mail>) {
        let newer = std::mem::replace(&mut self.mails, earlier);
        self.mails.extend(newer);
    }
}

impl Worker {
    /// Carries out other threads' requests.
    pub(super) fn read_mail(&mut self) {
        if !self.inbox.take_due() {
            return;
        }
        self.enter();
        if !self.is_excluded() {
            self.inbox.put_before(std::mem::take(&mut self.postponed.mail));
        }
        self.inbox.mails.extend(self.shared.receive(self.thread));
        // One by one: a message that waits for a busy script lets later ones be read.
        while let Some(mail) = self.inbox.mails.pop_front() {
            if self.is_excluded() && self.must_wait(&mail) {
                self.postponed.mail.push_back(mail);
                continue;
            }
            match mail {
                Mail::Adopt { socket, listener } => drop(self.adopt(socket, listener)),
                Mail::Monitored { token, client, line } => self.push_with(token, client, |connection| {
                    if connection.session.reply_mode == ReplyMode::On {
                        copy::extend(&mut connection.out, &line);
                    }
                }),
                Mail::Notice { token, client, notice } => self.read_notice(token, client, notice),
                Mail::Message(delivery) => (self.hooks.message_arrived)(self, &delivery),
                Mail::Kill { token, client } => {
                    if let Some(connection) = self.take_client(token, client) {
                        self.drop_connection(connection);
                    }
                }
                Mail::Move { connection, socket } => self.take_connection(connection, socket),
                Mail::Served { waiter, reply, ns } => self.served(&waiter, &reply, ns),
                Mail::RunAgain { waiter, at_ms } => self.schedule_again(&waiter, at_ms),
                Mail::Unblock { waiter, end } => self.unblocked(&waiter, end),
                Mail::Recheck => self.resume_paused(),
                Mail::Run(work) => work(self),
            }
        }
    }

    /// Hands a notice to its client, or sends it after one that has moved.
    fn read_notice(&mut self, token: Token, client: u64, notice: Notice) {
        if self.connections.at_place_of(token).is_some_and(|one| one.info.id == client) {
            return (self.hooks.notice_arrived)(self, token, client, &notice);
        }
        let Some(info) = self.shared.clients.get(client) else { return };
        let (thread, token) = (info.thread(), info.token());
        if thread == self.thread {
            (self.hooks.notice_arrived)(self, token, client, &notice);
        } else {
            self.shared.send(thread, Mail::Notice { token, client, notice });
        }
    }

    /// The client at `token`, if it is still this one.
    pub(crate) fn take_client(&mut self, token: Token, client: u64) -> Option<Box<Connection>> {
        let connection = self.take(token)?;
        if connection.info.id == client {
            return Some(connection);
        }
        self.put(connection);
        None
    }

    /// Lets `write` append to a client's output, if it is still there.
    pub(crate) fn push_with(&mut self, token: Token, client: u64, write: impl FnOnce(&mut Connection)) {
        let Some(mut connection) = self.take_client(token, client) else { return };
        if !connection.closing {
            if connection.out.capacity() == 0 {
                connection.out = self.outbox.buffer();
            }
            write(&mut connection);
            self.check_output_limit(&mut connection);
        }
        self.finish(connection);
    }

    /// Has a client's request run again when there is reason to look again.
    pub(crate) fn postpone(&mut self, connection: &mut Connection) {
        connection.suspended = Some(Suspended::Paused);
        connection.info.flags.fetch_or(flag::POSTPONED, Ordering::Relaxed);
        self.shared.blocked_clients.fetch_add(1, Ordering::Relaxed);
        self.waits.pause(connection.token);
    }

    /// Ends that, if the client was held.
    pub(crate) fn end_postponement(&mut self, connection: &mut Connection) {
        if let Some(Suspended::Paused) = connection.suspended {
            connection.suspended = None;
            connection.info.flags.fetch_and(!flag::POSTPONED, Ordering::Relaxed);
            self.shared.blocked_clients.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Continues requests that CLIENT PAUSE, a full journal, or a key under way to another server has
    /// postponed.
    pub(crate) fn resume_paused(&mut self) {
        for (migration, answers) in self.waits.take_migrations() {
            (self.hooks.migrate)(self, MigrationStep::Settle(migration, answers));
        }
        for token in self.waits.take_paused() {
            let Some(mut connection) = self.take(token) else { continue };
            if let Some(Suspended::Paused) = connection.suspended {
                self.end_postponement(&mut connection);
                self.mark_ready(&mut connection);
            }
            self.put(connection);
        }
    }
}

impl Worker {
    /// Ends a client's turn after a request whose messages it may itself get, so that they come right behind
    /// its reply; and that of a client that publishes faster than threads can follow.
    pub(crate) fn yield_to_mail(&mut self, connection: &mut Connection) {
        connection.is_flooding = self.pushes.take_flood();
        let follows = connection.session.flags.has(SessionFlags::GETS_MAIL);
        if (connection.is_flooding || (follows && self.inbox.is_due())) && connection.suspended.is_none() {
            connection.suspended = Some(Suspended::Yields);
        }
    }
}

#[cfg(test)]
mod tests;
