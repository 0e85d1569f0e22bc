//! Which lines a server's threads touch, from valgrind's tool `lackey`: every load and store in program
//! order. The kernel's accesses are not among them.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::model::{Access, LINE_SHIFT};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A process under valgrind, whose accesses are read all the time and kept on demand.
pub struct Traced {
    child: Child,
    keeps: Arc<AtomicBool>,
    reader: Option<JoinHandle<HashMap<u32, Vec<Access>>>>,
    _directory: tempfile::TempDir,
}

impl Traced {
    /// Starts a program.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Traced> {
        let directory = tempfile::tempdir()?;
        let pipe = directory.path().join("trace");
        if !Command::new("mkfifo").arg(&pipe).status()?.success() {
            return Err("mkfifo has failed".into());
        }
        let child = Command::new("valgrind")
            .args(["--tool=lackey", "--basic-counts=no", "--trace-mem=yes", "--trace-sched=yes"])
            .arg(format!("--log-file={}", pipe.display()))
            .arg(program)
            .args(arguments)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("valgrind: {error}"))?;
        let keeps = Arc::new(AtomicBool::new(false));
        let kept = keeps.clone();
        let lines = BufReader::with_capacity(1 << 20, std::fs::File::open(&pipe)?);
        let reader = std::thread::spawn(move || read(lines, &kept));
        Ok(Traced { child, keeps, reader: Some(reader), _directory: directory })
    }

    /// Keeps accesses from now on, or does not.
    pub fn keep(&self, keeps: bool) {
        self.keeps.store(keeps, Ordering::Relaxed);
    }

    /// Where the program's text has been loaded: what instructions' addresses are above those in the file.
    pub fn text_base(&self, program: &Path) -> Option<u64> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).ok()?;
        let name = program.to_str()?;
        let line = maps.lines().find(|line| line.ends_with(name))?;
        u64::from_str_radix(line.split('-').next()?, 16).ok()
    }

    /// Ends the process; the kept accesses of each thread, by valgrind's number of it.
    pub fn end(mut self) -> Result<HashMap<u32, Vec<Access>>> {
        self.child.kill()?;
        self.child.wait()?;
        let reader = self.reader.take().ok_or("it is read once")?;
        reader.join().map_err(|_| "the reader of the trace has failed".into())
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut lines: impl BufRead, keeps: &AtomicBool) -> HashMap<u32, Vec<Access>> {
    let mut threads: HashMap<u32, Vec<Access>> = HashMap::new();
    let (mut thread, mut code, mut line) = (0, 0, Vec::new());
    while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        if let Some(running) = running_thread(&line) {
            thread = running;
        } else if let Some(address) = line.strip_prefix(b"I  ").and_then(address) {
            code = address;
        } else if keeps.load(Ordering::Relaxed)
            && let Some(access) = access(&line, code)
        {
            let of_thread = threads.entry(thread).or_default();
            // A write is worth more than a read of the same line right before it.
            match of_thread.last_mut() {
                Some(last) if last.line == access.line => {
                    last.code = if last.is_write { last.code } else { access.code };
                    last.is_write |= access.is_write;
                }
                _ => of_thread.push(access),
            }
        }
        line.clear();
    }
    threads
}

/// The thread that a line of the scheduler says to run.
fn running_thread(line: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, rest) = text.split_once("SCHED[")?;
    let (number, event) = rest.split_once(']')?;
    event.contains(" acquired lock").then(|| number.parse().ok())?
}

/// A load (`L`), a store (`S`) or both (`M`): ` S 04222cac,4`.
fn access(line: &[u8], code: u64) -> Option<Access> {
    let (kind, rest) = match line {
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
        _ => return None,
    };
    Some(Access { line: address(rest)? >> LINE_SHIFT, is_write: kind != b'L', code })
}

/// The address before a comma.
fn address(text: &[u8]) -> Option<u64> {
    let (address, _) = std::str::from_utf8(text).ok()?.split_once(',')?;
    u64::from_str_radix(address, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_trace_become_accesses_of_the_running_thread() {
        let text = b"==12== Lackey\n--12--   SCHED[1]:  acquired lock (VG_(scheduler))\nI  0400,3\n L 1000,8\n \
                     S 1008,4\n--12--   SCHED[1]: releasing lock (timeslice)\n--12--   SCHED[3]:  acquired lock \
                     (x)\n M ffefff040,8\n L zz,8\n";
        let threads = read(&text[..], &AtomicBool::new(true));
        assert_eq!(threads.len(), 2);
        assert_eq!(threads[&1], [Access { line: 0x40, is_write: true, code: 0x400 }]);
        assert_eq!(threads[&3], [Access { line: 0x3ffb_ffc1, is_write: true, code: 0x400 }]);
        assert!(read(&text[..], &AtomicBool::new(false)).is_empty());
    }
}
