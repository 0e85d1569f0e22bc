//! The io_uring backend: one `io_uring_enter` per loop, whatever it starts and waits for.
//!
//! Receives and accepts are multishot: armed once per socket, they complete again and again, into buffers
//! that the kernel takes from a shared ring. A send is tried once, without waiting, as the enter starts it,
//! and completes silently when the kernel takes it whole: after the enter, no completion means success. So
//! replies cost no completions, and the enter that carries them can sleep until something new arrives. A send
//! that is cut short completes with its count and continues as one that the kernel finishes in its own time.
//!
//! Memory safety: a buffer given to the kernel stays in its slot (or, after `close`, with `buried`) until the
//! operation that reads it is over. Every operation carries a [`Tag`]; a slot's epoch distinguishes a
//! connection's operations from those of the slot's earlier users.

mod batching;
mod buffers;
mod listeners;
mod ring;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::listen::{gather, output_idle, unread_bytes};
use crate::outgoing::Outgoing;
use crate::{Arrival, Backend, Buffer, Sink, Token, Waker};
use batching::{Batching, PATIENCE};
use buffers::Buffers;
use listeners::Listeners;
use ring::Ring;

/// The most bytes one send operation is given; the kernel's limit is just under 2 GiB.
const SEND_BYTES_MAX: usize = 1 << 30;
/// Received bytes that one poll works on before it lets their replies leave. Replies that leave in a row find
/// a client awake that a single one would have to wake, which costs more than several requests; the bytes
/// read and written until then should stay in the processor's own caches.
const REPORT_BYTES: usize = 64 << 10;
/// Most rounds of queued buffers in one poll before it reports.
const FOLLOW_UPS: usize = 16;

/// What an operation is for. 28 bits of epoch tell the users of a slot apart.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
enum Kind {
    /// Completions that tell nothing: a close, a cancellation.
    Ignore,
    Receive,
    Send,
    Accept,
    Wake,
}

/// An operation's `user_data`: its kind, the slot and the slot's epoch.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
struct Tag {
    kind: Kind,
    epoch: u32,
    index: u32,
}

impl Tag {
    const EPOCH_MASK: u32 = (1 << 28) - 1;

    const fn pack(self) -> u64 {
        (self.kind as u64) << 60 | ((self.epoch & Self::EPOCH_MASK) as u64) << 32 | self.index as u64
    }

    const fn unpack(data: u64) -> Tag {
        let kind = match data >> 60 {
            1 => Kind::Receive,
            2 => Kind::Send,
            3 => Kind::Accept,
            4 => Kind::Wake,
            _ => Kind::Ignore,
        };
        Tag { kind, epoch: (data >> 32) as u32 & Self::EPOCH_MASK, index: data as u32 }
    }
}

/// How far a connection's receive is.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
enum Receiving {
    /// No operation; a slot that waits for one is on the `rearm` list.
    Off,
    Armed,
    /// Armed, and being cancelled.
    Stopping,
    /// As `Stopping`; the socket is handed over then.
    Leaving,
}

/// How far the buffer under way is.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
enum Sending {
    /// Nothing is under way.
    Off,
    /// Queued, to be tried once; over when the kernel has started it.
    Trying,
    /// The kernel writes it as the reader reads; its completion says when it is over.
    Waiting,
    /// Nothing can be sent any more.
    Failed,
}

/// A connection, or the place of one. One cache line.
struct Slot {
    token: Token,
    outgoing: Outgoing,
    /// -1: free.
    fd: RawFd,
    epoch: u32,
    receiving: Receiving,
    sending: Sending,
    paused: bool,
    /// Nothing more will be received; the sink knows.
    ended: bool,
}

impl Slot {
    fn is(&self, tag: Tag) -> bool {
        self.fd >= 0 && self.epoch == tag.epoch
    }

    fn tag(&self, kind: Kind) -> Tag {
        Tag { kind, epoch: self.epoch, index: self.token.0 as u32 }
    }

