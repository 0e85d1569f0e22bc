//! The stream of commands on a link: received, handed to the thread that applies it, acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_client::resp::encode_request;

use super::apply::{AppliedStream, ApplyQueue};
use super::gathered::Gathered;
use super::link::{Ended, Link, PATIENCE, PERIOD, SILENT, broken};
use super::state::LinkState;
use crate::clients::{ClientDetails, ClientInfo, flag};
use crate::config::Primary;
use crate::connection::{Connection, Session};

impl Link {
    /// Receives the stream and has it applied, behind its `gathered` part. With a `failure` no more input
    /// comes.
    pub(super) fn stream(
        &mut self,
        primary: &Primary,
        gathered: Option<Gathered>,
        failure: Option<String>,
    ) -> Result<(), Ended> {
        self.heard = self.shared.clock.raw();
        self.begin_stream()?;
        let connection = self.connection(primary);
        let info = connection.info.clone();
        self.shared.clients.add(info.clone());
        let queue = ApplyQueue::new(
            self.shared,
            self.generation,
            connection,
            || self.connection(primary),
            self.stream.clone(),
            gathered,
        );
        let begin = self.shared.applied_offset();
        queue.push(&std::mem::take(&mut self.received));
        self.queue = Some(queue.clone());
        *lock(&self.shared.slots.of::<AppliedStream>().queue) = Some(queue.clone());
        // No sooner: once the link is up, a promotion finds the received bytes.
        self.set_state(LinkState::Connected);
        let ended = match failure {
            Some(why) => Err(broken(why)),
            None => self.stream_into(&queue, &info, begin),
        };
        if let Err(Ended::Broken(_)) = &ended {
            self.finish(&queue);
        }
        *lock(&self.shared.slots.of::<AppliedStream>().queue) = None;
        queue.close();
        self.shared.clients.remove(info.id);
        if let Err(Ended::Broken(_)) = &ended {
            tracing::info!("Caching the disconnected master state.");
        }
        ended
    }

    /// Waits until input before the end has been applied: this server may be promoted. Where sending has
    /// shown the end, there may be more to read.
    fn finish(&mut self, queue: &Arc<ApplyQueue>) {
        queue.receive_rest();
        let waits = |link: &Link| link.shared.postpones(link.shared.clock.unix_ms()).is_none();
        while !queue.has_nothing_waiting() && queue.failure().is_none() && waits(self) {
            queue.ask();
            if self.wait(false, PATIENCE, SILENT).is_err() {
                break;
            }
        }
    }

    fn stream_into(&mut self, queue: &Arc<ApplyQueue>, info: &ClientInfo, begin: u64) -> Result<(), Ended> {
        let clock = &self.shared.clock;
        let (mut seen, mut told) = (0, None);
        loop {
            let received = queue.received_bytes();
            if received > seen {
                self.replica.read_offset.store(begin + received, Ordering::Relaxed);
                info.net_input_bytes.fetch_add(received - seen, Ordering::Relaxed);
                info.last_active_ms.store(clock.unix_ms(), Ordering::Relaxed);
                seen = received;
            }
            queue.ask();
            if let Some(why) = queue.failure() {
                return Err(broken(why));
            }
            if info.killed.load(Ordering::Acquire) {
                return Err(broken("Connection with master lost."));
            }
            let is_asked = self.replica.owes_answer.swap(false, Ordering::SeqCst);
            let is_due =
                told.is_none_or(|told| clock.elapsed_ns(told, clock.raw()) >= PERIOD.as_nanos() as u64);
            if is_asked || is_due {
                self.acknowledge(queue)?;
                told = Some(clock.raw());
            }
            let most = if queue.has_nothing_waiting() { PERIOD } else { PATIENCE };
            self.wait(!queue.is_full(), most, "MASTER timeout: no data nor PING received...")?;
        }
    }

    /// Acknowledges this server's offset to the primary.
    fn acknowledge(&mut self, queue: &ApplyQueue) -> Result<(), Ended> {
        let (offset, on_disk) = (self.shared.applied_offset().to_string(), queue.offset_on_disk());
        // Behind a change of the role the offset is of another stream, of which this primary knows nothing.
        self.check()?;
        let on_disk = on_disk.map(|offset| offset.to_string());
        let mut words: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", offset.as_bytes()];
        if let Some(on_disk) = &on_disk {
            words.extend([b"FACK".as_slice(), on_disk.as_bytes()]);
        }
        let mut out = Vec::new();
        encode_request(&words, &mut out);
        self.send(&out)
    }

    /// The connection in whose name the primary's commands run: unrestricted.
    fn connection(&self, primary: &Primary) -> Box<Connection> {
        let shared = self.shared;
        let token = martlet_net::Token::new(u32::MAX, 0);
        let peer = format!("{}:{}", primary.host, primary.port);
        let info = Arc::new(ClientInfo::new(
            shared.clients.next_id(),
            shared.thread_count() - 1,
            token,
            (peer, String::new(), false),
            -1,
            shared.clock.unix_ms(),
            ClientDetails::default(),
        ));
        info.flags.fetch_or(flag::PRIMARY, Ordering::Relaxed);
        let mut session = Session::new(&shared.access.follow());
        session.become_user(shared.access.superuser(&shared.config.snapshot()));
        Box::new(Connection::new(token, info, session))
    }
}
