//! The process around the server: background, pid file, limits, scores, title, signals, supervisors.
//!
//! Invariant: nothing here knows of clients or data; steps that must precede the first thread (going to the
//! background, taking over the title's memory) assert that there is none.

mod background;
mod crash;
mod limits;
mod notify;
mod oom;
mod pages;
mod signals;
mod system;
mod title;
mod usage;

pub use background::PidFile;
pub use crash::{
    Cause, Signal, Trace, alarm, end_after_panic, guard_thread, other_traces, segfault, this_thread,
    trace_here, watch_crashes,
};
pub use limits::{OpenFiles, RESERVED_FILES, adjust_open_files, backlog_warning, system_warnings};
pub use notify::{Supervisor, find_supervisor};
pub use oom::OomScore;
pub use pages::release_program_pages;
pub use signals::{ShutdownSignal, exit_at_once, ignore_hangups, watch_signals};
pub use system::{LocalTime, Syslog, local_time};
pub use system::{process_umask, set_socket_owner, stop_process};
pub use title::{ProcessTitle, title_text};
pub use usage::{CpuTime, Resident, Whose, cpu_time, resident, resident_bytes, system_memory_bytes};
