//! The io_uring implementation: one ring per thread, one multishot receive per connection into provided
//! buffers, one submit-and-wait per loop. Completions of an earlier connection in a slot are known by their
//! generation. Sockets stand in the ring's own table alone: a connection takes no descriptor of the process,
//! whose limit bounds one ring's table but not the sum of them.

use super::{Handler, Mux};
use crate::address::{Address, RawAddress, raw_address, socket_for};
use io_uring::types::{BufRingEntry, CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

const GROUP: u16 = 0;
const BUFFER_BYTES: usize = 16 * 1024;
const MIN_BUFFERS: usize = 64;
const MAX_BUFFERS: usize = 1024;
const RING_ENTRIES: u32 = 512;

const KIND_CONNECT: u64 = 0;
const KIND_RECV: u64 = 1;
const KIND_SEND: u64 = 2;
const KIND_MASK: u64 = 3;

/// The buffers that the kernel receives into, and the ring that hands them to it.
struct ReceiveBuffers {
    entries: *mut BufRingEntry,
    entries_bytes: usize,
    count: u16,
    tail: u16,
    memory: Vec<u8>,
}

impl ReceiveBuffers {
    fn new(count: usize) -> io::Result<ReceiveBuffers> {
        let entries_bytes = count * size_of::<BufRingEntry>();
        // SAFETY: a fresh anonymous mapping.
        let entries = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                entries_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if entries == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut buffers = ReceiveBuffers {
            entries: entries.cast(),
            entries_bytes,
            count: count as u16,
            tail: 0,
            memory: vec![0; count * BUFFER_BYTES],
        };
        for id in 0..count {
            buffers.give_back(id as u16);
        }
        buffers.publish();
        Ok(buffers)
    }

    fn contents(&self, id: u16, len: usize) -> &[u8] {
        let start = usize::from(id) * BUFFER_BYTES;
        self.memory.get(start..start + len.min(BUFFER_BYTES)).unwrap_or_default()
    }

    fn give_back(&mut self, id: u16) {
        let index = usize::from(self.tail & (self.count - 1));
        let start = usize::from(id) * BUFFER_BYTES;
        // SAFETY: `index` is below `count`, the number of entries of the mapping; `id` came from this ring,
        // so its buffer lies inside `memory`. The kernel reads an entry only below the published tail.
        unsafe {
            let entry = &mut *self.entries.add(index);
            entry.set_addr(self.memory.as_mut_ptr().add(start) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry's reserved field and is read by the kernel with acquire
        // order.
        unsafe {
            let tail = BufRingEntry::tail(self.entries) as *const AtomicU16;
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for ReceiveBuffers {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size; the ring that used it is dropped before.
        unsafe { libc::munmap(self.entries.cast(), self.entries_bytes) };
    }
}

#[derive(Default)]
struct Slot {
    open: bool,
    generation: u32,
    out: Vec<u8>,
    sent_bytes: usize,
    sending: bool,
    /// The last send reports no success, so the kernel may still read the buffer when the connection ends.
    unconfirmed: bool,
    address: Option<RawAddress>,
}

/// See the [module docs](self).
pub struct UringMux {
    // Dropped in this order: the ring first, so that the kernel is done with all memory below.
    ring: IoUring,
    buffers: ReceiveBuffers,
    slots: Vec<Slot>,
    completions: Vec<cqueue::Entry>,
    /// Memory of operations whose connection was closed while they were in flight, until their completion.
    retired: HashMap<u64, Retired>,
    generation: u32,
}

/// Kept only so that the kernel never reads freed memory.
struct Retired {
    _out: Vec<u8>,
    _address: Option<RawAddress>,
}

fn user_data(kind: u64, slot: usize, generation: u32) -> u64 {
    (u64::from(generation) << 32) | ((slot as u64) << 2) | kind
}

impl UringMux {
    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: buffers and addresses that entries point to live in `slots` or `retired` until
            // completion.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            if let Err(error) = self.ring.submit() {
                // The completion queue is full or the kernel is out of memory: it cannot stay so, as the
                // kernel frees both without our help once tasks run.
                debug_assert!(matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::EINTR)));
                std::thread::yield_now();
            }
        }
    }

    fn arm_receive(&mut self, slot: usize, generation: u32) {
        let entry = opcode::RecvMulti::new(Fixed(slot as u32), GROUP)
            .build()
            .user_data(user_data(KIND_RECV, slot, generation));
        self.push(&entry);
    }

    fn push_send(&mut self, slot: usize, notify: bool) {
        let Some(entry) = self.slots.get_mut(slot) else { return };
        let rest = entry.out.get(entry.sent_bytes..).unwrap_or_default();
        let send = opcode::Send::new(Fixed(slot as u32), rest.as_ptr(), rest.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(if notify { squeue::Flags::empty() } else { squeue::Flags::SKIP_SUCCESS })
            .user_data(user_data(KIND_SEND, slot, entry.generation));
        self.push(&send);
    }

    fn fail(&mut self, slot: usize, error: Option<io::Error>, handler: &mut impl Handler) {
        self.close(slot);
        handler.closed(slot, error);
    }

    fn on_receive(&mut self, cqe: &cqueue::Entry, slot: usize, current: bool, handler: &mut impl Handler) {
        let result = cqe.result();
        if let Some(id) = cqueue::buffer_select(cqe.flags()) {
            if current && result > 0 {
                handler.data(slot, self.buffers.contents(id, result as usize));
            }
            self.buffers.give_back(id);
        }
        if !current {
            return;
        }
        match result {
            0 => self.fail(slot, None, handler),
            count if count > 0 || count == -libc::ENOBUFS => {
                if !cqueue::more(cqe.flags()) {
                    // Rearmed after the buffers of this round are published.
                    let generation = self.slots.get(slot).map_or(0, |s| s.generation);
                    self.buffers.publish();
                    self.arm_receive(slot, generation);
                }
            }
            error => self.fail(slot, Some(io::Error::from_raw_os_error(-error)), handler),
        }
    }

    fn on_send(&mut self, result: i32, slot: usize, handler: &mut impl Handler) {
        let Some(entry) = self.slots.get_mut(slot) else { return };
        if result < 0 {
            // The buffer is ours again; `close` must not retire it.
            (entry.sending, entry.unconfirmed) = (false, false);
            if super::peer_is_gone(-result) {
                return;
            }
            return self.fail(slot, Some(io::Error::from_raw_os_error(-result)), handler);
        }
        entry.sent_bytes += result as usize;
        if entry.sent_bytes < entry.out.len() {
            return self.push_send(slot, true);
        }
        entry.sending = false;
        handler.sent(slot);
    }

    fn on_connect(&mut self, result: i32, slot: usize, handler: &mut impl Handler) {
        let Some(entry) = self.slots.get_mut(slot) else { return };
        entry.address = None;
        let generation = entry.generation;
        if result < 0 {
            return self.fail(slot, Some(io::Error::from_raw_os_error(-result)), handler);
        }
        self.arm_receive(slot, generation);
        handler.connected(slot);
    }

    fn dispatch(&mut self, cqe: &cqueue::Entry, handler: &mut impl Handler) {
        let data = cqe.user_data();
        let (slot, generation) = (((data & 0xffff_ffff) >> 2) as usize, (data >> 32) as u32);
        let current = self.slots.get(slot).is_some_and(|s| s.open && s.generation == generation);
        match data & KIND_MASK {
            KIND_RECV => self.on_receive(cqe, slot, current, handler),
            _ if !current => {
                self.retired.remove(&data);
            }
            KIND_SEND => self.on_send(cqe.result(), slot, handler),
            _ => self.on_connect(cqe.result(), slot, handler),
        }
    }
}

impl Mux for UringMux {
    fn new(slots: usize) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize((slots as u32 * 4).next_power_of_two().clamp(1024, 32768))
            .build(RING_ENTRIES)?;
        ring.submitter().register_files_sparse(slots.max(1) as u32)?;
        let buffers = ReceiveBuffers::new(slots.next_power_of_two().clamp(MIN_BUFFERS, MAX_BUFFERS))?;
        // SAFETY: the ring of buffers lives in the same struct and is dropped after the io_uring.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(buffers.entries as u64, buffers.count, GROUP, 0)?;
        }
        Ok(UringMux {
            ring,
            buffers,
            slots: std::iter::repeat_with(Slot::default).take(slots).collect(),
            completions: Vec::new(),
            retired: HashMap::new(),
            generation: 0,
        })
    }

    fn open(&mut self, slot: usize, address: &Address, source: Option<IpAddr>) -> io::Result<()> {
        let fd = socket_for(address, source, false)?;
        let raw = raw_address(address)?;
        self.ring.submitter().register_files_update(slot as u32, &[fd.as_raw_fd()])?;
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let entry = opcode::Connect::new(Fixed(slot as u32), raw.as_ptr(), raw.len())
            .build()
            .user_data(user_data(KIND_CONNECT, slot, generation));
        let Some(place) = self.slots.get_mut(slot) else { return Ok(()) };
        place.generation = generation;
        place.open = true;
        place.address = Some(raw);
        (place.sending, place.sent_bytes) = (false, 0);
        self.push(&entry);
        Ok(())
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut Vec<u8>> {
        self.slots.get_mut(slot).filter(|s| !s.sending).map(|s| &mut s.out)
    }

    fn send(&mut self, slot: usize, notify: bool) -> bool {
        if let Some(entry) = self.slots.get_mut(slot) {
            (entry.sending, entry.unconfirmed, entry.sent_bytes) = (notify, !notify, 0);
            self.push_send(slot, notify);
        }
        !notify
    }

    fn close(&mut self, slot: usize) {
        let Some(entry) = self.slots.get_mut(slot) else { return };
        if !std::mem::take(&mut entry.open) {
            return;
        }
        if entry.sending || std::mem::take(&mut entry.unconfirmed) {
            let copy = entry.out.clone();
            let retired = Retired { _out: std::mem::replace(&mut entry.out, copy), _address: None };
            self.retired.insert(user_data(KIND_SEND, slot, entry.generation), retired);
            entry.sending = false;
        }
        if let Some(address) = entry.address.take() {
            let retired = Retired { _out: Vec::new(), _address: Some(address) };
            self.retired.insert(user_data(KIND_CONNECT, slot, entry.generation), retired);
        }
        // An operation under way keeps the socket open. Nothing may be under way, so this may find nothing;
        // and a failed update leaves the socket in the table until the slot is opened again.
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::fd(Fixed(slot as u32)).all());
        let _ = self.ring.submitter().register_files_update(slot as u32, &[-1]);
    }

    fn wait(&mut self, timeout: Option<Duration>, handler: &mut impl Handler) -> io::Result<()> {
        self.buffers.publish();
        let result = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(Duration::ZERO) => self.ring.submitter().submit_and_wait(0).and_then(|_| {
                let arguments = SubmitArgs::new();
                let spec = Timespec::new();
                self.ring.submitter().submit_with_args(1, &arguments.timespec(&spec))
            }),
            Some(timeout) => {
                let spec = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&spec))
            }
        };
        handler.woken();
        if let Err(error) = result {
            match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => return Err(error),
            }
        }
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(self.ring.completion());
        for cqe in &completions {
            self.dispatch(cqe, handler);
        }
        completions.clear();
        self.completions = completions;
        Ok(())
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}
