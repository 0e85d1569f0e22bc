//! A snapshot on its way over the link: bytes in, the snapshot's bytes out.
//!
//! ```text
//! "\n"*  "$" length "\r\n" bytes            as many as were announced
//! "\n"*  "$EOF:" mark "\r\n" bytes mark     up to a mark of 40 characters that the primary has drawn
//! ```
//!
//! Invariant: no byte of the stream behind it is taken, and none of the mark is handed out.

use memchr::memmem;

/// Characters of the mark.
const MARK_BYTES: usize = 40;
/// Bytes that the line before the snapshot may have.
const LINE_MAX_BYTES: usize = 64 * 1024;

/// How the end is known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Not known yet: the line before the snapshot is still to come.
    Announced,
    /// This number of bytes is still to come.
    Sized(u64),
    /// This mark is at the end.
    Marked([u8; MARK_BYTES]),
    /// It is behind.
    Ended,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Transfer {
    state: State,
    /// The announced length.
    total: Option<u64>,
}

impl Default for Transfer {
    fn default() -> Transfer {
        Transfer { state: State::Announced, total: None }
    }
}

impl Transfer {
    /// The length of the snapshot, if that was announced.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Whether the line before the snapshot has come.
    pub fn has_begun(&self) -> bool {
        self.state != State::Announced
    }

    /// Whether all of it has come.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Moves the snapshot's bytes from `received` to `out`.
    ///
    /// # Errors
    /// The primary does not send one; a line for the log.
    pub fn receive(&mut self, received: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), String> {
        while self.state == State::Announced {
            let Some(end) = memchr::memchr(b'\n', received) else {
                if received.len() > LINE_MAX_BYTES {
                    return Err(bad_line(&received[..MARK_BYTES]));
                }
                return Ok(());
            };
            let line: Vec<u8> = received.drain(..=end).collect();
            self.begin(line.trim_ascii_end())?;
        }
        match &mut self.state {
            State::Sized(left) => {
                let taken = (*left).min(received.len() as u64);
                *left -= taken;
                let is_whole = *left == 0;
                out.extend(received.drain(..taken as usize));
                if is_whole {
                    self.state = State::Ended;
                }
            }
            State::Marked(mark) => match memmem::find(received, mark) {
                Some(end) => {
                    out.extend(received.drain(..end));
                    received.drain(..MARK_BYTES);
                    self.state = State::Ended;
                }
                // The last bytes may be the mark's first.
                None => {
                    let most = received.len().min(MARK_BYTES - 1);
                    let begun = (0..=most).rev().find(|&count| received.ends_with(&mark[..count]));
                    out.extend(received.drain(..received.len() - begun.unwrap_or(0)));
                }
            },
            State::Announced | State::Ended => {}
        }
        Ok(())
    }

    fn begin(&mut self, line: &[u8]) -> Result<(), String> {
        match line {
            [] => {}
            [b'-', error @ ..] => {
                let error = String::from_utf8_lossy(error);
                return Err(format!("MASTER aborted replication with an error: {error}"));
            }
            [b'$', b'E', b'O', b'F', b':', mark @ ..] => {
                self.state = State::Marked(mark.try_into().map_err(|_| bad_line(line))?);
            }
            [b'$', length @ ..] => {
                let length = std::str::from_utf8(length).ok().and_then(|length| length.parse::<u64>().ok());
                self.total = Some(length.ok_or_else(|| bad_line(line))?);
                self.state = State::Sized(self.total.unwrap_or(0));
            }
            _ => return Err(bad_line(line)),
        }
        Ok(())
    }
}

fn bad_line(line: &[u8]) -> String {
    let shown = line[..line.len().min(MARK_BYTES)].escape_ascii();
    format!(
        "Bad protocol from MASTER, the first byte is not '$' (we received '{shown}'), are you sure the host and port are right?"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARK: &[u8; 40] = b"aabbccddeeffaabbccddeeffaabbccddeeffaabb";

    /// The snapshot in `input`, received in pieces, and the rest.
    fn receive(input: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>, bool), String> {
        let (mut transfer, mut received, mut out) = (Transfer::default(), Vec::new(), Vec::new());
        for bytes in input.chunks(piece) {
            received.extend_from_slice(bytes);
            transfer.receive(&mut received, &mut out)?;
        }
        Ok((out, received, transfer.has_ended()))
    }

    #[test]
    fn both_kinds_end_where_the_stream_goes_on() {
        for piece in [1, 7, 39, 40, 41, 1000] {
            let sized = b"\n\n$5\r\nabcdePING";
            assert_eq!(receive(sized, piece), Ok((b"abcde".to_vec(), b"PING".to_vec(), true)));
            // The payload ends with the mark's own first characters.
            let marked = [b"\n$EOF:".as_slice(), MARK, b"\r\nxaabbcc", MARK, b"PING"].concat();
            assert_eq!(receive(&marked, piece), Ok((b"xaabbcc".to_vec(), b"PING".to_vec(), true)));
        }
        assert_eq!(receive(b"$0\r\n", 9), Ok((vec![], vec![], true)));
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        assert_eq!(
            receive(b"-ERR no\r\n", 3),
            Err("MASTER aborted replication with an error: ERR no".into())
        );
        for bad in [b"HTTP\r\n".as_slice(), b"$-1\r\n", b"$x\r\n", b"$EOF:short\r\n", &[b'x'; 70_000]] {
            assert!(receive(bad, 100).unwrap_err().starts_with("Bad protocol from MASTER"));
        }
    }

    proptest! {
        #[test]
        fn any_fragmentation_comes_to_the_same(payload in prop::collection::vec(b"ab"[0]..=b'f', 0..300), piece in 1usize..90) {
            let marked = [b"$EOF:".as_slice(), MARK, b"\r\n", &payload, MARK].concat();
            prop_assert_eq!(receive(&marked, piece), Ok((payload, vec![], true)));
        }
    }
}
