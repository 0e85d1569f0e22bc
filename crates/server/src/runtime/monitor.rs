//! MONITOR: a line for every command, sent to the monitoring clients.

use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_command::Flags;
use martlet_protocol::quote::append_quoted;
use martlet_protocol::request::Args;

use crate::connection::Connection;
use crate::registry::Entry;
use crate::runtime::Mail;
use crate::runtime::Worker;
use crate::runtime::checks;
use crate::slow_path::{SessionFlags, SlowPathReason};

impl Worker {
    /// Shows a command to the monitors, if there are any.
    pub(crate) fn feed_monitors(&mut self, connection: &Connection, entry: &Entry, args: &Args<'_>) {
        if !entry.spec.flags.has(Flags::SKIP_MONITOR) && !entry.spec.flags.has(Flags::ADMIN) {
            self.show_to_monitors(connection, entry, args);
        }
    }

    /// As [`Worker::feed_monitors`] whatever the command: one that runs others shows itself first.
    pub(crate) fn show_to_monitors(&mut self, connection: &Connection, entry: &Entry, args: &Args<'_>) {
        if self.shared.slow_path_reasons.has(SlowPathReason::Monitored) {
            let peer = if connection.is_unix {
                "unix:".to_owned() + connection.info.peer.trim_end_matches(":0")
            } else {
                connection.info.peer.clone()
            };
            self.send_to_monitors(&peer, connection.session.db, entry, args);
        }
    }

    /// Shows a command of a script to the monitors, if there are any.
    pub(crate) fn feed_monitors_from_script(
        &mut self,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
    ) {
        let is_shown = !entry.spec.flags.has(Flags::SKIP_MONITOR) && !entry.spec.flags.has(Flags::ADMIN);
        if is_shown && !self.works_on_copy() && self.shared.slow_path_reasons.has(SlowPathReason::Monitored) {
            self.send_to_monitors("lua", connection.session.db, entry, args);
        }
    }

    #[cold]
    fn send_to_monitors(&mut self, peer: &str, db: usize, entry: &Entry, args: &Args<'_>) {
        let now_us = self.shared.clock.unix_us();
        let mut line =
            format!("+{}.{:06} [{db} {peer}]", now_us / 1_000_000, now_us % 1_000_000).into_bytes();
        let shown = checks::redacted(entry, args);
        for arg in shown.as_ref().map_or(*args, |owned| owned.view()).iter() {
            line.push(b' ');
            append_quoted(&mut line, arg);
        }
        line.extend_from_slice(b"\r\n");
        for (thread, token, client) in lock(&self.shared.monitors).iter().copied() {
            self.shared.send(thread, Mail::Monitored { token, client, line: line.clone() });
        }
    }

    /// Makes a client a monitor.
    pub(crate) fn start_monitoring(&mut self, connection: &mut Connection) {
        if connection.is_monitor {
            return;
        }
        connection.is_monitor = true;
        connection.session.flags.set(SessionFlags::MONITOR, true);
        connection.info.flags.fetch_or(crate::clients::flag::MONITOR, Ordering::Relaxed);
        lock(&self.shared.monitors).push((self.thread, connection.token, connection.info.id));
        self.shared.slow_path_reasons.hold(SlowPathReason::Monitored);
    }

    /// Ends that.
    pub(crate) fn stop_monitoring(&mut self, connection: &mut Connection) {
        if !std::mem::take(&mut connection.is_monitor) {
            return;
        }
        connection.session.flags.set(SessionFlags::MONITOR, false);
        connection.info.flags.fetch_and(!crate::clients::flag::MONITOR, Ordering::Relaxed);
        lock(&self.shared.monitors).retain(|(_, _, client)| *client != connection.info.id);
        self.shared.slow_path_reasons.release(SlowPathReason::Monitored);
    }
}
