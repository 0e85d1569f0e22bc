//! The epoll implementation: level-triggered, one registration per connection, writes tried at once.

use super::{Handler, Mux};
use crate::address::{Address, check, raw_address, socket_for};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

const READ_BYTES: usize = 64 * 1024;
const EVENTS_PER_WAIT: usize = 512;

#[derive(PartialEq, Eq, Clone, Copy)]
enum State {
    Connecting,
    Open,
}

struct Slot {
    fd: Option<OwnedFd>,
    state: State,
    /// Distinguishes this connection from an earlier one in the same slot.
    generation: u32,
    out: Vec<u8>,
    sent_bytes: usize,
    sending: bool,
}

/// See the [module docs](self).
pub struct EpollMux {
    epoll: OwnedFd,
    slots: Vec<Slot>,
    events: Vec<libc::epoll_event>,
    read_buffer: Vec<u8>,
    /// Connections that failed inside `send`.
    failed: Vec<(usize, u32, io::Error)>,
    /// This kernel counts timeouts in milliseconds: it is older than 5.11, or emulated.
    pub(super) is_coarse: bool,
}

impl EpollMux {
    fn control(
        &self,
        operation: i32,
        fd: RawFd,
        interest: i32,
        slot: usize,
        generation: u32,
    ) -> io::Result<()> {
        let mut event =
            libc::epoll_event { events: interest as u32, u64: ((generation as u64) << 32) | slot as u64 };
        // SAFETY: the event lives during the call.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) })?;
        Ok(())
    }

    /// Sleeps until there are events or the time is over; how many there are.
    fn await_events(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let (epoll, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        let most = self.events.len() as libc::c_int;
        if !self.is_coarse {
            let spec = timeout
                .map(|t| libc::timespec { tv_sec: t.as_secs() as _, tv_nsec: i64::from(t.subsec_nanos()) });
            let spec_pointer = spec.as_ref().map_or(std::ptr::null(), |spec| spec as *const libc::timespec);
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // SAFETY: events and timeout live during the call; the signal mask is absent.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    epoll,
                    events,
                    most,
                    spec_pointer,
                    no_mask,
                    size_of::<u64>(),
                )
            };
            let awaited = usize::try_from(count).map_err(|_| io::Error::last_os_error());
            if !awaited.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOSYS)) {
                return awaited;
            }
            self.is_coarse = true;
        }
        // Rather early than late: a caller that waits for an instant polls for the rest of the millisecond.
        let timeout_ms = timeout.map_or(-1, |t| t.as_millis().try_into().unwrap_or(libc::c_int::MAX));
        // SAFETY: events live during the call.
        check(unsafe { libc::epoll_wait(epoll, events, most, timeout_ms) }).map(|count| count as usize)
    }

    fn interest(&self, slot: usize, interest: i32) -> io::Result<()> {
        match self.slots.get(slot).and_then(|s| s.fd.as_ref().map(|fd| (fd.as_raw_fd(), s.generation))) {
            Some((fd, generation)) => self.control(libc::EPOLL_CTL_MOD, fd, interest, slot, generation),
            None => Ok(()),
        }
    }

    /// Writes the remaining bytes; `Ok(true)` when all are written.
    fn write_some(&mut self, slot: usize) -> io::Result<bool> {
        let Some(Slot { fd: Some(fd), out, sent_bytes, .. }) = self.slots.get_mut(slot) else {
            return Ok(false);
        };
        while let Some(rest) = out.get(*sent_bytes..).filter(|rest| !rest.is_empty()) {
            // SAFETY: the slice is valid for its length during the call.
            let count =
                unsafe { libc::send(fd.as_raw_fd(), rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL) };
            match usize::try_from(count) {
                Ok(count) => *sent_bytes += count,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    match error.kind() {
                        io::ErrorKind::Interrupted => {}
                        io::ErrorKind::WouldBlock => return Ok(false),
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(true)
    }

    fn fail(&mut self, slot: usize, error: Option<io::Error>, handler: &mut impl Handler) {
        self.close(slot);
        handler.closed(slot, error);
    }

    fn on_writable(&mut self, slot: usize, handler: &mut impl Handler) {
        let Some(entry) = self.slots.get_mut(slot) else { return };
        if entry.state == State::Connecting {
            let Some(fd) = entry.fd.as_ref() else { return };
            if let Some(error) = socket_error(fd) {
                return self.fail(slot, Some(error), handler);
            }
            entry.state = State::Open;
            if let Err(error) = self.interest(slot, libc::EPOLLIN) {
                return self.fail(slot, Some(error), handler);
            }
            return handler.connected(slot);
        }
        match self.write_some(slot) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(entry) = self.slots.get_mut(slot) {
                    entry.sending = false;
                }
                if let Err(error) = self.interest(slot, libc::EPOLLIN) {
                    return self.fail(slot, Some(error), handler);
                }
                handler.sent(slot);
            }
            Err(error) => self.fail(slot, Some(error), handler),
        }
    }

    fn on_readable(&mut self, slot: usize, handler: &mut impl Handler) {
        let Some(fd) = self.slots.get(slot).and_then(|s| s.fd.as_ref()).map(AsRawFd::as_raw_fd) else {
            return;
        };
        // SAFETY: the buffer is valid for its length during the call.
        let count =
            unsafe { libc::recv(fd, self.read_buffer.as_mut_ptr().cast(), self.read_buffer.len(), 0) };
        match usize::try_from(count) {
            Ok(0) => self.fail(slot, None, handler),
            Ok(count) => handler.data(slot, self.read_buffer.get(..count).unwrap_or_default()),
            Err(_) => {
                let error = io::Error::last_os_error();
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
                    self.fail(slot, Some(error), handler);
                }
            }
        }
    }

    fn is_current(&self, slot: usize, generation: u32) -> bool {
        self.slots.get(slot).is_some_and(|s| s.fd.is_some() && s.generation == generation)
    }

    fn deliver_failures(&mut self, handler: &mut impl Handler) {
        for (slot, generation, error) in std::mem::take(&mut self.failed) {
            if self.is_current(slot, generation) {
                self.fail(slot, Some(error), handler);
            }
        }
    }
}