    /// Whether no operation uses the descriptor, apart from a receive, and more can be received.
    fn can_leave(&self) -> bool {
        self.sending == Sending::Off && !self.ended && !self.paused
    }

    fn attempt_length(&self) -> usize {
        self.outgoing.unwritten().len().min(SEND_BYTES_MAX)
    }
}

const _: () = assert!(size_of::<Slot>() == 64);

/// The io_uring backend, see [`Backend`].
pub struct Uring {
    // Dropped in this order: the kernel must be done with the buffers.
    ring: Ring,
    buffers: Buffers,
    slots: Vec<Slot>,
    listeners: Listeners,
    waker: Waker,
    waker_armed: bool,
    /// Sends being tried, by the number of their operation.
    trying: VecDeque<(u32, Tag)>,
    /// Connections whose receive must be armed again.
    rearm: VecDeque<Tag>,
    /// Buffers of closed connections whose send was queued, until operations below the number have started.
    buried: Vec<(u32, Outgoing)>,
    /// Buffers of closed connections whose send the kernel still works on, by the operation.
    detached: HashMap<u64, Outgoing>,
    completions: Vec<cqueue::Entry>,
    batching: Batching,
    /// Adopted connections.
    live: u32,
    /// Something to report that no completion will bring.
    immediate: Vec<(Token, Buffer, Result<(), Errno>)>,
}

impl Uring {
    /// A backend without sockets.
    ///
    /// # Errors
    /// The kernel's; [`crate::probe`] checks that the backend works.
    pub fn new() -> io::Result<Uring> {
        let ring = Ring::new()?;
        let buffers = Buffers::new(ring.instance())?;
        Ok(Uring {
            ring,
            buffers,
            slots: Vec::new(),
            listeners: Listeners::default(),
            waker: Waker::with_eventfd()?,
            waker_armed: false,
            trying: VecDeque::new(),
            rearm: VecDeque::new(),
            buried: Vec::new(),
            detached: HashMap::new(),
            completions: Vec::new(),
            batching: Batching::new(),
            live: 0,
            immediate: Vec::new(),
        })
    }

    fn slot(&mut self, token: Token) -> Option<&mut Slot> {
        self.slots.get_mut(token.index()).filter(|slot| slot.fd >= 0 && slot.token == token)
    }

