//! Output of a replica's connection: the data set of a full sync, then the stream.
//!
//! Invariant: bytes leave in the order of the stream, from the offset on that the replica got; between a
//! replica's data set and its first ACK nothing is sent if it does not know the data set's length.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_journal::stream::Reader;
use martlet_net::{Backend, Buffer, Token};
use martlet_persistence::frames::FrameWriter;
use martlet_protocol::reply::Reply;

use super::feed::Next;
use super::primary::{Phase, Replica};
use super::source::{Given, ReplicaLink, Source, Taker};
use crate::clients::flag;
use crate::connection::Connection;
use crate::persistence::settings::repl_codec;
use crate::registry::Entry;
use crate::runtime::Worker;
use crate::slow_path::SessionFlags;

/// Compressed frames that a replica gets in one turn, of at most 64 KB each: other clients wait for them.
const FRAMES_PER_TURN: usize = 4;
/// Bytes that a replica's connection may have on their way.
const WINDOW_BYTES: usize = 1 << 20;

impl Worker {
    /// Hands replicas what there is for them, and has those threads look that serve others.
    #[cold]
    pub(crate) fn feed_replicas(&mut self, backend: &mut dyn Backend) {
        let journal = &self.shared.engine.journal;
        if self.feeder.count() > 0 {
            // Before the check for available data: a thread that adds to it then wakes this one.
            self.shared.wait_for_stream(self.thread);
            journal.pump(journal.end());
            // One that ends leaves the list: its successor in that place comes in the next turn.
            for index in 0..self.feeder.count() {
                let Some(mut connection) = self.replica_at(index) else { continue };
                self.feed_replica(backend, &mut connection);
                self.finish(connection);
            }
        } else if self.shared.replication.primary.count() == 0 && journal.backlog() > ALONE_BYTES {
            journal.pump(journal.end());
        }
        let end = journal.end();
        if self.feeder.see(end) {
            self.shared.wake_feeders();
        }
    }

    fn feed_replica(&mut self, backend: &mut dyn Backend, connection: &mut Connection) {
        let (mut sent, mut frames) = (0, 0);
        // Behind a change of the stream's id the output does not belong to the id that the replica knows.
        let is_leaving = connection.info.killed.load(Ordering::Acquire);
        while !is_leaving && !connection.closing && connection.out.is_empty() {
            if connection.in_flight.bytes >= WINDOW_BYTES {
                // Output that the kernel takes at once does not end the next sleep by itself.
                self.outbox_has_more(sent > 0);
                break;
            }
            let next = match (&connection.slot_feed, &mut connection.replica) {
                (Some(taker), _) => next_of_slots(taker),
                (None, Some(link)) => {
                    if link.compresses() {
                        frames += 1;
                        if frames > FRAMES_PER_TURN {
                            self.outbox_has_more(true);
                            break;
                        }
                    }
                    if std::mem::take(&mut link.gathers) {
                        backend.gather(connection.token);
                    }
                    link.next(self.now_ms)
                }
                (None, None) => return,
            };
            match next {
                Given::Bytes(buffer) => {
                    sent += buffer.len();
                    connection.in_flight.push(&buffer);
                    backend.send(connection.token, buffer);
                }
                Given::Nothing => break,
                Given::Done => {
                    connection.closing = true;
                    self.note_sent_by_channel(connection);
                }
                Given::Lost(why) => {
                    tracing::warn!(
                        "Client id={} addr={} (replica {}) scheduled to be closed ASAP for {why}.",
                        connection.info.id,
                        connection.info.peer,
                        connection.replica.as_ref().map_or_else(String::new, |link| link.replica.name())
                    );
                    self.end_for_good(connection);
                }
            }
        }
        if sent > 0 {
            self.stats().net_output_bytes.add(sent as u64);
            self.shared.replication.primary.sent_bytes.fetch_add(sent as u64, Ordering::Relaxed);
            connection.info.net_output_bytes.fetch_add(sent as u64, Ordering::Relaxed);
            let phase = connection.replica.as_ref().map(|link| link.replica.phase());
            if phase.is_some_and(|phase| phase < Phase::Online) {
                let link = connection.replica.iter();
                link.for_each(|link| link.replica.acked_ms.store(self.now_ms, Ordering::Relaxed));
            }
        }
        let waits = connection.replica.as_ref().map_or(0, |link| link.behind());
        let bytes = connection.output_bytes() as u64 + waits;
        connection.info.output_bytes.store(bytes as usize, Ordering::Relaxed);
        self.compare_with_output_limit(connection, bytes);
    }

