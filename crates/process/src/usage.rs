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

/// Resident bytes of the process; 0 if the kernel will not say.
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Bytes of memory that the machine has.
pub fn system_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}