    fn arm_waker(&mut self) {
        if self.waker_armed {
            return;
        }
        let Some(fd) = self.waker.descriptor() else { return };
        let tag = Tag { kind: Kind::Wake, epoch: 0, index: 0 };
        let poll = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32).multi(true).build();
        // SAFETY: a poll points to no memory.
        unsafe { self.ring.push(&poll.user_data(tag.pack())) };
        self.waker_armed = true;
    }

    /// Arms the receives that ended without the connection's doing, no more than buffers can serve.
    fn arm_receives(&mut self) {
        for _ in 0..self.buffers.receives() {
            let Some(tag) = self.rearm.pop_front() else { return };
            if let Some(slot) = self.slots.get_mut(tag.index as usize).filter(|slot| slot.is(tag)) {
                arm_receive(&mut self.ring, slot);
            }
        }
    }

    /// Takes the completions; those of sends are handled at once, since their absence has a meaning too.
    fn collect(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let first = self.completions.len();
        self.ring.drain(&mut self.completions)?;
        for at in first..self.completions.len() {
            let Some(completion) = self.completions.get(at) else { break };
            let tag = Tag::unpack(completion.user_data());
            if tag.kind == Kind::Send {
                let result = completion.result();
                self.send_completed(tag, result, sink);
            }
        }
        self.report_silent_successes(sink);
        Ok(())
    }

    /// Sends that were started and did not complete were written whole.
    fn report_silent_successes(&mut self, sink: &mut dyn Sink) {
        let consumed = self.ring.consumed();
        while let Some((number, tag)) = self.trying.front().copied() {
            if consumed.wrapping_sub(number) as i32 <= 0 {
                break;
            }
            self.trying.pop_front();
            let Some(slot) = self.slots.get_mut(tag.index as usize) else { continue };
            if slot.is(tag) && slot.sending == Sending::Trying {
                let length = slot.attempt_length();
                self.written(tag, length, sink);
            }
        }
        self.buried.retain(|(number, _)| (consumed.wrapping_sub(*number) as i32) < 0);
    }

    /// A send's completion: cut short, finished after a wait, or failed.
    #[cold]
    fn send_completed(&mut self, tag: Tag, result: i32, sink: &mut dyn Sink) {
        let Some(slot) = self.slots.get_mut(tag.index as usize).filter(|slot| slot.is(tag)) else {
            self.detached.remove(&tag.pack());
            return;
        };
        if !matches!(slot.sending, Sending::Trying | Sending::Waiting) {
            return;
        }
        let wrote = usize::try_from(result).unwrap_or(0);
        if result >= 0 || [-libc::EAGAIN, -libc::EINTR].contains(&result) {
            slot.sending = Sending::Waiting;
            self.written(tag, wrote, sink);
        } else {
            slot.sending = Sending::Failed;
            let errno = Errno::from_raw_os_error(-result);
            while let Some(buffer) = slot.outgoing.pop() {
                sink.sent(slot.token, buffer, Err(errno.into()));
            }
        }
    }

    /// `count` bytes of the buffer under way are with the kernel: reports it if that is all, and continues
    /// with the rest.
    fn written(&mut self, tag: Tag, count: usize, sink: &mut dyn Sink) {
        let Some(slot) = self.slots.get_mut(tag.index as usize) else { return };
        let whole = slot.outgoing.advance(count);
        if whole {
            if let Some(buffer) = slot.outgoing.pop() {
                sink.sent(slot.token, buffer, Ok(()));
            }
            if slot.outgoing.is_idle() {
                slot.sending = Sending::Off;
                return;
            }
        }
        if whole || slot.sending == Sending::Trying {
            try_send(&mut self.ring, slot, &mut self.trying);
        } else {
            wait_send(&mut self.ring, slot);
        }
    }

    /// Announces the bytes of the next completions, up to the first without any; returns how many it has
    /// looked at. A single one is not announced.
    fn announce(&self, completions: &[cqueue::Entry], sink: &mut dyn Sink) -> usize {
        let mut arrivals = [Arrival::NONE; Arrival::AHEAD];
        let (mut count, mut bytes) = (0, 0);
        let mut ahead = self.buffers.ahead();
        for (arrival, completion) in arrivals.iter_mut().zip(completions) {
            let tag = Tag::unpack(completion.user_data());
            let data = ahead.received(completion);
            let slot = self.slots.get(tag.index as usize).filter(|slot| slot.is(tag) && !slot.ended);
            if let Some(slot) = slot.filter(|_| tag.kind == Kind::Receive && !data.is_empty()) {
                *arrival = Arrival { token: slot.token, data };
                count += 1;
                bytes += data.len();
            } else {
                break;
            }
            if bytes >= Arrival::AHEAD_BYTES {
                break;
            }
        }
        if count > 1 {
            sink.will_receive(&arrivals[..count]);
        }
        count.max(1)
    }

    /// Handles a completion; how many received bytes the sink has worked on.
    fn handle(&mut self, completion: &cqueue::Entry, sink: &mut dyn Sink) -> usize {
        let tag = Tag::unpack(completion.user_data());
        match tag.kind {
            Kind::Receive => return self.receive_completed(tag, completion, sink),
            Kind::Accept => self.listeners.completed(tag, completion, sink),
            Kind::Wake => self.waker_armed = cqueue::more(completion.flags()),
            Kind::Send | Kind::Ignore => {}
        }
        0
    }

    fn receive_completed(&mut self, tag: Tag, completion: &cqueue::Entry, sink: &mut dyn Sink) -> usize {
        let mut worked_bytes = 0;
        if let Some(slot) = self.slots.get_mut(tag.index as usize).filter(|slot| slot.is(tag)) {
            let result = completion.result();
            if result > 0 {
                let data = self.buffers.received(completion);
                if !slot.ended && !data.is_empty() && sink.received(slot.token, data) {
                    worked_bytes = data.len();
                }
            }
            if !cqueue::more(completion.flags()) {
                let is_asked_for = slot.receiving == Receiving::Leaving;
                slot.receiving = Receiving::Off;
                if let Some(reason) = end_of_stream(result)
                    && !slot.ended
                {
                    slot.ended = true;
                    sink.closed(slot.token, reason.map(io::Error::from));
                }
                if is_asked_for && slot.can_leave() {
                    let (token, fd) = (slot.token, std::mem::replace(&mut slot.fd, -1));
                    self.live -= 1;
                    // SAFETY: the slot's descriptor is open, and it is this value's alone from here on.
                    sink.released(token, unsafe { OwnedFd::from_raw_fd(fd) });
                } else if !slot.ended && !slot.paused {
                    self.rearm.push_back(tag);
                }
            }
        }
        self.buffers.release(completion);
        worked_bytes
    }

    /// Handles completions in order until the sink has worked on [`REPORT_BYTES`]; the others stay for the
    /// next poll. Bytes that the sink only keeps do not count: those of one connection that sends faster than
    /// it is served must not make the others, whose completions lie behind them, wait for its slices.
    fn report(&mut self, sink: &mut dyn Sink) {
        let mut completions = std::mem::take(&mut self.completions);
        let (mut handled, mut bytes, mut announced) = (0, 0, 0);
        for completion in &completions {
            if handled == announced {
                announced += self.announce(&completions[handled..], sink);
            }
            bytes += self.handle(completion, sink);
            handled += 1;
            if bytes >= REPORT_BYTES {
                break;
            }
        }
        completions.drain(..handled);
        self.completions = completions;
        self.buffers.publish();
    }

    fn report_immediate(&mut self, sink: &mut dyn Sink) {
        for (token, buffer, result) in std::mem::take(&mut self.immediate) {
            if self.slot(token).is_some() {
                sink.sent(token, buffer, result.map_err(io::Error::from));
            }
        }
    }
}

