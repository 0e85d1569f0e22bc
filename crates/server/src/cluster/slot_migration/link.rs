//! An export's thread as others see it: its orders, and how far it has come.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use martlet_base::sync::lock;
use martlet_cluster::slot_migration::{JobId, Message};
use martlet_journal::stream::Reader;
use rustix::event::{EventfdFlags, eventfd};

use crate::replication::source::Taker;

#[derive(Default)]
pub(super) struct Orders {
    pub(super) messages: VecDeque<(u64, Message)>,
    pub(super) begun: Option<(Taker, Reader<'static>)>,
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
            has_snapshot: AtomicBool::new(false),
        })
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

    /// The cut has been made: its keys come from `taker`, and the stream from `reader`.
    pub fn begin(&self, taker: Taker, reader: Reader<'static>) {
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
