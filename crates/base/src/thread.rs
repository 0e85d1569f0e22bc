//! What a thread asks of the kernel for itself.

/// Marks the calling thread as one that has time: waking it does not interrupt whoever runs on its core, though it gets its fair
/// share (`SCHED_BATCH`). For threads that work for those which serve clients, on what may be the same core. Where the
/// kernel refuses, the thread stays as it is.
pub fn give_way() {
    #[cfg(target_os = "linux")]
    // SAFETY: an all-zero `sched_param` is valid (some libraries give it more fields), and it is read during the call only.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters);
    }
}
