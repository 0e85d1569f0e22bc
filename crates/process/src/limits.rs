//! The limit of open files, and warnings about the machine's settings.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the server opens besides its clients: listening sockets, rings, logs, data.
pub const RESERVED_FILES: u64 = 32;

/// The outcome of the request for this number of open files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// The clients that the limit allows: the wish, or fewer.
    pub maxclients: u32,
    /// What to log at notice level.
    pub notices: Vec<String>,
    /// What to log at warning level.
    pub warnings: Vec<String>,
}

/// Raises the limit of open files so that `maxclients` fit, or finds out how many do.
///
/// # Errors
/// The message, when the limit does not even suffice for the server itself.
pub fn adjust_open_files(maxclients: u32) -> Result<OpenFiles, String> {
    let limit = getrlimit(Resource::Nofile);
    let unlimited = u64::MAX;
    let old = limit.current.unwrap_or(unlimited);
    let mut refusal = None;
    let best = raise(old, u64::from(maxclients) + RESERVED_FILES, |wanted| {
        // Raising the hard limit takes a privilege: keep the higher one where that is enough.
        let hard = limit.maximum.map(|hard| hard.max(wanted));
        let set = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: hard });
        refusal = set.err().or(refusal);
        set.is_ok()
    });
    let refusal = refusal.map(|error| martlet_base::disk::error_text(&error.into()));
    outcome(maxclients, old, best, refusal.as_deref().unwrap_or("unknown error"))
}

/// The highest limit up to `wanted` that `set` takes, or `old`.
fn raise(old: u64, wanted: u64, mut set: impl FnMut(u64) -> bool) -> u64 {
    if wanted <= old || set(wanted) {
        return wanted.max(old);
    }
    // A refused limit means that every higher one is refused, too: halve the interval.
    let (mut allowed, mut refused) = (old, wanted);
    while refused - allowed > 1 {
        let middle = allowed + (refused - allowed) / 2;
        if set(middle) { allowed = middle } else { refused = middle }
    }
    allowed
}

/// What to say when the limit was `old` and is `best` now. The messages are Redis'.
fn outcome(maxclients: u32, old: u64, best: u64, refusal: &str) -> Result<OpenFiles, String> {
    let wanted = u64::from(maxclients) + RESERVED_FILES;
    let mut files = OpenFiles { maxclients, notices: Vec::new(), warnings: Vec::new() };
    if old >= wanted {
        return Ok(files);
    }
    if best >= wanted {
        files.notices.push(format!(
            "Increased maximum number of open files to {wanted} (it was originally set to {old})."
        ));
        return Ok(files);
    }
    if best <= RESERVED_FILES {
        return Err(format!(
            "Your current 'ulimit -n' of {old} is not enough for the server to start. Please increase your open file limit to \
             at least {wanted}. Exiting."
        ));
    }
    // `best` is below `maxclients` + 32 here, so it fits.
    files.maxclients = u32::try_from(best - RESERVED_FILES).unwrap_or(maxclients);
    files.warnings = vec![
        format!("You requested maxclients of {maxclients} requiring at least {wanted} max file descriptors."),
        format!("Server can't set maximum open files to {wanted} because of OS error: {refusal}."),
        format!(
            "Current maximum open files is {best}. maxclients has been reduced to {} to compensate for low ulimit. If you need \
             higher maxclients increase 'ulimit -n'.",
            files.maxclients
        ),
    ];
    Ok(files)
}

/// The warning for a backlog that the kernel cuts.
pub fn backlog_warning(tcp_backlog: u32) -> Option<String> {
    let most: u32 = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?.trim().parse().ok()?;
    (most > 0 && most < tcp_backlog).then(|| {
        format!(
            "WARNING: The TCP backlog setting of {tcp_backlog} cannot be enforced because /proc/sys/net/core/somaxconn is set \
             to the lower value of {most}."
        )
    })
}

/// Warnings about settings of the machine that harm a server which keeps its data in memory.
///
/// Overcommit and huge pages, of which Redis warns, do not matter here: nothing forks.
pub fn system_warnings() -> Vec<String> {
    let clock = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let is_slow = clock.is_ok_and(|clock| clock.trim() == "xen");
    let warning = "WARNING Your system is configured to use the 'xen' clocksource which might lead to degraded performance. Use \
                   'tsc' instead: echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
    is_slow.then(|| warning.to_string()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_highest_limit_that_is_allowed() {
        let allowed = |most: u64| move |wanted: u64| wanted <= most;
        assert_eq!(raise(1024, 10_032, allowed(u64::MAX)), 10_032);
        assert_eq!(raise(1024, 10_032, allowed(4096)), 4096);
        assert_eq!(raise(1024, 1 << 60, allowed(4100)), 4100);
        assert_eq!(raise(1024, 10_032, allowed(1000)), 1024);
        assert_eq!(raise(20_000, 10_032, allowed(0)), 20_000);
    }

    #[test]
    fn says_what_redis_says() {
        let files = outcome(10_000, 1024, 10_032, "").unwrap();
        let notice = "Increased maximum number of open files to 10032 (it was originally set to 1024).";
        assert_eq!((files.maxclients, files.notices, files.warnings), (10_000, vec![notice.into()], vec![]));
        assert_eq!(outcome(10, 1024, 1024, "").unwrap().notices, Vec::<String>::new());
        let files = outcome(10_000, 1024, 4096, "Operation not permitted").unwrap();
        assert_eq!((files.maxclients, files.warnings.len()), (4064, 3));
        assert_eq!(
            files.warnings[1],
            "Server can't set maximum open files to 10032 because of OS error: Operation not permitted."
        );
        assert!(
            outcome(10_000, 32, 32, "")
                .unwrap_err()
                .starts_with("Your current 'ulimit -n' of 32 is not enough")
        );
    }
}
