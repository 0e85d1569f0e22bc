//! The time between a crash and the end of the process: the traces of all threads are passed to the thread
//! that reports them.
//!
//! Invariant: a handler runs on the thread that the signal came to and only writes to reserved memory, and to
//! a file that wakes the reporting thread; that one may take locks and memory, and is waited for no longer
//! than [`PATIENCE_MS`]. Then the signal has its default effect, so status and core dump are those of the
//! crash.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use libc::{c_int, c_void, siginfo_t};

use martlet_base::sync::lock;

/// How long a crashed thread waits for the report.
const PATIENCE_MS: c_int = 20_000;
/// How long one thread may take to note its trace.
const TRACE_LIMIT: Duration = Duration::from_millis(500);
/// Frames of a trace, at most.
const FRAMES: usize = 100;
/// The stack that handlers run on: its thread's own may have overflowed.
const STACK_BYTES: usize = 1 << 17;
/// What asks a thread for its trace.
const TRACE_SIGNAL: c_int = libc::SIGUSR2;
/// What ends the process with a report.
const FATAL: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// Why traces were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A signal that ends the process.
    Signal(Signal),
    /// SIGALRM, which asks for traces only.
    Alarm(Signal),
    /// A panic; its message, and where it was.
    Panic(String, String),
}

/// The kernel's facts about a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: c_int,
    /// Why it came; positive if the kernel has sent it.
    pub code: c_int,
    /// The instruction that ran; 0 if that is not known.
    pub instruction: usize,
    /// The address whose access failed, if one did.
    pub address: usize,
    /// The sender, if a process sent it.
    pub sender: Option<(i32, u32)>,
}

/// Where a thread was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The kernel's number of it.
    pub thread: i32,
    /// Its name.
    pub name: String,
    /// Return addresses, innermost first.
    pub addresses: Vec<usize>,
}

/// Room for one thread's trace, written by a handler.
struct Slot {
    /// Whose it is to be.
    thread: AtomicI32,
    addresses: [AtomicUsize; FRAMES],
    len: AtomicUsize,
    is_done: AtomicBool,
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            thread: AtomicI32::new(0),
            addresses: [const { AtomicUsize::new(0) }; FRAMES],
            len: AtomicUsize::new(0),
            is_done: AtomicBool::new(false),
        }
    }

    /// Records the calling thread's frames, from the instruction `from` on: deeper ones are the handler's. If
    /// it is not met, all are recorded.
    fn fill(&self, from: usize) {
        let mut len = self.walk(from);
        if len == 0 {
            len = self.walk(0);
        }
        self.len.store(len, Ordering::Relaxed);
        self.is_done.store(true, Ordering::Release);
    }

    /// Notes addresses from `from` on, or all if that is 0; how many there are.
    fn walk(&self, from: usize) -> usize {
        let mut len = 0;
        // SAFETY: symbolising by other threads does not concern a walk that symbolises nothing.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                let Some(address) = self.addresses.get(len) else { return false };
                let ip = frame.ip() as usize;
                if ip != 0 && (len > 0 || from == 0 || ip == from) {
                    address.store(ip, Ordering::Relaxed);
                    len += 1;
                }
                true
            });
        }
        len
    }

    fn trace(&self, thread: i32) -> Trace {
        let addresses = match self.is_done.load(Ordering::Acquire) {
            true => self.addresses.iter().take(self.len.load(Ordering::Relaxed)),
            false => self.addresses.iter().take(0),
        };
        let addresses = addresses.map(|address| address.load(Ordering::Relaxed)).collect();
        Trace { thread, name: name_of(thread), addresses }
    }
}

/// The signal of the thread that has [`IS_TAKEN`].
struct SignalCell(UnsafeCell<Signal>);
// SAFETY: the thread that has set `IS_TAKEN` writes it, before the reporting thread is woken and reads it.
unsafe impl Sync for SignalCell {}

/// A report is under way; later crashes wait for the process' end.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
static SIGNAL: SignalCell =
    SignalCell(UnsafeCell::new(Signal { number: 0, code: 0, instruction: 0, address: 0, sender: None }));
static PANIC: Mutex<Option<(String, String)>> = Mutex::new(None);
static CRASHED: Slot = Slot::new();
static OTHER: Slot = Slot::new();
/// The thread that reports.
static REPORTER: AtomicI32 = AtomicI32::new(0);
/// Counters of the kernel's: one wakes the reporting thread, the other reports that it is done.
static WAKE: AtomicI32 = AtomicI32::new(-1);
static DONE: AtomicI32 = AtomicI32::new(-1);

