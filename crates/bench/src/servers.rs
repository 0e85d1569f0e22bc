//! Servers that the load tester starts itself: their processes, directories and ports.
//! Invariant: the process and the directory end with the value that stands for them.

use crate::interrupt::interruption;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server process that ends with this value.
pub struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // A server that is gone already needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that is removed with this value.
pub struct Directory(pub PathBuf);

impl Directory {
    /// Makes it inside of `parent`.
    pub fn create(parent: &Path, port: u16) -> Result<Directory, String> {
        let path = parent.join(format!("martlet-bench-{}-{port}", std::process::id()));
        std::fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Files left behind are in a place for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port of this machine without a listener.
pub fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}

/// Starts a server and waits until it answers.
pub fn start(program: &std::ffi::OsStr, arguments: &[String], port: u16) -> Result<Started, String> {
    let shown = program.to_string_lossy().into_owned();
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("{shown}: {e}"))?;
    let mut started = Started(child);
    let limit = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Ok(Some(status)) = started.0.try_wait() {
            return Err(format!("{shown} ended at once: {status}"));
        }
        if Instant::now() > limit {
            return Err(format!("{shown} does not listen on port {port}"));
        }
        interruption().map_or(Ok(()), Err)?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(started)
}

/// Starts a server, a command line, on a port and in a directory, with these options beside its own.
pub fn launch(server: &str, options: &[&str], directory: &Directory, port: u16) -> Result<Started, String> {
    let mut words = server.split_whitespace().map(String::from);
    let program = words.next().ok_or("a server without a program")?;
    let mut arguments: Vec<String> = words.collect();
    arguments.extend(["--port".into(), port.to_string()]);
    arguments.extend(["--dir".into(), directory.0.display().to_string()]);
    arguments.extend(options.iter().map(|&word| word.to_owned()));
    start(program.as_ref(), &arguments, port)
}

/// Waits until no process listens on the port; an error after two minutes.
pub fn await_end(port: u16) -> Result<(), String> {
    let limit = Instant::now() + Duration::from_secs(120);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
        if Instant::now() > limit {
            return Err(format!("the server on port {port} does not end"));
        }
        interruption().map_or(Ok(()), Err)?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
