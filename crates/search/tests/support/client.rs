//! A client of the oracle that reads texts and errors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).expect("the oracle listens");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a timeout is set");
        Client { stream: BufReader::new(stream) }
    }

    /// The reply: texts as they are, errors behind a `-`, an array's items a line each.
    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments.iter().map(AsRef::as_ref) {
            request.extend(format!("${}\r\n", argument.len()).into_bytes());
            request.extend(argument);
            request.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).expect("the oracle reads");
        self.read()
    }

    fn read(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("the oracle answers");
        let line =
            line.strip_suffix(b"\r\n").expect("a whole line; an oracle that crashed sends none").to_vec();
        let count = || String::from_utf8_lossy(&line[1..]).parse::<i64>().expect("a length");
        match line.first() {
            Some(b'$') if count() >= 0 => {
                let mut bytes = vec![0; count() as usize + 2];
                self.stream.read_exact(&mut bytes).expect("a bulk string");
                bytes.truncate(bytes.len() - 2);
                bytes
            }
            Some(b'*') if count() >= 0 => (0..count()).map(|_| self.read()).collect::<Vec<_>>().join(&b'\n'),
            Some(b'+' | b':') => line[1..].to_vec(),
            _ => line,
        }
    }
}