fn name_of(thread: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The kernel's number of the calling thread.
pub fn this_thread() -> i32 {
    // SAFETY: it has no conditions.
    unsafe { libc::gettid() }
}

fn add_one(counter: &AtomicI32) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: the bytes live for the call; a closed or missing file is refused.
    unsafe { libc::write(counter.load(Ordering::Relaxed), one.as_ptr().cast(), one.len()) };
}

/// Waits until the counter has been added to, and takes its value.
fn take(counter: &AtomicI32, limit_ms: c_int) {
    let mut file = libc::pollfd { fd: counter.load(Ordering::Relaxed), events: libc::POLLIN, revents: 0 };
    let mut count = [0u8; 8];
    // SAFETY: one entry and eight bytes, which live for the calls.
    unsafe {
        if libc::poll(&raw mut file, 1, limit_ms) == 1 {
            libc::read(file.fd, count.as_mut_ptr().cast(), count.len());
        }
    }
}

/// Ends the process as the signal does by default, once the handler that calls this has returned.
fn die_of(signal: c_int) {
    // SAFETY: the default runs no code here.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// The instruction that a signal came upon; 0 where the processor's registers are not known here.
///
/// # Safety
/// `context` is the kernel's argument of a handler.
unsafe fn instruction_of(context: *mut c_void) -> usize {
    let context = context.cast::<libc::ucontext_t>();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel's, as promised.
    return unsafe { (&(*context).uc_mcontext.gregs)[libc::REG_RIP as usize] as usize };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel's, as promised.
    return unsafe { (*context).uc_mcontext.pc as usize };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        0
    }
}

/// # Safety
/// `info` and `context` are the kernel's arguments of a handler.
unsafe fn signal_of(number: c_int, info: *mut siginfo_t, context: *mut c_void) -> Signal {
    // SAFETY: the kernel's, as promised; which of its fields are set says the code.
    unsafe {
        let instruction = instruction_of(context);
        let code = (*info).si_code;
        match code <= 0 {
            true => {
                let sender = Some(((*info).si_pid(), (*info).si_uid()));
                Signal { number, code, instruction, address: 0, sender }
            }
            false => {
                let address = (*info).si_addr() as usize;
                Signal { number, code, instruction, address, sender: None }
            }
        }
    }
}

/// Notes the signal and where this thread is, and wakes the thread that reports.
///
/// # Safety
/// As for [`signal_of`]; the caller has set [`IS_TAKEN`].
unsafe fn note(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: as promised.
    let signal = unsafe { signal_of(number, info, context) };
    // SAFETY: as promised: no other thread writes it, and none reads it yet.
    unsafe { *SIGNAL.0.get() = signal };
    CRASHED.thread.store(this_thread(), Ordering::Relaxed);
    CRASHED.fill(signal.instruction);
    add_one(&WAKE);
}

extern "C" fn on_fatal(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if this_thread() == REPORTER.load(Ordering::Relaxed) {
        return die_of(number);
    }
    if IS_TAKEN.swap(true, Ordering::AcqRel) {
        // The other's end is this thread's too, and soon.
        // SAFETY: it has no conditions.
        unsafe { libc::usleep(PATIENCE_MS as u32 * 1000) };
        return die_of(number);
    }
    // SAFETY: the kernel calls this; the flag was taken above.
    unsafe { note(number, info, context) };
    take(&DONE, PATIENCE_MS);
    die_of(number);
}

extern "C" fn on_alarm(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if IS_TAKEN.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the kernel calls this; the flag was taken above.
    unsafe { note(number, info, context) };
}

extern "C" fn on_trace(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    if OTHER.thread.load(Ordering::Acquire) == this_thread() {
        // SAFETY: the kernel calls this.
        OTHER.fill(unsafe { instruction_of(context) });
    }
}

fn handle(signal: c_int, handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void)) {
    // SAFETY: an all-zero action is a valid one, and the handler keeps to the rules of the module's page.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

/// Gives the calling thread a stack on which its crash can be looked at; it keeps it.
pub fn guard_thread() {
    // SAFETY: fresh memory, which no other thread knows of and which is never freed.
    unsafe {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(std::ptr::null_mut(), STACK_BYTES, protection, flags, -1, 0);
        if memory != libc::MAP_FAILED {
            let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: STACK_BYTES };
            libc::sigaltstack(&raw const stack, std::ptr::null_mut());
        }
    }
}