/// The meaning of a receive's result for the stream: nothing, its end, or its failure.
fn end_of_stream(result: i32) -> Option<Option<Errno>> {
    match result {
        0 => Some(None),
        // Out of buffers, cancelled, interrupted: not the connection's doing.
        _ if result > 0
            || [-libc::ENOBUFS, -libc::ECANCELED, -libc::EINTR, -libc::EAGAIN].contains(&result) =>
        {
            None
        }
        _ => Some(Some(Errno::from_raw_os_error(-result))),
    }
}

fn arm_receive(ring: &mut Ring, slot: &mut Slot) {
    if slot.receiving != Receiving::Off || slot.paused || slot.ended {
        return;
    }
    let receive = opcode::RecvMulti::new(Fd(slot.fd), buffers::GROUP).build();
    // SAFETY: a receive writes to the registered buffers only, which outlive the ring's operations.
    unsafe { ring.push(&receive.user_data(slot.tag(Kind::Receive).pack())) };
    slot.receiving = Receiving::Armed;
}

fn send_entry(slot: &Slot, flags: i32) -> squeue::Entry {
    let bytes = slot.outgoing.unwritten();
    let length = slot.attempt_length() as u32;
    // MSG_WAITALL makes a send that is cut short a failure, which completes even when success is silent.
    let flags = flags | libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    opcode::Send::new(Fd(slot.fd), bytes.as_ptr(), length)
        .flags(flags)
        .build()
        .user_data(slot.tag(Kind::Send).pack())
}

/// Tries once to write the buffer under way; silent when it is written whole.
fn try_send(ring: &mut Ring, slot: &mut Slot, trying: &mut VecDeque<(u32, Tag)>) {
    slot.sending = Sending::Trying;
    let entry = send_entry(slot, libc::MSG_DONTWAIT).flags(squeue::Flags::SKIP_SUCCESS);
    // SAFETY: the bytes stay in the slot's queue, or among the buried, until the operation was started; it
    // does not wait.
    let number = unsafe { ring.push(&entry) };
    trying.push_back((number, slot.tag(Kind::Send)));
}

