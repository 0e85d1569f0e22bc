//! The kernel's accounts of the process.

/// Processor time in seconds: system and user.
#[derive(Copy, Clone, Debug, Default)]
pub struct CpuTime {
    /// In the kernel.
    pub system_s: f64,
    /// In user space.
    pub user_s: f64,
}

/// The owner of [`cpu_time`]'s time.
#[derive(Copy, Clone, Debug)]
pub enum Whose {
    /// All threads of the process.
    Process,
    /// Children that have ended.
    Children,
    /// The calling thread.
    Thread,
}

/// Processor time used so far; zeros if the kernel will not say.
pub fn cpu_time(whose: Whose) -> CpuTime {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole rusage, which all-zero bytes initialise even if the call fails.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    CpuTime { system_s: seconds(usage.ru_stime), user_s: seconds(usage.ru_utime) }
}

/// Resident memory of the process, in bytes; 0 if the kernel does not report it.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Resident {
    /// All of it.
    pub bytes: u64,
    /// The part that no file is behind: the heap, stacks, and data that was changed.
    pub anonymous_bytes: u64,
}

/// The process' resident memory.
pub fn resident() -> Resident {
    // The second number of proc(5)'s statm is all that is resident, the third what files or shared mappings
    // back.
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|pages| pages.parse::<u64>().unwrap_or(0));
    let (all, with_file) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    let page_bytes = rustix::param::page_size() as u64;
    Resident { bytes: all * page_bytes, anonymous_bytes: all.saturating_sub(with_file) * page_bytes }
}

/// Resident bytes of the process; 0 if the kernel will not say.
pub fn resident_bytes() -> u64 {
    resident().bytes
}

/// Bytes of memory that the machine has.
pub fn system_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}
