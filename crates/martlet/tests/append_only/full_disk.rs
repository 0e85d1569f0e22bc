//! A disk that takes no more: files that may not grow, and a file system that is full.

use std::fs;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use martlet_testkit::small_disk::SmallDisk;
use tempfile::TempDir;

use super::{OURS, ask_until, run, start};

/// How large files may become that a process writes, in bytes.
pub fn limit_files(server: &Server, bytes: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let pid = Pid::from_raw(server.pid() as i32);
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// A disk that gets full: for real, or, without a small one, as far as one process can tell whose files may
/// not grow.
struct Disk {
    // Unmounted before the directory is removed.
    small: Option<SmallDisk>,
    directory: TempDir,
}

impl Disk {
    /// The kinds that there are here.
    fn all() -> Vec<Disk> {
        let directory = tempfile::tempdir().unwrap();
        let files = directory.path().join("appendonlydir");
        fs::create_dir(&files).unwrap();
        let small = SmallDisk::mount(&files, 32 << 20).map(|small| Disk { small: Some(small), directory });
        let limit = Disk { small: None, directory: tempfile::tempdir().unwrap() };
        [limit].into_iter().chain(small).collect()
    }

    /// Why it refuses.
    fn reason(&self) -> &'static str {
        if self.small.is_some() { "No space left on device" } else { "File too large" }
    }

    /// Bytes of each of [`WRITES`]: some of them fit. On the small disk they also exceed the space reserved
    /// for the file.
    fn value_bytes(&self) -> usize {
        if self.small.is_some() { 250_000 } else { 1000 }
    }

    fn tighten(&self, server: &Server) {
        match &self.small {
            None => limit_files(server, Some(20_000)),
            Some(disk) => disk.leave(7 << 20).unwrap(),
        }
    }

    fn free(&self, server: &Server) {
        match &self.small {
            None => limit_files(server, None),
            Some(disk) => disk.free().unwrap(),
        }
    }

    fn start(&self, policy: &str) -> Server {
        start(OURS, self.directory.path(), &["--appendfsync", policy]).unwrap()
    }

    /// Fills the disk with keys `k0` and so on; the client that has sent them, and has read no reply yet.
    fn fill(&self, server: &Server) -> Client {
        write_and_wait(server, "before", "1");
        self.tighten(server);
        let mut writer = Client::connect(server.address()).unwrap();
        let value = "v".repeat(self.value_bytes());
        for i in 0..WRITES {
            writer.send(&["SET", &format!("k{i}"), &value]).unwrap();
        }
        ask_until(server, "INFO persistence", "aof_last_write_status:err");
        writer
    }

    /// Which of the keys that [`Disk::fill`] has written are there, each as a whole.
    fn kept(&self, server: &Server) -> Vec<bool> {
        assert_eq!(run(server, 0, "GET before").text(), Some(b"1".as_slice()));
        let length = |i| run(server, 0, &format!("STRLEN k{i}")).integer().unwrap() as usize;
        (0..WRITES)
            .map(length)
            .map(|length| {
                assert!(length == 0 || length == self.value_bytes(), "{length}");
                length > 0
            })
            .collect()
    }

    /// How many they are, which are the first.
    fn kept_count(&self, server: &Server) -> usize {
        let kept = self.kept(server);
        assert!(kept.is_sorted_by_key(|is_kept| !is_kept), "{kept:?}");
        kept.into_iter().filter(|&is_kept| is_kept).count()
    }
}

/// Writes, and waits until that and all before it is on disk.
fn write_and_wait(server: &Server, key: &str, value: &str) {
    let mut client = Client::connect(server.address()).unwrap();
    assert!(!client.command(&["SET", key, value]).unwrap().is_error());
    let on_disk = client.command(&["WAITAOF", "1", "0", "0"]).unwrap();
    assert_eq!(on_disk.items().unwrap()[0].integer(), Some(1));
}

const WRITES: usize = 40;

#[test]
fn a_full_disk_refuses_writes_and_loses_none_that_it_took() {
    for policy in ["always", "everysec"] {
        for disk in Disk::all() {
            let server = disk.start(policy);
            let mut writer = disk.fill(&server);
            let refusal = format!("MISCONF Errors writing to the AOF file: {}", disk.reason());
            // A write that came before the refusal was known would not be answered, since the disk has not
            // taken it.
            ask_until(&server, "SET probe 1", &refusal);
            ask_until(&server, "PING", "MISCONF");
            ask_until(&server, "GET before", "1");
            disk.free(&server);
            ask_until(&server, "SET probe 2", "OK");
            let mut is_taken = || match writer.read_reply().unwrap() {
                Reply::Error(text) => {
                    assert!(text.starts_with(refusal.as_bytes()), "{text:?}");
                    false
                }
                reply => reply.text() == Some(b"OK"),
            };
            let taken: Vec<bool> = (0..WRITES).map(|_| is_taken()).collect();
            assert!(taken[0]);
            let has_logged = |text: &str| server.logged(text, 1) > 0;
            let are_logged = has_logged("Error writing to the AOF file") && has_logged("looks solved");
            assert!(are_logged, "{}", server.log());
            // With `always` every answered write is on disk, however the process ends; otherwise the writes
            // that WAITAOF confirms.
            if policy != "always" {
                write_and_wait(&server, "probe", "2");
            }
            drop(server);
            let server = disk.start(policy);
            assert_eq!(disk.kept(&server), taken, "{policy}");
            assert_eq!(run(&server, 0, "GET probe").text(), Some(b"2".as_slice()));
        }
    }
}

#[test]
fn what_a_full_disk_did_not_take_was_not_answered() {
    for disk in Disk::all() {
        let server = disk.start("always");
        let mut writer = disk.fill(&server);
        drop(server);
        let replies = writer.read_to_end().unwrap();
        let answered = replies.windows(5).filter(|bytes| bytes == b"+OK\r\n").count();
        // The small disk is still full: the data is served all the same.
        let server = disk.start("always");
        let kept = disk.kept_count(&server);
        assert!(kept < WRITES && answered <= kept, "{answered} answered, {kept} kept");
        disk.free(&server);
        ask_until(&server, "SET after 1", "OK");
        drop(server);
        let server = disk.start("always");
        assert_eq!(disk.kept_count(&server), kept);
        assert_eq!(run(&server, 0, "GET after").text(), Some(b"1".as_slice()));
    }
}

#[test]
fn of_what_was_answered_before_a_full_disk_was_noticed_a_beginning_is_kept() {
    for disk in Disk::all() {
        let server = disk.start("everysec");
        let writer = disk.fill(&server);
        drop((server, writer));
        let server = disk.start("everysec");
        assert!(disk.kept_count(&server) < WRITES);
    }
}
