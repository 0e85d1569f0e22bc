//! A client that sends arguments and reads a reply.

use super::Reply;
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

    pub fn call(&mut self, arguments: &[Vec<u8>]) -> Reply {
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            request.extend(format!("${}\r\n", argument.len()).into_bytes());
            request.extend(argument);
            request.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).expect("the oracle reads");
        self.read()
    }

    pub fn read(&mut self) -> Reply {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("the oracle answers");
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let rest = text.get(1..).unwrap_or_default().to_owned();
        let length = || rest.parse::<i64>().expect("a length");
        match text.chars().next() {
            Some('+') => Reply::Simple(rest),
            Some('-') => Reply::Error(rest),
            Some(':') => Reply::Integer(length()),
            Some('$') if length() >= 0 => {
                let mut bytes = vec![0; length() as usize + 2];
                self.stream.read_exact(&mut bytes).expect("a bulk string");
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            Some('*') if length() >= 0 => Reply::Array((0..length()).map(|_| self.read()).collect()),
            Some('$' | '*') => Reply::Null,
            other => panic!("{other:?} begins no reply"),
        }
    }
}