/// Where the calling thread is.
pub fn trace_here() -> Trace {
    let slot = Slot::new();
    slot.fill(0);
    slot.trace(this_thread())
}

/// Sets up the handlers, and the thread that calls `report` for each cause with the trace of the thread that
/// met it and what takes those of the others.
///
/// # Errors
/// When the operating system refuses the thread or its files.
pub fn watch_crashes(report: impl Fn(&Cause, &Trace) + Send + 'static) -> io::Result<()> {
    for counter in [&WAKE, &DONE] {
        // SAFETY: a new file, whose only owner this is.
        let file = unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                file => OwnedFd::from_raw_fd(file),
            }
        };
        counter.store(file.as_raw_fd(), Ordering::Relaxed);
        // The handlers need it to the end.
        std::mem::forget(file);
    }
    std::thread::Builder::new().name("crash-report".into()).spawn(move || {
        REPORTER.store(this_thread(), Ordering::Relaxed);
        loop {
            take(&WAKE, -1);
            if !IS_TAKEN.load(Ordering::Acquire) {
                continue;
            }
            let panic = lock(&PANIC).take();
            // SAFETY: it was written before this thread was woken, and no thread writes while the flag is up.
            let signal = unsafe { *SIGNAL.0.get() };
            let is_alarm = panic.is_none() && signal.number == libc::SIGALRM;
            let cause = match panic {
                Some((message, place)) => Cause::Panic(message, place),
                None if is_alarm => Cause::Alarm(signal),
                None => Cause::Signal(signal),
            };
            report(&cause, &CRASHED.trace(CRASHED.thread.load(Ordering::Relaxed)));
            if is_alarm {
                CRASHED.is_done.store(false, Ordering::Relaxed);
                IS_TAKEN.store(false, Ordering::Release);
            } else {
                add_one(&DONE);
            }
        }
    })?;
    FATAL.into_iter().for_each(|signal| handle(signal, on_fatal));
    handle(libc::SIGALRM, on_alarm);
    handle(TRACE_SIGNAL, on_trace);
    Ok(())
}

/// The traces of all threads but the caller and `but`, one after another.
pub fn other_traces(but: i32) -> Vec<Trace> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    // The kernel's own workers take no signals.
    let is_ours =
        |thread: &i32| *thread != but && *thread != this_thread() && !name_of(*thread).starts_with("iou-");
    let mut traces: Vec<Trace> = threads.filter(is_ours).map(trace_of).collect();
    traces.sort_by_key(|trace| trace.thread);
    traces
}

/// Has the alarm's report begin with this thread of the process: see [`Cause::Alarm`].
pub fn alarm(thread: i32) {
    // SAFETY: the handler was set up before any thread that is known by its number; one that is gone is
    // refused.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGALRM) };
}

fn trace_of(thread: i32) -> Trace {
    OTHER.is_done.store(false, Ordering::Relaxed);
    OTHER.thread.store(thread, Ordering::Release);
    // SAFETY: the handler was set up before anybody could ask for traces; a thread that is gone is refused.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, TRACE_SIGNAL) };
    let began = martlet_base::clock::monotonic();
    while !OTHER.is_done.load(Ordering::Acquire) && began.elapsed() < TRACE_LIMIT {
        std::thread::sleep(Duration::from_micros(100));
    }
    OTHER.thread.store(0, Ordering::Release);
    OTHER.trace(thread)
}

/// Reports a panic of the calling thread and ends the process: by SIGABRT, or with status 1 if `exits`.
pub fn end_after_panic(message: String, place: String, exits: bool) -> ! {
    if this_thread() != REPORTER.load(Ordering::Relaxed) {
        if IS_TAKEN.swap(true, Ordering::AcqRel) {
            std::thread::sleep(Duration::from_millis(PATIENCE_MS as u64));
        }
        *lock(&PANIC) = Some((message, place));
        CRASHED.thread.store(this_thread(), Ordering::Relaxed);
        CRASHED.fill(0);
        add_one(&WAKE);
        take(&DONE, PATIENCE_MS);
    }
    // SAFETY: the default runs no code here; `_exit` runs nothing that could meet the state after the panic.
    unsafe {
        libc::signal(libc::SIGABRT, libc::SIG_DFL);
        if exits {
            libc::_exit(1);
        }
    }
    std::process::abort()
}

/// Writes to memory that cannot be written to, for DEBUG SEGFAULT.
pub fn segfault() {
    // SAFETY: none: the kernel ends the write, and with it the process, as was asked for.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let memory = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0);
        memory.cast::<u8>().write_volatile(b'x');
    }
}
