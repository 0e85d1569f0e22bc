//! A password that is typed: nothing of it is shown but its length.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

/// Puts a terminal back as it was.
struct Restore(Termios);

impl Drop for Restore {
    fn drop(&mut self) {
        // The terminal may be gone by now.
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.0);
    }
}

/// Asks on standard error and reads a line from standard input.
pub fn ask(question: &str) -> io::Result<Vec<u8>> {
    let mut shown = io::stderr();
    write!(shown, "{question}")?;
    let stdin = io::stdin();
    let _restore = tcgetattr(stdin.as_fd()).ok().map(|before| {
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        // Where it cannot be set nothing is a terminal, and nothing is shown.
        let _ = tcsetattr(stdin.as_fd(), OptionalActions::Now, &quiet);
        Restore(before)
    });
    let masks = _restore.is_some();
    let password = read_line(&mut stdin.lock(), |stars| {
        if masks {
            // The shown stars are not part of the password.
            let _ = write!(shown, "{stars}").and_then(|()| shown.flush());
        }
    })?;
    eprintln!();
    Ok(password)
}

/// Reads up to the end of the line; `show` draws a star for each letter, and removes it when that is taken
/// back.
fn read_line(input: &mut impl Read, mut show: impl FnMut(&str)) -> io::Result<Vec<u8>> {
    let mut password = Vec::new();
    let mut byte = [0];
    while input.read(&mut byte)? == 1 {
        match byte {
            [b'\n' | b'\r' | 4] => break,
            [8 | 127] => {
                while password.pop().is_some_and(|byte: u8| byte & 0xc0 == 0x80) {}
                show("\u{8} \u{8}");
            }
            [byte] => {
                password.push(byte);
                if byte & 0xc0 != 0x80 {
                    show("*");
                }
            }
        }
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_and_letters_are_taken_back() {
        let mut stars = String::new();
        let line = read_line(&mut "sé\u{7f}ecret\nmore".as_bytes(), |text| stars.push_str(text));
        assert_eq!(line.expect("reads"), b"secret");
        assert_eq!(stars.matches('*').count(), 7);
    }
}
