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

/// The clock of one thread's processor time, which every thread can read.
#[derive(Copy, Clone, Debug)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// The clock of the calling thread; `None` where there is none.
    pub fn of_this_thread() -> Option<CpuClock> {
        if cfg!(miri) {
            return None;
        }
        let mut clock = 0;
        // SAFETY: the calling thread lives, and `clock` is written during the call only.
        let refused = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        (refused == 0).then_some(CpuClock(clock))
    }

    /// The thread's processor time so far, in nanoseconds; 0 once it has ended. A system call.
    pub fn ns(self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes to `time` during the call only; the number of an ended thread's clock is refused.
        unsafe { libc::clock_gettime(self.0, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no clock of processor time")]
    fn another_threads_clock_counts_that_threads_work() {
        let (send, receive) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            let clock = CpuClock::of_this_thread().unwrap();
            let begun = clock.ns();
            while cpu_ns() - begun < 2_000_000 {}
            send.send((clock, clock.ns())).unwrap();
            stopped.recv().unwrap_err();
        });
        let (clock, so_far) = receive.recv().unwrap();
        assert!(so_far >= 2_000_000 && clock.ns() >= so_far);
        drop(stop);
        worker.join().unwrap();
        let _ = clock.ns();
    }
}
