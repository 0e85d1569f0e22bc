//! Full syncs: one cut of the data set and the stream for all replicas that wait, written to their
//! connections or to the RDB file, which is then sent.
//!
//! Invariant: a replica's part of the stream begins at the cut that its data set is of.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_base::sync::lock;
use martlet_journal::Follower;
use martlet_journal::stream::{Audience, Reader};
use martlet_persistence::background::Receiver;
use martlet_persistence::save::Contents;
use martlet_values::{Readable, VERSION_VALKEY};

use super::feed::{Feed, FeedWriter};
use super::pause::PausePoint;
use super::primary::{Phase, Replica, Unreadable};
use super::source::{Source, Taker};
use crate::persistence::settings::{repl_codec, settings};
use crate::replication::state::random_id;
use crate::runtime::Worker;
use crate::runtime::{Mail, Shared};
use martlet_persistence::Settings;

/// One replica's part of a sync that has not begun yet.
struct Member {
    replica: Arc<Replica>,
    reader: Reader<'static>,
    taker: Taker,
}

/// A full sync, as the thread that saves sees it.
struct Sync {
    shared: &'static Shared,
    feed: Arc<Feed>,
    waiting: Vec<Member>,
    replicas: Vec<Arc<Replica>>,
    /// The end mark of a data set of unknown length, 40 characters.
    mark: Option<String>,
    /// The stream that the cut is a place of.
    id: String,
    path: std::path::PathBuf,
}

impl Receiver for Sync {
    fn begin(&mut self, offset: u64, is_cancelled: &Arc<AtomicBool>) {
        let is_diskless = self.mark.is_some();
        if is_diskless {
            self.feed.cancel_when_abandoned(is_cancelled.clone());
        }
        for Member { replica, mut reader, taker } in self.waiting.drain(..) {
            *lock(&replica.unreadable) = Unreadable::default();
            reader.skip_to(offset);
            let (id, client) = (self.id.clone(), replica.client.clone());
            let reader = if replica.names_main() {
                begin_stream(self.shared, &replica, reader);
                None
            } else if replica.is_rdb_channel() {
                self.shared.replication.primary.reserve(client.id, reader);
                None
            } else {
                Some(reader)
            };
            let source = Source::Sync { taker, reader, is_diskless };
            let place = (client.token(), client.id);
            let begin = move |worker: &mut Worker| worker.begin_transfer(place, source, &id, offset);
            self.shared.send(client.thread(), Mail::Run(Box::new(begin)));
        }
    }

    fn writer(&mut self) -> Box<dyn Write + Send> {
        let mut writer = FeedWriter::new(self.feed.clone());
        let mark = self.mark.iter();
        // A block's room is left.
        mark.for_each(|mark| drop(writer.write_all(format!("$EOF:{mark}\r\n").as_bytes())));
        Box::new(writer)
    }

    fn end(self: Box<Self>, result: io::Result<()>) {
        let is_diskless = self.mark.is_some();
        if result.is_err() {
            tracing::warn!("SYNC failed. BGSAVE child returned an error");
            // A replica that has got an offset finds the end of its feed.
            self.waiting.iter().for_each(|member| member.replica.disconnect(self.shared));
            return self.feed.end(false);
        }
        if is_diskless {
            return self.finish_stream();
        }
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) => {
                tracing::warn!("SYNC failed. Can't open/stat DB after BGSAVE: {error}");
                return self.feed.end(false);
            }
        };
        let goes = self.shared.config.snapshot().rdb_del_sync_files;
        self.shared.replication.primary.has_sync_file.store(goes, Ordering::Relaxed);
        self.replicas.iter().for_each(|replica| replica.set_phase(Phase::Bulk));
        let feed = self.feed.clone();
        let sender = std::thread::Builder::new().name("sync".into()).spawn(move || {
            let sent = send_file(file, &feed);
            sent.as_ref()
                .err()
                .into_iter()
                .for_each(|error| tracing::warn!("Read error sending DB to replica: {error}"));
            feed.end(sent.is_ok());
        });
        if let Err(error) = sender {
            tracing::warn!("SYNC failed. No thread can be started that sends the file: {error}");
            self.feed.end(false);
        }
    }
}

impl Sync {
    fn finish_stream(&self) {
        let mut writer = FeedWriter::new(self.feed.clone());
        let mark = self.mark.as_deref().unwrap_or_default();
        let sent = writer.write_all(mark.as_bytes()).and_then(|()| writer.flush());
        self.feed.end(sent.is_ok());
    }
}

/// Gives the stream to the main connection of the replica whose data set goes by `channel`; without one it is
/// dropped.
fn begin_stream(shared: &'static Shared, channel: &Replica, reader: Reader<'static>) {
    let primary = &shared.replication.primary;
    let Some(main) = primary.main_channel(channel.main_client.load(Ordering::Relaxed)) else {
        tracing::warn!(
            "Starting to deliver RDB to replica {} but it has no associated main channel",
            channel.name()
        );
        return channel.disconnect(shared);
    };
    tracing::info!("Starting to deliver RDB and replication stream to replica: {}", main.name());
    main.set_phase(Phase::BulkAndStream);
    let place = (main.client.token(), main.client.id);
    let begin = move |worker: &mut Worker| worker.begin_stream(place, reader);
    shared.send(main.client.thread(), Mail::Run(Box::new(begin)));
}

fn send_file(mut file: File, feed: &Arc<Feed>) -> io::Result<()> {
    let len = file.metadata()?.len();
    let mut writer = FeedWriter::new(feed.clone());
    writer.write_all(format!("${len}\r\n").as_bytes())?;
    let sent = io::copy(&mut (&mut file).take(len), &mut writer)?;
    if sent < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    writer.flush()
}