/// Lets the kernel write the rest of the buffer under way as the reader reads.
fn wait_send(ring: &mut Ring, slot: &mut Slot) {
    slot.sending = Sending::Waiting;
    let entry = send_entry(slot, 0);
    // SAFETY: the bytes stay in the slot's queue, or among the detached, until the operation completes.
    unsafe { ring.push(&entry) };
}

/// Stops the operation with `tag`, if there is one.
fn cancel(ring: &mut Ring, tag: Tag) {
    let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(tag.pack())).build();
    // SAFETY: points to no memory.
    unsafe { ring.push(&quiet(entry)) };
}

/// Closes `fd` in its turn after queued operations.
fn close_queued(ring: &mut Ring, fd: RawFd) {
    // SAFETY: points to no memory.
    unsafe { ring.push(&quiet(opcode::Close::new(Fd(fd)).build())) };
}

fn quiet(entry: squeue::Entry) -> squeue::Entry {
    let tag = Tag { kind: Kind::Ignore, epoch: 0, index: 0 };
    entry.user_data(tag.pack()).flags(squeue::Flags::SKIP_SUCCESS)
}

impl Backend for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn listen(&mut self, listener: OwnedFd, tag: u32) -> io::Result<()> {
        self.listeners.add(&mut self.ring, listener, tag);
        Ok(())
    }

    fn unlisten(&mut self, tag: u32) {
        self.listeners.remove(&mut self.ring, tag);
    }

    fn adopt(&mut self, socket: OwnedFd, token: Token) -> io::Result<()> {
        let index = token.index();
        while self.slots.len() <= index {
            self.slots.push(Slot {
                token,
                outgoing: Outgoing::default(),
                fd: -1,
                epoch: 0,
                receiving: Receiving::Off,
                sending: Sending::Off,
                paused: false,
                ended: false,
            });
        }
        let slot = &mut self.slots[index];
        if slot.fd >= 0 {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        slot.token = token;
        slot.fd = socket.into_raw_fd();
        slot.epoch = (slot.epoch + 1) & Tag::EPOCH_MASK;
        slot.receiving = Receiving::Off;
        slot.sending = Sending::Off;
        slot.paused = false;
        slot.ended = false;
        arm_receive(&mut self.ring, slot);
        self.live += 1;
        Ok(())
    }

    fn send(&mut self, token: Token, buffer: Buffer) {
        let Some(slot) = self.slots.get_mut(token.index()) else { return };
        if slot.fd < 0 || slot.token != token {
            return;
        }
        if slot.sending == Sending::Failed {
            self.immediate.push((token, buffer, Err(Errno::PIPE)));
        } else if buffer.is_empty() {
            self.immediate.push((token, buffer, Ok(())));
        } else if slot.outgoing.push(buffer) {
            try_send(&mut self.ring, slot, &mut self.trying);
        }
    }

    fn farewell(&mut self, token: Token, bytes: &[u8]) {
        if let Some(slot) = self.slot(token)
            && slot.sending == Sending::Off
        {
            // SAFETY: the slot's descriptor is open until `close` gives it up.
            let socket = unsafe { BorrowedFd::borrow_raw(slot.fd) };
            let _ = rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    fn output_idle(&mut self, token: Token) -> Option<Duration> {
        let slot = self.slot(token)?;
        // SAFETY: the slot's descriptor is open until `close` gives it up.
        output_idle(unsafe { BorrowedFd::borrow_raw(slot.fd) })
    }

    fn output_mark(&mut self, token: Token) -> Option<u64> {
        let slot = self.slot(token)?;
        // SAFETY: the slot's descriptor is open until `close` gives it up.
        let socket = unsafe { BorrowedFd::borrow_raw(slot.fd) };
        Some(slot.outgoing.unwritten().len() as u64 + unread_bytes(socket)?)
    }

    fn gather(&mut self, token: Token) {
        if let Some(slot) = self.slot(token) {
            // SAFETY: the slot's descriptor is open until `close` gives it up.
            gather(unsafe { BorrowedFd::borrow_raw(slot.fd) });
        }
    }

    fn pause(&mut self, token: Token) {
        let Some(slot) = self.slots.get_mut(token.index()) else { return };
        if slot.fd < 0 || slot.token != token {
            return;
        }
        slot.paused = true;
        if slot.receiving == Receiving::Armed {
            slot.receiving = Receiving::Stopping;
            cancel(&mut self.ring, slot.tag(Kind::Receive));
        }
    }

    fn release(&mut self, token: Token) {
        if let Some(slot) = self.slots.get_mut(token.index()).filter(|slot| slot.fd >= 0)
            && slot.token == token
            && slot.receiving == Receiving::Armed
            && slot.can_leave()
        {
            slot.receiving = Receiving::Leaving;
            cancel(&mut self.ring, slot.tag(Kind::Receive));
        }
    }

    fn resume(&mut self, token: Token) {
        let Some(slot) = self.slots.get_mut(token.index()) else { return };
        if slot.fd < 0 || slot.token != token {
            return;
        }
        slot.paused = false;
        // One that is stopping is armed again when it has stopped.
        arm_receive(&mut self.ring, slot);
    }

    fn close(&mut self, token: Token) {
        let Some(slot) = self.slots.get_mut(token.index()) else { return };
        if slot.fd < 0 || slot.token != token {
            return;
        }
        if slot.receiving == Receiving::Armed {
            cancel(&mut self.ring, slot.tag(Kind::Receive));
        }
        let outgoing = std::mem::take(&mut slot.outgoing);
        match slot.sending {
            Sending::Trying => self.buried.push((self.ring.pushed(), outgoing)),
            Sending::Waiting => {
                let tag = slot.tag(Kind::Send);
                cancel(&mut self.ring, tag);
                self.detached.insert(tag.pack(), outgoing);
            }
            Sending::Off | Sending::Failed => {}
        }
        close_queued(&mut self.ring, slot.fd);
        slot.fd = -1;
        self.live -= 1;
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> io::Result<()> {
        if !self.completions.is_empty() {
            self.ring.submit()?;
            self.report_immediate(sink);
            self.collect(sink)?;
            self.report(sink);
            return Ok(());
        }
        self.arm_waker();
        let mut timeout = self.listeners.sleep_limit(&mut self.ring, timeout);
        self.arm_receives();
        if !self.immediate.is_empty() || !self.rearm.is_empty() {
            timeout = Some(Duration::ZERO);
        }
        let sleeps = timeout != Some(Duration::ZERO) && self.waker.fall_asleep();
        let wanted = if sleeps { self.batching.wanted(self.live) } else { 0 };
        let entered = self.ring.enter(wanted, PATIENCE, timeout);
        if self.waker.wake_up() {
            sink.woken();
        }
        entered?;
        self.report_immediate(sink);
        self.collect(sink)?;
        if sleeps {
            self.batching.observe(self.completions.len() as u32);
        }
        for _ in 0..FOLLOW_UPS {
            if self.trying.is_empty() {
                break;
            }
            self.ring.submit()?;
            self.collect(sink)?;
        }
        self.report(sink);
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if slot.fd >= 0 {
                close_queued(&mut self.ring, slot.fd);
                slot.fd = -1;
            }
        }
        self.listeners.clear(&mut self.ring);
        let stopped = self.ring.stop() && self.ring.drain(&mut self.completions).is_ok();
        for completion in &self.completions {
            drop(listeners::accepted(completion));
        }
        if !stopped {
            // The kernel may still use them; a leak at the end of a thread is the lesser evil.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(std::mem::take(&mut self.buried));
            std::mem::forget(std::mem::take(&mut self.detached));
            self.buffers.leak();
        }
    }
}
