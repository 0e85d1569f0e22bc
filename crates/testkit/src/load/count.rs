//! Counts whole replies in a stream without building them.

/// The missing parts of the reply at hand.
#[derive(Default)]
pub struct Counter {
    /// Elements missing of the reply at hand; none: the next byte opens a reply.
    elements: u64,
    /// Bytes missing of the string at hand, its CRLF included.
    payload: usize,
}

/// The content of a stretch of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Replies that ended in it.
    pub replies: u64,
    /// Errors among them.
    pub errors: u64,
    /// Bytes that were used; the rest is the start of a line whose end is not there yet.
    pub consumed: usize,
}

impl Counter {
    /// Reads on; the caller keeps the bytes that were not consumed and passes them again with more behind
    /// them.
    pub fn read(&mut self, bytes: &[u8]) -> Counted {
        let mut counted = Counted::default();
        loop {
            let rest = &bytes[counted.consumed..];
            if self.payload > 0 {
                let step = self.payload.min(rest.len());
                self.payload -= step;
                counted.consumed += step;
                if self.payload > 0 {
                    return counted;
                }
                self.element_ended(&mut counted);
                continue;
            }
            let Some(end) = rest.iter().position(|&byte| byte == b'\n') else { return counted };
            counted.consumed += end + 1;
            let number = number_of(rest.get(1..end.saturating_sub(1)).unwrap_or_default());
            if self.elements == 0 {
                self.elements = 1;
                counted.errors += u64::from(rest[0] == b'-');
            }
            match rest[0] {
                b'$' | b'=' if number >= 0 => self.payload = number as usize + 2,
                b'*' | b'~' | b'>' if number > 0 => self.elements += number as u64 - 1,
                b'%' if number > 0 => self.elements += 2 * number as u64 - 1,
                _ => self.element_ended(&mut counted),
            }
        }
    }

    fn element_ended(&mut self, counted: &mut Counted) {
        self.elements -= 1;
        counted.replies += u64::from(self.elements == 0);
    }
}

fn number_of(digits: &[u8]) -> i64 {
    let (negative, digits) = match digits.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, digits),
    };
    let number = digits.iter().fold(0_i64, |number, digit| {
        number.wrapping_mul(10).wrapping_add(i64::from(digit.wrapping_sub(b'0')))
    });
    if negative { -number } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_count() {
        let wire = b"+OK\r\n$5\r\na\r\nbc\r\n$-1\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n*0\r\n-ERR x\r\n%1\r\n+a\r\n:1\r\n$0\r\n\r\n:-5\r\n";
        for cut in 0..wire.len() {
            let mut counter = Counter::default();
            let first = counter.read(&wire[..cut]);
            let second = counter.read(&wire[first.consumed..]);
            assert_eq!(first.replies + second.replies, 9, "cut at {cut}");
            assert_eq!(first.errors + second.errors, 1);
            assert_eq!(first.consumed + second.consumed, wire.len());
        }
    }
}