    /// A connection for a replica's data set alone has sent all of it.
    fn note_sent_by_channel(&mut self, connection: &Connection) {
        let Some(link) = connection.replica.as_ref().filter(|link| link.replica.is_rdb_channel()) else {
            return;
        };
        let name = link.replica.name();
        tracing::info!("RDB transfer completed, rdb only replica ({name}) should be disconnected asap");
        self.shared.replication.primary.sent_by_channel(&link.replica, self.now_ms);
        self.note_replicas();
    }

    /// Makes a connection that has said PSYNC or SYNC a replica's.
    pub(crate) fn become_replica(&mut self, connection: &mut Connection, source: Source, phase: Phase) {
        let gathers = phase == Phase::Waits && self.config.current().repl_disable_tcp_nodelay;
        let link = self.replica_link(connection);
        link.source = source;
        link.gathers = gathers;
        let codec = link.replica.stream_codec(repl_codec(self.config.current()));
        link.frames = codec.map(|codec| Box::new(FrameWriter::new(codec)));
        let replica = link.replica.clone();
        replica.acked_ms.store(self.now_ms, Ordering::Relaxed);
        replica.waits_since_ms.store(self.now_ms, Ordering::Relaxed);
        replica.set_phase(phase);
        let channel = if replica.is_rdb_channel() { flag::RDB_CHANNEL } else { 0 };
        connection.info.flags.fetch_or(flag::REPLICA | channel, Ordering::Relaxed);
        connection.session.flags.set(SessionFlags::MONITOR, true);
        self.feeder.add(connection.token);
        self.shared.replication.primary.add(replica, self.now_ms);
        self.note_replicas();
    }

