//! A terminal for tests: a pseudo-terminal, and a screen that shows the program's drawing.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Longest time until a screen shows the expected text, on a machine with much other work.
const PATIENCE: Duration = Duration::from_secs(60);

type Shown = Arc<(Mutex<vt100::Parser>, Condvar)>;

/// A program at a terminal.
pub struct Terminal {
    child: Child,
    keys: File,
    shown: Shown,
}

fn count(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

fn open(rows: u16, columns: u16) -> (OwnedFd, OwnedFd) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut outside, mut inside) = (-1, -1);
    // SAFETY: the numbers and the size live during the call; names and modes are not asked for.
    let opened = unsafe {
        libc::openpty(
            &raw mut outside,
            &raw mut inside,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(opened, 0, "no pseudo-terminal");
    // SAFETY: a child must not inherit the outer side, or it never ends.
    unsafe { libc::fcntl(outside, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: both were just opened and have no other owner.
    unsafe { (OwnedFd::from_raw_fd(outside), OwnedFd::from_raw_fd(inside)) }
}

impl Terminal {
    /// Starts a program at a terminal of this many rows and columns.
    pub fn start(mut command: Command, rows: u16, columns: u16) -> Terminal {
        let (outside, inside) = open(rows, columns);
        let copy = || inside.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(copy());
        // SAFETY: between fork and exec only two system calls, which take the terminal of standard input.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop((command, inside));
        let shown: Shown =
            Arc::new((Mutex::new(vt100::Parser::new(count(rows), count(columns), 1000)), Condvar::new()));
        let (mut screen, keys) = (File::from(outside.try_clone().unwrap()), File::from(outside));
        let drawn = shown.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Ends with an error when the program has ended.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                drawn.0.lock().unwrap().process(&bytes[..count]);
                drawn.1.notify_all();
            }
        });
        Terminal { child, keys, shown }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// The text on the screen.
    pub fn text(&self) -> String {
        self.shown.0.lock().unwrap().screen().contents()
    }

    /// Waits until the screen is as it shall be.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut parser = self.shown.0.lock().unwrap();
        while !is_so(parser.screen()) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what} on the screen:\n{}", parser.screen().contents());
            parser = self.shown.1.wait_timeout(parser, left).unwrap().0;
        }
    }

    /// Waits until the screen shows a text.
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contents().contains(text));
    }

    /// Waits until the last line that is not empty is this one.
    pub fn wait_for_last(&self, line: &str) {
        self.wait_until(line, |screen| screen.contents().trim_end().lines().last() == Some(line.trim_end()));
    }

    /// The colour of a text's first cell, where the screen shows it last.
    pub fn color_of(&self, text: &str) -> vt100::Color {
        let parser = self.shown.0.lock().unwrap();
        let screen = parser.screen();
        let columns = screen.size().1.get();
        let found = screen
            .rows(0, columns)
            .enumerate()
            .filter_map(|(row, line)| Some((row, line.find(text)?)))
            .last();
        let (row, column) = found.unwrap_or_else(|| panic!("no {text} in {}", screen.contents()));
        screen.cell(row as u16, column as u16).unwrap().fgcolor()
    }

    /// Waits for the program's end.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
