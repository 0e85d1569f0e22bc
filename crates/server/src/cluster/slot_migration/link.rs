//! The thread of an export, and that of an import which this node has asked for, as others see them: their
//! orders, and how far they have come.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::sync::lock;
use martlet_cluster::slot_migration::{JobId, Message};
use martlet_journal::stream::Reader;
use rustix::event::{EventfdFlags, eventfd};

use crate::clients::ClientInfo;
use crate::replication::feed::FeedWriter;
use crate::replication::source::Taker;

#[derive(Default)]
pub(super) struct Orders {
    pub(super) messages: VecDeque<(u64, Message)>,
    pub(super) begun: Option<(Option<Taker>, Reader<'static>)>,
    /// The connections of a target that has asked for the slots: that of its messages and the stream, and
    /// that of the snapshot.
    pub(super) clients: [Option<Arc<ClientInfo>>; 2],
    /// What that of the stream is fed from, until the thread has it.
    pub(super) feed: Option<FeedWriter>,
    /// The socket, once it is connected.
    pub(super) socket: Option<OwnedFd>,
    pub(super) paused_at: u64,
}

/// An export's thread as others see it.
pub struct ExportLink {
    /// Which.
    pub job: JobId,
    pub(super) event: OwnedFd,
    pub(super) orders: Mutex<Orders>,
    pub(super) is_closed: AtomicBool,
    pub(super) waits_for_stream: AtomicBool,
    /// The stream up to this offset has been sent.
    pub(super) sent: AtomicU64,
    /// Bytes of the stream that concerned the slots, and were sent.
    pub(super) filtered: AtomicU64,
    /// How many of them the target has applied.
    pub(super) applied: AtomicU64,
    /// The snapshot under way is its cut.
    pub has_snapshot: AtomicBool,
}

impl ExportLink {
    pub(super) fn new(job: JobId) -> io::Result<ExportLink> {
        Ok(ExportLink {
            job,
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            orders: Mutex::default(),
            is_closed: AtomicBool::new(false),
            waits_for_stream: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            has_snapshot: AtomicBool::new(false),
        })
    }

    /// The link to a target that has asked for the slots by this connection, which is fed by `feed`.
    pub(super) fn of_target(job: JobId, client: Arc<ClientInfo>, feed: FeedWriter) -> io::Result<ExportLink> {
        let link = ExportLink::new(job)?;
        {
            let mut orders = lock(&link.orders);
            orders.clients[0] = Some(client);
            orders.feed = Some(feed);
        }
        Ok(link)
    }

    /// This connection of the target gets the snapshot.
    pub fn set_channel(&self, client: Arc<ClientInfo>) {
        lock(&self.orders).clients[1] = Some(client);
    }

    /// The target has applied as many bytes.
    pub fn note_applied(&self, bytes: u64) {
        self.applied.fetch_max(bytes, Ordering::AcqRel);
    }

    /// Ends the thread's sleep.
    pub fn wake(&self) {
        // It fails only when as many wake it as a counter of 64 bits can tell.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// There is more of the stream.
    pub fn wake_for_stream(&self) {
        if self.waits_for_stream.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// How much of the stream has been sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Bytes that wait in the connections of a target that has asked for the slots.
    pub fn waiting_bytes(&self) -> u64 {
        let orders = lock(&self.orders);
        let waiting = |client: &Arc<ClientInfo>| client.output_bytes.load(Ordering::Relaxed) as u64;
        orders.clients.iter().flatten().map(waiting).sum()
    }

    /// Bytes that the target has not applied yet of those that it was sent.
    pub fn lag(&self) -> u64 {
        self.filtered.load(Ordering::Acquire).saturating_sub(self.applied.load(Ordering::Acquire))
    }

    /// The cut has been made: its keys come from `taker`, unless they go by another connection, and the
    /// stream from `reader`.
    pub fn begin(&self, taker: Option<Taker>, reader: Reader<'static>) {
        self.sent.store(reader.at(), Ordering::Release);
        lock(&self.orders).begun = Some((taker, reader));
        self.wake();
    }

    /// Later messages follow the stream up to this offset.
    pub fn pause_at(&self, offset: u64) {
        lock(&self.orders).paused_at = offset;
    }

    /// Says something to the target.
    pub fn send(&self, message: Message) {
        let mut orders = lock(&self.orders);
        let after = if message == Message::Ack { 0 } else { orders.paused_at };
        orders.messages.push_back((after, message));
        drop(orders);
        self.wake();
    }

    /// Ends the thread, also where it waits for the target.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        if let Some(socket) = &lock(&self.orders).socket {
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        self.wake();
    }
}

/// The thread of an import which this node has asked for.
pub struct PullLink {
    /// Which.
    pub job: JobId,
    pub(super) event: OwnedFd,
    pub(super) is_closed: AtomicBool,
    /// Its sockets, as they come.
    pub(super) sockets: Mutex<Vec<OwnedFd>>,
    /// Bytes of changes that have been applied here.
    pub(super) applied: AtomicU64,
    /// Bytes of changes that wait for the snapshot's end.
    pub(super) kept: AtomicU64,
}

impl PullLink {
    pub(super) fn new(job: JobId) -> io::Result<PullLink> {
        Ok(PullLink {
            job,
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_closed: AtomicBool::new(false),
            sockets: Mutex::default(),
            applied: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        })
    }

    /// Changes up to this byte have been applied.
    pub fn note_applied(&self, bytes: u64) {
        self.applied.fetch_max(bytes, Ordering::AcqRel);
        self.wake();
    }

    fn wake(&self) {
        // It fails only if the 64-bit counter overflows.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Ends the thread, also where it waits for the source.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for socket in lock(&self.sockets).iter() {
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        self.wake();
    }
}