fn socket_error(fd: &OwnedFd) -> Option<io::Error> {
    let (mut error, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: both out-parameters live during the call and `len` is the size of `error`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &raw mut len,
        )
    };
    match (result, error) {
        (0, 0) => None,
        (0, error) => Some(io::Error::from_raw_os_error(error)),
        _ => Some(io::Error::last_os_error()),
    }
}

impl Mux for EpollMux {
    fn new(slots: usize) -> io::Result<Self> {
        // SAFETY: a system call without pointers.
        let epoll = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just given us this descriptor.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let slot = || Slot {
            fd: None,
            state: State::Connecting,
            generation: 0,
            out: Vec::new(),
            sent_bytes: 0,
            sending: false,
        };
        Ok(EpollMux {
            epoll,
            slots: std::iter::repeat_with(slot).take(slots).collect(),
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_PER_WAIT],
            read_buffer: vec![0; READ_BYTES],
            failed: Vec::new(),
            is_coarse: false,
        })
    }

    fn open(&mut self, slot: usize, address: &Address, source: Option<IpAddr>) -> io::Result<()> {
        let fd = socket_for(address, source, true)?;
        let raw = raw_address(address)?;
        // SAFETY: the address is valid for its length during the call.
        if let Err(error) = check(unsafe { libc::connect(fd.as_raw_fd(), raw.as_ptr(), raw.len()) })
            && error.raw_os_error() != Some(libc::EINPROGRESS)
        {
            return Err(error);
        }
        let Some(entry) = self.slots.get_mut(slot) else { return Ok(()) };
        entry.state = State::Connecting;
        entry.generation = entry.generation.wrapping_add(1);
        (entry.sending, entry.sent_bytes) = (false, 0);
        let (generation, raw_fd) = (entry.generation, fd.as_raw_fd());
        entry.fd = Some(fd);
        self.control(libc::EPOLL_CTL_ADD, raw_fd, libc::EPOLLOUT, slot, generation)
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut Vec<u8>> {
        self.slots.get_mut(slot).filter(|s| !s.sending).map(|s| &mut s.out)
    }

    fn send(&mut self, slot: usize, _notify: bool) -> bool {
        let Some(entry) = self.slots.get_mut(slot) else { return false };
        (entry.sending, entry.sent_bytes) = (true, 0);
        let generation = entry.generation;
        let error = match self.write_some(slot) {
            Ok(true) => {
                if let Some(entry) = self.slots.get_mut(slot) {
                    entry.sending = false;
                }
                return true;
            }
            Ok(false) => match self.interest(slot, libc::EPOLLIN | libc::EPOLLOUT) {
                Ok(()) => return false,
                Err(error) => error,
            },
            Err(error) => error,
        };
        if error.raw_os_error().is_some_and(super::peer_is_gone) {
            return false;
        }
        self.failed.push((slot, generation, error));
        false
    }

    fn close(&mut self, slot: usize) {
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.fd = None;
            (entry.sending, entry.sent_bytes) = (false, 0);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, handler: &mut impl Handler) -> io::Result<()> {
        let timeout = if self.failed.is_empty() { timeout } else { Some(Duration::ZERO) };
        let awaited = self.await_events(timeout);
        handler.woken();
        let count = match awaited {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        };
        self.deliver_failures(handler);
        for index in 0..count {
            let Some(&libc::epoll_event { events, u64: data }) = self.events.get(index) else { break };
            let (slot, generation) = ((data & 0xffff_ffff) as usize, (data >> 32) as u32);
            if events & libc::EPOLLOUT as u32 != 0 && self.is_current(slot, generation) {
                self.on_writable(slot, handler);
            }
            let readable = (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP) as u32;
            if events & readable != 0 && self.is_current(slot, generation) {
                self.on_readable(slot, handler);
            }
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "epoll"
    }
}
