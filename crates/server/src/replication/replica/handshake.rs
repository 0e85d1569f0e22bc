//! How a replica introduces itself to its primary, up to the answer to PSYNC: bytes in, bytes out.
//!
//! ```text
//! PING → AUTH, REPLCONF listening-port, ip-address, capa, version → PSYNC → +FULLRESYNC | +CONTINUE | SYNC
//!                                                                   +RDBCHANNELSYNC | +DUALCHANNELSYNC
//! ```
//!
//! Invariant: nothing here waits or reads a clock, and a peer that sends garbage gets an error with a name.

use std::collections::VecDeque;

use martlet_client::resp::encode_request;
use martlet_persistence::Codec;

/// Bytes that a line of an answer may have.
const LINE_MAX_BYTES: usize = 64 * 1024;

/// The replica's statements about itself.
#[derive(Clone, Debug, Default)]
pub struct Greeting {
    /// `masteruser`.
    pub user: Option<Vec<u8>>,
    /// `masterauth`.
    pub password: Option<Vec<u8>>,
    /// The port that clients reach it at.
    pub port: u32,
    /// `replica-announce-ip`.
    pub ip: Option<String>,
    /// The release of Valkey whose data sets it reads, which is the version that it says it has.
    pub version: &'static str,
    /// The stream that it has followed, and the offset of the byte that it needs next.
    pub resume: Option<(String, u64)>,
    /// The other end is a replica, which is to become the primary.
    pub fails_over: bool,
    /// The data set may come by a second connection.
    pub takes_channel: bool,
    /// The strongest codec that may compress its data set on the way.
    pub codec: Option<Codec>,
}

impl Greeting {
    /// The capabilities that only this server's kind has.
    ///
    /// A Valkey that knows `lz4` compresses the stream of commands in a form that is not read here; so codecs
    /// have names of their own.
    pub(super) fn own_capabilities(&self) -> &'static [&'static [u8]] {
        match self.codec {
            None => &[b"capa", b"martlet"],
            Some(Codec::Lz4) => &[b"capa", b"martlet", b"capa", b"martlet-lz4", b"capa", b"martlet-frames"],
            Some(Codec::Zstd) => &[
                b"capa",
                b"martlet",
                b"capa",
                b"martlet-zstd",
                b"capa",
                b"martlet-lz4",
                b"capa",
                b"martlet-frames",
            ],
        }
    }

    /// Appends AUTH to `out`, if there is anything to tell; whether there is.
    pub(super) fn authenticate(&self, out: &mut Vec<u8>) -> bool {
        let Some(password) = &self.password else { return false };
        let words = [Some(b"AUTH".to_vec()), self.user.clone(), Some(password.clone())];
        encode_request(&words.into_iter().flatten().collect::<Vec<_>>(), out);
        true
    }
}

/// How the primary learns that two connections are one replica's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The second names the first.
    Redis {
        /// The first connection's client id.
        main_client: u64,
    },
    /// The first names the second, and asks for the stream after the snapshot.
    Valkey,
}

/// How far the handshake has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More has to be received.
    More,
    /// A snapshot follows, of this place in this stream.
    Full {
        /// The stream's replication id.
        id: String,
        /// Bytes of it before the snapshot.
        offset: u64,
    },
    /// The stream continues, perhaps by another id.
    Partial {
        /// The new replication id.
        id: Option<String>,
    },
    /// A snapshot follows, of an unknown place.
    Legacy,
    /// A snapshot is to come by a second connection.
    Channel(Dialect),
    /// There will be no synchronization now: a line for the log.
    Rejected(String),
}

