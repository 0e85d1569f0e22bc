//! The second connection of a full sync, which its data set comes by: bytes in, bytes out.
//!
//! ```text
//! Redis    AUTH, REPLCONF capa eof rdb-only 1 rdb-channel 1 main-ch-client-id C → PSYNC ? -1 → +FULLRESYNC id offset
//! Valkey   AUTH, REPLCONF capa eof rdb-only 1 rdb-channel 1 version V → SYNC → $ENDOFF:offset id db C
//!          the first connection: REPLCONF set-rdb-client-id C → PSYNC id offset+1 → +CONTINUE id
//! ```
//!
//! Invariant: nothing here waits or reads a clock, and a peer that sends garbage gets an error with a name.

use std::collections::VecDeque;

use martlet_client::resp::encode_request;

use super::handshake::{Dialect, Greeting, Refused, place, take_line, text};

/// The snapshot that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The stream's replication id.
    pub id: String,
    /// Bytes of it before the snapshot.
    pub offset: u64,
    /// The client id of this connection, if the first is to name it.
    pub client: Option<u64>,
}

/// An answer that is awaited.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Step {
    Auth,
    Introduction,
    Place,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct ChannelHandshake {
    dialect: Dialect,
    awaited: VecDeque<Step>,
    received: Vec<u8>,
}

impl ChannelHandshake {
    /// Begins: appends the first output to `out`.
    pub fn begin(dialect: Dialect, greeting: &Greeting, out: &mut Vec<u8>) -> ChannelHandshake {
        let has_auth = greeting.authenticate(out);
        let awaited = if has_auth { vec![Step::Auth, Step::Introduction] } else { vec![Step::Introduction] };
        let mut words: Vec<&[u8]> =
            vec![b"REPLCONF", b"capa", b"eof", b"rdb-only", b"1", b"rdb-channel", b"1"];
        let client = match dialect {
            Dialect::Redis { main_client } => main_client.to_string(),
            Dialect::Valkey => String::new(),
        };
        if !client.is_empty() {
            words.extend([b"main-ch-client-id".as_slice(), client.as_bytes()]);
        }
        let port = greeting.port.to_string();
        words.extend([b"listening-port".as_slice(), port.as_bytes()]);
        if dialect == Dialect::Valkey {
            // Where the second connection names the first, that one has said so.
            words.extend([b"version".as_slice(), greeting.version.as_bytes()]);
            words.extend(greeting.own_capabilities());
        }
        encode_request(&words, out);
        ChannelHandshake { dialect, awaited: awaited.into(), received: Vec::new() }
    }

    /// Takes received bytes, and appends the next output to `out`.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<Begun>, Refused> {
        self.received.extend_from_slice(bytes);
        while let Some(step) = self.awaited.front().copied() {
            let Some(line) = take_line(&mut self.received)? else { return Ok(None) };
            // A primary that prepares a snapshot sends empty lines in that time.
            if line.is_empty() && step == Step::Place {
                continue;
            }
            self.awaited.pop_front();
            match step {
                Step::Auth if line.starts_with(b"-") => {
                    return Err(Refused(format!("Unable to AUTH to master: {}", text(&line))));
                }
                Step::Introduction if line.starts_with(b"-") => {
                    return Err(Refused(format!("Master replied error to replconf: {}", text(&line))));
                }
                Step::Auth => {}
                Step::Introduction => self.ask(out),
                Step::Place => return self.conclude(&text(&line)).map(Some),
            }
        }
        Ok(None)
    }

    /// Received bytes beyond the answers.
    pub fn into_rest(self) -> Vec<u8> {
        self.received
    }

    fn ask(&mut self, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Redis { .. } => encode_request(&[b"PSYNC".as_slice(), b"?", b"-1"], out),
            Dialect::Valkey => encode_request(&[b"SYNC".as_slice()], out),
        }
        self.awaited.push_back(Step::Place);
    }

    fn conclude(&self, line: &str) -> Result<Begun, Refused> {
        let mut words = line.split_ascii_whitespace();
        let begun = match self.dialect {
            Dialect::Redis { .. } => {
                let place = words.next().filter(|word| *word == "+FULLRESYNC");
                let place = place.and_then(|_| self::place(words.next(), words.next()));
                place.map(|(id, offset)| Begun { id, offset, client: None })
            }
            Dialect::Valkey => {
                let offset = words.next().and_then(|word| word.strip_prefix("$ENDOFF:"));
                let place = self::place(words.next(), offset);
                let _db = words.next();
                let client = words.next().and_then(|client| client.parse().ok());
                place.zip(client).map(|((id, offset), client)| Begun { id, offset, client: Some(client) })
            }
        };
        begun.ok_or_else(|| Refused(format!("rdb channel sync failed with error: {line}")))
    }
}

