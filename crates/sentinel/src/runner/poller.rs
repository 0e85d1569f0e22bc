//! Waiting for sockets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

use crate::link::ConnectionId;

/// Events that are taken at once.
const EVENTS: usize = 256;

/// Whose socket it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Where clients connect.
    Listener(usize),
    /// A client.
    Client(u64),
    /// A connection to an instance.
    Peer(ConnectionId),
}

/// The two highest bits say which kind.
const KIND_SHIFT: u32 = 62;
const NUMBER_MASK: u64 = (1 << KIND_SHIFT) - 1;

impl Token {
    fn data(self) -> epoll::EventData {
        epoll::EventData::new_u64(match self {
            Token::Listener(index) => index as u64,
            Token::Client(id) => 1 << KIND_SHIFT | id & NUMBER_MASK,
            Token::Peer(connection) => 2 << KIND_SHIFT | connection.0 & NUMBER_MASK,
        })
    }

    fn of(data: u64) -> Token {
        match data >> KIND_SHIFT {
            0 => Token::Listener(data as usize),
            1 => Token::Client(data & NUMBER_MASK),
            _ => Token::Peer(ConnectionId(data & NUMBER_MASK)),
        }
    }
}

/// See the [module docs](self).
pub(super) struct Poller(OwnedFd);

impl Poller {
    pub fn new() -> io::Result<Poller> {
        Ok(Poller(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Watches a socket.
    pub fn add(&self, socket: impl AsFd, token: Token, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.0, socket, token.data(), flags)?)
    }

    /// Watches a socket for something else.
    pub fn change(&self, socket: impl AsFd, token: Token, flags: EventFlags) {
        // It fails only for sockets that are not watched.
        let _ = epoll::modify(&self.0, socket, token.data(), flags);
    }

    /// Waits for `wait_ms` at most.
    pub fn wait(&self, wait_ms: i64) -> io::Result<Vec<(Token, EventFlags)>> {
        let mut events = Vec::with_capacity(EVENTS);
        let timeout =
            rustix::event::Timespec { tv_sec: wait_ms / 1_000, tv_nsec: (wait_ms % 1_000) * 1_000_000 };
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events.iter().map(|event: &epoll::Event| (Token::of(event.data.u64()), event.flags)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_were() {
        for token in [Token::Listener(1), Token::Client(77), Token::Peer(ConnectionId(5))] {
            assert_eq!(Token::of(token.data().u64()), token);
        }
    }
}