    /// The replica's part of a connection that is in its handshake.
    pub(crate) fn replica_link<'c>(&self, connection: &'c mut Connection) -> &'c mut ReplicaLink {
        let info = &connection.info;
        connection.replica.get_or_insert_with(|| {
            let replica = Arc::new(Replica::new(info.clone()));
            Box::new(ReplicaLink { replica, source: Source::Nothing, gathers: false, frames: None })
        })
    }

    /// A connection that ends is no replica's any more.
    pub(crate) fn stop_replicating(&mut self, connection: &mut Connection) {
        let Some(link) = connection.replica.take() else { return };
        if link.replica.phase() == Phase::Handshake {
            return;
        }
        let channel = if link.replica.is_rdb_channel() { "(rdbchannel) " } else { "" };
        tracing::info!("Connection with replica {channel}{} lost.", link.replica.name());
        self.shared.replication.primary.end_other_channel(self.shared, &link.replica);
        connection.info.flags.fetch_and(!(flag::REPLICA | flag::RDB_CHANNEL), Ordering::Relaxed);
        self.feeder.remove(connection.token);
        self.shared.replication.primary.remove(&link.replica, self.now_ms);
        self.note_replicas();
    }

    /// A replica's connection has the stream, and no replies between: one that has made one, by length and
    /// total `before`, ends.
    #[cold]
    pub(crate) fn refuse_reply(
        &mut self,
        connection: &mut Connection,
        reply: &mut Reply,
        entry: &Entry,
        before: (usize, usize),
    ) {
        if reply.total_bytes() == before.1 {
            return;
        }
        let command = entry.spec.full_name;
        if let Some(error) = reply.as_bytes().get(before.0..).and_then(|bytes| bytes.strip_prefix(b"-")) {
            let error = String::from_utf8_lossy(error.trim_ascii_end());
            tracing::warn!(
                "== CRITICAL == This master is sending an error to its replica: '{error}' after processing the command '{command}'"
            );
            self.shared.stats.unexpected_errors.fetch_add(1, Ordering::Relaxed);
        }
        reply.truncate(before.0);
        let name = connection.replica.as_ref().map_or_else(String::new, |link| link.replica.name());
        tracing::warn!("Replica generated a reply to command '{command}', disconnecting it: {name}");
        self.end_for_good(connection);
    }

    /// A replica says how far it is (REPLCONF ACK).
    pub(crate) fn acked(&mut self, connection: &mut Connection, offset: u64, on_disk: Option<u64>) {
        let now_ms = self.now_ms;
        let Some(link) = &mut connection.replica else { return };
        link.replica.acked.fetch_max(offset, Ordering::AcqRel);
        on_disk.into_iter().for_each(|offset| {
            link.replica.acked_on_disk.fetch_max(offset, Ordering::AcqRel);
        });
        link.replica.acked_ms.store(now_ms, Ordering::Relaxed);
        let gets_channel = link.replica.channel_client.load(Ordering::Relaxed) != 0;
        let is_online = gets_channel && link.replica.has_data_set(now_ms);
        match std::mem::replace(&mut link.source, Source::Nothing) {
            Source::AwaitsAck(reader) => {
                link.source = Source::Stream(reader);
                tracing::info!("Synchronization with replica {} succeeded", link.replica.name());
                self.note_replicas();
            }
            source => link.source = source,
        }
        if is_online {
            self.note_replicas();
        }
        self.note_ack();
        let replication = &self.shared.replication;
        replication.sync_replicas.note_ack(&replication.primary);
        self.shared.wake_unconfirmed_output();
    }

    /// Takes a replica's connection over into its full sync, which begins at `offset`.
    pub(super) fn begin_transfer(
        &mut self,
        (token, client): (Token, u64),
        source: Source,
        id: &str,
        offset: u64,
    ) {
        let Some(mut connection) = self.take_client(token, client) else { return };
        if let Some(link) = &mut connection.replica {
            link.source = source;
            if link.replica.is_rdb_channel() && !link.replica.names_main() {
                tracing::info!(
                    "Sending to replica {} RDB end offset {offset} and client-id {client}",
                    link.replica.name()
                );
                connection.out.extend_from_slice(format!("$ENDOFF:{offset} {id} 0 {client}\r\n").as_bytes());
            }
            if link.replica.has_said_sync.load(Ordering::Relaxed) {
                return self.finish(connection);
            }
            connection.out.extend_from_slice(format!("+FULLRESYNC {id} {offset}\r\n").as_bytes());
        }
        self.finish(connection);
    }

    /// Has a replica sent the stream from where its data set is, which goes by another connection.
    pub(super) fn begin_stream(&mut self, (token, client): (Token, u64), reader: Reader<'static>) {
        let Some(mut connection) = self.take_client(token, client) else { return };
        if let Some(link) = &mut connection.replica {
            link.source = Source::Stream(reader);
        }
        self.finish(connection);
    }

    /// Keeps the connections of replicas that wait for their data set alive, once a second; they need not
    /// answer in that time.
    pub(crate) fn keep_waiting_replicas(&mut self) {
        for index in 0..self.feeder.count() {
            let Some(mut connection) = self.replica_at(index) else { continue };
            let is_idle = connection.output_bytes() == 0;
            if let Some(link) = &connection.replica
                && link.replica.phase() < Phase::Online
                && !link.replica.is_main_channel()
                && is_idle
            {
                link.replica.acked_ms.store(self.now_ms, Ordering::Relaxed);
                if link.replica.is_rdb_channel() {
                    // It need not read the stream in that time.
                    self.shared.replication.primary.note_sign_of_life(&link.replica, self.now_ms);
                }
                if let Source::Nothing = link.source {
                    connection.out.push(b'\n');
                }
            }
            self.finish(connection);
        }
    }

    /// The connection of the replica of this number among this thread's, taken.
    fn replica_at(&mut self, index: usize) -> Option<Box<Connection>> {
        let token = self.feeder.get(index)?;
        self.take(token)
    }
}

/// The next output of a connection that has slots' keys or changes.
fn next_of_slots(taker: &Taker) -> Given {
    match taker.next() {
        Next::Block(block) => Given::Bytes(Buffer::Shared(block)),
        Next::Nothing => Given::Nothing,
        Next::End(true) => Given::Done,
        Next::End(false) => Given::Lost("the slot migration has ended"),
    }
}

/// Most bytes of records that wait in the journal without a replica.
const ALONE_BYTES: u64 = 1 << 20;
