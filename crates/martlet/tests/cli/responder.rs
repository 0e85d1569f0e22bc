//! A server with scripted replies: `REPLY HEX` is answered by those bytes, `CLOSE` by the end of the
//! connection, HELLO and COMMAND as by a server of RESP3, everything else by `+OK`.

use martlet_client::parts::{PartReader, ReplyBuilder};
use martlet_client::resp::Reply;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Starts it; gives its port. It serves for as long as the test runs.
pub(super) fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    port
}

/// A reply's bytes as the word that asks for it.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap() as u8;
    text.chunks(2).map(|pair| digit(&pair[0]) * 16 + digit(&pair[1])).collect()
}

fn serve(mut stream: TcpStream) {
    let (mut reader, mut builder, mut buffer) = (PartReader::default(), ReplyBuilder::default(), [0; 65536]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let fed = reader.feed(rest, |part| builder.add(part)).unwrap();
            rest = &rest[fed.used_bytes..];
            if !fed.is_whole {
                continue;
            }
            let Some(Reply::Array(words)) = std::mem::take(&mut builder).finish() else { return };
            let words: Vec<&[u8]> = words.iter().filter_map(Reply::text).collect();
            let answer = match words.as_slice() {
                [b"REPLY", hex, ..] => unhex(hex),
                [b"CLOSE"] => return,
                [b"HELLO", ..] => b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec(),
                [b"COMMAND", ..] => b"-ERR unknown command\r\n".to_vec(),
                _ => b"+OK\r\n".to_vec(),
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    }
}