/// Valkey: the first connection asks for the stream after the snapshot that the second has begun to receive.
#[derive(Debug)]
pub struct Resumption {
    id: String,
    offset: u64,
    has_asked: bool,
    received: Vec<u8>,
}

impl Resumption {
    /// Begins: appends the first output to `out`. The second connection's client id is `client`.
    pub fn begin(client: u64, id: &str, offset: u64, out: &mut Vec<u8>) -> Resumption {
        encode_request(&[b"REPLCONF".as_slice(), b"set-rdb-client-id", client.to_string().as_bytes()], out);
        Resumption { id: id.into(), offset, has_asked: false, received: Vec::new() }
    }

    /// Takes received bytes, and appends the next output to `out`; returns whether the stream follows.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Refused> {
        self.received.extend_from_slice(bytes);
        while let Some(line) = take_line(&mut self.received)? {
            if line.is_empty() {
                continue;
            }
            let line = text(&line);
            if self.has_asked {
                let mut words = line.split_ascii_whitespace();
                let goes_on =
                    words.next() == Some("+CONTINUE") && words.next().is_none_or(|id| id == self.id);
                let refused =
                    || Refused(format!("Aborting dual channel sync. Main channel psync result {line}"));
                return goes_on.then_some(true).ok_or_else(refused);
            }
            if line.starts_with('-') {
                return Err(Refused(format!("Primary does not understand REPLCONF identify: {line}")));
            }
            let next = (self.offset + 1).to_string();
            tracing::info!(
                "Trying a partial resynchronization using main channel (request {}:{next}).",
                self.id
            );
            encode_request(&[b"PSYNC".as_slice(), self.id.as_bytes(), next.as_bytes()], out);
            self.has_asked = true;
        }
        Ok(false)
    }

    /// Received bytes beyond the answers.
    pub fn into_rest(self) -> Vec<u8> {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn words(out: &[u8]) -> String {
        let text = String::from_utf8(out.to_vec()).unwrap();
        let words: Vec<&str> = text.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect();
        words.join(" ").trim_end().to_owned()
    }

    /// Feeds `input` in pieces of `piece` bytes: the outcome, the output, and the rest.
    fn open(
        dialect: Dialect,
        input: &[u8],
        piece: usize,
    ) -> (Result<Option<Begun>, Refused>, String, Vec<u8>) {
        let greeting = Greeting {
            password: Some(b"secret".to_vec()),
            port: 6380,
            version: "9.1.0",
            ..Greeting::default()
        };
        let mut out = Vec::new();
        let mut handshake = ChannelHandshake::begin(dialect, &greeting, &mut out);
        let mut rest = input.chunks(piece);
        let mut outcome = Ok(None);
        while outcome == Ok(None)
            && let Some(bytes) = rest.next()
        {
            outcome = handshake.receive(bytes, &mut out);
        }
        (outcome, words(&out), [handshake.into_rest(), rest.flatten().copied().collect()].concat())
    }

    #[test]
    fn both_dialects_come_to_a_snapshot_of_a_known_place() {
        let redis = format!("+OK\r\n+OK\r\n\n\n+FULLRESYNC {ID} 7\r\n$EOF:");
        let valkey = format!("+OK\r\n+OK\r\n\n\n$ENDOFF:7 {ID} 0 99\r\n$EOF:");
        for piece in [1, 5, 1000] {
            let (begun, sent, left) = open(Dialect::Redis { main_client: 17 }, redis.as_bytes(), piece);
            assert_eq!(begun, Ok(Some(Begun { id: ID.into(), offset: 7, client: None })));
            assert_eq!(
                sent,
                "AUTH secret REPLCONF capa eof rdb-only 1 rdb-channel 1 main-ch-client-id 17 \
                 listening-port 6380 PSYNC ? -1"
            );
            assert_eq!(left, b"$EOF:");
            let (begun, sent, left) = open(Dialect::Valkey, valkey.as_bytes(), piece);
            assert_eq!(begun, Ok(Some(Begun { id: ID.into(), offset: 7, client: Some(99) })));
            assert_eq!(
                sent,
                "AUTH secret REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 6380 version 9.1.0 \
                 capa martlet SYNC"
            );
            assert_eq!(left, b"$EOF:");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let fails = |dialect, input: &str| open(dialect, input.as_bytes(), 9).0.unwrap_err().0;
        let redis = Dialect::Redis { main_client: 1 };
        assert_eq!(fails(redis, "-WRONGPASS\r\n"), "Unable to AUTH to master: -WRONGPASS");
        assert_eq!(fails(redis, "+OK\r\n-ERR x\r\n"), "Master replied error to replconf: -ERR x");
        for (dialect, answer) in [
            (redis, "+FULLRESYNC short 1".to_owned()),
            (redis, format!("+CONTINUE {ID} 1")),
            (redis, "-LOADING".into()),
            (Dialect::Valkey, format!("$ENDOFF:-7 {ID} 0 99")),
            (Dialect::Valkey, format!("$ENDOFF:7 {ID} 0")),
            (Dialect::Valkey, "$EOF:".into()),
        ] {
            let refused = fails(dialect, &format!("+OK\r\n+OK\r\n{answer}\r\n"));
            assert_eq!(refused, format!("rdb channel sync failed with error: {answer}"));
        }
    }

    #[test]
    fn the_first_connection_goes_on_behind_the_snapshot() {
        let resume = |input: &str| {
            let mut out = Vec::new();
            let mut resumption = Resumption::begin(99, ID, 7, &mut out);
            let pieces = input.as_bytes().chunks(3);
            let goes_on = pieces.map(|bytes| resumption.receive(bytes, &mut out)).find(|of| *of != Ok(false));
            (goes_on.unwrap_or(Ok(false)), words(&out))
        };
        let asked = format!("REPLCONF set-rdb-client-id 99 PSYNC {ID} 8");
        assert_eq!(resume(&format!("+OK\r\n+CONTINUE {ID}\r\n")), (Ok(true), asked.clone()));
        assert_eq!(resume("+OK\r\n"), (Ok(false), asked.clone()));
        for answer in [format!("+FULLRESYNC {ID} 9"), format!("+CONTINUE {}", ID.replace('0', "f"))] {
            let refused = Refused(format!("Aborting dual channel sync. Main channel psync result {answer}"));
            assert_eq!(resume(&format!("+OK\r\n{answer}\r\n")), (Err(refused), asked.clone()));
        }
        let (refused, sent) = resume("-ERR no\r\n");
        assert!(refused.is_err());
        assert_eq!(sent, "REPLCONF set-rdb-client-id 99");
    }

    #[test]
    fn the_stream_begins_behind_the_answer() {
        let mut out = Vec::new();
        let mut resumption = Resumption::begin(1, ID, 7, &mut out);
        assert_eq!(resumption.receive(b"+OK\r\n+CONTINUE\r\n*1\r\n", &mut out), Ok(true));
        assert_eq!(resumption.into_rest(), b"*1\r\n");
    }
}
