//! Calls to the operating system that no safe crate offers.
//!
//! Invariant: no call here needs more of its arguments than their types say.

use std::ffi::CString;
use std::io;
use std::path::Path;

use martlet_config::SyslogFacility;

/// Ignores a signal.
pub(super) fn ignore_signal(signal: libc::c_int) {
    // SAFETY: SIG_IGN runs no code here, and these signals are not ones that Rust's runtime handles
    // otherwise.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Stops the process, with all of its threads, until another one has it continue (SIGCONT).
pub fn stop_process() {
    raise(libc::SIGSTOP);
}

/// Sends the process itself a signal.
pub(super) fn raise(signal: libc::c_int) {
    // SAFETY: raise only affects the calling process.
    unsafe { libc::raise(signal) };
}

/// The mode bits that new files do not get. Reads it by setting it, so it must run before any thread.
pub fn process_umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

/// Gives a Unix socket's file its mode and group; zero and none leave them.
pub fn set_socket_owner(path: &Path, mode: u32, group: Option<&str>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if mode != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    match group {
        Some(group) => std::os::unix::fs::chown(path, None, Some(group_id(group)?)),
        None => Ok(()),
    }
}

/// The number of a group, given by name or number.
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let name = CString::new(group)?;
    let mut entry = std::mem::MaybeUninit::<libc::group>::uninit();
    let mut found = std::ptr::null_mut();
    let mut buffer = vec![0; 64 * 1024];
    // SAFETY: every pointer is valid for the call, and the buffer's length is its own.
    let failed = unsafe {
        libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &mut found)
    };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }
    if found.is_null() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("no group named {group}")));
    }
    // SAFETY: getgrnam_r found an entry, so it filled it in.
    Ok(unsafe { entry.assume_init() }.gr_gid)
}

/// A moment as the wall clock of this machine's time zone shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Full, such as 2026.
    pub year: i32,
    /// From 1.
    pub month: u32,
    /// From 1.
    pub day: u32,
    /// Of the day.
    pub hour: u32,
    /// Of the hour.
    pub minute: u32,
    /// Of the minute.
    pub second: u32,
    /// East of UTC.
    pub offset_seconds: i64,
}

/// The local time of `seconds` since the epoch.
pub fn local_time(seconds: i64) -> LocalTime {
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the call; a zeroed `tm` is valid should the call fail.
    let parts = unsafe {
        libc::localtime_r(&seconds, parts.as_mut_ptr());
        parts.assume_init()
    };
    let part = |value: libc::c_int| value.unsigned_abs();
    LocalTime {
        year: 1900 + parts.tm_year,
        month: 1 + part(parts.tm_mon),
        day: part(parts.tm_mday),
        hour: part(parts.tm_hour),
        minute: part(parts.tm_min),
        second: part(parts.tm_sec),
        offset_seconds: parts.tm_gmtoff,
    }
}

/// An open connection to syslog; it lasts as long as the process.
#[derive(Debug)]
pub struct Syslog(());

impl Syslog {
    /// Opens it under a name, which stays in memory for good.
    pub fn open(ident: &str, facility: SyslogFacility) -> Self {
        let ident = CString::new(ident.replace('\0', "")).unwrap_or_default();
        let facility = match facility {
            SyslogFacility::User => libc::LOG_USER,
            SyslogFacility::Local0 => libc::LOG_LOCAL0,
            SyslogFacility::Local1 => libc::LOG_LOCAL1,
            SyslogFacility::Local2 => libc::LOG_LOCAL2,
            SyslogFacility::Local3 => libc::LOG_LOCAL3,
            SyslogFacility::Local4 => libc::LOG_LOCAL4,
            SyslogFacility::Local5 => libc::LOG_LOCAL5,
            SyslogFacility::Local6 => libc::LOG_LOCAL6,
            SyslogFacility::Local7 => libc::LOG_LOCAL7,
        };
        let options = libc::LOG_PID | libc::LOG_NDELAY | libc::LOG_NOWAIT;
        // SAFETY: the name is leaked, so it outlives the connection, which keeps the pointer.
        unsafe { libc::openlog(ident.into_raw(), options, facility) };
        Self(())
    }

    /// Writes a message of that priority (`LOG_DEBUG` to `LOG_WARNING`).
    pub fn write(&self, priority: libc::c_int, message: &str) {
        let message = CString::new(message.replace('\0', "")).unwrap_or_default();
        // SAFETY: the format takes one string, and one is given.
        unsafe { libc::syslog(priority, c"%s".as_ptr(), message.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_agrees_with_its_offset() {
        let time = local_time(1_700_000_000);
        let of_day = i64::from(time.hour * 3600 + time.minute * 60 + time.second);
        assert_eq!((1_700_000_000 + time.offset_seconds).rem_euclid(86_400), of_day);
        assert_eq!((time.year, time.month), (2023, 11));
    }

    #[test]
    fn a_socket_gets_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        std::fs::write(&path, "").unwrap();
        set_socket_owner(&path, 0o613, None).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o613);
        assert!(set_socket_owner(&path, 0, Some("no such group")).is_err());
        assert_eq!(group_id("root").unwrap(), 0);
    }
}