impl Worker {
    /// Begins a full sync with the replicas that wait for one, if it is time to, and no other snapshot is
    /// under way.
    #[cold]
    pub(crate) fn begin_full_sync(&mut self) {
        let shared = self.shared;
        if shared.storage().has_snapshot() {
            return;
        }
        let config = self.config.current().clone();
        let Some((replicas, diskless)) = shared.replication.primary.take_waiting(&config, self.now_ms) else {
            return;
        };
        self.alone(|worker| {
            if let Err(why) = worker.cut_for(&replicas, diskless) {
                tracing::warn!("{why}");
                replicas.iter().for_each(|replica| replica.set_phase(Phase::Waits));
            }
        });
    }

    /// The version of the RDB format that these replicas get, which all read the same versions; `None` if any
    /// will do. Incoming slots are marked in Valkey's format for Valkey: it reads no other mark, and exits
    /// when the stream names slots whose keys it has.
    ///
    /// # Errors
    /// They read none that holds the data; why, as a line for the log.
    fn version_for(
        &self,
        replicas: &[Arc<Replica>],
        contents: Contents,
        mut settings: Settings,
    ) -> Result<Option<u16>, String> {
        let readable = replicas.first().map_or(Readable::Any, |first| first.readable());
        if readable == Readable::Any {
            // Valkey's tools ask with SYNC and nothing before, and look for its magic word.
            let says_nothing = replicas.iter().all(|replica| replica.has_said_nothing());
            let of_valkey = says_nothing && self.presentation().is_valkey() && settings.rdb_version.is_none();
            return Ok(if of_valkey { Some(VERSION_VALKEY) } else { settings.rdb_version });
        }
        let is_importing = self.shared.cluster().is_some_and(|node| !node.imports().is_empty());
        if is_importing && matches!(readable, Readable::Valkey | Readable::NewestValkey) {
            settings.rdb_version = Some(VERSION_VALKEY);
        }
        self.shared.storage().version_for(&self.keys, &settings, contents, readable).map(Some)
    }

    /// Makes the cut, behind the closed gate.
    fn cut_for(&mut self, replicas: &[Arc<Replica>], diskless: bool) -> Result<(), String> {
        let shared = self.shared;
        let config = self.config.current().clone();
        let mut settings = settings(&config);
        let contents = replicas.first().map_or(Contents::ALL, |replica| replica.contents());
        settings.rdb_version = match self.version_for(replicas, contents, settings.clone()) {
            Ok(version) => version,
            Err(why) => {
                for replica in replicas {
                    replica.wait_for_readable(&why, self.now_ms);
                    replica.set_phase(Phase::Waits);
                }
                return Ok(());
            }
        };
        settings.codec = if diskless {
            replicas.first().and_then(|replica| replica.codec(repl_codec(&config)))
        } else {
            settings.codec.filter(|codec| replicas.iter().all(|replica| replica.reads_file(Some(*codec))))
        };
        self.keep_stream().map_err(|error| format!("The stream cannot be kept for replicas: {error}"))?;
        let held = shared.engine.snapshot.hold(0);
        let feed = Arc::new(Feed::new(replicas.len(), held, || shared.wake_feeders()));
        let mut waiting = Vec::new();
        for (number, replica) in replicas.iter().enumerate() {
            let taker = Taker::new(feed.clone(), number);
            let reader = shared.engine.journal.attach(Audience::Replicas, None, Some(self.most_behind()));
            let reader = reader.map_err(|error| error.to_string())?;
            waiting.push(Member { replica: replica.clone(), reader, taker });
        }
        let target = if diskless { "replicas sockets" } else { "disk" };
        let by_channel = replicas.iter().any(|replica| replica.is_rdb_channel());
        let channel = if by_channel { " (rdb-channel)" } else { "" };
        tracing::info!("Starting BGSAVE for SYNC with target: {target}{channel}");
        let sync = Box::new(Sync {
            shared,
            feed,
            waiting,
            replicas: replicas.to_vec(),
            mark: diskless.then(|| random_id(&mut self.keys.random)),
            id: shared.replication.history().id().to_owned(),
            path: settings.rdb_path(),
        });
        let storage = shared.storage();
        let begun = match diskless {
            true => storage.start_stream_for(&self.keys, &settings, contents, sync).is_ok(),
            false => storage.start_save_for(&self.keys, &settings, Some(sync)).is_ok(),
        };
        if begun {
            shared.replication.pause.at(PausePoint::AfterFork);
        }
        // Another snapshot has begun since: they wait on.
        if begun { Ok(()) } else { Err("A full sync waits for another snapshot to end".into()) }
    }

    /// Has the stream recorded for replicas from here on, unless it is; behind the closed gate.
    pub(crate) fn keep_stream(&mut self) -> io::Result<()> {
        let (journal, replication) = (&self.shared.engine.journal, &self.shared.replication);
        if journal.is_followed_by(Follower::Replicas) || journal.relays() {
            return Ok(());
        }
        journal.open()?;
        replication.change_id(&mut self.keys.random);
        journal.set_backlog(self.config.current().repl_backlog_size_bytes);
        journal.follow(Follower::Replicas, true);
        self.shared.have_confirmed();
        replication.primary.is_active.store(true, Ordering::Release);
        let id = replication.history().id().to_owned();
        tracing::info!(
            "Replication backlog created, my new replication IDs are '{id}' and '{}'",
            "0".repeat(40)
        );
        Ok(())
    }
}
