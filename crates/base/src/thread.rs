//! A thread's requests to the kernel for itself.

/// Marks the calling thread as one that has time: waking it does not interrupt the thread on its core, though
/// it gets its fair share (`SCHED_BATCH`). For threads that work for those which serve clients, on maybe the
/// same core. Where the kernel refuses, the thread stays as it is.
pub fn use_batch_scheduling() {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: an all-zero `sched_param` is valid (some libraries give it more fields), and it is read during
    // the call only.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters);
    }
}

/// Has the calling thread's sleeps end when they are over, not up to 50 µs later as the kernel would have it.
pub fn minimise_timer_slack() {
    #[cfg(target_os = "linux")]
    // SAFETY: it concerns the calling thread's timers only, and reads no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

/// The processor time of the calling thread so far, in nanoseconds: what passes while others run on its core
/// does not count. A system call.
pub fn cpu_ns() -> u64 {
    if cfg!(miri) {
        return 0;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to `time` during the call only.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
