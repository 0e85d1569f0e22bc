//! The two queues of one io_uring instance, and the one system call that serves them.
//!
//! `unsafe` is here because queue entries carry raw pointers: the caller of `push` promises that the memory
//! outlives the operation. The ring starts disabled and is enabled by the first thread that enters it, so
//! that it may be built on another thread than the one it serves.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};

/// Operations that one enter takes; more are entered on the way.
const SUBMISSIONS: u32 = 512;
/// Completions in the shared ring; the kernel keeps further ones on a slower list.
const COMPLETIONS: u32 = 4096;

/// A sleep so long that ending it does no harm.
const NO_LIMIT: Duration = Duration::from_secs(3600);

// From the kernel's `io_uring.h`.
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_ENABLE_RINGS: u32 = 12;
const REGISTER_RING_FDS: u32 = 20;

/// The kernel's `struct io_uring_rsrc_update`.
#[repr(C)]
struct ResourceUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// One io_uring instance.
pub struct Ring {
    ring: IoUring,
    /// What `io_uring_enter` is called with: an index of the thread's registered rings, or the descriptor.
    enter_fd: RawFd,
    enter_flags: u32,
    enabled: bool,
    /// Operations pushed so far, wrapping.
    pushed: u32,
}

impl Ring {
    /// A disabled ring.
    ///
    /// # Errors
    /// The kernel's: `ENOSYS`, `EPERM` where io_uring is missing or forbidden, `EINVAL` before Linux 6.1.
    pub fn new() -> io::Result<Ring> {
        // Without the array is one indirection less per operation; Linux 6.6.
        let ring =
            builder().setup_no_sqarray().build(SUBMISSIONS).or_else(|_| builder().build(SUBMISSIONS))?;
        let parameters = ring.params();
        if !parameters.is_feature_ext_arg() || !parameters.is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring is too old"));
        }
        let enter_fd = ring.as_raw_fd();
        Ok(Ring { ring, enter_fd, enter_flags: 0, enabled: false, pushed: 0 })
    }

    /// The instance, to register resources with.
    pub fn instance(&self) -> &IoUring {
        &self.ring
    }

    /// Makes the calling thread the ring's only user.
    fn enable(&mut self) -> io::Result<()> {
        let fd = self.ring.as_raw_fd();
        // SAFETY: enabling takes no memory; the descriptor is the ring's own.
        let enabled = unsafe {
            libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_ENABLE_RINGS, std::ptr::null::<u8>(), 0)
        };
        if enabled < 0 {
            return Err(io::Error::last_os_error());
        }
        self.enabled = true;
        let mut update = ResourceUpdate { offset: u32::MAX, reserved: 0, data: fd as u64 };
        // SAFETY: `update` is one writable entry, which the kernel reads and writes during the call.
        let registered =
            unsafe { libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, &raw mut update, 1) };
        // It only spares a descriptor look-up per enter; without it the descriptor does.
        if registered == 1 {
            self.enter_fd = update.offset as RawFd;
            self.enter_flags = ENTER_REGISTERED_RING;
        }
        Ok(())
    }

    /// Queues an operation. Returns its number; see [`Ring::consumed`].
    ///
    /// # Safety
    /// The memory that the entry points to stays valid until the kernel is done with the operation.
    pub unsafe fn push(&mut self, entry: &squeue::Entry) -> u32 {
        // SAFETY: the caller's promise.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            if self.submit().is_err() {
                // Out of memory for requests, say; nothing else can be done with a full queue than try again.
                std::thread::yield_now();
            }
        }
        self.pushed = self.pushed.wrapping_add(1);
        self.pushed.wrapping_sub(1)
    }

    /// How many operations were pushed so far, wrapping: the number of the next one.
    pub fn pushed(&self) -> u32 {
        self.pushed
    }

    /// How many operations the kernel has started so far, wrapping. Those with lesser numbers are started.
    pub fn consumed(&mut self) -> u32 {
        self.pushed.wrapping_sub(self.ring.submission().len() as u32)
    }

    /// Starts the queued operations without looking for completions.
    ///
    /// # Errors
    /// As [`Ring::enter`].
    pub fn submit(&mut self) -> io::Result<()> {
        self.call(0, 0, None)
    }

    /// Starts the queued operations and runs what completes. With `wanted` above zero, sleeps until something
    /// has, or `timeout`; above one, until so much has completed, or `patience` has passed and something has.
    ///
    /// # Errors
    /// The kernel's, apart from those that merely say that nothing has completed.
    pub fn enter(&mut self, wanted: u32, patience: Duration, timeout: Option<Duration>) -> io::Result<()> {
        let mut arguments = SubmitArgs::new();
        let patient = wanted > 1 && self.ring.params().is_feature_min_timeout();
        // Without a limit of the whole sleep, the kernel takes patience for one.
        let timeout = if patient { Some(timeout.unwrap_or(NO_LIMIT)) } else { timeout };
        let timespec = timeout.filter(|_| wanted > 0).map(Timespec::from);
        if let Some(timespec) = &timespec {
            arguments = arguments.timespec(timespec);
        }
        if patient {
            arguments = arguments.min_wait_usec(patience.as_micros() as u32);
        }
        let wait = if patient { wanted } else { wanted.min(1) };
        match self.call(wait, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&arguments)) {
            Err(error) if is_passing(&error) => Ok(()),
            result => result,
        }
    }

    /// Runs what completes, without sleep.
    fn run(&mut self) -> io::Result<()> {
        self.enter(0, Duration::ZERO, None)
    }

    fn call(&mut self, wait: u32, flags: u32, arguments: Option<&SubmitArgs>) -> io::Result<()> {
        if !self.enabled {
            self.enable()?;
        }
        let queued = self.ring.submission().len() as u32;
        let flags = flags | self.enter_flags;
        let (pointer, size) = match arguments {
            Some(arguments) => (std::ptr::from_ref(arguments).cast(), size_of::<SubmitArgs>()),
            None => (std::ptr::null::<u8>(), 0),
        };
        // SAFETY: the queues are the ring's own; `arguments`, with the time in it, outlives the call; what
        // queued operations point to is valid as promised to `push`.
        let result = unsafe {
            libc::syscall(libc::SYS_io_uring_enter, self.enter_fd, queued, wait, flags, pointer, size)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Starts queued operations and cancels all that are under way. True: no operation is left that uses
    /// memory.
    ///
    /// Only the thread that enters the ring can do that.
    pub fn stop(&mut self) -> bool {
        if !self.enabled {
            return true;
        }
        if self.run().is_err() || !self.ring.submission().is_empty() {
            return false;
        }
        let all = CancelBuilder::any();
        match self.ring.submitter().register_sync_cancel(None, all) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(_) => return false,
        }
        self.run().is_ok()
    }

    /// Takes all completions there are, appending them to `completions`; none is left behind for want of room
    /// in the ring.
    ///
    /// # Errors
    /// As [`Ring::enter`].
    pub fn drain(&mut self, completions: &mut Vec<cqueue::Entry>) -> io::Result<()> {
        completions.extend(self.ring.completion());
        while self.ring.submission().cq_overflow() {
            self.run()?;
            completions.extend(self.ring.completion());
        }
        Ok(())
    }
}

fn builder() -> io_uring::Builder {
    let mut builder = IoUring::builder();
    builder
        .dontfork()
        .setup_clamp()
        .setup_cqsize(COMPLETIONS)
        .setup_submit_all()
        .setup_r_disabled()
        .setup_single_issuer()
        .setup_defer_taskrun();
    builder
}

/// Nothing completed in time, a signal came, or the kernel was short of memory or of room: the next loop
/// tries again.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EAGAIN, libc::EBUSY, libc::EBADR];
    error.raw_os_error().is_some_and(|code| passing.contains(&code))
}