/// Why there will be no synchronization now; a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// An answer that is awaited.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Step {
    Ping,
    Auth,
    /// An answer that may be an error: the parameter that the primary may not know.
    Parameter(&'static str),
    Psync,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Handshake {
    greeting: Greeting,
    awaited: VecDeque<Step>,
    received: Vec<u8>,
}

pub(super) fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// Takes the next received line, without its end.
pub(super) fn take_line(received: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Refused> {
    let Some(end) = memchr::memchr(b'\n', received) else {
        if received.len() > LINE_MAX_BYTES {
            return Err(Refused("The master's answer to the handshake is no line.".into()));
        }
        return Ok(None);
    };
    let mut line: Vec<u8> = received.drain(..=end).collect();
    line.pop();
    line.pop_if(|last| *last == b'\r');
    Ok(Some(line))
}

/// The words of a place in a stream: its replication id, and the offset.
pub(super) fn place(id: Option<&str>, offset: Option<&str>) -> Option<(String, u64)> {
    let (id, offset) = (id.filter(|id| is_id(id))?, offset?.parse().ok()?);
    Some((id.into(), offset))
}

impl Handshake {
    /// Begins: appends the first output to `out`.
    pub fn begin(greeting: Greeting, out: &mut Vec<u8>) -> Handshake {
        encode_request(&[b"PING".as_slice()], out);
        Handshake { greeting, awaited: VecDeque::from([Step::Ping]), received: Vec::new() }
    }

    /// Takes received bytes, and appends the next output to `out`.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, Refused> {
        self.received.extend_from_slice(bytes);
        while let Some(step) = self.awaited.front().copied() {
            let Some(line) = take_line(&mut self.received)? else { return Ok(Progress::More) };
            // A primary that prepares a snapshot sends empty lines in that time.
            if line.is_empty() && step == Step::Psync {
                continue;
            }
            self.awaited.pop_front();
            match step {
                Step::Ping => self.introduce(&line, out)?,
                Step::Auth if line.starts_with(b"-") => {
                    return Err(Refused(format!("Unable to AUTH to MASTER: {}", text(&line))));
                }
                Step::Parameter(name) if line.starts_with(b"-") => {
                    let line = text(&line);
                    tracing::info!("(Non critical) Master does not understand REPLCONF {name}: {line}");
                }
                Step::Auth | Step::Parameter(_) => {}
                Step::Psync => return self.conclude(&line, out),
            }
            if self.awaited.is_empty() {
                self.ask(out);
            }
        }
        Ok(Progress::More)
    }

    /// Received bytes beyond the answers.
    pub fn into_rest(self) -> Vec<u8> {
        self.received
    }

    /// The answer to PING has come: introduces the replica.
    fn introduce(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let accepted = [b"+".as_slice(), b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted"];
        if !accepted.iter().any(|prefix| line.starts_with(prefix)) {
            return Err(Refused(format!("Error reply to PING from master: '{}'", text(line))));
        }
        tracing::info!("Master replied to PING, replication can continue...");
        let Greeting { port, ip, version, takes_channel, .. } = &self.greeting;
        if self.greeting.authenticate(out) {
            self.awaited.push_back(Step::Auth);
        }
        let mut tell = |name: &'static str, words: &[&[u8]]| {
            encode_request(&[&[b"REPLCONF".as_slice()], words].concat(), out);
            self.awaited.push_back(Step::Parameter(name));
        };
        tell("listening-port", &[b"listening-port", port.to_string().as_bytes()]);
        if let Some(ip) = ip {
            tell("ip-address", &[b"ip-address", ip.as_bytes()]);
        }
        let channels: &[&[u8]] =
            if *takes_channel { &[b"capa", b"rdb-channel-repl", b"capa", b"dual-channel"] } else { &[] };
        let own = self.greeting.own_capabilities();
        tell("capa", &[&[b"capa".as_slice(), b"eof", b"capa", b"psync2"], channels, own].concat());
        tell("VERSION", &[b"version", version.as_bytes()]);
        Ok(())
    }

    /// Asks for the stream.
    fn ask(&mut self, out: &mut Vec<u8>) {
        match &self.greeting.resume {
            Some((id, next)) => {
                tracing::info!("Trying a partial resynchronization (request {id}:{next}).");
                let next = next.to_string();
                let failover: &[&[u8]] = if self.greeting.fails_over { &[b"FAILOVER"] } else { &[] };
                encode_request(
                    &[&[b"PSYNC".as_slice(), id.as_bytes(), next.as_bytes()], failover].concat(),
                    out,
                );
            }
            None => {
                tracing::info!("Partial resynchronization not possible (no cached master)");
                encode_request(&[b"PSYNC".as_slice(), b"?", b"-1"], out);
            }
        }
        self.awaited.push_back(Step::Psync);
    }

    /// The answer to PSYNC has come.
    fn conclude(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<Progress, Refused> {
        let line = text(line);
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("+FULLRESYNC") => {
                let Some((id, offset)) = place(words.next(), words.next()) else {
                    return Err(Refused("Master replied with wrong +FULLRESYNC syntax.".into()));
                };
                tracing::info!("Full resync from master: {id}:{offset}");
                Ok(Progress::Full { id, offset })
            }
            Some("+CONTINUE") => {
                if self.greeting.resume.is_none() {
                    return Err(Refused("Master continues a stream that was not asked for.".into()));
                }
                tracing::info!("Successful partial resynchronization with master.");
                Ok(Progress::Partial { id: words.next().filter(|id| is_id(id)).map(str::to_owned) })
            }
            Some("+RDBCHANNELSYNC") if self.greeting.takes_channel => {
                let Some(main_client) = words.next().and_then(|id| id.parse().ok()) else {
                    return Err(Refused(format!("Master replied with wrong +RDBCHANNELSYNC syntax: {line}")));
                };
                tracing::info!("PSYNC is not possible, initialize RDB channel.");
                Ok(Progress::Channel(Dialect::Redis { main_client }))
            }
            Some("+DUALCHANNELSYNC") if self.greeting.takes_channel => {
                tracing::info!("PSYNC is not possible, initialize RDB channel.");
                Ok(Progress::Channel(Dialect::Valkey))
            }
            Some("-NOMASTERLINK" | "-LOADING") => Ok(Progress::Rejected(format!(
                "Master is currently unable to PSYNC but should be in the future: {line}"
            ))),
            _ if self.greeting.fails_over => {
                Ok(Progress::Rejected(format!("Master does not take over (reply: {line})")))
            }
            _ => {
                if line.starts_with("-ERR") {
                    tracing::info!("Master does not support PSYNC or is in error state (reply: {line})");
                } else {
                    tracing::warn!("Unexpected reply to PSYNC from master: {line}");
                }
                tracing::info!("Retrying with SYNC...");
                encode_request(&[b"SYNC".as_slice()], out);
                Ok(Progress::Legacy)
            }
        }
    }
}

/// Whether a word is a replication id.
pub(super) fn is_id(word: &str) -> bool {
    word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn greeting(resume: Option<u64>) -> Greeting {
        Greeting {
            user: Some(b"bob".to_vec()),
            password: Some(b"secret".to_vec()),
            port: 6380,
            ip: Some("10.0.0.1".into()),
            version: "9.1.0",
            resume: resume.map(|next| (ID.into(), next)),
            fails_over: false,
            takes_channel: false,
            codec: None,
        }
    }

    /// Feeds `input` in pieces of `piece` bytes: the outcome, the output, and the rest.
    fn shake(
        greeting: Greeting,
        input: &[u8],
        piece: usize,
    ) -> (Result<Progress, Refused>, Vec<u8>, Vec<u8>) {
        let mut out = Vec::new();
        let mut handshake = Handshake::begin(greeting, &mut out);
        let mut rest = input.chunks(piece.max(1));
        let mut outcome = Ok(Progress::More);
        while outcome == Ok(Progress::More)
            && let Some(bytes) = rest.next()
        {
            outcome = handshake.receive(bytes, &mut out);
        }
        let left = [handshake.into_rest(), rest.flatten().copied().collect()].concat();
        (outcome, out, left)
    }

    const ACCEPTED: &[u8] = b"+PONG\r\n+OK\r\n+OK\r\n-ERR unknown\r\n+OK\r\n+OK\r\n";

    #[test]
    fn a_replica_introduces_itself_and_asks_for_what_follows() {
        for piece in [1, 3, 1000] {
            let input = [ACCEPTED, b"\n\n+CONTINUE\r\n*1\r\n$4\r\nPING\r\n"].concat();
            let (outcome, out, left) = shake(greeting(Some(77)), &input, piece);
            assert_eq!(outcome, Ok(Progress::Partial { id: None }));
            assert_eq!(left, b"*1\r\n$4\r\nPING\r\n");
            let words = String::from_utf8(out).unwrap();
            let words: Vec<&str> = words.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect();
            let sent = format!(
                "PING AUTH bob secret REPLCONF listening-port 6380 REPLCONF ip-address 10.0.0.1 \
                 REPLCONF capa eof capa psync2 capa martlet REPLCONF version 9.1.0 PSYNC {ID} 77 "
            );
            assert_eq!(words.join(" "), sent);
        }
    }

    #[test]
    fn a_full_sync_names_its_place() {
        let input = [ACCEPTED, format!("+FULLRESYNC {ID} 1234\r\n$5\r\n").as_bytes()].concat();
        let (outcome, _, left) = shake(greeting(None), &input, 2);
        assert_eq!(outcome, Ok(Progress::Full { id: ID.into(), offset: 1234 }));
        assert_eq!(left, b"$5\r\n");
        let input = [ACCEPTED, b"+FULLRESYNC short 1\r\n"].concat();
        assert!(shake(greeting(None), &input, 7).0.is_err());
    }

    #[test]
    fn what_the_primary_refuses_is_told() {
        let fails = |input: &[u8]| shake(greeting(Some(1)), input, 5).0.unwrap_err().0;
        assert_eq!(fails(b"-ERR no\r\n"), "Error reply to PING from master: '-ERR no'");
        assert_eq!(fails(b"-NOAUTH x\r\n-WRONGPASS\r\n"), "Unable to AUTH to MASTER: -WRONGPASS");
        let later = [ACCEPTED, b"-NOMASTERLINK x\r\n"].concat();
        let rejected = "Master is currently unable to PSYNC but should be in the future: -NOMASTERLINK x";
        assert_eq!(shake(greeting(Some(1)), &later, 5).0, Ok(Progress::Rejected(rejected.into())));
        let (outcome, out, _) = shake(greeting(Some(1)), &[ACCEPTED, b"-ERR what\r\n"].concat(), 5);
        assert_eq!(outcome, Ok(Progress::Legacy));
        assert!(out.ends_with(b"*1\r\n$4\r\nSYNC\r\n"));
    }

    #[test]
    fn who_is_to_take_over_is_asked_for_nothing_else() {
        let greeting = Greeting { fails_over: true, ..greeting(Some(9)) };
        let (outcome, out, _) = shake(greeting, &[ACCEPTED, b"-ERR what\r\n"].concat(), 7);
        assert_eq!(outcome, Ok(Progress::Rejected("Master does not take over (reply: -ERR what)".into())));
        assert!(out.ends_with(b"$1\r\n9\r\n$8\r\nFAILOVER\r\n"));
    }

    #[test]
    fn a_second_connection_is_opened_by_who_has_offered_it() {
        let offers = Greeting { takes_channel: true, ..greeting(None) };
        for (answer, expected) in [
            ("+RDBCHANNELSYNC 17", Ok(Progress::Channel(Dialect::Redis { main_client: 17 }))),
            ("+DUALCHANNELSYNC", Ok(Progress::Channel(Dialect::Valkey))),
            (
                "+RDBCHANNELSYNC x",
                Err(Refused("Master replied with wrong +RDBCHANNELSYNC syntax: +RDBCHANNELSYNC x".into())),
            ),
        ] {
            let input = [ACCEPTED, answer.as_bytes(), b"\r\n"].concat();
            let (outcome, out, _) = shake(offers.clone(), &input, 4);
            assert_eq!(outcome, expected);
            assert!(String::from_utf8(out).unwrap().contains("capa\r\n$12\r\ndual-channel\r\n"));
            assert_eq!(shake(greeting(None), &input, 4).0, Ok(Progress::Legacy));
        }
    }

    #[test]
    fn nobody_continues_what_was_not_begun() {
        assert!(shake(greeting(None), &[ACCEPTED, b"+CONTINUE\r\n"].concat(), 9).0.is_err());
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        assert!(shake(greeting(None), &vec![b'x'; 2 * LINE_MAX_BYTES], 1000).0.is_err());
    }

    proptest! {
        #[test]
        fn any_fragmentation_comes_to_the_same(input in "(\\+PONG\r\n)?([-+][A-Z ]{0,9}\r\n){0,9}", piece in 1usize..9) {
            let (at_once, pieces) =
                (shake(greeting(None), input.as_bytes(), 1 << 20), shake(greeting(None), input.as_bytes(), piece));
            prop_assert_eq!(at_once.0, pieces.0);
            prop_assert_eq!(at_once.1, pieces.1);
        }
    }
}
