//! Input of the stream by the first connection while a full sync's data set comes by the second.
//!
//! Invariant: no more is kept than `replica-full-sync-buffer-limit` allows; beyond that the connection is not
//! read, so that the primary keeps it.

use super::channel::{ChannelHandshake, Resumption};
use super::handshake::Dialect;
use super::link::{Ended, Link, MainChannel};
use super::state::LinkState;
use crate::config::Primary;
use crate::replication::pause::PausePoint;

impl Link {
    /// Has the data set come by a second connection, and continues with the stream that comes by this one.
    pub(super) fn synchronize_by_channel(self, primary: &Primary, dialect: Dialect) -> Result<(), Ended> {
        let mut main = self;
        main.shared.replication.pause.at(PausePoint::BeforeRdbChannel);
        let mut channel = Link::open(main.shared, main.generation, primary)?;
        let mut out = Vec::new();
        let mut handshake = ChannelHandshake::begin(dialect, &main.greeting(), &mut out);
        let begun = channel.converse(&mut out, |bytes, out| handshake.receive(bytes, out))?;
        channel.received = handshake.into_rest();
        if let Some(client) = begun.client {
            let mut resumption = Resumption::begin(client, &begun.id, begun.offset, &mut out);
            main.converse(&mut out, |bytes, out| {
                resumption.receive(bytes, out).map(|goes_on| goes_on.then_some(()))
            })?;
            main.received = resumption.into_rest();
        }
        tracing::info!("Starting to receive RDB and replication stream in parallel.");
        main.set_state(LinkState::Sync);
        channel.main = Some(Box::new(MainChannel::new(main)?));
        channel.synchronize(Some((begun.id, begun.offset)))?;
        let Some(main) = channel.main.take() else { return Err(Ended::Changed) };
        drop(channel);
        let MainChannel { mut link, gathered, failure, .. } = *main;
        tracing::info!(
            "MASTER <-> REPLICA sync: Starting to stream replication buffer into the db ({} bytes).",
            gathered.len()
        );
        link.shared.replication.pause.at(PausePoint::OnStreamingReplBuf);
        link.stream(primary, Some(gathered), failure)
    }
}
