//! The kernel's accounts of a process on this machine: CPU time, memory, the sockets that it listens on. A
//! figure that the kernel does not give is absent or 0, never an error.

/// The inode of the socket that listens on a port.
pub fn listening_inode(port: u16) -> Option<u64> {
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(&"0A"), Some(inode)) = (words.get(1), words.get(3), words.get(9)) else {
                continue;
            };
            if local.rsplit_once(':').and_then(|(_, p)| u16::from_str_radix(p, 16).ok()) == Some(port) {
                return inode.parse().ok();
            }
        }
    }
    None
}

/// A process that holds a socket.
pub fn socket_owner(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let Ok(descriptors) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        if descriptors
            .flatten()
            .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|l| l.as_os_str() == wanted.as_str()))
        {
            return Some(pid);
        }
    }
    None
}

/// CPU seconds of a process, user and system, all its threads.
pub fn process_cpu(pid: u32) -> Option<(f64, f64)> {
    let [user, system, ..] = cpu_times(pid)?;
    Some((user, system))
}

/// CPU seconds of a process and of its children that have ended.
pub fn family_cpu(pid: u32) -> Option<f64> {
    Some(cpu_times(pid)?.iter().sum())
}

/// Bytes of memory of a process and its children; shared pages count once.
pub fn family_memory(pid: u32) -> u64 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let all = children.split_whitespace().filter_map(|word| word.parse().ok()).chain([pid]);
    all.map(|pid| named_bytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum()
}

/// CPU seconds of a process in user mode and in the kernel, and the same of its children that have ended.
fn cpu_times(pid: u32) -> Option<[f64; 4]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, spaces and brackets included: fields count from its last bracket.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    // SAFETY: a system call without pointers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let seconds = |index: usize| fields.get(index).and_then(|f| f.parse::<f64>().ok()).map(|t| t / ticks);
    Some([seconds(11)?, seconds(12)?, seconds(13)?, seconds(14)?])
}

/// A size from the kernel's status of a process, such as `VmRSS:`, in bytes; 0 if absent.
pub fn process_bytes(pid: u32, name: &str) -> u64 {
    named_bytes(&format!("/proc/{pid}/status"), name)
}

/// A size that a file of the kernel's gives by name in kilobytes, in bytes; 0 if it does not.
pub fn named_bytes(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_can_be_read() {
        let pid = std::process::id();
        assert!(process_cpu(pid).is_some());
        assert!(process_bytes(pid, "VmRSS:") > 1 << 20);
        assert!(family_cpu(pid) >= process_cpu(pid).map(|(user, system)| user + system));
        assert!(family_memory(pid) > 1 << 20);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        assert_eq!(listening_inode(port).and_then(socket_owner), Some(pid));
    }
}
